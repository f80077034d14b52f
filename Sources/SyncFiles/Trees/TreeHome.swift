import SyncManifest
package import SyncModel
package import SyncSystem

/// The directory with the trees of a destination that is switched as a whole: `.syncagent-NAME/` beside it, or
/// `.syncagent/` in it for layout `links`.
///
/// `ledger` records the trees, `rev/N` are trees that readers do not see, and `state/N` has the state of tree N: its
/// index, its log and its staging. The tree that readers see is the destination itself, or the one that ``TopLinks``
/// lead to. Only the holder of the lock changes anything.
package final class TreeHome: Sendable {
    /// The destination, as the user gave it, absolute.
    package let path: String
    /// The path of the trees' directory.
    package let homePath: String
    private let home: SharedDescriptor
    private let trees: SharedDescriptor
    private let states: SharedDescriptor
    /// The directory that the destination is in, and the destination's name there.
    private let parent: SharedDescriptor
    private let name: String
    /// The links that readers follow, for layout `links`.
    private let links: TopLinks?
    private let identity: FileStatus
    private let book: Mutex<TreeLedger>

    /// The prefix of the name of the directory beside the destination.
    package static let prefix = "\(Destination.stateName)-"
    static let treesName = "rev"
    private static let statesName = "state"
    static let ledgerName = "ledger"

    /// The recorded trees.
    package var ledger: TreeLedger { book.withLock { $0 } }

    private init(
        _ place: Place, home: SharedDescriptor, trees: SharedDescriptor, states: SharedDescriptor,
        identity: FileStatus, ledger: TreeLedger
    ) {
        (path, name, homePath) = (place.path, place.name, place.homePath)
        (self.home, self.trees, self.states, parent) = (home, trees, states, place.parent)
        links = place.inside.map { TopLinks(root: $0, path: place.path, home: home, trees: trees) }
        self.identity = identity
        book = Mutex(ledger)
    }

    // MARK: Finding

    /// The place of a destination, with links resolved.
    private struct Place {
        var path: String
        var parent: SharedDescriptor
        var name: String
        var homePath: String
        /// The destination, if its trees are in it.
        var inside: SharedDescriptor?

        init(of home: TreeHome) {
            (path, parent, name, homePath) = (home.path, home.parent, home.name, home.homePath)
            inside = home.links?.root
        }

        /// The same place with the trees inside the destination; `nil` if the destination is not a directory.
        var asLinks: Place? {
            get throws(FileError) {
                guard let root = SharedDescriptor(openDirectory(name, in: parent.raw, .noFollow)) else {
                    let error = FileError.last("open the destination", path)
                    if error.isMissing { return nil }
                    throw error
                }
                var place = self
                (place.inside, place.homePath) = (root, (path == "/" ? "" : path) + "/" + Destination.stateName)
                return place
            }
        }

        /// The name of the trees' directory, and the directory it is in.
        var homeName: String { inside == nil ? prefix + name : Destination.stateName }
        var above: Int32 { (inside ?? parent).raw }

        func openHome(create: Bool) throws(FileError) -> SharedDescriptor {
            SharedDescriptor(try openPrivateDirectory(homeName, in: above, create: create, shown: homePath))
        }

        /// Whether trees are recorded there.
        ///
        /// - Throws: ``FileError``, also if readers are led to a tree but none is recorded: that would look like
        ///   somebody else's links.
        func hasLedger() throws(FileError) -> Bool {
            let now = "\(homePath)/\(TopLinks.now)"
            func hasLinks() throws(FileError) -> Bool {
                try inside == nil ? false : isThere("\(homeName)/\(TopLinks.now)", in: above, shown: now)
            }
            do throws(FileError) {
                // The links are checked before the ledger and after it: they are created after it, and removed before
                // it.
                let hadLinks = try hasLinks()
                let shown = "\(homePath)/\(ledgerName)"
                if try isThere("\(homeName)/\(ledgerName)", in: above, shown: shown) { return true }
                guard hadLinks, try hasLinks() else { return false }
            } catch {
                // Another user's directory: with trees in it, readers could pass through.
                if error.code == .permissionDenied, inside != nil, case .success(let home?) = status(above, homeName),
                    home.permissions & 0o001 == 0
                {
                    return false
                }
                throw error
            }
            throw FileError(
                step: "use", path: path,
                remark:
                    "its trees are no longer on record: \(escaped(homePath))/\(ledgerName) is lost. Put it back, or copy what "
                    + "\(escaped(now)) leads to into a new directory, pull into that, and remove this one")
        }

        /// Makes sure that a first ledger replaces no other one.
        func requireNoLedger() throws(FileError) {
            guard try hasLedger() else { return }
            throw FileError(
                step: "switch", path: path, code: .fileExists, remark: "its trees are on record by now; try again")
        }

        /// `nil` if there is no directory above the path, or the path has no name.
        ///
        /// - Throws: ``FileError`` if that cannot be found out.
        init?(_ path: String) throws(FileError) {
            let trimmed = path.trimmedSlashes
            let real = try Self.real(path)
            var above = real.map(SyncSystem.parent)
            if above == nil { above = try Self.real(SyncSystem.parent(of: trimmed)) }
            let last = (real ?? trimmed).split(separator: "/").last.map(String.init)
            guard let above, let last, last != "..", last != "." else { return nil }
            let homePath = (above == "/" ? "" : above) + "/" + prefix + last
            guard let parent = SharedDescriptor(openDirectory(above)) else {
                let error = FileError.last("open", above)
                if error.isMissing { return nil }
                guard error.code == .permissionDenied else { throw error }
                // Nothing can be put beside the destination if its parent is unreadable, but trees may have been put
                // there before.
                let inside = "\(real ?? trimmed)/\(Destination.stateName)/\(ledgerName)"
                if try isThere(homePath, in: currentDirectory, shown: homePath) || exists(inside) { throw error }
                return nil
            }
            (self.path, self.parent, name, self.homePath) = (path, parent, last, homePath)
        }

        /// The path with links resolved; `nil` if there is nothing.
        private static func real(_ path: String) throws(FileError) -> String? {
            if let real = realPath(path) { return real }
            let error = FileError.last("look at", path)
            // No file can have too long a name.
            if error.isMissing || error.code == .fileNameTooLong { return nil }
            throw error
        }
    }

    /// The trees of a destination; `nil` if it has none.
    ///
    /// - Throws: ``FileError`` if it has trees that cannot be used.
    package static func find(_ path: String) throws(FileError) -> TreeHome? {
        guard let place = try Place(path) else { return nil }
        if try isThere(place.homeName, in: place.above, shown: place.homePath), let found = try find(place) {
            return found
        }
        // Any destination has such a directory.
        guard let place = try place.asLinks, try place.hasLedger() else { return nil }
        return try find(place)
    }

    private static func find(_ place: Place) throws(FileError) -> TreeHome? {
        guard let home = try ifPresent(place.openHome(create: false)), let ledger = try read(home, place) else {
            return nil
        }
        return try open(place, home, ledger)
    }

    private static func read(_ home: SharedDescriptor, _ place: Place) throws(FileError) -> TreeLedger? {
        let shown = "\(place.homePath)/\(ledgerName)"
        let bytes = try ifPresent(
            readFile(ledgerName, in: home.raw, trust: .state, limit: TreeLedger.limit, shown: shown))
        guard let bytes else { return nil }
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

    /// The layout of a first tree if none is requested, as far as it can be known without trying.
    package static func prospectiveLayout(_ path: String) -> AtomicSwitch.Layout {
        guard let place = (try? Place(path)) ?? nil, isPermitted(.change, ".", in: place.parent.raw),
            let there = openDirectory(place.name, in: place.parent.raw), let own = MountIdentity(of: there.raw),
            let above = MountIdentity(of: place.parent.raw), own == above
        else { return .links }
        return .exchange
    }

    // MARK: Making

    /// Examines the contents of a destination before they become the first tree in a layout.
    package typealias Inspection = (_ former: Destination, AtomicSwitch.Layout) throws(FileError) -> Void

    /// The trees of a destination, created if there are none. Existing contents become the first tree, with their
    /// recorded state.
    ///
    /// - Parameters:
    ///   - layout: The requested layout; `nil` for the existing one, or the first that the place allows.
    ///   - now: **Milliseconds** since 1970.
    ///   - inspect: Called with the future first tree and the layout before anything is created. If it throws, everything
    ///     stays as it is. Its errors have no code, since a code would make another layout be tried.
    /// - Throws: ``FileError`` if there can be no trees.
    package static func make(
        _ path: String, layout: AtomicSwitch.Layout? = nil, umask: Umask, now: Int64,
        inspecting inspect: Inspection = { _, _ in }
    ) throws(FileError) -> TreeHome {
        if let found = try find(path) {
            guard let layout, layout != found.ledger.layout else { return found }
            throw FileError(
                step: "switch", path: path, code: .fileExists,
                remark:
                    "it changes by \(found.ledger.layout.rawValue) and stays with that; leave '=\(layout.rawValue)' out"
            )
        }
        try refuseDangling(path.trimmedSlashes)
        try makeDirectories(SyncSystem.parent(of: path.trimmedSlashes), umask: umask)
        guard let place = try Place(path) else {
            throw FileError(
                step: "switch", path: path,
                remark:
                    "the directory above it cannot be read, or there is none: give this user permission to read it, or leave "
                    + "--atomic out")
        }
        guard !place.homePath.unicodeScalars.contains("\u{FFFD}") else {
            throw FileError(
                step: "switch", path: path,
                remark: "it leads to a path that is not UTF-8, and can change only file by file")
        }
        if layout != .links {
            do throws(FileError) { return try makeExchange(place, umask, now: now, inspect) } catch {
                // A destination that has begun with one layout continues with it.
                guard layout == nil, let code = error.code, needsLinks.contains(code), try !place.hasLedger() else {
                    throw error
                }
            }
        }
        return try makeLinks(place, umask, now: now, inspect)
    }

    /// The errors where directories cannot be exchanged, or nothing can be put beside the destination.
    private static let needsLinks: Set<Errno> = [
        .deviceOrResourceBusy, .improperLink, .invalidArgument, .noFunction, .notSupported, .permissionDenied,
        .notPermitted,
        .readOnlyFileSystem, .fileNameTooLong,
    ]

    private static func makeExchange(_ place: Place, _ umask: Umask, now: Int64, _ inspect: Inspection)
        throws(FileError)
        -> TreeHome
    {
        try place.asLinks?.requireNoLedger()
        let home = try place.openHome(create: true)
        try place.requireNoLedger()
        do throws(FileError) {
            try requireExchange(home.raw, place)
            if let there = try asItIs(place, umask) { try inspect(there, .exchange) }
            var made = TreeLedger(layout: .exchange, sharing: try sharing(in: home.raw, place))
            let opened = try open(place, home, made)
            guard let former = try formerDestination(place, umask) else {
                try opened.begin(with: made, place)
                return opened
            }
            // A pull without trees may be working there.
            let lock = try lock(former, place)
            guard let root = status(former.root) else { throw .last("look at", place.path) }
            made.adopt(inode: root.inode, mark: root.modified, now: now)
            made.isGathering = true
            try opened.begin(with: made, place)
            _ = consume lock
            return opened
        } catch {
            // Restores the former state, unless there is something in these directories.
            for name in [treesName, statesName] { removeDirectory(name, in: home.raw) }
            removeDirectory(place.homeName, in: place.above)
            throw error
        }
    }

    /// Writes the first ledger. From then on the destination consists of trees, and the next run completes what a kill
    /// interrupts.
    private func begin(with first: TreeLedger, _ place: Place) throws(FileError) {
        try record { $0 = first }
        try FileError.check(synchronizeDirectory(place.above), "sync", SyncSystem.parent(of: homePath))
        do throws(FileError) { try gather(isFirst: true) } catch {
            // If nothing has been moved, the destination is as before: another layout may be tried, or none.
            if links == nil, let number = ledger.current,
                (try? isThere("\(number)", in: states.raw, shown: homePath)) == false
            {
                removeFile(Self.ledgerName, in: home.raw)
            }
            throw error
        }
    }

    /// The same for trees inside the destination.
    private static func makeLinks(_ place: Place, _ umask: Umask, now: Int64, _ inspect: Inspection) throws(FileError)
        -> TreeHome
    {
        try place.requireNoLedger()
        try place.asLinks?.requireNoLedger()
        if let there = try asItIs(place, umask) { try inspect(there, .links) }
        let former = try Destination.openInPlace(path: place.path, create: true, umask: umask)
        try place.requireNoLedger()
        guard let place = try place.asLinks else { throw .last("open the destination", place.path) }
        try place.requireNoLedger()
        let lock = try lock(former, place)
        let home = try place.openHome(create: false)
        var made = TreeLedger(layout: .links, sharing: try sharing(in: home.raw, place))
        let opened = try open(place, home, made)
        let hasIndex = try isThere("index", in: home.raw, shown: "\(place.homePath)/index")
        if let links = opened.links, try links.hasFiles() || hasIndex {
            try requireMovable("staging", in: home, place)
            let shown = "\(place.homePath)/\(treesName)/1"
            try makeMissingDirectory("1", in: opened.trees.raw, mode: umask.less(0o777), shown: shown)
            guard case .success(let tree?) = status(opened.trees.raw, "1") else { throw .last("look at", shown) }
            made.adopt(inode: tree.inode, mark: tree.modified, now: now)
            made.isGathering = true
        } else {
            removeTree("staging", in: home.raw)
        }
        // Readers pass through these directories.
        for (directory, shown) in [(home.raw, place.homePath), (opened.trees.raw, "\(place.homePath)/\(treesName)")] {
            try FileError.check(setMode(directory, 0o711), "set the mode of", shown)
        }
        try opened.begin(with: made, place)
        _ = consume lock
        return opened
    }

    /// Makes sure, before anything is recorded, that a directory can be moved.
    private static func requireMovable(_ name: String, in home: SharedDescriptor, _ place: Place) throws(FileError) {
        let probe = "\(name).probe"
        removeTree(probe, in: home.raw)
        let code =
            renameEntry(name, in: home.raw, toFree: probe, in: home.raw)
            ?? renameEntry(probe, in: home.raw, toFree: name, in: home.raw)
        guard let code else { return }
        throw FileError(
            step: "move", path: "\(place.homePath)/\(name)", code: code,
            remark: code == .improperLink ? "it belongs to a layer of an image; begin with an empty directory" : nil)
    }

    private static func lock(_ former: Destination, _ place: Place) throws(FileError) -> FileLock {
        if let lock = try former.lock() { return lock }
        throw FileError(
            step: "switch", path: place.path, code: .resourceTemporarilyUnavailable,
            remark: "another syncagent is at work there; wait for it")
    }

    /// Makes the destination's former contents the first tree, with their state.
    ///
    /// - Parameter isFirst: Whether this is the first attempt, and not a continuation after a kill.
    private func gather(isFirst: Bool = false) throws(FileError) {
        guard ledger.isGathering, let number = ledger.current else { return }
        if let links {
            try takeOverState(of: number)
            try links.gather(into: number)
        } else {
            try moveState(of: number, isFirst)
            try shareLearned(of: number)
        }
        try record { $0.isGathering = false }
    }

    /// Moves the state inside the destination to the directory of the tree's state.
    private func takeOverState(of number: UInt64) throws(FileError) {
        let statePath = "\(homePath)/\(Self.statesName)/\(number)"
        let state = try openPrivateDirectory("\(number)", in: states.raw, create: true, shown: statePath)
        let ours = [
            Self.ledgerName, "\(Self.ledgerName).new", "lock", Self.treesName, Self.statesName, TopLinks.now,
            LearnedDigests.name,
        ]
        for name in try entries(home.raw, homePath) where !ours.contains(name) {
            try FileError.check(renameEntry(name, in: home.raw, to: name, in: state.raw), "move", "\(homePath)/\(name)")
        }
    }

    /// The present contents of the destination, with nothing created in it; `nil` for none.
    private static func asItIs(_ place: Place, _ umask: Umask) throws(FileError) -> Destination? {
        // An entry that is not a directory is reported when it is used.
        try ifPresent(Destination.openInPlace(path: place.path, create: false, umask: umask))
    }

    /// Whether a name at the top of a destination stays in place when all else there becomes the first tree behind
    /// links.
    package static func staysAtTop(_ name: UnsafeBufferPointer<CChar>, in root: Int32) -> Bool {
        TopLinks.isSpared(Array(name) + [0], in: root)
    }

    /// The present contents of the destination; `nil` for none.
    private static func formerDestination(_ place: Place, _ umask: Umask) throws(FileError) -> Destination? {
        guard try destinationStatus(place.name, in: place.parent, place.path) != nil else { return nil }
        return try Destination.openInPlace(path: place.path, create: true, umask: umask)
    }

    /// Moves the state inside the destination to the directory beside it.
    private func moveState(of number: UInt64, _ isFirst: Bool) throws(FileError) {
        let shown = "\(path)/\(Destination.stateName)"
        guard let root = openDirectory(name, in: parent.raw, .noFollow) else { throw .last("open", path) }
        guard try isThere(Destination.stateName, in: root.raw, shown: shown) else {
            // It was locked a moment ago. Without the state, the owners of files would be unknown.
            if isFirst { throw FileError(step: "move", path: shown, code: .noSuchFileOrDirectory) }
            return
        }
        let moved = "\(homePath)/\(Self.statesName)/\(number)/index"
        // On the first attempt, state there belongs to trees whose ledger was lost.
        if !isFirst, try isThere("\(number)/index", in: states.raw, shown: moved),
            try !isThere("\(Destination.stateName)/index", in: root.raw, shown: "\(shown)/index")
        {
            // The state was moved by a process that was killed afterwards.
            removeTree(Destination.stateName, in: root.raw)
        } else {
            removeTree("\(number)", in: states.raw)
            let code = renameEntry(Destination.stateName, in: root.raw, toFree: "\(number)", in: states.raw)
            if let code { throw FileError(step: "move", path: shown, code: code) }
        }
        try FileError.check(synchronizeDirectory(states.raw) ?? synchronizeDirectory(root.raw), "sync", path)
    }

    /// Moves learnt digests to where all trees share them.
    private func shareLearned(of number: UInt64) throws(FileError) {
        let name = LearnedDigests.name
        guard let state = openDirectory("\(number)", in: states.raw, .noFollow), exists(name, in: state.raw) else {
            return
        }
        try FileError.check(
            renameEntry(name, in: state.raw, to: name, in: home.raw), "move",
            "\(homePath)/\(Self.statesName)/\(number)/\(name)")
    }

    /// Makes sure that directories can be exchanged here.
    private static func requireExchange(_ home: Int32, _ place: Place) throws(FileError) {
        func refusal(_ code: Errno, _ remark: String) -> FileError {
            FileError(step: "switch", path: place.path, code: code, remark: remark)
        }
        if let there = openDirectory(place.name, in: place.parent.raw), let own = MountIdentity(of: there.raw),
            let above = MountIdentity(of: place.parent.raw), own != above
        {
            throw refusal(
                .deviceOrResourceBusy,
                "it is a mount point, which cannot change places with another directory; try --atomic=links")
        }
        try withProbes(home, place) { one, other throws(FileError) in
            if let code = exchangeEntries(one, in: home, with: other, in: home) {
                throw refusal(
                    code, "its file system cannot exchange two directories (\(code)); try --atomic=links")
            }
        }
    }

    /// How trees can share files here.
    private static func sharing(in home: Int32, _ place: Place) throws(FileError) -> TreeLedger.Sharing {
        try withProbes(home, place) { first, second throws(FileError) in
            guard let one = openDirectory(first, in: home), let other = openDirectory(second, in: home) else {
                throw .last("open", "\(place.homePath)/\(first)")
            }
            let source = try createFile("file", in: one.raw, shown: "\(place.homePath)/\(first)/file")
            let bytes = [UInt8](repeating: 0x61, count: 8_192)
            try FileError.check(
                bytes.withUnsafeBytes({ writeAll($0, to: source.raw, at: 0) }), "write",
                "\(place.homePath)/\(first)/file")
            let copy = try createFile("file", in: other.raw, shown: "\(place.homePath)/\(second)/file")
            if cloneFile(source.raw, to: copy.raw) == nil { return .clone }
            return addName("link", in: other.raw, to: "file", in: one.raw) == nil ? .link : .copy
        }
    }

    /// Calls `body` with two temporary directories for experiments.
    private static func withProbes<R>(
        _ home: Int32, _ place: Place, _ body: (String, String) throws(FileError) -> R
    ) throws(FileError) -> R {
        let names = (one: "probe.1", other: "probe.2")
        defer { for name in [names.one, names.other] { removeTree(name, in: home) } }
        for name in [names.one, names.other] {
            removeTree(name, in: home)
            try FileError.check(makeDirectory(name, in: home, mode: 0o700), "create", "\(place.homePath)/\(name)")
        }
        return try body(names.one, names.other)
    }

    // MARK: The ledger

    /// Changes the ledger. The change is on disk when this returns.
    ///
    /// - Parameter isUrgent: If `false`, a power cut may restore the former ledger, which must say the same or less.
    package func record(isUrgent: Bool = true, _ change: (inout TreeLedger) -> Void) throws(FileError) {
        var ledger = self.ledger
        change(&ledger)
        let shown = "\(homePath)/\(Self.ledgerName)"
        let temporary = "\(Self.ledgerName).new"
        removeFile(temporary, in: home.raw)
        let file = try createFile(temporary, in: home.raw, .writeOnly, shown: shown)
        var code = ledger.text.withUnsafeBytes { writeAll($0, to: file.raw, at: 0) }
        if code == nil { code = synchronize(file.raw) }
        if code == nil { code = renameEntry(temporary, in: home.raw, to: Self.ledgerName, in: home.raw) }
        if code == nil, isUrgent { code = synchronizeDirectory(home.raw) }
        if let code { throw FileError(step: "write", path: shown, code: code) }
        book.withLock { [ledger] in $0 = ledger }
    }

    /// Locks the trees for this process.
    ///
    /// - Returns: `nil` if another process has the lock.
    package func lock() throws(FileError) -> FileLock? {
        let shown = "\(homePath)/lock"
        let file = try openFile("lock", in: home.raw, [.readWrite, .create], trust: .state, shown: shown)
        guard let lock = try FileLock.take(file, path: shown) else { return nil }
        lock.sign("\(CurrentProcess.identifier)")
        // Another process may have changed the ledger since it was read.
        if let ledger = try Self.read(home, Place(of: self)) { book.withLock { $0 = ledger } }
        return lock
    }

    /// Makes ledger and directories agree after an interruption. The caller has the lock.
    ///
    /// - Parameter now: **Milliseconds** since 1970.
    package func reconcile(now: Int64) throws(FileError) {
        try gather()
        var there = try shownStatus()
        if there == nil { there = try linkAgain() }
        var ledger = self.ledger
        if let step = ledger.step, step.from == nil, there == nil { ledger.forgetStep() }
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
        let linked = try links?.current
        if let there, ledger.current == nil || linked != nil && linked != ledger.current {
            // Somebody has created a directory where no tree was installed yet, or has switched readers to another
            // tree.
            ledger.adopt(linked, inode: there.inode, mark: there.modified, now: now)
        }
        if let current = ledger.current, var tree = ledger[current], let there {
            (tree.inode, tree.mark) = (there.inode, there.modified)
            ledger[current] = tree
        }
        try nameTrees(&ledger)
        if let links, let current = ledger.current {
            try links.cover(current)
            try links.uncover(current)
        }
        let settled = ledger
        if settled != self.ledger { try record { $0 = settled } }
        for name in (try? directoryEntries(states.raw)) ?? [] where UInt64(name).flatMap({ settled[$0] }) == nil {
            removeTree(name, in: states.raw)
        }
    }

    /// Throws what ``reconcile(now:)`` would where somebody else has a name at the top that readers need.
    package func preflight() throws(FileError) {
        guard let links, let current = ledger.current, !ledger.isGathering,
            try isThere("\(current)", in: trees.raw, shown: treePath(current))
        else { return }
        try links.cover(current, isPreview: true)
    }

    /// Why readers do not come to an entry of their tree by a name at the destination's top; `nil` if they do.
    package func obstacle(at name: String) throws(FileError) -> String? { try links?.obstacle(at: name) }

    /// Leads readers to the recorded tree again if they come to none: others may have files in that tree.
    ///
    /// - Returns: The status of the tree; `nil` if it is gone, too.
    private func linkAgain() throws(FileError) -> FileStatus? {
        guard let links, let current = ledger.current else { return nil }
        guard case .success(let there?) = status(trees.raw, "\(current)"), there.kind == .directory else { return nil }
        try FileError.check(links.point(to: current), "switch", path)
        return there
    }

    /// The tree that ``reconcile(now:)`` leads readers to again; `nil` if they see one, or none is left.
    package func lost(umask: Umask = CurrentProcess.umask) throws(FileError) -> Destination? {
        guard links != nil, let current = ledger.current, try shownStatus() == nil,
            try isThere("\(current)", in: trees.raw, shown: treePath(current))
        else { return nil }
        return try destination(current, umask: umask)
    }

    /// The status of the tree that readers see; `nil` for none.
    private func shownStatus() throws(FileError) -> FileStatus? {
        if let links {
            guard let number = try links.current else { return nil }
            var found = status(trees.raw, "\(number)")
            // A second attempt, before the tree counts as missing.
            if case .success(nil) = found { found = status(trees.raw, "\(number)") }
            switch found {
            case .success(let there): return there
            case .failure(let code): throw FileError(step: "look at", path: treePath(number), code: code)
            }
        }
        return try Self.destinationStatus(name, in: parent, path)
    }

    /// The status of the destination: a directory, or nothing.
    private static func destinationStatus(_ name: String, in parent: SharedDescriptor, _ path: String) throws(FileError)
        -> FileStatus?
    {
        var found = status(parent.raw, name)
        // A second attempt, before the tree counts as missing.
        if case .success(nil) = found { found = status(parent.raw, name) }
        switch found {
        case .failure(let code): throw FileError(step: "look at", path: path, code: code)
        case .success(let found):
            guard found?.kind ?? .directory == .directory else {
                throw FileError(step: "switch", path: path, code: .notDirectory)
            }
            return found
        }
    }

    /// Gives every tree the name of its number, and removes entries that are not trees. Missing trees are removed from
    /// the ledger; entries that cannot be examined stay, recorded and in place.
    private func nameTrees(_ ledger: inout TreeLedger) throws(FileError) {
        let shown = "\(homePath)/\(Self.treesName)"
        var wrong: [(name: String, number: UInt64)] = []
        var kept: Set<UInt64> = []
        let elsewhere = links == nil ? ledger.current : nil
        // The tree that readers see keeps its name, whatever else looks like it.
        let linked = links == nil ? nil : ledger.current
        var found = Set([ledger.current].compactMap(\.self))
        var unnamed: [(name: String, there: FileStatus)] = []
        for name in try entries(trees.raw, shown) where linked.map({ "\($0)" }) != name {
            let own = ledger.trees.map(\.number).first { "\($0)" == name }
            guard case .success(let there?) = status(trees.raw, name) else {
                // After an interrupted switch, the name of the tree that readers see may be that of another tree.
                if let own { kept.formUnion(own == elsewhere ? ledger.trees.map(\.number) : [own]) }
                continue
            }
            guard there.kind == .directory else {
                removeFile(name, in: trees.raw)
                continue
            }
            guard let tree = own, tree != elsewhere else {
                unnamed.append((name, there))
                continue
            }
            // Restored from a backup, it has another inode number, perhaps one that was another tree's.
            ledger[tree]?.inode = there.inode
            found.insert(tree)
        }
        for (name, there) in unnamed {
            let tree = ledger.tree(inode: there.inode, mark: there.modified, besides: found)
            guard let number = tree?.number else {
                removeTree(name, in: trees.raw, depth: Self.depth)
                continue
            }
            ledger[number]?.inode = there.inode
            found.insert(number)
            wrong.append((name, number))
        }
        for (name, number) in wrong where !kept.contains(number) {
            try FileError.check(
                renameEntry(name, in: trees.raw, toFree: "\(number)", in: trees.raw), "rename", "\(shown)/\(name)")
        }
        kept.formUnion(found)
        for tree in ledger.trees where tree.number != ledger.current && !kept.contains(tree.number) {
            ledger[tree.number] = nil
        }
    }

    private func entries(_ directory: Int32, _ shown: String) throws(FileError) -> [String] {
        do throws(Errno) { return try directoryEntries(directory) } catch {
            throw FileError(step: "read", path: shown, code: error)
        }
    }

    /// The greatest depth of a manifest's paths.
    private static let depth = 2_100

    // MARK: Trees

    /// The tree that readers see, as a destination; `nil` for none yet.
    package func shown(usesState: Bool = true, umask: Umask = CurrentProcess.umask) throws(FileError) -> Destination? {
        guard let there = try shownStatus() else { return nil }
        guard let number = ledger.seen(inode: there.inode, mark: there.modified) else { return nil }
        return try destination(number, seen: number, usesState: usesState, umask: umask)
    }

    /// A tree as a destination: at its own place, but with the path of the destination.
    package func destination(_ number: UInt64, umask: Umask) throws(FileError) -> Destination {
        try destination(number, seen: ledger.current, usesState: true, umask: umask)
    }

    private func destination(_ number: UInt64, seen: UInt64?, usesState: Bool, umask: Umask) throws(FileError)
        -> Destination
    {
        let root =
            number == seen && links == nil
            ? openDirectory(name, in: parent.raw, .noFollow) : openDirectory("\(number)", in: trees.raw, .noFollow)
        guard let root else { throw .last("open the destination", number == seen ? path : treePath(number)) }
        let statePath = "\(homePath)/\(Self.statesName)/\(number)"
        var state: Descriptor?
        if usesState {
            let opened = try openPrivateDirectory("\(number)", in: states.raw, create: true, shown: statePath)
            try makeMissingDirectory("staging", in: opened.raw, mode: 0o700, shown: "\(statePath)/staging")
            state = consume opened
        }
        return Destination(
            path: path, root: root, state: state, statePath: statePath, lockedIn: (home, homePath),
            identity: identity, sharesFiles: ledger.sharing == .link, umask: umask)
    }

    /// A stand-in for the destination before readers see a tree.
    package func anchor(umask: Umask) throws(FileError) -> Destination {
        guard let root = openDirectory(".", in: home.raw) else { throw .last("open", homePath) }
        let state = openDirectory(".", in: home.raw)
        return Destination(
            path: path, root: root, state: state, statePath: homePath, lockedIn: (home, homePath),
            identity: identity, umask: umask)
    }

    /// The path of a tree that readers do not see.
    package func treePath(_ number: UInt64) -> String { "\(homePath)/\(Self.treesName)/\(number)" }

    /// Chooses the tree to bring up to date and marks it: from now on it is not a revision for a rollback.
    package func build(keeping kept: Int, leastAge: Int64, now: Int64, umask: Umask) throws(FileError) -> UInt64 {
        var ledger = self.ledger
        let (number, isNew) = ledger.build(keeping: kept, leastAge: leastAge, now: now)
        if isNew {
            let chosen = ledger
            try record { $0 = chosen }
            try FileError.check(
                makeDirectory("\(number)", in: trees.raw, mode: umask.less(0o777)), "create", treePath(number))
        }
        // What is made in it gets what the destination hands down.
        guard let directory = openDirectory("\(number)", in: trees.raw, .noFollow) else {
            throw .last("open", treePath(number))
        }
        try copyAccess(to: directory.raw, of: number, isBuilt: true)
        guard case .success(let found?) = status(trees.raw, "\(number)") else {
            throw .last("look at", treePath(number))
        }
        ledger[number]?.inode = found.inode
        ledger[number]?.mark = 0
        let built = ledger
        if built != self.ledger { try record { $0 = built } }
        return number
    }

    /// The first of these names at the top of a tree that somebody else has at the destination's top.
    package func nameInTheWay(_ names: some Sequence<String>) throws(FileError) -> String? {
        try links?.foreignName(among: names)
    }

    /// Removes trees that readers do not see, and their state. If that fails, the rest is removed at the trees' next
    /// use.
    package func remove(_ numbers: [UInt64], umask: Umask = CurrentProcess.umask) throws(FileError) {
        // During a switch, readers may see either side.
        let seen = [ledger.current, ledger.step?.from, ledger.step?.to].compactMap(\.self)
        let gone = Set(numbers).subtracting(seen)
        guard !gone.isEmpty else { return }
        try record { for number in gone { $0[number] = nil } }
        let shown = ledger.sharing == .link ? try shown(umask: umask) : nil
        let index = shown.map(StatIndex.read) ?? .empty
        let unchanged = shown.map(index.unchangedFiles)
        for number in gone {
            removeTree("\(number)", in: states.raw)
            removeTree("\(number)", in: trees.raw, depth: Self.depth)
        }
        if let shown, let unchanged { try index.updateStatus(of: unchanged, in: shown) }
    }

    /// Removes the trees' directory if no tree is recorded: the destination then has none. The caller has the lock.
    package func dissolve() throws(FileError) {
        let ledger = self.ledger
        guard ledger.trees.isEmpty, ledger.step == nil else { return }
        // Before the ledger: if readers are led somewhere without a ledger, it counts as lost.
        try links?.remove()
        // Without the ledger, nothing else there counts.
        let code = removeFile(Self.ledgerName, in: home.raw)
        if let code, code != .noSuchFileOrDirectory {
            throw FileError(step: "remove", path: "\(homePath)/\(Self.ledgerName)", code: code)
        }
        if let links {
            removeTree(Destination.stateName, in: links.root.raw)
        } else {
            removeTree(Self.prefix + name, in: parent.raw)
        }
    }

    // MARK: Switching

    /// Switches readers to a tree: records the switch, exchanges the directories, and records that it is done. After a
    /// kill in between, ``reconcile(now:)`` finds out which tree readers see.
    ///
    /// - Parameter now: **Milliseconds** since 1970.
    /// - Returns: How long the exchange took, in **nanoseconds**.
    package func show(_ number: UInt64, isRollback: Bool = false, now: Int64) throws(FileError) -> Int64 {
        let former = ledger.current
        try requireInPlace(former)
        let own = try copyAccess(to: number)
        try links?.cover(number)
        try record {
            $0[number]?.inode = own.inode
            $0[number]?.mark = own.modified
            $0.begin(number, isRollback: isRollback, now: now)
        }
        let clock = ContinuousClock()
        let began = clock.now
        let code =
            if let links {
                links.point(to: number)
            } else if former == nil {
                renameEntry("\(number)", in: trees.raw, toFree: name, in: parent.raw)
            } else {
                exchangeEntries("\(number)", in: trees.raw, with: name, in: parent.raw)
            }
        let took = clock.now - began
        // An error does not always mean that nothing was done: over NFS, the answer to a successful request may be
        // lost. If that cannot be found out here, the next run does.
        if let code {
            let remark: String? =
                switch code {
                case .improperLink:
                    "it belongs to a layer of an image, or to another file system, and cannot change places with another directory"
                case .permissionDenied: "\(code): give this user permission to write to it and the directory above it"
                default: nil
                }
            let failure = FileError(step: "switch", path: path, code: code, remark: remark)
            let isShown: Bool
            do throws(FileError) { isShown = try self.isShown(number) } catch { throw failure }
            if !isShown {
                try record { $0.forgetStep() }
                throw failure
            }
        }
        let above = links == nil ? parent.raw : home.raw
        for (directory, shown) in [(above, SyncSystem.parent(of: homePath)), (trees.raw, homePath)] {
            try FileError.check(synchronizeDirectory(directory), "sync", shown)
        }
        // The switch is done; the next run repairs later failures.
        if let links {
            try? links.uncover(number)
        } else if let former {
            _ = renameEntry("\(number)", in: trees.raw, toFree: "\(former)", in: trees.raw)
        }
        try record(isUrgent: false) { $0.complete() }
        return took.components.seconds &* 1_000_000_000 &+ took.components.attoseconds / 1_000_000_000
    }

    /// Requires that the path of the destination still leads to what readers saw when the run began: what somebody has
    /// put there meanwhile would count as the former tree.
    private func requireInPlace(_ former: UInt64?) throws(FileError) {
        let there = status(following: path)
        let isInPlace: Bool
        if let links {
            isInPlace = there.flatMap { status(links.root.raw)?.isSameFile(as: $0) } == true
        } else if let former {
            let known = ledger
            isInPlace =
                try shownStatus().map { own in
                    there?.isSameFile(as: own) == true
                        && known.tree(inode: own.inode, mark: own.modified, besides: [])?.number == former
                } == true
        } else {
            isInPlace = there == nil
        }
        guard isInPlace else {
            throw FileError(
                step: "switch", path: path,
                remark: "it was moved away or replaced during the run; nothing was changed. Run the command again")
        }
    }

    /// Whether readers see a tree of the recorded switch.
    private func isShown(_ number: UInt64) throws(FileError) -> Bool {
        guard let there = try shownStatus() else { return false }
        return ledger.seen(inode: there.inode, mark: there.modified) == number
    }

    /// Gives a tree's directory the owner, the group, the ACLs and the mode of the destination.
    ///
    /// - Parameter isBuilt: Whether the tree is still built: this user may change the directory then.
    private func copyAccess(to directory: Int32, of number: UInt64, isBuilt: Bool = false) throws(FileError) {
        guard let there = openDirectory(name, in: parent.raw, .noFollow) else {
            let error = FileError.last("open", path)
            if error.isMissing { return }
            throw error
        }
        guard let found = status(there.raw) else { throw .last("look at", ofOpen: path) }
        let (shown, mode) = (treePath(number), FileMode(found.permissions))
        try FileError.check(handOverOwner(of: there.raw, to: directory), "set the owner of", shown)
        try FileError.check(handOverACLs(of: there.raw, to: directory), "set the ACLs of", shown)
        try FileError.check(setMode(directory, isBuilt ? mode | 0o700 : mode), "set the mode of", shown)
    }

    /// Makes a tree's directory like the destination, with a time by which it is recognized.
    private func copyAccess(to number: UInt64) throws(FileError) -> FileStatus {
        guard let directory = openDirectory("\(number)", in: trees.raw, .noFollow) else {
            throw .last("open", treePath(number))
        }
        try copyAccess(to: directory.raw, of: number)
        if ledger[number]?.mark ?? 0 == 0 { _ = touch(directory.raw) }
        guard let own = status(directory.raw) else { throw .last("look at", treePath(number)) }
        return own
    }
}

extension StatIndex {
    /// Whether the file at each position is as recorded.
    fileprivate func unchangedFiles(in place: Destination) -> [Bool] {
        let directories = Directories(place)
        return (0..<count).map { position in
            guard let record = trusted(position), record.kind != .directory else { return false }
            return withPath(position, directories.status(of:)).map(record.matches) ?? false
        }
    }

    /// Records the present status of files that have lost names in other trees, which changes their status.
    ///
    /// - Parameter unchanged: ``unchangedFiles(in:)`` before that.
    fileprivate func updateStatus(of unchanged: [Bool], in place: Destination) throws(FileError) {
        let directories = Directories(place)
        var isChanged = false
        let now = mapRecords(isComplete: true) { position, record in
            guard unchanged[position],
                let found = withPath(position, directories.status(of:)).map(IndexRecord.Status.init),
                found.isOfSameFile(as: record.status), found != record.status
            else { return record }
            isChanged = true
            var record = record
            record.status = found
            return record
        }
        if isChanged, let now { try now.write(to: place, durable: true) }
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
