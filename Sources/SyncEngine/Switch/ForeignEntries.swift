import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Entries of a tree that no pull has put there.
struct ForeignEntries: Sendable {
    /// Paths of files, links and others, relative to the tree.
    private(set) var paths: [[UInt8]] = []
    /// Places where another file system is mounted, which no switch can take along.
    private(set) var mounts: [[UInt8]] = []

    /// Paths of directories of which nothing is known, each after the one that it is in.
    private var unknownDirectories: [[UInt8]] = []

    /// Whether each directory has exactly the known names, with the same ones of directories.
    private(set) var isExact = true

    /// Mount points at the top of a destination behind links, where they stay.
    private(set) var tops: [[UInt8]] = []

    /// Whether entries that stay at the top of a destination behind links are skipped: they do not become part of the
    /// first tree.
    private let sparesTop: Bool
    /// The destination's mount: what is bind-mounted below it may be of the same file system.
    private let mount: MountIdentity?
    private let known: StatIndex
    private let manifest: Manifest?
    private let rows: [Int]

    /// Searches all directories; opens no file.
    ///
    /// - Parameters:
    ///   - known: The index of files that are no strangers.
    ///   - manifest: Names files that are no strangers, either; `nil` for none.
    ///   - rows: Those of its files that the run places, ascending; the others would be lost.
    ///   - seal: The seal of the directories when they had no strangers: while it holds, only the top directory is
    ///     read.
    ///   - sparesTop: Whether this is a destination that is to be gathered behind links.
    ///   - threads: The number of threads.
    ///   - isStopped: Whether to end at once; then the result is not complete.
    /// - Throws: ``FileError`` where a directory cannot be read.
    init(
        in destination: Destination, beside known: StatIndex, _ manifest: Manifest? = nil, rows: [Int] = [],
        seal: SHA256Digest? = nil, sparesTop: Bool = false, threads: Int,
        isStopped: @escaping @Sendable () -> Bool = { false }
    ) throws(FileError) {
        (self.known, self.manifest, self.rows, self.sparesTop) = (known, manifest, rows, sparesTop)
        mount = MountIdentity(of: destination.root)
        let below = known.directories
        let isSealed = seal != nil && destination.seal(of: below) == seal
        let all = [[]] + (isSealed ? [] : below)
        let scans = concurrently(
            over: all.count, threads: known.count < 2048 ? 1 : threads, name: "names", isStopped: isStopped,
            by: { _ in Directories(destination) }
        ) { [self] directories, place in scan(all[place], directories) }
        guard scans.count == all.count || isStopped() else {
            throw FileError(step: "read", path: destination.path, code: .noMemory)
        }
        var unknown: [[UInt8]] = []
        for scan in scans.sorted(by: { $0.place < $1.place }) { unknown += try take(scan.result) }
        let directories = Directories(destination)
        while !isStopped(), let directory = unknown.popLast() {
            unknown += try take(scan(directory, directories))
        }
    }

    /// - Returns: Unknown directories, which are still to be searched.
    private mutating func take(_ found: Found) throws(FileError) -> [[UInt8]] {
        if let failure = found.failure { throw failure }
        isExact = isExact && found.isExact
        paths += found.paths
        unknownDirectories += found.directories
        for mount in found.mounts {
            if sparesTop, !mount.contains(0x2F) { tops.append(mount) } else { mounts.append(mount) }
        }
        // A stranger above the path stands for it.
        if let path = found.taken, !paths.contains(where: { path.starts(with: $0 + [0x2F]) }) { paths.append(path) }
        return found.directories
    }

    /// What a directory has.
    private struct Found: Sendable {
        var isExact = true
        var paths: [[UInt8]] = []
        var mounts: [[UInt8]] = []
        /// Directories of which nothing is known.
        var directories: [[UInt8]] = []
        /// The directory itself, if something else is in its place.
        var taken: [UInt8]?
        var failure: FileError?
    }

    private func scan(_ directory: [UInt8], _ directories: Directories) -> Found {
        var found = Found()
        do throws(FileError) { try scan(directory, directories, &found) } catch { found.failure = error }
        return found
    }

    private func scan(_ directory: [UInt8], _ directories: Directories, _ found: inout Found) throws(FileError) {
        let raw: Int32?
        do throws(FileError) {
            raw = try directory.withUnsafeBufferPointer { path throws(FileError) in
                try directories.descriptor(path, create: false)
            }
        } catch {
            guard error.code == .notDirectory || error.code == .tooManySymbolicLinkLevels else { throw error }
            (found.taken, found.isExact) = (directory, false)
            return
        }
        guard let raw else {
            // The directory was removed meanwhile.
            found.isExact = false
            return
        }
        guard MountIdentity(of: raw) == mount else { return found.mounts.append(directory) }
        guard let copy = openDirectory(".", in: raw) else { throw .last("read", Self.shown(directory)) }
        let prefix = directory.isEmpty ? [] : directory + [0x2F]
        var names = Names()
        let code = try forEachName(in: copy) { name, length, isDirectory throws(FileError) in
            let bytes = UnsafeRawBufferPointer(start: name, count: length)
            if directory.isEmpty, bytes.elementsEqual(Destination.stateName.utf8) { return }
            if directory.isEmpty, sparesTop,
                TreeHome.staysAtTop(UnsafeBufferPointer(start: name, count: length), in: raw)
            {
                return
            }
            if let isDirectory { return names.add(bytes, isDirectory: isDirectory) }
            let found = try treeStatus(of: prefix + bytes, name, in: raw)
            names.add(bytes, isDirectory: found?.kind == .directory)
        }
        if let code { throw FileError(step: "read", path: Self.shown(directory), code: code) }
        guard names.sum != known.sum(ofNamesIn: directory) else { return }
        found.isExact = false
        for path in names.all.map({ prefix + $0 }) {
            let there = try directories.withLeaf(of: path) { directory, leaf throws(FileError) in
                try treeStatus(of: path, leaf, in: directory)
            }
            guard let status = there ?? nil else { continue }
            let isDirectory = status.kind == .directory
            guard !isKnown(path, isDirectory: isDirectory) else { continue }
            if isDirectory { found.directories.append(path) } else { found.paths.append(path) }
        }
    }

    /// Whether a path is a known file, or a directory that is searched anyway. A directory in the place of a file
    /// is neither.
    private func isKnown(_ path: [UInt8], isDirectory: Bool) -> Bool {
        let isNamed = (path + [0]).withUnsafeBufferPointer { bytes in
            let path = UnsafeBufferPointer(rebasing: bytes.dropLast())
            if isDirectory { return known.position(of: path).map(known.isDirectory) ?? false }
            return known.position(of: path) != nil || manifest?.files.row(of: path).map(rows.hasRow) == true
        }
        return isNamed || known.hasFiles(below: path)
    }

    /// Refuses files that would be lost, and file systems that cannot change together with the rest.
    ///
    /// - Parameters:
    ///   - path: The destination.
    ///   - keepsForeign: Whether the new tree gets the strangers, too.
    /// - Throws: ``EngineError`` with status 77.
    func refuse(in path: String, keepsForeign: Bool) throws(EngineError) {
        let place = escaped(path)
        if let mount = mounts.first {
            throw EngineError(
                .refused,
                "\(place): \(escaped(Self.shown(mount))) is a file system of its own, which cannot change together with the rest; "
                    + "nothing was changed", cause: .inTheWay)
        }
        guard let first = paths.first, !keepsForeign else { return }
        let name = escaped(Self.shown(first))
        let what = paths.count == 1 ? "\(name), which" : "\(Figures.grouped(paths.count)) files such as \(name), which"
        throw EngineError(
            .refused,
            "\(place) has \(what) no pull has put there, and which the new tree would not have; nothing was changed. "
                + "Move such files away, or carry them over with --keep-foreign", cause: .inTheWay)
    }

    /// A path for people.
    private static func shown(_ path: [UInt8]) -> String { String(decoding: path, as: UTF8.self) }

    /// Gives another tree the strangers of this one: the very same files, and directories like those that they are in.
    ///
    /// - Parameter known: The other tree's index: its directories exist.
    /// - Throws: ``FileError`` for a file that can have no second name, or whose name is that of a directory; another
    ///   entry that the other tree has at the path stays.
    func carry(from source: Destination, to target: Destination, beside known: StatIndex) throws(FileError) {
        let (from, to) = (Directories(source), Directories(target))
        var made: Set<[UInt8]> = []
        for path in paths {
            do throws(FileError) {
                for end in path.indices where path[end] == 0x2F {
                    let directory = Array(path[..<end])
                    let isThere = directory.withUnsafeBufferPointer { known.position(of: $0) } != nil
                    guard !isThere, !known.hasFiles(below: directory), made.insert(directory).inserted else { continue }
                    // A run that was killed may have made it, and nothing more.
                    _ = try to.withLeaf(of: directory) { makeDirectory($1, in: $0, mode: 0o700) }
                }
                _ = try from.withLeaf(of: path) { directory, leaf throws(FileError) in
                    _ = try to.withLeaf(of: path, create: true) { new, name throws(FileError) in
                        let code = addName(name, in: new, to: leaf, in: directory)
                        guard let code, code != .noSuchFileOrDirectory else { return }
                        if code == .fileExists {
                            guard case .success(let there?) = status(new, name), there.kind == .directory else {
                                return
                            }
                            throw FileError(
                                step: "carry over", path: ForeignEntries.shown(path), code: .isDirectory,
                                remark: "the new tree has a directory of that name; move it away")
                        }
                        let isRefused = code == .notPermitted
                        throw FileError(
                            step: "carry over", path: ForeignEntries.shown(path), code: code,
                            remark: isRefused
                                ? "\(code); it can have no second name, such as another user's file; move it away" : nil
                        )
                    }
                }
            } catch {
                guard error.code == .notDirectory || error.code == .tooManySymbolicLinkLevels else { throw error }
                throw FileError(
                    step: "carry over", path: ForeignEntries.shown(path),
                    remark: "the new tree has a file where a directory above it would be; move it away",
                    trouble: .inTheWay)
            }
        }
        let withACLs = canHaveACLs(source.root)
        for directory in made { try to.copyAccess(of: directory, from: from, withACLs: withACLs) }
    }

    /// Removes strangers, and unknown directories that are or become empty.
    ///
    /// - Parameters:
    ///   - known: The index whose directories stay.
    ///   - isMeant: Whether to remove a path.
    func remove(from destination: Destination, keeping known: StatIndex, _ isMeant: ([UInt8]) -> Bool)
        throws(FileError)
    {
        let directories = Directories(destination, capacity: 1)
        for path in paths where isMeant(path) {
            _ = try directories.withLeaf(of: path) { directory, leaf throws(FileError) in
                if let code = removeFile(leaf, in: directory), code != .noSuchFileOrDirectory {
                    throw FileError(step: "remove", path: ForeignEntries.shown(path), code: code)
                }
            }
            directories.removeEmpty(Array(path[..<(path.lastIndex(of: 0x2F) ?? 0)])) { known.position(of: $0) == nil }
        }
        for directory in unknownDirectories.reversed() where isMeant(directory) {
            directories.removeEmpty(directory) { known.position(of: $0) == nil }
        }
    }
}

/// The names in a directory, in no order. Equal sums mean the same names, with the same ones of directories: the sum is
/// of hashes with a key of this process.
private struct Names {
    private(set) var sum = 0
    private var bytes: [UInt8] = []

    static func hash(_ name: UnsafeRawBufferPointer, isDirectory: Bool) -> Int {
        var hasher = Hasher()
        hasher.combine(bytes: name)
        hasher.combine(isDirectory)
        return hasher.finalize()
    }

    mutating func add(_ name: UnsafeRawBufferPointer, isDirectory: Bool) {
        sum &+= Self.hash(name, isDirectory: isDirectory)
        bytes.append(contentsOf: name)
        bytes.append(0)
    }

    var all: [ArraySlice<UInt8>] { bytes.split(separator: 0) }
}

extension StatIndex {
    /// The sum of the names that a directory has here; see ``Names``.
    fileprivate func sum(ofNamesIn directory: [UInt8]) -> Int {
        var sum = 0
        let prefix = directory.isEmpty ? [] : directory + [0x2F]
        // No path has a NUL: everything below a directory comes before this bound.
        let end = directory.isEmpty ? count : (directory + [0]).withUnsafeBufferPointer(lowerBound)
        var position = prefix.withUnsafeBufferPointer(lowerBound)
        while position < end {
            let below = withPath(position) { path -> [UInt8]? in
                let rest = UnsafeBufferPointer(rebasing: path[prefix.count...])
                let slash = rest.firstIndex(of: 0x2F)
                let name = UnsafeBufferPointer(rebasing: rest[..<(slash ?? rest.count)])
                let isBranch = slash != nil || isDirectory(position)
                sum &+= Names.hash(UnsafeRawBufferPointer(name), isDirectory: isBranch)
                return isBranch ? prefix + name : nil
            }
            position += 1
            if let below { position = max(position, (below + [0]).withUnsafeBufferPointer(lowerBound)) }
        }
        return sum
    }

    /// Whether anything is known to be below a directory.
    func hasFiles(below directory: [UInt8]) -> Bool {
        let prefix = directory + [0x2F]
        let position = prefix.withUnsafeBufferPointer(lowerBound)
        return position < count && withPath(position) { $0.starts(with: prefix) }
    }
}

extension Directories {
    /// Gives a directory the owner, the group and the mode of the directory at its path in another tree, so that it
    /// keeps out the same users. Its owner may always change its entries. If the other tree has no such directory,
    /// nothing is done.
    ///
    /// - Parameters:
    ///   - withACLs: Whether it gets the ACLs as well.
    ///   - keepsMode: Whether it keeps its own owner, group and mode.
    func copyAccess(of path: [UInt8], from other: Directories, withACLs: Bool, keepsMode: Bool = false)
        throws(FileError)
    {
        do throws(FileError) {
            _ = try other.withLeaf(of: path) { above, leaf throws(FileError) in
                _ = try withLeaf(of: path) { directory, name throws(FileError) in
                    guard case .success(let wanted?) = SyncSystem.status(above, leaf), wanted.kind == .directory,
                        case .success(var there?) = SyncSystem.status(directory, name), there.kind == .directory
                    else { return }
                    let shown = String(decoding: path, as: UTF8.self)
                    let mode = keepsMode ? FileMode(there.permissions) : FileMode(wanted.permissions) | 0o700
                    let isOthers = !keepsMode && (wanted.user, wanted.group) != (there.user, there.group)
                    if isOthers || withACLs, let model = openDirectory(leaf, in: above, .noFollow),
                        let own = openDirectory(name, in: directory, .noFollow)
                    {
                        if isOthers {
                            try FileError.check(handOverOwner(of: model.raw, to: own.raw), "set the owner of", shown)
                        }
                        if withACLs {
                            try FileError.check(handOverACLs(of: model.raw, to: own.raw), "set the ACLs of", shown)
                            // Which may have changed the mode.
                            there = SyncSystem.status(own.raw) ?? there
                        }
                    }
                    guard FileMode(there.permissions) != mode else { return }
                    try FileError.check(setMode(name, in: directory, mode), "set the mode of", shown)
                }
            }
        } catch {
            // The other tree has a file or a link where this one has a directory above it.
            guard error.code == .notDirectory || error.code == .tooManySymbolicLinkLevels else { throw error }
        }
    }
}
