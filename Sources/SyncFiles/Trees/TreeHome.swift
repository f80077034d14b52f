package import SyncModel
package import SyncSystem

/// Where the trees of a destination are kept that changes as a whole: beside it, in `.syncagent-NAME/`.
///
/// `ledger` says what there is, `rev/N` are trees that readers do not see, `state/N` has what is kept of tree N: its index, its log
/// and its staging. The tree that readers see is the destination itself. Whoever changes anything has the lock.
package final class TreeHome: Sendable {
    /// The destination, as the user gave it, absolute.
    package let path: String
    /// What the trees are kept in.
    package let homePath: String
    private let home: SharedDescriptor
    private let trees: SharedDescriptor
    private let states: SharedDescriptor
    /// The directory that the destination is in, and its name there.
    private let parent: SharedDescriptor
    private let name: String
    private let identity: FileStatus
    private let book: Mutex<TreeLedger>

    /// What the name of the directory beside the destination begins with.
    package static let prefix = "\(Destination.stateName)-"
    static let treesName = "rev"
    private static let statesName = "state"
    private static let ledgerName = "ledger"

    /// What is on record.
    package var ledger: TreeLedger { book.withLock { $0 } }

    private init(
        _ place: Place, home: SharedDescriptor, trees: SharedDescriptor, states: SharedDescriptor,
        identity: FileStatus, ledger: TreeLedger
    ) {
        (path, name, homePath) = (place.path, place.name, place.homePath)
        (self.home, self.trees, self.states, parent) = (home, trees, states, place.parent)
        self.identity = identity
        book = Mutex(ledger)
    }

    // MARK: Finding

    /// Where a destination is, links followed.
    private struct Place {
        var path: String
        var parent: SharedDescriptor
        var name: String
        var homePath: String

        init(of home: TreeHome) {
            (path, parent, name, homePath) = (home.path, home.parent, home.name, home.homePath)
        }

        /// `nil` where there is nothing above it, or it has none.
        init?(_ path: String) {
            let real = realPath(path)
            let above = real.map(SyncSystem.parent) ?? realPath(SyncSystem.parent(of: path.trimmedSlashes))
            let last = (real ?? path.trimmedSlashes).split(separator: "/").last.map(String.init)
            guard let above, let last, last != "..", last != ".", last.utf8.count + prefix.utf8.count <= 255,
                let parent = SharedDescriptor(openDirectory(above))
            else { return nil }
            (self.path, self.parent, name) = (path, parent, last)
            homePath = (above == "/" ? "" : above) + "/" + prefix + last
        }
    }

    /// The trees of a destination; `nil` where it is not made of any.
    ///
    /// - Throws: ``FileError`` where it is, and cannot be used.
    package static func find(_ path: String) throws(FileError) -> TreeHome? {
        guard let place = Place(path), exists(prefix + place.name, in: place.parent.raw) else { return nil }
        let home: SharedDescriptor
        do throws(FileError) {
            home = SharedDescriptor(
                try openPrivateDirectory(
                    prefix + place.name, in: place.parent.raw, create: false, shown: place.homePath))
        } catch {
            if error.isMissing { return nil }
            throw error
        }
        guard let ledger = try read(home, place) else { return nil }
        return try open(place, home, ledger)
    }

    private static func read(_ home: SharedDescriptor, _ place: Place) throws(FileError) -> TreeLedger? {
        let shown = "\(place.homePath)/\(ledgerName)"
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(ledgerName, in: home.raw, trust: .state, limit: TreeLedger.limit, shown: shown)
        } catch {
            if error.isMissing { return nil }
            throw error
        }
        guard let ledger = TreeLedger(bytes) else {
            throw FileError(
                step: "read", path: shown,
                remark:
                    "it is damaged, or of a later version. If it is to be started anew, move \(escaped(place.homePath)) away: "
                    + "what readers see stays, its former revisions are lost, and its files are hashed once")
        }
        return ledger
    }

    private static func open(_ place: Place, _ home: SharedDescriptor, _ ledger: TreeLedger) throws(FileError)
        -> TreeHome
    {
        func directory(_ name: String) throws(FileError) -> SharedDescriptor {
            SharedDescriptor(
                try openPrivateDirectory(name, in: home.raw, create: true, shown: "\(place.homePath)/\(name)"))
        }
        let (trees, states) = (try directory(treesName), try directory(statesName))
        guard let identity = status(home.raw) else { throw .last("look at", place.homePath) }
        return TreeHome(place, home: home, trees: trees, states: states, identity: identity, ledger: ledger)
    }

    // MARK: Making

    /// The trees of a destination, made where there are none. What is at its place becomes the first one, with what is known of
    /// it.
    ///
    /// - Parameter now: **Milliseconds** since 1970.
    /// - Throws: ``FileError`` where there can be none.
    package static func make(_ path: String, umask: Umask, now: Int64) throws(FileError) -> TreeHome {
        if let found = try find(path) { return found }
        try makeDirectories(SyncSystem.parent(of: path.trimmedSlashes), umask: umask)
        guard let place = Place(path) else {
            throw FileError(step: "switch", path: path, remark: "nothing can be put beside it")
        }
        let home = SharedDescriptor(
            try openPrivateDirectory(prefix + place.name, in: place.parent.raw, create: true, shown: place.homePath))
        do throws(FileError) {
            let sharing = try probe(home.raw, place)
            // Somebody may be at work there, file by file.
            var made = TreeLedger(layout: .exchange, sharing: sharing)
            let opened = try open(place, home, made)
            if let former = try formerDestination(place, umask) {
                guard let lock = try former.lock() else {
                    throw FileError(
                        step: "switch", path: path, code: .resourceTemporarilyUnavailable,
                        remark: "another syncagent is at work there; wait for it")
                }
                guard let root = status(former.root) else { throw .last("look at", path) }
                made.adopt(inode: root.inode, mark: root.modified, now: now)
                try opened.takeOver(former, of: made)
                _ = consume lock
            }
            let first = made
            try opened.record { $0 = first }
            if let code = synchronizeDirectory(place.parent.raw) {
                throw FileError(step: "sync", path: SyncSystem.parent(of: place.homePath), code: code)
            }
            return opened
        } catch {
            // As it was, unless something is in it.
            for name in [treesName, statesName] { removeDirectory(name, in: home.raw) }
            removeDirectory(prefix + place.name, in: place.parent.raw)
            throw error
        }
    }

    /// What is at the destination's place; `nil` for nothing.
    private static func formerDestination(_ place: Place, _ umask: Umask) throws(FileError) -> Destination? {
        switch status(place.parent.raw, place.name) {
        case .success(nil): return nil
        case .failure(let code): throw FileError(step: "look at", path: place.path, code: code)
        case .success(let found?):
            guard found.kind == .directory else {
                throw FileError(step: "switch", path: place.path, code: .notDirectory)
            }
        }
        return try Destination.openInPlace(path: place.path, create: true, umask: umask)
    }

    /// What was kept inside the destination is kept beside it from now on.
    private func takeOver(_ former: Destination, of ledger: TreeLedger) throws(FileError) {
        guard let number = ledger.current else { return }
        let shown = "\(path)/\(Destination.stateName)"
        if exists("\(number)/index", in: states.raw), !exists("index", in: former.state) {
            // It was moved by a process that was killed then.
            removeTree(Destination.stateName, in: former.root)
        } else {
            removeTree("\(number)", in: states.raw)
            let code = renameEntry(Destination.stateName, in: former.root, toFree: "\(number)", in: states.raw)
            if let code { throw FileError(step: "move", path: shown, code: code) }
        }
        if let code = synchronizeDirectory(former.root) { throw FileError(step: "sync", path: path, code: code) }
    }

    /// Whether trees can change places here, and how they can share files.
    private static func probe(_ home: Int32, _ place: Place) throws(FileError) -> TreeLedger.Sharing {
        func refusal(_ code: Errno, _ remark: String) -> FileError {
            FileError(step: "switch", path: place.path, code: code, remark: remark)
        }
        if let there = openDirectory(place.name, in: place.parent.raw), let own = MountIdentity(of: there.raw),
            let above = MountIdentity(of: place.parent.raw), own != above
        {
            throw refusal(
                .deviceOrResourceBusy, "it is a mount point, which cannot change places with another directory")
        }
        let names = (one: "probe.1", other: "probe.2")
        defer { for name in [names.one, names.other] { removeTree(name, in: home) } }
        for name in [names.one, names.other] {
            removeTree(name, in: home)
            if let code = makeDirectory(name, in: home, mode: 0o700) {
                throw FileError(step: "create", path: "\(place.homePath)/\(name)", code: code)
            }
        }
        if let code = exchangeEntries(names.one, in: home, with: names.other, in: home) {
            throw refusal(code, "its file system cannot exchange two directories (\(code))")
        }
        guard let one = openDirectory(names.one, in: home), let other = openDirectory(names.other, in: home) else {
            throw .last("open", "\(place.homePath)/\(names.one)")
        }
        let source = try createFile("file", in: one.raw, shown: "\(place.homePath)/\(names.one)/file")
        let bytes = [UInt8](repeating: 0x61, count: 8_192)
        if let code = bytes.withUnsafeBytes({ writeAll($0, to: source.raw, at: 0) }) {
            throw FileError(step: "write", path: "\(place.homePath)/\(names.one)/file", code: code)
        }
        let copy = try createFile("file", in: other.raw, shown: "\(place.homePath)/\(names.other)/file")
        if cloneFile(source.raw, to: copy.raw) == nil { return .clone }
        return addName("link", in: other.raw, to: "file", in: one.raw) == nil ? .link : .copy
    }

    // MARK: The ledger

    /// Changes what is on record; on disk when this returns.
    package func record(_ change: (inout TreeLedger) -> Void) throws(FileError) {
        var ledger = self.ledger
        change(&ledger)
        let shown = "\(homePath)/\(Self.ledgerName)"
        let temporary = "\(Self.ledgerName).new"
        removeFile(temporary, in: home.raw)
        let file = try createFile(temporary, in: home.raw, .writeOnly, shown: shown)
        var code = ledger.text.withUnsafeBytes { writeAll($0, to: file.raw, at: 0) }
        if code == nil { code = synchronize(file.raw) }
        if code == nil { code = renameEntry(temporary, in: home.raw, to: Self.ledgerName, in: home.raw) }
        if code == nil { code = synchronizeDirectory(home.raw) }
        if let code { throw FileError(step: "write", path: shown, code: code) }
        book.withLock { [ledger] in $0 = ledger }
    }

    /// Locks the trees for this process.
    ///
    /// - Returns: `nil` when another process has them.
    package func lock() throws(FileError) -> FileLock? {
        let shown = "\(homePath)/lock"
        let file = try openFile("lock", in: home.raw, [.readWrite, .create], trust: .state, shown: shown)
        guard let lock = try FileLock.take(file, path: shown) else { return nil }
        lock.sign("\(CurrentProcess.identifier)")
        // What was read before may be what another process has changed since.
        if let ledger = try Self.read(home, Place(of: self)) { book.withLock { $0 = ledger } }
        return lock
    }

    /// Brings ledger and directories together after whatever was cut short. The caller has the lock.
    ///
    /// - Parameter now: **Milliseconds** since 1970.
    package func settle(now: Int64) throws(FileError) {
        let there = try look()
        var ledger = self.ledger
        if ledger.step != nil {
            guard let there else {
                throw FileError(
                    step: "switch", path: path,
                    remark:
                        "it is gone, and a switch was under way. Move a tree of \(escaped(homePath))/\(Self.treesName) there"
                )
            }
            guard let seen = ledger.seen(inode: there.inode, mark: there.modified) else {
                throw FileError(
                    step: "switch", path: path,
                    remark: "a switch was under way, and what is there now is neither the old tree nor the new one")
            }
            if seen == ledger.step?.to { ledger.complete() } else { ledger.forgetStep() }
        }
        if ledger.current != nil, there == nil { ledger.lose() }
        if ledger.current == nil, let there {
            // Somebody has made a directory where none was shown yet.
            ledger.adopt(inode: there.inode, mark: there.modified, now: now)
        }
        if let current = ledger.current, var tree = ledger[current], let there {
            (tree.inode, tree.mark) = (there.inode, there.modified)
            ledger[current] = tree
        }
        try nameTrees(&ledger)
        let settled = ledger
        if settled != self.ledger { try record { $0 = settled } }
        for name in (try? directoryEntries(states.raw)) ?? [] where UInt64(name).flatMap({ settled[$0] }) == nil {
            removeTree(name, in: states.raw)
        }
    }

    /// What is at the destination's place; `nil` for nothing.
    private func look() throws(FileError) -> FileStatus? {
        switch status(parent.raw, name) {
        case .success(nil): return nil
        case .failure(let code): throw FileError(step: "look at", path: path, code: code)
        case .success(let found?):
            guard found.kind == .directory else { throw FileError(step: "switch", path: path, code: .notDirectory) }
            return found
        }
    }

    /// Gives every tree the name of its number, and removes what is none. Trees that are gone leave the ledger.
    private func nameTrees(_ ledger: inout TreeLedger) throws(FileError) {
        let shown = "\(homePath)/\(Self.treesName)"
        var wrong: [(name: String, number: UInt64)] = []
        var found: Set<UInt64> = []
        for name in try entries(trees.raw, shown) {
            guard case .success(let there?) = status(trees.raw, name), there.kind == .directory else {
                removeFile(name, in: trees.raw)
                continue
            }
            let own = UInt64(name).flatMap { ledger[$0] }
            var tree = ledger.tree(inode: there.inode, mark: there.modified)
            if tree == nil, let named = own, named.number != ledger.current { tree = named }
            guard let tree, tree.number != ledger.current, !found.contains(tree.number) else {
                removeTree(name, in: trees.raw, depth: Self.depth)
                continue
            }
            found.insert(tree.number)
            if name != "\(tree.number)" { wrong.append((name, tree.number)) }
        }
        for (name, number) in wrong {
            if let code = renameEntry(name, in: trees.raw, toFree: "\(number)", in: trees.raw) {
                throw FileError(step: "rename", path: "\(shown)/\(name)", code: code)
            }
        }
        for tree in ledger.trees where tree.number != ledger.current && !found.contains(tree.number) {
            ledger[tree.number] = nil
        }
    }

    private func entries(_ directory: Int32, _ shown: String) throws(FileError) -> [String] {
        do throws(Errno) { return try directoryEntries(directory) } catch {
            throw FileError(step: "read", path: shown, code: error)
        }
    }

    /// As deep as a manifest's paths can be.
    private static let depth = 2_100

    // MARK: Trees

    /// The tree that readers see, as a destination; `nil` for nothing yet.
    package func shown(usesState: Bool = true, umask: Umask = CurrentProcess.umask) throws(FileError) -> Destination? {
        guard let there = try look() else { return nil }
        guard let number = ledger.seen(inode: there.inode, mark: there.modified) else { return nil }
        return try destination(number, seen: number, usesState: usesState, umask: umask)
    }

    /// A tree as a destination: at its own place, with the path of the destination.
    package func destination(_ number: UInt64, umask: Umask) throws(FileError) -> Destination {
        try destination(number, seen: ledger.current, usesState: true, umask: umask)
    }

    private func destination(_ number: UInt64, seen: UInt64?, usesState: Bool, umask: Umask) throws(FileError)
        -> Destination
    {
        let root =
            number == seen
            ? openDirectory(name, in: parent.raw, .noFollow) : openDirectory("\(number)", in: trees.raw, .noFollow)
        guard let root else { throw .last("open the destination", number == seen ? path : treePath(number)) }
        let statePath = "\(homePath)/\(Self.statesName)/\(number)"
        var state: Descriptor?
        if usesState {
            let opened = try openPrivateDirectory("\(number)", in: states.raw, create: true, shown: statePath)
            if let code = makeDirectory("staging", in: opened.raw, mode: 0o700), code != .fileExists {
                throw FileError(step: "create", path: "\(statePath)/staging", code: code)
            }
            state = consume opened
        }
        return Destination(
            path: path, root: root, state: state, statePath: statePath, lockedIn: home, at: homePath,
            identity: identity, sharesFiles: ledger.sharing == .link, umask: umask)
    }

    /// What stands for the destination before readers see a tree.
    package func anchor(umask: Umask) throws(FileError) -> Destination {
        guard let root = openDirectory(".", in: home.raw) else { throw .last("open", homePath) }
        let state = openDirectory(".", in: home.raw)
        return Destination(
            path: path, root: root, state: state, statePath: homePath, lockedIn: home, at: homePath,
            identity: identity, sharesFiles: false, umask: umask)
    }

    /// Where a tree is that readers do not see.
    package func treePath(_ number: UInt64) -> String { "\(homePath)/\(Self.treesName)/\(number)" }

    /// The tree to bring up to date, marked as such: from now on it is no revision to go back to.
    package func build(keeping kept: Int, leastAge: Int64, now: Int64, umask: Umask) throws(FileError) -> UInt64 {
        var ledger = self.ledger
        let (number, isNew) = ledger.build(keeping: kept, leastAge: leastAge, now: now)
        if isNew {
            let chosen = ledger
            try record { $0 = chosen }
            if let code = makeDirectory("\(number)", in: trees.raw, mode: umask.less(0o777)) {
                throw FileError(step: "create", path: treePath(number), code: code)
            }
        }
        guard case .success(let found?) = status(trees.raw, "\(number)") else {
            throw .last("look at", treePath(number))
        }
        ledger[number]?.inode = found.inode
        ledger[number]?.mark = 0
        let built = ledger
        if built != self.ledger { try record { $0 = built } }
        return number
    }

    /// Removes a tree that readers do not see, and what is kept of it.
    ///
    /// - Returns: Whether nothing of it is left.
    @discardableResult package func remove(_ number: UInt64) throws(FileError) -> Bool {
        guard ledger.current != number else { return false }
        try record { $0[number] = nil }
        removeTree("\(number)", in: states.raw)
        return removeTree("\(number)", in: trees.raw, depth: Self.depth)
    }

    // MARK: Switching

    /// Shows a tree: on record, exchanged, on record again. After a kill in between, ``settle()`` finds out which of both readers
    /// see.
    ///
    /// - Parameters:
    ///   - isDurable: Whether to sync(2) what is written.
    ///   - now: **Milliseconds** since 1970.
    /// - Returns: How long the exchange took, in **nanoseconds**.
    package func show(_ number: UInt64, isRollback: Bool = false, now: Int64) throws(FileError) -> Int64 {
        let former = ledger.current
        try liken(number)
        try record { $0.begin(number, isRollback: isRollback, now: now) }
        let clock = ContinuousClock()
        let began = clock.now
        let code =
            former == nil
            ? renameEntry("\(number)", in: trees.raw, toFree: name, in: parent.raw)
            : exchangeEntries("\(number)", in: trees.raw, with: name, in: parent.raw)
        let took = clock.now - began
        if let code {
            try record { $0.forgetStep() }
            let remark: String? =
                code == .improperLink
                ? "it belongs to a layer of an image, or to another file system, and cannot change places with another directory"
                : nil
            throw FileError(step: "switch", path: path, code: code, remark: remark)
        }
        for (directory, shown) in [(parent.raw, SyncSystem.parent(of: homePath)), (trees.raw, homePath)] {
            if let code = synchronizeDirectory(directory) { throw FileError(step: "sync", path: shown, code: code) }
        }
        // From here on it is done; what fails now the next run mends.
        if let former { _ = renameEntry("\(number)", in: trees.raw, toFree: "\(former)", in: trees.raw) }
        try record { $0.complete() }
        return took.components.seconds &* 1_000_000_000 &+ took.components.attoseconds / 1_000_000_000
    }

    /// Gives a tree's directory the mode and group that the destination has, and a time of its own to be known by.
    private func liken(_ number: UInt64) throws(FileError) {
        guard let directory = openDirectory("\(number)", in: trees.raw, .noFollow) else {
            throw .last("open", treePath(number))
        }
        if let there = openDirectory(name, in: parent.raw, .noFollow), let found = status(there.raw) {
            handOverGroup(of: there.raw, to: directory.raw)
            if let code = setMode(directory.raw, FileMode(found.permissions)) {
                throw FileError(step: "set the mode of", path: treePath(number), code: code)
            }
        }
        if ledger[number]?.mark ?? 0 == 0 { _ = touch(directory.raw) }
        guard let own = status(directory.raw) else { throw .last("look at", treePath(number)) }
        try record {
            $0[number]?.inode = own.inode
            $0[number]?.mark = own.modified
        }
    }
}

extension String {
    /// Without slashes at its end.
    fileprivate var trimmedSlashes: String {
        var text = self[...]
        while text.count > 1, text.last == "/" { text.removeLast() }
        return String(text)
    }
}
