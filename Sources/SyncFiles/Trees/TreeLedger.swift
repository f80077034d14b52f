package import SyncModel

/// The trees of a destination that is switched as a whole, and which of them readers see: a small file beside them,
/// replaced with every step. It decides what may be done with which tree; ``TreeHome`` carries it out.
package struct TreeLedger: Sendable, Equatable {
    /// The content of a tree, once that is known.
    package struct Content: Sendable, Equatable {
        package var manifest: SHA256Digest
        /// The manifest's `revision`; 0 for none.
        package var revision: UInt64
        /// The run that built or examined the tree; `nil` for none.
        package var run: String?
        package var files: UInt64
        /// **Bytes** of its files.
        package var bytes: UInt64

        package init(manifest: SHA256Digest, revision: UInt64, run: String?, files: UInt64, bytes: UInt64) {
            (self.manifest, self.revision, self.run) = (manifest, revision, run)
            (self.files, self.bytes) = (files, bytes)
        }
    }

    /// One copy of the set.
    package struct Tree: Sendable, Equatable {
        /// A number that is never used twice in a destination.
        package var number: UInt64
        /// The inode number of its directory, by which it is recognized wherever it is …
        package var inode: UInt64 = 0
        /// … and, where those numbers change with every mount, the time that was set on it. **Nanoseconds** since 1970.
        package var mark: Int64 = 0
        package var isBuilding = false
        package var content: Content?
        /// The state of its directories when they contained exactly the entries of the index; `nil` while that is not
        /// known. See ``Destination/seal(of:before:)``.
        package var seal: SHA256Digest?
        /// Whether its index was lost and built anew. Other files in the tree may then be of former selections, and
        /// stay until readers see the tree.
        package var isUnlisted = false
        /// The number of the switch that last showed it, from 1; 0 for none. Clocks may go back, this number does not.
        package var turn: UInt64 = 0
        /// When readers began and stopped seeing it. **Milliseconds** since 1970.
        package var shown: Int64?
        package var left: Int64?
        /// Whether it is recorded that its groups are complete …
        package var isAnnounced = false
        /// … and that all its hooks have succeeded.
        package var isProven = false

        package init(number: UInt64) { self.number = number }

        package var manifest: SHA256Digest? { content?.manifest }
        package var revision: UInt64 { content?.revision ?? 0 }
    }

    /// A switch in progress.
    package struct Step: Sendable, Equatable {
        /// The former tree; `nil` if there was none.
        package var from: UInt64?
        package var to: UInt64
        package var isRollback: Bool
        /// The time of the switch, **milliseconds** since 1970.
        package var time: Int64
    }

    /// A tree's content that was rolled back: it is not installed again.
    package struct Held: Sendable, Equatable {
        package var manifest: SHA256Digest
        package var revision: UInt64
        /// The time of the rollback, **milliseconds** since 1970.
        package var since: Int64

        package init(manifest: SHA256Digest, revision: UInt64, since: Int64) {
            (self.manifest, self.revision, self.since) = (manifest, revision, since)
        }
    }

    /// How trees share identical files.
    package enum Sharing: String, Sendable {
        /// The blocks are shared, each tree has a file of its own. ioctl_ficlone(2)
        case clone
        /// One file has a name in each tree, and nobody may write to it. link(2)
        case link
        /// Files are not shared.
        case copy
    }

    package let layout: AtomicSwitch.Layout
    package let sharing: Sharing
    /// The tree that readers see; `nil` for none yet.
    package private(set) var current: UInt64?
    package private(set) var trees: [Tree] = []
    package private(set) var step: Step?
    package private(set) var held: [Held] = []
    /// Whether the destination's former contents are being moved into the first tree.
    package internal(set) var isGathering = false
    private var next: UInt64 = 1

    package init(layout: AtomicSwitch.Layout, sharing: Sharing) { (self.layout, self.sharing) = (layout, sharing) }

    package subscript(number: UInt64) -> Tree? {
        get { trees.first { $0.number == number } }
        set {
            trees.removeAll { $0.number == number }
            guard let newValue else { return }
            trees.append(newValue)
            trees.sort { $0.number < $1.number }
        }
    }

    package var shownTree: Tree? { current.flatMap { self[$0] } }

    /// The tree that is being built.
    package var building: Tree? { trees.first(where: \.isBuilding) }

    /// Trees that readers no longer see, the one seen last first.
    package var former: [Tree] {
        trees.filter { $0.number != current && !$0.isBuilding }.sorted { ($0.turn, $0.number) > ($1.turn, $1.number) }
    }

    // MARK: Which tree readers see

    /// The tree that a directory is.
    ///
    /// - Parameter known: Trees whose directories are other ones.
    package func tree(inode: UInt64, mark: Int64, besides known: Set<UInt64>) -> Tree? {
        let rest = trees.filter { !known.contains($0.number) }
        return rest.first { $0.inode == inode && inode != 0 } ?? rest.first { $0.mark == mark && mark != 0 }
    }

    /// The tree that readers see, according to the destination's directory. After an interrupted switch it is one side
    /// or the other.
    ///
    /// - Returns: `nil` if a switch was interrupted and the directory is neither side.
    package func seen(inode: UInt64, mark: Int64) -> UInt64? {
        guard let step else { return current }
        let sides = [step.to, step.from].compactMap { $0.flatMap { self[$0] } }
        return (sides.first { $0.inode == inode } ?? sides.first { $0.mark == mark })?.number
    }

    // MARK: Building

    /// The tree to bring up to date: the one that an earlier run was building, the oldest former tree that may be
    /// reused, or a new one.
    ///
    /// - Parameters:
    ///   - kept: The number of former trees to keep.
    ///   - leastAge: How long a former tree stays unchanged, since readers may still use it. **Milliseconds**.
    package mutating func build(keeping kept: Int, leastAge: Int64, now: Int64) -> (number: UInt64, isNew: Bool) {
        if let building { return (building.number, false) }
        let surplus = ranked.dropFirst(max(1, kept) - 1)
        if let oldest = surplus.last(where: { mayGo($0, leastAge: leastAge, now: now) }) {
            var tree = Tree(number: oldest.number)
            (tree.inode, tree.mark, tree.isBuilding) = (oldest.inode, oldest.mark, true)
            self[oldest.number] = tree
            return (oldest.number, false)
        }
        var tree = Tree(number: next)
        tree.isBuilding = true
        next += 1
        self[tree.number] = tree
        return (tree.number, true)
    }

    /// Former trees beyond the number to keep.
    package func surplus(keeping kept: Int, leastAge: Int64, now: Int64) -> [UInt64] {
        let unknown = former.filter { $0.manifest == nil }
        let known = ranked.filter { $0.manifest != nil }
        return (known.dropFirst(max(1, kept)) + unknown).filter { mayGo($0, leastAge: leastAge, now: now) }.map(
            \.number)
    }

    /// Former trees, in the order in which they are kept: the one seen last first, and those that equal the current
    /// tree at the end.
    private var ranked: [Tree] { former.filter { !isShown($0) } + former.filter { isShown($0) } }

    /// Whether a former tree may be removed: readers left it long enough ago, and it is not the last one whose hooks
    /// all succeeded.
    private func mayGo(_ tree: Tree, leastAge: Int64, now: Int64) -> Bool {
        let age = now.saturatingSubtract(tree.left ?? 0)
        // If the clock was set back by more than that, it does not tell the tree's age.
        guard age >= leastAge || age < 0 && age < -leastAge else { return false }
        let proven = trees.filter { $0.isProven && !$0.isBuilding }.max { $0.turn < $1.turn }
        return proven?.number != tree.number
    }

    /// Makes a directory with files of another origin the current tree.
    ///
    /// - Parameter number: The number of its tree; `nil` for a new one.
    package mutating func adopt(_ number: UInt64? = nil, inode: UInt64, mark: Int64, now: Int64) {
        var tree = Tree(number: number ?? next)
        if let known = self[tree.number] { tree.content = known.content }
        (tree.inode, tree.mark, tree.shown) = (inode, mark, now)
        (tree.isAnnounced, tree.isProven) = (true, true)
        tree.turn = nextTurn
        next = max(next, tree.number + 1)
        // Readers may still use the tree that they saw.
        if let current, current != tree.number { self[current]?.left = now }
        self[tree.number] = tree
        current = tree.number
    }

    // MARK: Switching

    private var nextTurn: UInt64 { (trees.map(\.turn).max() ?? 0) + 1 }

    package mutating func begin(_ number: UInt64, isRollback: Bool, now: Int64) {
        step = Step(from: current, to: number, isRollback: isRollback, time: now)
    }

    /// Notes that the switch has happened.
    package mutating func complete() {
        guard let step else { return }
        if let from = step.from, var tree = self[from] {
            tree.left = step.time
            self[from] = tree
            if step.isRollback, let manifest = tree.manifest, !isHeld(manifest) {
                held.append(Held(manifest: manifest, revision: tree.revision, since: step.time))
                held = held.suffix(Self.mostHeld)
            }
        }
        if var tree = self[step.to] {
            (tree.isBuilding, tree.left, tree.isUnlisted) = (false, nil, false)
            (tree.shown, tree.turn) = (step.time, nextTurn)
            if step.isRollback { tree.isAnnounced = false }
            if step.isRollback, let manifest = tree.manifest { held.removeAll { $0.manifest == manifest } }
            self[step.to] = tree
            if !step.isRollback, let manifest = tree.manifest, !isHeld(manifest) { held = [] }
        }
        current = step.to
        self.step = nil
    }

    /// Notes that the switch has not happened.
    package mutating func forgetStep() { step = nil }

    /// Notes that the tree that readers saw is gone.
    package mutating func lose() {
        if let current { self[current] = nil }
        current = nil
    }

    private static let mostHeld = 64

    package func isHeld(_ manifest: SHA256Digest) -> Bool { held.contains { $0.manifest == manifest } }

    /// Allows held content to be installed again.
    package mutating func release() { held = [] }

    /// The tree that a name for a rollback stands for.
    package enum Meaning: Sendable, Equatable {
        case former(Tree)
        /// The tree that readers see already.
        case shown
        /// Trees with different manifests match.
        case several
        case nothing
    }

    /// The fewest digits of a manifest's SHA-256 that may name it.
    package static let fewestDigits = 4

    /// The tree for a name: a revision, or the first ``fewestDigits`` or more digits of a manifest's SHA-256.
    package func meaning(of wish: String) -> Meaning {
        let all = former.filter { $0.content != nil } + [shownTree].compactMap(\.self)
        var meant = all.filter { $0.revision > 0 && String($0.revision) == wish }
        if meant.isEmpty, wish.utf8.count >= Self.fewestDigits {
            let digits = wish.lowercased()
            meant = all.filter { $0.manifest?.hex.hasPrefix(digits) ?? false }
            if Set(meant.compactMap(\.manifest)).count > 1 { return .several }
        }
        guard let first = meant.first else { return .nothing }
        return first.number == current || isShown(first) ? .shown : .former(first)
    }

    /// The tree for a rollback.
    ///
    /// - Parameter wish: As for ``meaning(of:)``; `nil` for the tree seen last whose content differs from the current
    ///   one.
    /// - Returns: `nil` if there is no such tree.
    package func target(_ wish: String?) -> Tree? {
        if let wish {
            if case .former(let tree) = meaning(of: wish) { return tree }
            return nil
        }
        // A loop, since the compiler of Swift 6.3 crashes on filters and closures here in optimised builds.
        var first: Tree?
        for tree in former {
            guard let content = tree.content, !isShown(tree) else { continue }
            if first == nil { first = tree }
            if !isHeld(content.manifest) { return tree }
        }
        return first
    }

    /// Whether a former tree has the files that readers see. A tree whose index was lost is built once more.
    private func isShown(_ tree: Tree) -> Bool {
        guard let content = tree.content, let shown = shownTree?.content else { return false }
        return (content.manifest, content.files, content.bytes) == (shown.manifest, shown.files, shown.bytes)
    }
}

// As a file: JSON, unknown keys ignored.
extension TreeLedger {
    static let format = "syncagent-trees/1"
    /// Most **bytes** of the file.
    static let limit = 1 << 20

    var text: [UInt8] {
        JSONLine.object { line in
            line.field("format", Self.format)
            line.field("layout", layout)
            line.field("sharing", sharing)
            line.field("next", next)
            line.field("current", optional: current)
            if isGathering { line.field("gathering", true) }
            if let step {
                line.object("switching") { line in
                    line.field("from", optional: step.from)
                    line.field("to", step.to)
                    line.field("rollback", step.isRollback)
                    line.field("time", step.time)
                }
            }
            line.list("held", held) { held, line in
                line.field("manifest", held.manifest.hex)
                line.field("revision", held.revision)
                line.field("since", held.since)
            }
            line.list("trees", trees) { tree, line in
                line.field("number", tree.number)
                line.field("inode", String(tree.inode))
                line.field("mark", String(tree.mark))
                if tree.isBuilding { line.field("building", true) }
                line.field("manifest", optional: tree.manifest?.hex)
                line.field("revision", tree.revision)
                line.field("run", optional: tree.content?.run)
                line.field("files", tree.content?.files ?? 0)
                line.field("bytes", tree.content?.bytes ?? 0)
                line.field("seal", optional: tree.seal?.hex)
                if tree.isUnlisted { line.field("unlisted", true) }
                if tree.turn > 0 { line.field("turn", tree.turn) }
                line.field("shown", optional: tree.shown)
                line.field("left", optional: tree.left)
                if tree.isAnnounced { line.field("announced", true) }
                if tree.isProven { line.field("proven", true) }
            }
        }.bytes + [0x0A]
    }

    /// Parses the file; `nil` for other text.
    init?(_ bytes: [UInt8]) {
        guard let all = JSONValue(text: String(decoding: bytes, as: UTF8.self)), all["format"]?.string == Self.format,
            let layout = all["layout"]?.string.flatMap(AtomicSwitch.Layout.init),
            let sharing = all["sharing"]?.string.flatMap(Sharing.init), let next = all["next"]?.unsigned,
            next < .max / 2,
            let trees = all["trees"]?.array
        else { return nil }
        self.init(layout: layout, sharing: sharing)
        (self.next, current) = (next, all["current"]?.unsigned)
        isGathering = all["gathering"]?.bool == true
        for value in trees {
            guard let tree = Tree(value), self[tree.number] == nil, tree.number < next else { return nil }
            self[tree.number] = tree
        }
        if let value = all["switching"] {
            guard let to = value["to"]?.unsigned, let time = value["time"]?.integer else { return nil }
            step = Step(
                from: value["from"]?.unsigned, to: to, isRollback: value["rollback"]?.bool == true, time: time)
        }
        for value in all["held"]?.array ?? [] {
            guard let manifest = value["manifest"]?.string.flatMap({ SHA256Digest(hex: $0.utf8) }) else { return nil }
            held.append(
                Held(
                    manifest: manifest, revision: value["revision"]?.unsigned ?? 0,
                    since: value["since"]?.integer ?? 0))
        }
        if let current, self[current] == nil { return nil }
    }
}

extension TreeLedger.Tree {
    fileprivate init?(_ value: JSONValue) {
        guard let number = value["number"]?.unsigned, let inode = value["inode"]?.string.flatMap(UInt64.init),
            let mark = value["mark"]?.string.flatMap(Int64.init)
        else { return nil }
        self.init(number: number)
        (self.inode, self.mark) = (inode, mark)
        isBuilding = value["building"]?.bool == true
        content = value["manifest"]?.string.flatMap { SHA256Digest(hex: $0.utf8) }.map { manifest in
            TreeLedger.Content(
                manifest: manifest, revision: value["revision"]?.unsigned ?? 0, run: value["run"]?.string,
                files: value["files"]?.unsigned ?? 0, bytes: value["bytes"]?.unsigned ?? 0)
        }
        seal = value["seal"]?.string.flatMap { SHA256Digest(hex: $0.utf8) }
        isUnlisted = value["unlisted"]?.bool == true
        turn = min(value["turn"]?.unsigned ?? 0, .max / 2)
        (shown, left) = (value["shown"]?.integer, value["left"]?.integer)
        isAnnounced = value["announced"]?.bool == true
        isProven = value["proven"]?.bool == true
    }
}
