import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Makes one tree like another, without copying a byte where the file system can share: what is different is taken from the other
/// tree, what is too many goes. Its cost follows the difference.
///
/// A run then brings the tree up to date as it would the other one, were that changed in place: the same files are unchanged, the
/// same chunks are here. Nothing that both have is ever written to.
struct TreeMirror {
    let source: Destination
    /// What is known of it, including what a killed run put there.
    let known: StatIndex
    let target: Destination
    let sharing: TreeLedger.Sharing
    let manifest: Manifest
    /// What the run is to bring.
    let rows: [Int]
    let environment: EngineEnvironment
    let progress: ProgressCount

    /// What the source has, and is known to be right.
    private struct Entry {
        enum Path { case row(Int), position(Int) }
        var path: Path
        var record: IndexRecord
    }

    /// Makes it so, and leaves indexes that say it.
    ///
    /// - Throws: ``EngineError``; a second call goes on where this one ended.
    func run() throws(EngineError) {
        do throws(FileError) {
            let entries = try survey()
            let former = StatIndex.read(from: target)
            openDirectories(of: former)
            var work = Work(self)
            var linked: [Int: IndexRecord] = [:]
            var index = StatIndexWriter(in: target)
            var walk = IndexWalk(index: former)
            for (number, entry) in entries.enumerated() {
                if number % 256 == 0, environment.stop.isStopped { throw FileError(step: "stop", path: "") }
                withPath(entry) { path in
                    let position = walk.find(path) { work.remove($0, of: former) }
                    guard let record = work.place(entry.record, path, over: position.flatMap(former.record)) else {
                        return
                    }
                    index.append(record, path: path)
                    if work.hasJustLinked, let place = known.position(of: path) { linked[place] = record }
                }
            }
            for position in walk.rest { work.remove(position, of: former) }
            work.removeEmptied()
            if let error = work.failure { throw error }
            if environment.isDurable { try environment.synchronize(target) }
            IndexLog.remove(target)
            try index.write(
                owner: known.owner, completion: nil, revision: known.revision, durable: environment.isDurable)
            if !linked.isEmpty { try rewriteIndex(linked) }
            copyChunkMap()
        } catch {
            if environment.stop.isStopped { throw EngineError(.interrupted, "stopped while the new tree was begun") }
            throw EngineError(.ioError, "\(error)", cause: error.cause)
        }
    }

    private func withPath<R>(_ entry: Entry, _ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
        switch entry.path {
        case .row(let row): manifest.files.withPath(row, body)
        case .position(let position): known.withPath(position, body)
        }
    }

    /// What is right in the source, in ``PathOrder``: files of the manifest are read where nothing is known of them, others only
    /// count as long as they are as a pull has left them.
    private func survey() throws(FileError) -> [Entry] {
        let found = InventoryScan(
            manifest: manifest, rows: rows, destination: source, index: known, wear: .ignored, environment: environment,
            progress: progress
        ).run()
        var entries: [Entry] = []
        let directories = Directories(source)
        func keep(_ position: Int) {
            guard let record = known.record(position) else { return }
            let isRight = known.withPath(position) { path in
                (try? directories.withLeaf(of: path) { directory, leaf in
                    guard case .success(let found?) = status(directory, leaf) else { return false }
                    return record.kind == .directory ? found.kind == .directory : record.matches(found)
                }) == true
            }
            if isRight { entries.append(Entry(path: .position(position), record: record)) }
        }
        var walk = IndexWalk(index: known)
        for row in rows {
            let position = manifest.files.withPath(row) { walk.find($0, passing: keep) }
            if let record = found.records[row] {
                entries.append(Entry(path: .row(row), record: record))
            } else if let position {
                keep(position)
            }
        }
        for position in walk.rest { keep(position) }
        return entries
    }

    /// Directories whose modes keep this user from changing them; the run gives them their modes again.
    private func openDirectories(of index: StatIndex) {
        let directories = Directories(target)
        for position in 0..<index.count where index.isDirectory(position) {
            index.withPath(position) { path in
                _ = try? directories.withLeaf(of: path) { directory, leaf in
                    guard case .success(let found?) = status(directory, leaf), found.kind == .directory,
                        found.permissions & 0o700 != 0o700
                    else { return }
                    _ = setMode(leaf, in: directory, FileMode(found.permissions) | 0o700)
                }
            }
        }
    }

    /// One more name changes a file's status in every tree that has it: what was known of the source is known of that.
    ///
    /// - Parameter linked: Records of files that have got a name more, by their positions in what was known.
    private func rewriteIndex(_ linked: [Int: IndexRecord]) throws(FileError) {
        var index = StatIndexWriter(in: source)
        for position in 0..<known.count {
            guard var record = known.record(position) else { continue }
            if let now = linked[position], now.digest == record.digest { record.status = now.status }
            known.withPath(position) { _ = index.append(record, path: $0) }
        }
        try index.write(
            owner: known.owner, completion: known.completion, revision: known.revision,
            durable: environment.isDurable)
    }

    /// The chunks of large files, for the run to find them in. Without it more is fetched.
    private func copyChunkMap() {
        guard let file = openToRead(source.state, ChunkMap.name), let size = status(file.raw)?.size,
            let copy = try? createFile(ChunkMap.name + ".new", in: target.state, .readWrite)
        else { return }
        guard cloneFile(file.raw, to: copy.raw) == nil || copyBytes(of: file.raw, size, to: copy.raw) else { return }
        _ = renameEntry(ChunkMap.name + ".new", in: target.state, to: ChunkMap.name, in: target.state)
    }

    /// The work in the target. One thread.
    private struct Work {
        private let mirror: TreeMirror
        private let from: Directories
        private let to: Directories
        private var emptied: [[UInt8]] = []
        /// The first thing that went wrong.
        private(set) var failure: FileError?
        /// Whether the file that was placed last has got another name for that.
        private(set) var hasJustLinked = false

        init(_ mirror: TreeMirror) {
            self.mirror = mirror
            from = Directories(mirror.source)
            to = Directories(mirror.target)
        }

        /// Removes what the source does not have.
        mutating func remove(_ position: Int, of index: StatIndex) {
            let path = index.path(position)
            if index.isDirectory(position) { return emptied.append(path) }
            do throws(FileError) {
                _ = try to.withLeaf(of: path) { directory, leaf throws(FileError) in
                    if let code = removeFile(leaf, in: directory), code != .noSuchFileOrDirectory, code != .isDirectory
                    {
                        throw FileError(step: "remove", path: shown(path), code: code)
                    }
                }
                let parent = Array(path[..<(path.lastIndex(of: 0x2F) ?? 0)])
                if !parent.isEmpty, emptied.last != parent { emptied.append(parent) }
            } catch { if !error.isMissing, error.code != .tooManySymbolicLinkLevels { failure = failure ?? error } }
        }

        /// Removes directories in which nothing is left.
        mutating func removeEmptied() {
            to.closeAll()
            let directories = Directories(mirror.target, capacity: 1)
            for path in emptied.reversed() {
                var rest = path
                while !rest.isEmpty {
                    let isGone = try? directories.withLeaf(of: rest) { removeDirectory($1, in: $0) == nil }
                    directories.closeAll()
                    guard isGone == true else { break }
                    rest.removeSubrange((rest.lastIndex(of: 0x2F) ?? 0)...)
                }
            }
        }

        /// Gives the target what the source has.
        ///
        /// - Parameter former: What is known of what the target has there.
        /// - Returns: The record of it; `nil` if it is not there now.
        mutating func place(_ record: IndexRecord, _ path: UnsafeBufferPointer<UInt8>, over former: IndexRecord?)
            -> IndexRecord?
        {
            hasJustLinked = false
            guard failure == nil else { return nil }
            do throws(FileError) {
                return try to.withLeaf(of: path, create: true) { directory, leaf throws(FileError) -> IndexRecord? in
                    if record.kind == .directory { return try place(record, leaf, in: directory, path) }
                    return try from.withLeaf(of: path) { source, name throws(FileError) -> IndexRecord? in
                        guard case .success(let wanted?) = status(source, name), record.matches(wanted) else {
                            return nil
                        }
                        if case .success(let there?) = status(directory, leaf) {
                            let isRight =
                                there.isSameFile(as: wanted)
                                || former.map {
                                    $0.digest == record.digest && $0.kind == record.kind && $0.matches(there)
                                }
                                    ?? false
                            if isRight { return made(record, there) }
                            if there.kind == .directory {
                                removeTree(String(cString: leaf), in: directory)
                            } else {
                                removeFile(leaf, in: directory)
                            }
                        }
                        return try share(record, wanted, name, source, leaf, directory, path)
                    } ?? nil
                } ?? nil
            } catch {
                failure = error
                return nil
            }
        }

        private func made(_ record: IndexRecord, _ status: FileStatus) -> IndexRecord {
            var new = IndexRecord(status: status, digest: record.digest, kind: record.kind, installed: record.installed)
            new.isNamed = record.isNamed
            return new
        }

        private func shown(_ path: some Collection<UInt8>) -> String { String(decoding: path, as: UTF8.self) }

        private func place(
            _ record: IndexRecord, _ leaf: UnsafePointer<CChar>, in directory: Int32, _ path: UnsafeBufferPointer<UInt8>
        ) throws(FileError) -> IndexRecord? {
            if case .success(let there?) = status(directory, leaf), there.kind != .directory {
                removeFile(leaf, in: directory)
            }
            let mode = mirror.target.umask.holding(in: directory).less(0o777)
            if let code = makeDirectory(leaf, in: directory, mode: mode), code != .fileExists {
                throw FileError(step: "create directory", path: shown(path), code: code)
            }
            guard case .success(let found?) = status(directory, leaf) else { return nil }
            // Its mode and time are the run's to give.
            return IndexRecord(directory: found, keeping: .none, installed: record.installed)
        }

        private mutating func share(
            _ record: IndexRecord, _ wanted: FileStatus, _ name: UnsafePointer<CChar>, _ source: Int32,
            _ leaf: UnsafePointer<CChar>, _ directory: Int32, _ path: UnsafeBufferPointer<UInt8>
        ) throws(FileError) -> IndexRecord? {
            func failed(_ step: String, _ code: Errno) -> FileError {
                FileError(step: step, path: shown(path), code: code)
            }
            if record.kind == .link {
                guard let text = readLink(source, name) else { return nil }
                let code = (text.map(CChar.init(bitPattern:)) + [0]).withUnsafeBufferPointer { target -> Errno? in
                    guard let start = target.baseAddress else { return .invalidArgument }
                    return makeSymbolicLink(leaf, in: directory, to: start)
                }
                if let code { throw failed("create link", code) }
                _ = setModified(leaf, in: directory, wanted.modified)
                guard case .success(let found?) = status(directory, leaf) else { return nil }
                return made(record, found)
            }
            if mirror.sharing == .link, addName(leaf, in: directory, to: name, in: source) == nil {
                hasJustLinked = true
                if wanted.permissions & 0o222 != 0 {
                    _ = setMode(leaf, in: directory, FileMode(wanted.permissions & ~0o222))
                }
                guard case .success(let found?) = status(directory, leaf), record.isSameContent(as: found) else {
                    removeFile(leaf, in: directory)
                    return nil
                }
                return made(record, found)
            }
            // Too many names, or a file of somebody else's: link(2).
            guard let reading = openToRead(source, name), status(reading.raw) == wanted else { return nil }
            guard let writing = makeFile(leaf, in: directory, mode: 0o600) else { throw failed("create", .last) }
            let code = cloneFile(reading.raw, to: writing.raw)
            if code != nil, !copyBytes(of: reading.raw, wanted.size, to: writing.raw) { throw failed("copy", .last) }
            let mode = FileMode(wanted.permissions & 0o777 & (mirror.sharing == .link ? ~0o222 : 0o777))
            if let code = setMode(writing.raw, mode) ?? setModified(writing.raw, wanted.modified) {
                throw failed("create", code)
            }
            // A clone has the bytes that are known when its source has not changed since.
            guard status(reading.raw) == wanted, let found = status(writing.raw), found.size == wanted.size else {
                removeFile(leaf, in: directory)
                return nil
            }
            return made(record, found)
        }
    }
}

/// Copies the bytes of a file.
private func copyBytes(of source: Int32, _ size: UInt64, to target: Int32) -> Bool {
    withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 64) { buffer in
        var offset: UInt64 = 0
        while offset < size {
            let count = readFully(source, into: buffer, at: offset)
            guard count > 0, writeAll(UnsafeRawBufferPointer(rebasing: buffer[..<count]), to: target, at: offset) == nil
            else { return false }
            offset += UInt64(count)
        }
        return true
    }
}

extension IndexRecord {
    /// Whether a file has the content of this record as long as only its names and its mode have changed.
    fileprivate func isSameContent(as found: FileStatus) -> Bool {
        status.device == found.device && status.inode == found.inode && status.size == found.size
            && status.modified == found.modified && (found.kind == .link) == (kind == .link)
    }
}
