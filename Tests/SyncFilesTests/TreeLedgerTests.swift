import SyncModel
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncFiles

@Suite("Which tree may do what")
struct TreeLedgerTests {
    private let manifests: [SHA256Digest]

    init() throws { manifests = try (UInt8(0)..<20).map { try FilesFixture.digest([$0]) } }

    private func content(_ revision: UInt64) -> TreeLedger.Content {
        TreeLedger.Content(
            manifest: manifests[Int(revision)], revision: revision, run: "\(revision)", files: 3, bytes: 7)
    }

    /// A ledger after revisions have been shown one after the other, a second apart.
    private func shown(_ revisions: Range<UInt64>, keep: Int = 1, leastAge: Int64 = 0) -> TreeLedger {
        var ledger = TreeLedger(layout: .exchange, sharing: .link)
        for revision in revisions { show(revision, &ledger, keep: keep, leastAge: leastAge) }
        return ledger
    }

    private func show(
        _ revision: UInt64, _ ledger: inout TreeLedger, keep: Int = 1, leastAge: Int64 = 0, isProven: Bool = true
    ) {
        let now = Int64(revision) * 1_000
        let number = ledger.build(keeping: keep, leastAge: leastAge, now: now).number
        ledger[number]?.inode = 100 + number
        ledger[number]?.content = content(revision)
        ledger.begin(number, isRollback: false, now: now)
        ledger.complete()
        if let current = ledger.current { ledger[current]?.isProven = isProven }
    }

    @Test("The oldest kept tree becomes the newest, and no more are made than are kept")
    func recycles() {
        let ledger = shown(1..<12)
        #expect(ledger.trees.count == 2)
        #expect(ledger.shownTree?.revision == 11)
        #expect(ledger.former.map(\.revision) == [10])
        #expect(shown(1..<12, keep: 3).former.map(\.revision) == [10, 9, 8])
    }

    @Test("A clock that stands still, or goes back, changes nothing about the order of trees", arguments: [0, -1_000])
    func clock(step: Int64) {
        var ledger = TreeLedger(layout: .exchange, sharing: .link)
        for revision in UInt64(1)..<12 {
            let now = 1_000_000 + Int64(revision) * step
            let number = ledger.build(keeping: 2, leastAge: 0, now: now).number
            ledger[number]?.content = content(revision)
            ledger.begin(number, isRollback: false, now: now)
            ledger.complete()
            ledger[number]?.isProven = true
        }
        #expect(ledger.trees.count == 3)
        #expect(ledger.shownTree?.revision == 11)
        #expect(ledger.former.map(\.revision) == [10, 9])
        #expect(ledger.target(nil)?.revision == 10)
    }

    @Test("Of trees that may go, the oldest is built over, whatever the oldest of all is")
    func passesOver() {
        var ledger = shown(1..<3)
        for revision in UInt64(3)..<9 { show(revision, &ledger, isProven: false) }
        // Revision 2 stays; the others share two trees.
        #expect(ledger.trees.count == 3)
        #expect(ledger.former.map(\.revision) == [7, 2])
    }

    @Test("A tree that readers have just left stays as it was, and goes when it is old enough")
    func leastAge() {
        let ledger = shown(1..<6, leastAge: 2_500)
        // Left 0, 1 and 2 seconds before the last one came.
        #expect(ledger.former.map(\.revision) == [4, 3, 2])
        #expect(ledger.surplus(keeping: 1, leastAge: 2_500, now: 5_000) == [])
        let late = ledger.surplus(keeping: 1, leastAge: 2_500, now: 60_000)
        #expect(late.compactMap { ledger[$0]?.revision }.sorted() == [2, 3])
    }

    @Test("The last tree whose hooks have all succeeded is never built over")
    func proven() {
        var ledger = shown(1..<3)
        for revision in UInt64(3)..<6 { show(revision, &ledger, isProven: false) }
        #expect(ledger.trees.contains { $0.revision == 2 && $0.isProven })
        #expect(ledger.surplus(keeping: 1, leastAge: 0, now: 1_000_000).allSatisfy { ledger[$0]?.revision != 2 })
        show(6, &ledger)
        #expect(ledger.surplus(keeping: 1, leastAge: 0, now: 1_000_000).contains { ledger[$0]?.revision == 2 })
    }

    @Test("Whatever is at the destination after a kill, it is one side of the switch or it is told that it is neither")
    func seen() {
        var ledger = shown(1..<3)
        let (old, new) = (ledger.former[0], ledger.shownTree)
        ledger.begin(old.number, isRollback: true, now: 9)
        #expect(ledger.seen(inode: old.inode, mark: 0) == old.number)
        #expect(ledger.seen(inode: new?.inode ?? 0, mark: 0) == new?.number)
        #expect(ledger.seen(inode: 7, mark: 7) == nil)
        ledger.forgetStep()
        #expect(ledger.seen(inode: 7, mark: 7) == new?.number)
    }

    @Test("What is rolled back is held until a newer one comes, or until it is let go")
    func holds() {
        var ledger = shown(1..<4, keep: 2)
        let target = ledger.target(nil)
        #expect(target?.revision == 2)
        ledger.begin(target?.number ?? 0, isRollback: true, now: 10_000)
        ledger.complete()
        #expect(ledger.shownTree?.revision == 2)
        #expect(ledger.isHeld(manifests[3]) && !ledger.isHeld(manifests[2]))
        #expect(ledger.held.map(\.revision) == [3])
        // One step further back: both are held.
        #expect(ledger.target(nil)?.revision == 1)
        #expect(ledger.target("3")?.revision == 3)
        #expect(ledger.target(manifests[1].hex)?.revision == 1)
        #expect(ledger.target(String(manifests[1].hex.prefix(4)).uppercased())?.revision == 1)
        #expect(ledger.target(String(manifests[1].hex.prefix(3))) == nil)
        #expect(ledger.target("17") == nil)
        #expect(ledger.meaning(of: "2") == .shown)
        #expect(ledger.meaning(of: manifests[2].hex) == .shown)
        var later = ledger
        show(14, &later, keep: 2)
        #expect(later.held == [])
        ledger.release()
        #expect(ledger.held == [])
    }

    @Test("A tree that was made once more is nothing to go back to, unless it has another selection")
    func madeAgain() throws {
        var ledger = shown(1..<4, keep: 3)
        show(3, &ledger, keep: 3)
        #expect(ledger.former.map(\.revision) == [3, 2, 1])
        #expect(ledger.target(nil)?.revision == 2)
        #expect(ledger.target("3") == nil && ledger.meaning(of: "3") == .shown)
        // It is the first one to go, and to be built over.
        let other = try #require(ledger.former.first?.number)
        #expect(ledger.surplus(keeping: 2, leastAge: 0, now: 1_000_000) == [other])
        var later = ledger
        show(3, &later, keep: 3)
        #expect(later.former.map(\.revision) == [3, 2, 1] && later.current == other)
        ledger[other]?.content?.files = 2
        #expect(ledger.target(nil)?.number == other)
        #expect(ledger.target("3")?.number == other)
    }

    @Test("Digits that several manifests begin with name none of them")
    func several() throws {
        var ledger = shown(1..<3)
        let digits = String(manifests[2].hex.prefix(8))
        let other = try #require(SHA256Digest(hex: (digits + String(repeating: "0", count: 56)).utf8))
        let number = try #require(ledger.former.first?.number)
        ledger[number]?.content?.manifest = other
        #expect(ledger.meaning(of: digits) == .several)
        #expect(ledger.target(digits) == nil)
        #expect(ledger.target(digits + "000")?.number == number)
    }

    @Test("Going forward again to what was held lets it go")
    func forward() {
        var ledger = shown(1..<3)
        ledger.begin(ledger.former[0].number, isRollback: true, now: 10)
        ledger.complete()
        let held = ledger.target("2")
        ledger.begin(held?.number ?? 0, isRollback: true, now: 11)
        ledger.complete()
        #expect(ledger.held.map(\.revision) == [1])
    }

    @Test("What is written is what is read, and damage is not taken for a ledger")
    func text() {
        var ledger = shown(1..<4, keep: 2)
        ledger[ledger.former[0].number]?.isUnlisted = true
        ledger.begin(ledger.former[0].number, isRollback: true, now: 5)
        #expect(TreeLedger(ledger.text) == ledger)
        ledger.complete()
        #expect(TreeLedger(ledger.text) == ledger && ledger.shownTree?.isUnlisted == false)
        #expect(TreeLedger([]) == nil)
        let text = String(decoding: ledger.text, as: UTF8.self)
        for (old, new) in [
            ("syncagent-trees/1", "syncagent-trees/2"), ("\"exchange\"", "\"swap\""), ("\"number\":1", "\"number\":99"),
            ("\"current\":", "\"current\":9"), ("\"inode\":\"", "\"inode\":\"x"),
        ] {
            #expect(text.contains(old))
            #expect(TreeLedger(Array(text.replacing(old, with: new, maxReplacements: 1).utf8)) == nil, "\(old)")
        }
    }
}

@Suite("What is found of the trees of a destination", .timeLimit(.minutes(10)))
struct TreeHomeTests {
    private let root: TemporaryRoot

    init() throws { root = try TemporaryRoot() }

    /// A destination whose readers are led to its first tree.
    private func made() throws -> TreeHome {
        let umask = Umask(bits: 0o022)
        let home = try TreeHome.make(root.path("dest"), layout: .links, umask: umask, now: 1)
        _ = try home.show(try home.build(keeping: 1, leastAge: 0, now: 1, umask: umask), now: 2)
        #expect(home.ledger.current == 1)
        return home
    }

    private func lead(to number: Int) {
        let now = root.path("dest/.syncagent/now")
        #expect(removeFile(now) == nil && makeSymbolicLink(now, to: "rev/\(number)") == nil)
    }

    @Test("A destination that cannot be looked at is not taken for one without trees")
    func unseen() throws {
        try root.link("loop", to: "loop")
        for name in ["none", "none/dest", String(repeating: "n", count: 250)] {
            #expect(try TreeHome.find(root.path(name)) == nil, "\(name)")
        }
        let error = #expect(throws: FileError.self) { _ = try TreeHome.find(root.path("loop/dest")) }
        #expect(error?.code == .tooManySymbolicLinkLevels)
        let home = try made()
        #expect(try TreeHome.find(root.path("dest"))?.ledger == home.ledger)
    }

    @Test("A link to what readers see that cannot be read is not taken for none")
    func unreadLink() throws {
        try root.write("text", to: "file")
        let file = SharedDescriptor(try openFile(root.path("file"), trust: .input))
        let links = TopLinks(root: file, path: root.path, home: file, trees: file)
        let error = #expect(throws: FileError.self) { _ = try links.current }
        #expect(error?.code == .notDirectory)
    }

    @Test("What is no tree, and cannot be looked at by its name, is in nobody's way and stays")
    func oddEntry() throws {
        let home = try made()
        let trees = root.path("dest/.syncagent/rev")
        let odd = "\(trees)/".utf8CString.dropLast() + [CChar(bitPattern: 0xFF), 0]
        #expect(makeDirectory(Array(odd)) == nil)
        try home.reconcile(now: 3)
        #expect(home.ledger.current == 1)
        #expect(try directoryEntries(trees)?.count == 2)
    }

    @Test("Trees that were put back from a backup keep their names where their inode numbers have changed hands")
    func restored() throws {
        let home = try made()
        let umask = Umask(bits: 0o022)
        for now: Int64 in [3, 5] {
            let number = try home.build(keeping: 3, leastAge: 0, now: now, umask: umask)
            _ = try home.show(number, now: now + 1)
        }
        let one = try #require(home.ledger[1]?.inode)
        let two = try #require(home.ledger[2]?.inode)
        try home.record {
            $0[1]?.inode = two
            $0[2]?.inode = one
        }
        try home.reconcile(now: 7)
        #expect(home.ledger[1]?.inode == one && home.ledger[2]?.inode == two)
        #expect(status(following: root.path("dest/.syncagent/rev/1"))?.inode == one)
        // A tree that is being built has no mark.
        try home.record {
            $0[1]?.inode = two
            $0[2]?.inode = one
            $0[2]?.mark = 0
        }
        try home.reconcile(now: 8)
        #expect(home.ledger[1]?.inode == one && home.ledger[2]?.inode == two)
        #expect(home.ledger.current == 3)
    }

    @Test("What readers are led to is never removed, whatever is on record of it")
    func ledElsewhere() throws {
        let home = try made()
        try root.write("text", to: "dest/.syncagent/rev/7/file")
        lead(to: 7)
        try home.reconcile(now: 3)
        #expect(home.ledger.current == 7 && home.ledger[1] != nil)
        #expect(root.read("dest/file") == Array("text".utf8))
        #expect(try TreeHome.find(root.path("dest"))?.ledger == home.ledger)
        lead(to: 1)
        try home.reconcile(now: 4)
        #expect(home.ledger.current == 1 && home.ledger[7] != nil)
    }
}
