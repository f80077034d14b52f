import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// What is in a tree that no pull has put there.
struct Strangers {
    /// Files, links and others, relative to the tree.
    private(set) var paths: [[UInt8]] = []
    /// Places where another file system is mounted, which no switch can take along.
    private(set) var mounts: [[UInt8]] = []

    /// Looks through all directories; opens no file.
    ///
    /// - Parameters:
    ///   - known: What has files that are not strange.
    ///   - manifest: What names files that are not, either; `nil` for nothing.
    /// - Throws: ``FileError`` where a directory cannot be read.
    init(in destination: Destination, beside known: StatIndex, _ manifest: Manifest? = nil) throws(FileError) {
        let directories = Directories(destination)
        let device = status(destination.root)?.device
        var open: [[UInt8]] = [[]]
        while let directory = open.popLast() {
            let raw: Int32?
            do throws(FileError) {
                raw = try directory.withUnsafeBufferPointer { path throws(FileError) in
                    try directories.descriptor(path, create: false)
                }
            } catch {
                guard error.code == .notDirectory || error.code == .tooManySymbolicLinkLevels else { throw error }
                paths.append(directory)
                continue
            }
            // It is gone by now.
            guard let raw else { continue }
            guard status(raw)?.device == device else {
                mounts.append(directory)
                continue
            }
            guard let copy = openDirectory(".", in: raw) else { throw .last("read", shown(directory)) }
            var found = Names()
            let code = forEachName(in: copy) { name, length in
                let bytes = UnsafeRawBufferPointer(start: name, count: length)
                if directory.isEmpty, bytes.elementsEqual(Destination.stateName.utf8) { return }
                found.add(bytes)
            }
            if let code { throw FileError(step: "read", path: shown(directory), code: code) }
            let (wanted, below) = known.names(in: directory)
            if found.sum == wanted.sum {
                open += below
                continue
            }
            let prefix = directory.isEmpty ? [] : directory + [0x2F]
            for path in found.all.map({ prefix + $0 }) {
                let isFile = (path + [0]).withUnsafeBufferPointer { bytes in
                    let path = UnsafeBufferPointer(rebasing: bytes.dropLast())
                    return known.position(of: path).map { !known.isDirectory($0) } ?? false
                        || manifest?.files.row(of: path) != nil
                }
                if isFile { continue }
                let there = try directories.withLeaf(of: path) { status($0, $1) }
                guard case .success(let found?) = there else { continue }
                if found.kind == .directory { open.append(path) } else { paths.append(path) }
            }
        }
    }

    /// A path for people.
    private func shown(_ path: [UInt8]) -> String { String(decoding: path, as: UTF8.self) }

    /// Gives another tree what is strange in this one: the very same files.
    ///
    /// - Throws: ``FileError`` for what can have no second name; whatever has its place in the other tree stays.
    func carry(from source: Destination, to target: Destination) throws(FileError) {
        let (from, to) = (Directories(source), Directories(target))
        for path in paths {
            _ = try from.withLeaf(of: path) { directory, leaf throws(FileError) in
                _ = try to.withLeaf(of: path, create: true) { new, name throws(FileError) in
                    let code = addName(name, in: new, to: leaf, in: directory)
                    guard let code, code != .fileExists, code != .noSuchFileOrDirectory else { return }
                    throw FileError(step: "carry over", path: shown(path), code: code)
                }
            }
        }
    }

    /// Removes it all, and directories in which nothing else is.
    ///
    /// - Parameter known: Directories that it has stay.
    func remove(from destination: Destination, keeping known: StatIndex) throws(FileError) {
        let directories = Directories(destination, capacity: 1)
        for path in paths {
            _ = try directories.withLeaf(of: path) { directory, leaf throws(FileError) in
                if let code = removeFile(leaf, in: directory), code != .noSuchFileOrDirectory {
                    throw FileError(step: "remove", path: shown(path), code: code)
                }
            }
            var rest = path[..<(path.lastIndex(of: 0x2F) ?? 0)]
            while !rest.isEmpty, rest.withUnsafeBufferPointer({ known.position(of: $0) }) == nil {
                directories.closeAll()
                let isGone = try? directories.withLeaf(of: Array(rest)) { removeDirectory($1, in: $0) == nil }
                guard isGone == true else { break }
                rest = rest[..<(rest.lastIndex(of: 0x2F) ?? 0)]
            }
        }
    }
}

/// The names in a directory, in no order. Two with the same sum have the same names: it is of hashes with a key of this process.
private struct Names {
    private(set) var sum = 0
    private var bytes: [UInt8] = []

    mutating func add(_ name: UnsafeRawBufferPointer) {
        var hasher = Hasher()
        hasher.combine(bytes: name)
        sum &+= hasher.finalize()
        bytes.append(contentsOf: name)
        bytes.append(0)
    }

    var all: [ArraySlice<UInt8>] { bytes.split(separator: 0) }
}

extension StatIndex {
    /// The names that a directory has here, and those of them, as paths, that are directories.
    fileprivate func names(in directory: [UInt8]) -> (names: Names, directories: [[UInt8]]) {
        var (names, directories) = (Names(), [[UInt8]]())
        let prefix = directory.isEmpty ? [] : directory + [0x2F]
        // No path has a 0: what is below a directory comes before it.
        let end = directory.isEmpty ? count : (directory + [0]).withUnsafeBufferPointer(lowerBound)
        var position = prefix.withUnsafeBufferPointer(lowerBound)
        while position < end {
            let below = withPath(position) { path -> [UInt8]? in
                let rest = UnsafeBufferPointer(rebasing: path[prefix.count...])
                let slash = rest.firstIndex(of: 0x2F)
                let name = UnsafeBufferPointer(rebasing: rest[..<(slash ?? rest.count)])
                names.add(UnsafeRawBufferPointer(name))
                return slash != nil || isDirectory(position) ? prefix + name : nil
            }
            guard let below else {
                position += 1
                continue
            }
            directories.append(below)
            position = max(position + 1, (below + [0]).withUnsafeBufferPointer(lowerBound))
        }
        return (names, directories)
    }
}
