import Foundation
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncEngine
@testable import SyncFiles

@Suite("A destination that changes as a whole behind links", .timeLimit(.minutes(10)))
struct LinkedPullTests: ChangesAsAWhole {
    let scene: Scene
    let layout: AtomicSwitch.Layout? = .links

    init() throws { scene = try Scene(isDurable: true) }

    private func names(_ path: String) throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: path))
    }

    @Test("Revision after revision is shown by one link, and only what is new is fetched [S114]")
    func revisions() throws {
        try expect(1, pull(1))
        let before = try #require(status(following: scene.destination))
        for number in 2...6 {
            let outcome = try pull(number)
            try expect(number, outcome)
            #expect(outcome.received < 400_000)
            #expect(outcome.count("tree.switched") == 1)
        }
        // Everybody passes, and nobody but this user sees what is kept.
        #expect(try #require(status(following: scene.destination)).inode == before.inode)
        #expect(status(following: scene.destination + "/.syncagent")?.permissions == 0o711)
        #expect(status(following: scene.destination + "/.syncagent/rev")?.permissions == 0o711)
        #expect(status(following: scene.destination + "/.syncagent/state")?.permissions == 0o700)
        #expect(try names(scene.destination + "/.syncagent/rev").count == 2)
        let report = try scene.engine().verify(scene.options())
        #expect(report.isWhole && report.extra == 0)
    }

    @Test("Names at the top come with the revision that has them, and go with it")
    func tops() throws {
        try expect(1, pull(1))
        var tree = Revisions.tree(1)
        tree.nodes["program"] = nil
        tree.addFile("fresh/one", size: 10, seed: 1)
        tree.addFile("top", size: 10, seed: 2)
        #expect(try pull(2, tree).status == .done)
        #expect(tree.problems(in: place) == [])
        #expect(try names(scene.destination) == [".syncagent", "common", "each", "large", "latest", "fresh", "top"])
        #expect(try scene.engine().rollback("com.example.tower", to: nil).status == .done)
        try expect(1)
    }

    @Test("A destination that was changed file by file is gathered behind links, and nothing is fetched again")
    func converts() throws {
        try publish(1)
        #expect(try scene.pull().status == .done)
        let outcome = try pull(1)
        try expect(1, outcome)
        // What was at the top has another change time, and is looked at anew.
        #expect(outcome.requests.isEmpty && outcome.received == 0)
        let second = try pull(2)
        try expect(2, second)
        #expect(second.received < 400_000)
        #expect(try scene.engine().rollback("com.example.tower", to: nil).status == .done)
        try expect(1)
    }

    @Test("Where the ledger was lost, pull and plan are refused, with --atomic or without; what readers see stays")
    func lostLedger() throws {
        try expect(1, pull(1))
        let ledger = scene.destination + "/.syncagent/ledger"
        try FileManager.default.moveItem(atPath: ledger, toPath: scene.root.path("ledger"))
        try publish(2)
        for layout in [AtomicSwitch.Layout.links, nil] {
            let outcome = try again {
                $0.atomic?.layout = layout
                $0.atomic?.keepForeign = true
            }
            #expect(outcome.status == .cannotCreate)
            #expect(outcome.error?.message.contains(".syncagent/ledger is lost") == true)
        }
        #expect(try scene.pull().status == .cannotCreate)
        let refusal = #expect(throws: EngineError.self) { try scene.engine().plan(scene.options()) }
        #expect(refusal?.status == .cannotCreate && refusal?.message.contains(".syncagent/ledger is lost") == true)
        try FileManager.default.moveItem(atPath: scene.root.path("ledger"), toPath: ledger)
        try expect(1)
        try expect(2, again())
    }

    @Test(
        "Where the link to the tree was lost or leads elsewhere, readers get the tree back, with what others put there",
        arguments: [nil, "elsewhere", "rev/9"] as [String?])
    func lostLink(target: String?) throws {
        try expect(1, pull(1))
        try scene.root.write("mine", to: "dest/.syncagent/now/each/notes.txt")
        #expect(unlink(place) == 0)
        if let target { #expect(symlink(target, place) == 0) }
        #expect(try scene.engine().plan(scene.options()).wanted == 0)
        let outcome = try again()
        #expect(outcome.status == .done && outcome.requests.isEmpty, "\(outcome.error?.message ?? "")")
        #expect(scene.root.read("dest/each/now") == Revisions.tree(1).bytes("each/now"))
        #expect(scene.root.read("dest/each/notes.txt") == Array("mine".utf8))
    }

    @Test("A name at the top that only files need that are not selected may be somebody else's")
    func unselectedTop() throws {
        #expect(try pull(1) { $0.include = ["each"] }.status == .done)
        try scene.root.write("mine", to: "dest/program")
        #expect(try pull(2) { $0.include = ["each"] }.status == .done)
        #expect(scene.root.read("dest/program") == Array("mine".utf8))
        let refused = try again()
        #expect(refused.status == .refused && refused.error?.message.contains("program") == true)
    }

    @Test("A directory in place of the link that readers follow is named, as it is in a copy that followed links")
    func followed() throws {
        try expect(1, pull(1))
        #expect(unlink(place) == 0 && mkdir(place, 0o755) == 0)
        let refused = try pull(2)
        #expect(refused.status == .cannotCreate && refused.error?.message.contains("/now: it is no link") == true)
        let plan = #expect(throws: EngineError.self) { try scene.engine().plan(scene.options()) }
        #expect(plan?.status == .cannotCreate)
    }

    @Test("Where a first pull is given up, what readers follow goes before the ledger, which would pass for lost")
    func dissolved() throws {
        try publish(1)
        let checked = try again(hooks: RecordingHook(.exited(3))) { $0.atomic?.check = ["/check"] }
        #expect(checked.status == .hookFailed)
        // Of a tree that somebody has removed.
        #expect(symlink("rev/9", place) == 0)
        #expect(symlink(".syncagent/now/common", scene.destination + "/common") == 0)
        let home = try home
        try home.remove(home.ledger.trees.map(\.number))
        // A ledger that cannot be removed stands for a kill just before.
        let ledger = scene.destination + "/.syncagent/ledger"
        try FileManager.default.moveItem(atPath: ledger, toPath: scene.root.path("ledger"))
        try FileManager.default.createDirectory(atPath: ledger, withIntermediateDirectories: true)
        #expect(throws: FileError.self) { try home.dissolve() }
        #expect(try names(scene.destination) == [".syncagent"])
        #expect(try !names(scene.destination + "/.syncagent").contains("now"))
        try FileManager.default.removeItem(atPath: ledger)
        try FileManager.default.moveItem(atPath: scene.root.path("ledger"), toPath: ledger)
        try expect(1, again())
    }

    @Test("When a session goes with its files, no link is left that leads nowhere")
    func removed() throws {
        for number in 1...2 { try expect(number, pull(number)) }
        try scene.root.write("mine", to: "dest/notes.txt")
        let count = try scene.engine().clear(scene.destination, files: true)
        #expect(count == Revisions.tree(2).nodes.count)
        #expect(try names(scene.destination) == [".syncagent", "notes.txt"])
        #expect(try names(place).isEmpty)
    }

    @Test("Whatever of the gathering a kill has left undone, the next pull does", arguments: 0...5)
    func gathersAgain(after done: Int) throws {
        try publish(1)
        #expect(try scene.pull().status == .done)
        // What is there after so many of its steps.
        let state = scene.destination + "/.syncagent"
        #expect(mkdir(state + "/rev", 0o711) == 0 && mkdir(state + "/rev/1", 0o755) == 0)
        #expect(mkdir(state + "/state", 0o700) == 0 && mkdir(state + "/state/1", 0o700) == 0)
        var ledger = TreeLedger(layout: .links, sharing: .copy)
        let tree = try #require(status(following: state + "/rev/1"))
        ledger.adopt(inode: tree.inode, mark: tree.modified, now: 1)
        ledger.isGathering = true
        try Data(ledger.text).write(to: URL(fileURLWithPath: state + "/ledger"))
        func move(_ name: String, _ from: String, _ to: String) {
            #expect(rename("\(from)/\(name)", "\(to)/\(name)") == 0, "\(name)")
        }
        if done > 0 { move("index", state, state + "/state/1") }
        if done > 1 { #expect(symlink("rev/1", state + "/now") == 0) }
        if done > 2 { #expect(Glibc.link(scene.destination + "/large", state + "/rev/1/large") == 0) }
        if done > 3 { move("common", scene.destination, state + "/rev/1") }
        if done > 4 { #expect(symlink(".syncagent/now/common", scene.destination + "/common") == 0) }
        let outcome = try pull(1)
        try expect(1, outcome)
        #expect(outcome.requests.isEmpty)
    }

    @Test("What is not ours at the top stays as it is; where the set needs its name, nothing is changed")
    func strangers() throws {
        try expect(1, pull(1))
        try scene.root.write("mine", to: "dest/notes.txt")
        try FileManager.default.createDirectory(
            atPath: scene.destination + "/lost+found", withIntermediateDirectories: true)
        try expect(2, pull(2), besides: ["notes.txt", "lost+found"])
        #expect(scene.root.read("dest/notes.txt") == Array("mine".utf8))
        var tree = Revisions.tree(2)
        tree.addFile("notes.txt", size: 10, seed: 1)
        let refused = try pull(3, tree)
        #expect(refused.status == .refused)
        #expect(refused.error?.message.contains("no pull has put notes.txt there") == true)
        try expect(2, besides: ["notes.txt", "lost+found"])
        #expect(scene.root.read("dest/notes.txt") == Array("mine".utf8))
        // What is put behind the links is in the tree.
        try scene.root.write("mine", to: "dest/each/own.txt")
        #expect(try pull(4).error?.message.contains("each/own.txt") == true)
    }

    @Test("A file that readers do not come to by its name is not right, and the plan tells what is in the way")
    func unlinked() throws {
        try expect(1, pull(1))
        let top = scene.destination + "/large"
        func wrong() throws -> [String] { try scene.engine().verify(scene.options()).problems.map(\.path) }
        #expect(unlink(top) == 0)
        #expect(try wrong() == ["large"])
        #expect(try scene.engine().plan(scene.options()).refusal == nil)
        try scene.root.write("mine", to: "dest/large")
        #expect(try wrong() == ["large"])
        #expect(try scene.engine().plan(scene.options()).refusal?.status == .cannotCreate)
        #expect(try again().status == .cannotCreate)
        #expect(unlink(top) == 0)
        try expect(1, again())
        #expect(try wrong() == [])
    }

    @Test("A switch that a kill has cut short is the one or the other", arguments: [false, true])
    func cutShort(isShown: Bool) throws {
        try expect(1, pull(1, keep: 2))
        try expect(2, pull(2, keep: 2))
        let home = try home
        let former = try #require(home.ledger.former.first)
        try home.record { $0.begin(former.number, isRollback: false, now: 5) }
        if isShown {
            let now = place
            #expect(unlink(now) == 0 && symlink("rev/\(former.number)", now) == 0)
        }
        // Links that lead nowhere, and one that is missing.
        #expect(symlink(".syncagent/now/nothing", scene.destination + "/nothing") == 0)
        #expect(unlink(scene.destination + "/large") == 0)
        let again = try #require(try TreeHome.find(scene.destination))
        try again.reconcile(now: 6)
        try expect(isShown ? 1 : 2)
        try expect(3, pull(3))
    }

    @Test("Without a value the place decides: where nothing can be put beside it, its trees are in it")
    func chosen() throws {
        let name = String(repeating: "n", count: 250)
        let destination = scene.root.path(name)
        func pull(_ number: Int, _ layout: AtomicSwitch.Layout?) throws -> Scene.Outcome {
            try publish(number)
            return try scene.pull { recipe in
                recipe.destination = destination
                var wishes = AtomicSwitch()
                (wishes.keepSeconds, wishes.layout) = (0, layout)
                recipe.atomic = wishes
            }
        }
        let exchange = try pull(1, .exchange)
        #expect(exchange.status == .cannotCreate && exchange.error?.message.contains("too long") == true)
        for number in 1...2 {
            #expect(try pull(number, nil).status == .done)
            #expect(Revisions.tree(UInt64(number)).problems(in: destination + "/.syncagent/now") == [])
        }
        let other = try pull(3, .exchange)
        #expect(other.status == .cannotCreate)
        #expect(other.error?.message.contains("it changes by links and stays with that") == true)
        #expect(Revisions.tree(2).problems(in: destination + "/.syncagent/now") == [])
    }

    @Test("Readers by path see old or new at every name, and those who hold the tree one revision [S114 G11]")
    func readers() throws {
        try expect(1, pull(1, keep: 3))
        let contents = (0...12).map { Revisions.tree(UInt64($0)).bytes("each/now") ?? [] }
        let seen = Monitor((rounds: 0, wrong: [String](), isOver: false))
        let (path, now) = (scene.destination, place)
        let reader = try WorkerThread(name: "reader") {
            while !seen.withLock(\.isOver) {
                let bytes = try? readFile("\(path)/each/now", trust: .input, limit: 1 << 20)
                var mixed = "cannot be opened"
                if let top = openDirectory(now) {
                    let number = (try? readFile("each/now", in: top.raw, trust: .input, limit: 1 << 20)).flatMap {
                        contents.firstIndex(of: $0)
                    }
                    let deep = openDirectory("each/deep/er", in: top.raw)
                    var own: [String] = []
                    if let deep { own = (try? directoryEntries(deep.raw)) ?? [] }
                    mixed = number.map { own == ["\($0)"] } == true ? "" : "\(number ?? -1) with \(own)"
                }
                seen.withLock {
                    $0.rounds += 1
                    if bytes.map(contents.contains) != true { $0.wrong.append("by path") }
                    if !mixed.isEmpty { $0.wrong.append(mixed) }
                }
            }
        }
        for number in 2...12 { try expect(number, pull(number, keep: 3)) }
        seen.withLock { $0.isOver = true }
        reader.join()
        #expect(seen.withLock(\.wrong) == [])
        #expect(seen.withLock(\.rounds) > 0)
    }
}
