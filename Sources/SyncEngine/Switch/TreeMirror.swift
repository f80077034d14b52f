import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Makes one tree like another, without copying a byte where the file system can share: what is different is taken from the other
/// tree, what is too many goes, and what is right for the manifest already stays. What is different the indexes of both say; no
/// file is looked at that both have, so the cost follows the difference.
///
/// A run then looks at the tree and brings it up to date as it would the other one, were that changed in place: the same files are
/// unchanged, the same chunks are here. Nothing that both have is ever written to.
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

    /// What the target is to have before the run, and is known to be right.
    private struct Entry {
        enum Path { case row(Int), position(Int) }
        let path: Path
        let record: IndexRecord
        /// Whether the target has it.
        let isHere: Bool

        /// In a tree that pulls have made everything is theirs, to be removed when a manifest no longer names it.
        init(path: Path, record: IndexRecord, isHere: Bool) {
            var record = record
            record.installed = true
            (self.path, self.record, self.isHere) = (path, record, isHere)
        }
    }

    /// What the target is like now.
    struct Outcome {
        var index: StatIndex
        /// Rows that it has and the source does not: an earlier run has brought them.
        var ahead: [Int]
    }

    /// Makes it so.
    ///
    /// - Throws: ``EngineError``; a second call goes on where this one ended.
    func run() throws(EngineError) -> Outcome {
        let former = try building { () throws(FileError) in
            let log = try IndexLog.load(target)
            return try environment.fold(
                log, into: try .load(from: target), in: target, isStopped: environment.isStopped)
        }
        let (entries, ahead) = survey(beside: former ?? .empty)
        try requireRoom(for: entries)
        let index = try building { () throws(FileError) in try place(entries, over: former ?? .empty) }
        return Outcome(index: index, ahead: ahead)
    }

    private func building<R>(_ body: () throws(FileError) -> R) throws(EngineError) -> R {
        let result = Result { () throws(FileError) in try body() }
        if environment.stop.isStopped { throw EngineError(.interrupted, "stopped while the new tree was begun") }
        do throws(FileError) { return try result.get() } catch {
            throw EngineError(.ioError, "\(error)", cause: error.cause)
        }
    }

    private func place(_ entries: [Entry], over former: StatIndex) throws(FileError) -> StatIndex {
        openDirectories(of: former)
        var work = Work(self)
        var walk = IndexWalk(index: former)
        let index = known.replacingRecords { append in
            for (number, entry) in entries.enumerated() {
                if number % 256 == 0, environment.stop.isStopped { return }
                withPath(entry) { path in
                    let position = walk.find(path) { work.remove($0, of: former) }
                    let record =
                        entry.isHere
                        ? entry.record : work.place(entry.record, path, over: position.flatMap(former.record))
                    if let record { append(record, path) }
                }
            }
            for position in walk.rest { work.remove(position, of: former) }
        }
        if environment.stop.isStopped { return .empty }
        work.removeEmptied()
        if let error = work.failure { throw error }
        // A link is the very file that is on the disk already.
        if environment.isDurable, work.hasWritten { try environment.synchronize(target) }
        copyChunkMap()
        guard let index else { return .empty }
        // Where it is new, a kill would have all of it looked at, and read, once more.
        if work.placed > entries.count / 8 {
            try index.write(to: target, durable: environment.isDurable)
            IndexLog.remove(target)
        }
        return index
    }

    private func withPath<R>(_ entry: Entry, _ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
        switch entry.path {
        case .row(let row): manifest.files.withPath(row, body)
        case .position(let position): known.withPath(position, body)
        }
    }

    /// What the target is to have, in ``PathOrder``. Only what it does not have is looked at in the source: files of the manifest are
    /// read where nothing is known of them, others count as long as they are as a pull has left them.
    private func survey(beside former: StatIndex) -> (entries: [Entry], ahead: [Int]) {
        var entries: [Entry?] = []
        entries.reserveCapacity(max(known.count, rows.count))
        var (theirs, ours) = (IndexWalk(index: known), IndexWalk(index: former))
        /// Rows to be looked at, and the positions in the index of what is known of them.
        var open: [(entry: Int, row: Int, position: Int?)] = []
        var ahead: [Int] = []
        let directories = Directories(source)
        func record(_ position: Int) -> IndexRecord? {
            guard let record = known.record(position) else { return nil }
            let isRight = known.withPath(position) { path in
                (try? directories.withLeaf(of: path) { directory, leaf in
                    guard case .success(let found?) = status(directory, leaf) else { return false }
                    return record.kind == .directory ? found.kind == .directory : record.matches(found)
                }) == true
            }
            return isRight ? record : nil
        }
        func keep(_ position: Int) {
            let there = known.trusted(position)
            let here = known.withPath(position) { ours.find($0) }.flatMap(former.trusted)
            if let here, let there, here.isSame(as: there) {
                entries.append(Entry(path: .position(position), record: here.later(there), isHere: true))
            } else if let record = record(position) {
                entries.append(Entry(path: .position(position), record: record, isHere: false))
            }
        }
        for row in rows {
            manifest.files.withPath(row) { path in
                let position = theirs.find(path, passing: keep)
                let there = position.flatMap(known.trusted)
                if let here = ours.find(path).flatMap(former.trusted) {
                    let isShown = there.map(here.isSame) ?? false
                    let isWanted =
                        here.digest == manifest.files.contentDigest(row) && here.kind == manifest.files.indexKind(row)
                    if isWanted, !isShown { ahead.append(row) }
                    if isWanted || isShown {
                        let record = there.map(here.later) ?? here
                        return entries.append(Entry(path: .row(row), record: record, isHere: true))
                    }
                }
                open.append((entries.count, row, position))
                entries.append(nil)
            }
        }
        for position in theirs.rest { keep(position) }
        let found = InventoryScan(
            manifest: manifest, rows: open.map(\.row), destination: source, index: known, wear: .ignored,
            environment: environment, progress: progress
        ).run()
        for (entry, row, position) in open {
            let record = found.records[row] ?? position.flatMap(record)
            entries[entry] = record.map { Entry(path: .row(row), record: $0, isHere: false) }
        }
        return (entries.compactMap(\.self), ahead)
    }

    /// A new tree needs a place for each name, and for all content where files cannot be shared.
    private func requireRoom(for entries: [Entry]) throws(EngineError) {
        guard sharing == .copy else { return }
        let bytes = entries.reduce(UInt64(0)) { sum, entry in
            entry.isHere || entry.record.kind == .directory ? sum : sum.saturatingAdd(entry.record.status.size)
        }
        let free = try usable(target.freeSpace())
        guard bytes > 0, free.bytes <= bytes else { return }
        throw EngineError(
            .ioError,
            "\(escaped(target.path)): a second tree needs \(ByteCount(bytes)), since files cannot be shared here, but only "
                + "\(ByteCount(free.bytes)) are free; nothing was changed", cause: .diskFull)
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
        /// How much was placed.
        private(set) var placed = 0
        /// Whether any of it has bytes of its own.
        private(set) var hasWritten = false

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
            guard failure == nil else { return nil }
            placed += 1
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
            hasWritten = true
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
    /// Whether another record is of the same content.
    fileprivate func isSame(as other: IndexRecord) -> Bool { digest == other.digest && kind == other.kind }

    /// This record, with the status that another one has of the very same file if that is the later one: each name that the file
    /// gets or loses in another tree changes it.
    func later(_ other: IndexRecord) -> IndexRecord {
        guard isSame(as: other), kind != .directory, other.status.changed > status.changed,
            status.isOfSameFile(as: other.status)
        else { return self }
        var later = self
        later.status = other.status
        return later
    }

    /// Whether a file has the content of this record as long as only its names and its mode have changed.
    fileprivate func isSameContent(as found: FileStatus) -> Bool {
        status.isOfSameFile(as: Status(found)) && (found.kind == .link) == (kind == .link)
    }
}
