import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Finds every file and link below the source directory, in path order, and everything that cannot be published.
///
/// One directory is open at a time, however deep the tree. Sorting each directory by bytes and descending into
/// subdirectories in that order gives ``PathOrder``, since `/` comes before every other byte there.
struct TreeWalk: ~Copyable {
    /// A directory on the current path: its entries, and the position in them.
    private struct Level {
        var listing: DirectoryListing
        var next = 0
        /// Length of the directory's own path in ``path``.
        var pathLength: Int
        var entriesBefore: Int
        var directoriesBefore: Int
        /// Of the directory itself; `nil` at the top.
        var status: FileStatus?
    }

    /// The entries that were found and not passed on yet.
    private(set) var tree: SourceTree
    /// How many entries and directories were passed on.
    private var passed = (entries: 0, directories: 0)
    /// The paths to walk: from the first to before the second, if they are given. Directories without such paths are
    /// not read.
    private let range: PathRange
    private(set) var notes = WalkNotes()
    private var levels: [Level] = []
    private var path: [UInt8] = []
    private let excluded: [Glob]
    private var ignored: IgnoreRules
    /// The publisher's own files, which are not published: names, by the path of their directory.
    private let ownNames: [[UInt8]: Set<String>]
    private let leavesOutUnsafeLinks: Bool
    /// Names that are left out wherever no pattern keeps them.
    private let usuallyLeftOut: [String]
    private var budget: PatternBudget
    /// ``PatternBudget/bytes`` at which to check for a stop request again.
    private var nextLook = 0

    /// What version control keeps beside the files: history, and often passwords.
    private static let versionControl = [".git", ".hg", ".svn"]
    /// The state that a pull keeps in its destination; no manifest can have it.
    private static let stateOfPulls = ".syncagent"
    /// **Bytes** matched between checks for a stop request; about 10 ms.
    private static let lookDistance = 10_000_000
    /// **Bytes** of patterns that each entry may cost, so that a hundred million entries can be published.
    private static let allowance = 1_000
    /// Most **bytes** of a file whose stated size is 0.
    private static let mostUnstated: UInt64 = 1 << 30
    private var scratch: [UInt8] = []
    /// Most answers of ``enters(_:_:)`` that are kept.
    private static let mostKnown = 10_000
    private var known: [[UInt8]: Bool] = [:]

    typealias PathRange = (from: [UInt8]?, to: [UInt8]?)

    /// - Parameters:
    ///   - kept: The traits of entries that are kept besides their content.
    ///   - ownNames: Paths that are never published.
    ///   - range: Paths outside are not walked.
    init(
        _ options: PublishOptions, keeping kept: PublishOptions.KeptTraits = [], ownNames: Set<String> = [],
        within range: PathRange = (nil, nil)
    ) throws(PublishError) {
        self.range = range
        tree = SourceTree(keeping: kept)
        excluded = options.exclude.map { Glob($0) }
        ignored = try IgnoreRules(options)
        self.ownNames = ownNames.reduce(into: [:]) { names, path in
            let parts = path.split(separator: "/")
            guard let name = parts.last else { return }
            names[Array(parts.dropLast().joined(separator: "/").utf8), default: []].insert(String(name))
        }
        budget = PatternBudget(options.limits)
        usuallyLeftOut = options.permits.contains(.versionControl) ? [] : Self.versionControl
        leavesOutUnsafeLinks = options.leavesOutUnsafeLinks
    }

    /// The entries that were found, once the walk is over.
    consuming func finish() -> SourceTree { tree }

    /// How many entries were found.
    var count: Int { passed.entries + tree.count }

    /// Walks the source. The targets of links are checked afterwards: ``checkLinks(_:)``.
    ///
    /// - Parameters:
    ///   - pieces: How many entries `take` gets at once, in path order, so that memory has a limit; without it,
    ///     ``tree`` has all of them.
    /// - Throws: ``PublishError`` when a directory cannot be read. Entries that cannot be published are in ``notes``.
    mutating func run(
        _ root: SourceRoot, pieces: Int = .max, take: (SourceTree) throws(PublishError) -> Void = { _ in },
        progress: (Int) throws(PublishError) -> Void
    ) throws(PublishError) {
        try enter(root, progress: progress)
        var visited = 0
        while let depth = levels.indices.last {
            let index = levels[depth].next
            guard index < levels[depth].listing.count else {
                let level = levels.removeLast()
                path.removeSubrange(level.pathLength...)
                let isEmpty =
                    count == level.entriesBefore
                    && passed.directories + tree.directories.count == level.directoriesBefore
                // Paths behind the range are below this directory, which is then not empty.
                let isCutOff = leads(to: range.to)
                if isEmpty, !isCutOff, tree.kept.isEmpty, depth > 0 { nameDirectory(level.status) }
                ignored.leave()
                continue
            }
            levels[depth].next += 1
            path.removeSubrange(levels[depth].pathLength...)
            if depth > 0 { path.append(0x2F) }
            levels[depth].listing.withName(index) { path.append(contentsOf: $0) }
            let item = levels[depth].listing.entries[index]
            let isWanted = item.status.kind == .directory ? isInside || leads(to: range.from) : isInside
            if isWanted { try visit(root, item, progress) }
            visited += 1
            if visited & 0x3FF == 0 { try progress(count) }
            if max(tree.count, tree.directories.count) >= pieces { try pass(to: take) }
        }
        if pieces < .max { try pass(to: take) }
        try progress(count)
    }

    private mutating func pass(to take: (SourceTree) throws(PublishError) -> Void) throws(PublishError) {
        if !leavesOutUnsafeLinks { refuseLinks() }
        try take(tree)
        passed.entries += tree.count
        passed.directories += tree.directories.count
        tree = SourceTree(keeping: tree.kept)
    }

    /// Whether ``path`` is in the range.
    private var isInside: Bool {
        path.withUnsafeBufferPointer { path in
            if let from = range.from, from.withUnsafeBufferPointer({ PathOrder.precedes(path, $0) }) { return false }
            if let to = range.to { return to.withUnsafeBufferPointer { PathOrder.precedes(path, $0) } }
            return true
        }
    }

    /// Whether a path is below ``path``.
    private func leads(to other: [UInt8]?) -> Bool {
        guard let other, other.count > path.count else { return false }
        return other[path.count] == 0x2F && other.starts(with: path)
    }

    private mutating func visit(
        _ root: SourceRoot, _ item: DirectoryListing.Entry, _ progress: (Int) throws(PublishError) -> Void
    ) throws(PublishError) {
        if let reason = path.withUnsafeBufferPointer({ ManifestRules.objection(path: $0) }) {
            return notes.refuse(path, reason)
        }
        let status = item.status
        let stamp = SourceTree.FileStamp(status)
        switch status.kind {
        case .directory:
            if !tree.kept.isEmpty { nameDirectory(status) }
            try enter(root, status, progress: progress)
        case .file:
            let unstated = status.size == 0 ? try unstatedSize(root, progress) : 0
            try append(status.isExecutable ? .executable : .file, stamp, status, unstatedSize: unstated)
        case .link: try append(.link, stamp, status, target: item.linkTarget)
        case .other where item.hasVanished: throw .changed(shownPath())
        case .other: notes.refuse(path, item.specialKind)
        }
    }

    private mutating func append(
        _ kind: FileTable.Kind, _ stamp: SourceTree.FileStamp, _ status: FileStatus, target: [UInt8]? = nil,
        unstatedSize: UInt64 = 0
    ) throws(PublishError) {
        noteLosses(status)
        let fits = path.withUnsafeBufferPointer { path in
            tree.append(
                path: path, kind: kind, stamp: stamp, permissions: status.permissions, linkTarget: target,
                unstatedSize: unstatedSize)
        }
        guard fits else {
            throw .invalid(
                "the source has more than 4 GiB of path names, or more bytes than 64 bits can count",
                "publish it as several projects")
        }
    }

    private mutating func nameDirectory(_ status: FileStatus?) {
        guard let status, isInside else { return }
        noteLosses(status)
        let traits = tree.traits(status.permissions, status.modified)
        tree.directories.append((path, traits))
    }

    /// Notes attributes that a manifest cannot keep.
    private mutating func noteLosses(_ status: FileStatus) {
        // The set-id bits of directories do not count: directories inherit them where the set is pulled.
        let lost: UInt16 = status.kind == .file ? 0o7000 : status.kind == .directory ? 0o1000 : 0
        if tree.kept.contains(.modes), status.permissions & lost != 0 { notes.setIds += 1 }
        if tree.kept.contains(.times), !FileTraits.times.contains(status.modified) { notes.strangeTimes += 1 }
    }

    private mutating func enter(
        _ root: SourceRoot, _ status: FileStatus? = nil, progress: (Int) throws(PublishError) -> Void
    ) throws(PublishError) {
        let length = path.count
        let text = shownPath()
        let opened = try SourceRoot.opened(open(root, .directory), text, "open the directory")
        var listing = try DirectoryListing(opened, path: text)
        try readIgnoreFile(root, &listing)
        try leaveOut(&listing, progress)
        listing.forEachClash { name, first, isSameText in
            if isSameText {
                notes.refuse(path, inDirectory: name, "is the same as \(first) after Unicode normalisation")
            } else {
                notes.warnCase(path, first, name)
            }
        }
        for index in 0..<listing.count {
            listing.withName(index) { name in
                if let problem = windowsProblem(name) { notes.warnWindows(path, shown(name), problem) }
            }
        }
        levels.append(
            Level(
                listing: listing, pathLength: length, entriesBefore: count,
                directoriesBefore: passed.directories + tree.directories.count, status: status))
    }

    /// Reads a directory's `.syncignore`, which is not published.
    private mutating func readIgnoreFile(_ root: SourceRoot, _ listing: inout DirectoryListing) throws(PublishError) {
        var kind: FileStatus.Kind?
        _ = listing.removeAll { name, found in
            guard name.elementsEqual(IgnoreFile.name.utf8) else { return false }
            kind = found
            return true
        }
        guard let kind else { return try ignored.enter(nil, path) }
        let file = path + (path.isEmpty ? [] : [0x2F]) + Array(IgnoreFile.name.utf8)
        guard kind == .file else {
            notes.refuseIgnoreFile(file, "it must be a file: it says what is left out")
            return try ignored.enter(nil, path)
        }
        let raw = (file + [0]).withUnsafeBufferPointer { bytes in
            root.open(UnsafeBufferPointer(rebasing: bytes.dropLast()), .unwaiting)
        }
        guard let opened = Descriptor(opened: raw) else { throw .reading(shown(file), "open", code: .last) }
        try ignored.enter(opened.raw, path)
    }

    /// Opens what is at ``path``.
    private mutating func open(_ root: SourceRoot, _ flags: OpenFlags) -> Int32 {
        path.append(0)
        defer { path.removeLast() }
        return path.withUnsafeBufferPointer { path in root.open(UnsafeBufferPointer(rebasing: path.dropLast()), flags) }
    }

    /// The **bytes** of the file at ``path``, whose stated size is 0: files of proc(5) and of many FUSE file systems
    /// are generated when they are read.
    private mutating func unstatedSize(_ root: SourceRoot, _ progress: (Int) throws(PublishError) -> Void)
        throws(PublishError) -> UInt64
    {
        let raw = open(root, .unwaiting)
        let opened = try SourceRoot.opened(raw, shownPath())
        if scratch.isEmpty { scratch = Array(repeating: 0, count: 256 << 10) }
        var size: UInt64 = 0
        while true {
            let read = scratch.withUnsafeMutableBytes { readFully(opened.raw, into: $0, at: size) }
            guard read >= 0 else { throw .reading(shownPath(), "read", code: .last) }
            size += UInt64(read)
            guard read == scratch.count else { return size }
            guard size < Self.mostUnstated else {
                notes.refuse(path, "its file system says that it is empty, and it has 1 GiB or more")
                return 0
            }
            try progress(count)
        }
    }

    /// Removes the entries that a pattern excludes: files, and directories with everything in them.
    private mutating func leaveOut(_ listing: inout DirectoryListing, _ progress: (Int) throws(PublishError) -> Void)
        throws(PublishError)
    {
        if let own = ownNames[path] {
            _ = listing.removeAll { name, _ in own.contains(String(decoding: name, as: UTF8.self)) }
        }
        var entry = path.isEmpty ? [] : path + [0x2F]
        let length = entry.count
        let removed = try listing.removeAll { name, kind throws(PublishError) in
            entry.removeSubrange(length...)
            entry.append(contentsOf: name)
            budget.allow(Self.allowance)
            let isGone = try entry.withUnsafeBufferPointer { path throws(PublishError) in
                try isExcluded(path, isDirectory: kind == .directory)
            }
            if budget.bytes >= nextLook {
                nextLook = budget.bytes + Self.lookDistance
                try progress(count)
            }
            return isGone ?? isUsuallyLeftOut(name, isDirectory: kind == .directory)
        }
        notes.excluded += removed
    }

    /// The verdict of the patterns; `nil` if none matches.
    private mutating func isExcluded(_ path: UnsafeBufferPointer<UInt8>, isDirectory: Bool) throws(PublishError)
        -> Bool?
    {
        for glob in excluded {
            if let reason = budget.spend(path.count * glob.cost) { throw .tooMuchMatching(reason) }
            if glob.matches(path) { return true }
        }
        return try ignored.verdict(on: path, isDirectory: isDirectory, &budget)
    }

    private mutating func isUsuallyLeftOut(_ name: UnsafeBufferPointer<UInt8>, isDirectory: Bool) -> Bool {
        let names = usuallyLeftOut + (isDirectory ? [Self.stateOfPulls] : [])
        guard let found = names.first(where: { name.elementsEqual($0.utf8) }) else { return false }
        notes.usuallyLeftOut.insert(found)
        return true
    }

    private func shownPath() -> String { path.isEmpty ? "." : String(decoding: path, as: UTF8.self) }

    /// Checks that links stay inside the tree, wherever they are followed from; other links are refused, or left
    /// out.
    mutating func checkLinks(_ root: SourceRoot) throws(PublishError) {
        var bad: [(index: Int, reason: String)] = []
        for index in tree.linkTargets.keys.sorted() {
            switch Result(catching: { () throws(ManifestError) in try tree.directories(behindLink: index) }) {
            case .failure(let error): bad.append((index, error.reason))
            case .success(let directories):
                for directory in directories where try !hasDirectory(directory, root) {
                    let what = "the link goes up again from \(shown(directory)), which is not a directory of the set"
                    bad.append((index, what))
                    break
                }
            }
        }
        guard leavesOutUnsafeLinks else {
            for (index, reason) in bad { notes.refuseLink(tree.withPath(index) { Array($0) }, reason) }
            return
        }
        notes.unsafeLinks = bad.count
        // Paths behind the range keep the directories above them from being empty.
        tree.remove(bad.map(\.index), before: range.to)
    }

    /// Refuses links whose own text leaves the tree.
    private mutating func refuseLinks() {
        for index in tree.linkTargets.keys.sorted() {
            do throws(ManifestError) { _ = try tree.directories(behindLink: index) } catch {
                notes.refuseLink(tree.withPath(index) { Array($0) }, error.reason)
            }
        }
    }

    /// Whether the set has a directory, also where only a range of it is in ``tree``.
    private mutating func hasDirectory(_ directory: [UInt8], _ root: SourceRoot) throws(PublishError) -> Bool {
        if tree.hasDirectory(directory) { return true }
        guard range.from != nil || range.to != nil else { return false }
        if let known = known[directory] { return known }
        if known.count >= Self.mostKnown { known.removeAll(keepingCapacity: true) }
        let found = try enters(directory, root)
        known[directory] = found
        return found
    }

    /// Whether a walk of the whole source would enter this directory. It then belongs to the set: it has entries, or is
    /// named.
    private mutating func enters(_ directory: [UInt8], _ root: SourceRoot) throws(PublishError) -> Bool {
        // These directories have been reported on already.
        let (notes, budget) = (notes, budget)
        defer {
            for _ in levels { ignored.leave() }
            levels.removeAll()
            path.removeAll()
            (self.notes, self.budget) = (notes, budget)
        }
        for name in directory.split(separator: 0x2F) {
            try enter(root) { _ in }
            guard let listing = levels.last?.listing,
                let index = (0..<listing.count).first(where: { listing.withName($0) { $0.elementsEqual(name) } }),
                listing.entries[index].status.kind == .directory
            else { return false }
            if !path.isEmpty { path.append(0x2F) }
            path.append(contentsOf: name)
            if path.withUnsafeBufferPointer({ ManifestRules.objection(path: $0) }) != nil { return false }
        }
        return true
    }
}
