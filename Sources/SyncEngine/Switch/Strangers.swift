import SyncFiles
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
    /// - Parameter isKnown: Whether a path is that of a file which is not strange.
    /// - Throws: ``FileError`` where a directory cannot be read.
    init(in destination: Destination, isKnown: (_ path: UnsafeBufferPointer<UInt8>) -> Bool) throws(FileError) {
        let directories = Directories(destination)
        let device = status(destination.root)?.device
        var open: [[UInt8]] = [[]]
        while let directory = open.popLast() {
            let raw = try directory.withUnsafeBufferPointer { path throws(FileError) in
                try directories.descriptor(path, create: false)
            }
            // It is gone by now.
            guard let raw else { continue }
            guard let copy = openDirectory(".", in: raw) else { throw .last("read", shown(directory)) }
            let prefix = directory.isEmpty ? [] : directory + [0x2F]
            var found: [[UInt8]] = []
            let code = forEachName(in: copy) { name, length in
                let bytes = UnsafeRawBufferPointer(start: name, count: length)
                if directory.isEmpty, bytes.elementsEqual(Destination.stateName.utf8) { return }
                found.append(prefix + bytes)
            }
            if let code { throw FileError(step: "read", path: shown(directory), code: code) }
            for path in found {
                let isFile = (path + [0]).withUnsafeBufferPointer { bytes -> Bool in
                    isKnown(UnsafeBufferPointer(rebasing: bytes.dropLast()))
                }
                if isFile { continue }
                let there = try directories.withLeaf(of: path) { status($0, $1) }
                guard case .success(let found?) = there else { continue }
                guard found.kind == .directory else {
                    paths.append(path)
                    continue
                }
                if found.device == device { open.append(path) } else { mounts.append(path) }
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
