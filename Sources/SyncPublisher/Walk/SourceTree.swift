import SyncFiles
import SyncManifest
import SyncModel

/// The files and links found, in path order, by column; about **100 bytes** per entry with its path.
struct SourceTree: Sendable {
    /// One file or link.
    struct Entry: Sendable {
        var pathStart: UInt32
        var pathLength: UInt16
        var kind: FileTable.Kind
        /// 0...0o7777.
        var permissions: UInt16
        /// The base's row with certainly the same content; -1 if the file must be read.
        fileprivate(set) var baseRow: Int32 = -1
        var stamp: FileStamp
        /// Whether the file has content although the file system reports 0 **bytes**; the walk has counted them for
        /// ``stamp``.
        var hasUnstatedSize = false

        var isRead: Bool { kind != .link && baseRow < 0 }
    }

    /// The status that must be unchanged after a file has been read; times are **nanoseconds** since 1970.
    struct FileStamp: Sendable, Equatable {
        var size: UInt64
        var inode: UInt64
        var modified: Int64
        var changed: Int64
    }

    private(set) var entries: [Entry] = []
    /// The directories that the manifest names: empty ones, or all if modes or times are kept; in path order.
    var directories: [(path: [UInt8], traits: FileTraits)] = []
    /// The traits of entries that are kept besides their content.
    let kept: PublishOptions.KeptTraits

    init(keeping kept: PublishOptions.KeptTraits = []) { self.kept = kept }

    /// All paths, one after the other, each followed by a NUL so that it can be passed to a system call.
    private var arena: [UInt8] = []
    private(set) var linkTargets: [Int: [UInt8]] = [:]

    var count: Int { entries.count }

    /// Sum of all file sizes in **bytes**.
    private(set) var totalSize: UInt64 = 0
    private(set) var fileCount = 0

    /// Adds an entry; the caller keeps the order.
    ///
    /// - Parameter unstatedSize: The **bytes** of a file of which the file system says that it has none.
    /// - Returns: `false` when there are 4 GiB of paths already, or sizes do not add up in 64 bits.
    mutating func append(
        path: UnsafeBufferPointer<UInt8>, kind: FileTable.Kind, stamp: FileStamp, permissions: UInt16 = 0,
        linkTarget: [UInt8]? = nil, unstatedSize: UInt64 = 0
    ) -> Bool {
        guard let start = UInt32(exactly: arena.count), let length = UInt16(exactly: path.count) else { return false }
        var stamp = stamp
        if unstatedSize > 0 { stamp.size = unstatedSize }
        if kind != .link {
            let (sum, overflow) = totalSize.addingReportingOverflow(stamp.size)
            guard !overflow else { return false }
            totalSize = sum
            fileCount += 1
        }
        arena.append(contentsOf: path)
        arena.append(0)
        if let linkTarget { linkTargets[entries.count] = linkTarget }
        entries.append(
            Entry(
                pathStart: start, pathLength: length, kind: kind, permissions: permissions, stamp: stamp,
                hasUnstatedSize: unstatedSize > 0))
        return true
    }

    /// The traits that the manifest keeps of an entry.
    func traits(_ index: Int) -> FileTraits {
        let entry = entries[index]
        return traits(entry.permissions, entry.stamp.modified, isLink: entry.kind == .link)
    }

    /// - Parameter isLink: Links have no modes of their own.
    func traits(_ permissions: UInt16, _ modified: Int64, isLink: Bool = false) -> FileTraits {
        FileTraits(
            mode: kept.contains(.modes) && !isLink ? permissions & 0o777 : nil,
            modified: kept.contains(.times) && FileTraits.times.contains(modified) ? modified : nil)
    }

    /// Marks a file as not to be read.
    mutating func setBaseRow(_ row: Int32, of index: Int) { entries[index].baseRow = row }

    /// Removes links; `indices` ascend. Directories that contained nothing else are named from now on.
    ///
    /// - Parameter end: The path of an entry that follows all of these, and stays: the directories above it are not
    ///   empty.
    mutating func remove(_ indices: [Int], before end: [UInt8]? = nil) {
        guard !indices.isEmpty else { return }
        let parents = Set(indices.map { withPath($0) { Array($0.parentPath) } })
        var kept: [Entry] = []
        kept.reserveCapacity(entries.count - indices.count)
        var targets: [Int: [UInt8]] = [:]
        var gone = indices[...]
        for (index, entry) in entries.enumerated() {
            if gone.first == index {
                gone.removeFirst()
                continue
            }
            if let target = linkTargets[index] { targets[kept.count] = target }
            kept.append(entry)
        }
        entries = kept
        linkTargets = targets
        let emptied = parents.filter { !hasDirectory($0) && end?.starts(with: $0 + [0x2F]) != true }
        guard !emptied.isEmpty else { return }
        // If modes or times are kept, all directories are named already.
        directories += emptied.map { ($0, .none) }
        directories.sort { one, other in
            one.path.withUnsafeBufferPointer { one in other.path.withUnsafeBufferPointer { PathOrder.precedes(one, $0) }
            }
        }
    }

    /// Directories that must be real ones for a link to be safe; none for a file.
    ///
    /// - Throws: ``ManifestError`` for a link that leaves the tree by its own text.
    func directories(behindLink index: Int) throws(ManifestError) -> [[UInt8]] {
        guard let target = linkTargets[index] else { return [] }
        return try withPath(index) { path throws(ManifestError) in
            try target.withUnsafeBufferPointer { target throws(ManifestError) in
                try ManifestRules.check(link: target, at: path)
            }
        }
    }

    /// The path's bytes, valid during `body`; a NUL stands directly behind them.
    func withPath<R, Failure: Error>(_ index: Int, _ body: (UnsafeBufferPointer<UInt8>) throws(Failure) -> R)
        throws(Failure) -> R
    {
        let entry = entries[index]
        let start = Int(entry.pathStart)
        return try arena.withUnsafeBufferPointer { arena throws(Failure) in
            try body(UnsafeBufferPointer(rebasing: arena[start..<(start + Int(entry.pathLength))]))
        }
    }

    /// The entries, and the named directories, that are at this path or below it. Binary search.
    func rows(below path: [UInt8]) -> (entries: Range<Int>, directories: Range<Int>) {
        guard !path.isEmpty else { return (entries.indices, directories.indices) }
        // `/` ranks lowest and NUL next, so everything below the path stands before the path with a NUL.
        return path.withUnsafeBufferPointer { start in
            (path + [0]).withUnsafeBufferPointer { end in
                (
                    firstEntry(notBefore: start)..<max(firstEntry(notBefore: start), firstEntry(notBefore: end)),
                    firstDirectory(
                        notBefore: start)..<max(
                            firstDirectory(notBefore: start), firstDirectory(notBefore: end))
                )
            }
        }
    }

    private func firstEntry(notBefore path: UnsafeBufferPointer<UInt8>) -> Int {
        entries.indices.partitioningIndex { withPath($0) { !PathOrder.precedes($0, path) } }
    }

    private func firstDirectory(notBefore path: UnsafeBufferPointer<UInt8>) -> Int {
        directories.indices.partitioningIndex { index in
            directories[index].path.withUnsafeBufferPointer { !PathOrder.precedes($0, path) }
        }
    }

    func path(_ index: Int) -> String { withPath(index) { String(decoding: $0, as: UTF8.self) } }

    /// Whether there is an entry below this directory; an empty path is the root. Binary search.
    func hasDirectory(_ directory: [UInt8]) -> Bool {
        if directory.isEmpty { return true }
        let prefix = directory + [0x2F]
        let first = prefix.withUnsafeBufferPointer(firstEntry)
        if first < count, withPath(first, { $0.starts(with: prefix) }) { return true }
        let named = directory.withUnsafeBufferPointer(firstDirectory)
        guard named < directories.count else { return false }
        return directories[named].path == directory || directories[named].path.starts(with: prefix)
    }
}
