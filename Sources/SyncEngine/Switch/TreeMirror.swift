import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Makes one tree like another, without copying a byte where the file system can share. Entries that differ are taken
/// from the other tree, entries that the other tree does not have are removed, and entries that are right for the
/// manifest stay. The indexes of both trees say what differs; files that both have are not checked, so the cost follows
/// the difference. Only those that the manifest names and the run leaves alone cost an lstat(2) in each tree: the run
/// does not look at them later.
///
/// A run then examines and updates the tree as if it changed the other one in place: the same files are unchanged, the
/// same chunks are here. Nothing that both trees have is ever written to.
struct TreeMirror {
    let source: Destination
    /// The index of the source, including what a killed run put there.
    let known: StatIndex
    let target: Destination
    /// The target's own path, for messages.
    let targetPath: String
    let sharing: TreeLedger.Sharing
    let manifest: Manifest
    /// The rows that the run places.
    let rows: [Int]
    /// Positions in the source's index of files that the manifest does not name and somebody has edited, ascending: the
    /// target does not get them, nor keeps them as they were before.
    var edited: [Int] = []
    /// Whether the source has nothing but known entries.
    let isExact: Bool
    let environment: EngineEnvironment
    let progress: ProgressCount

    /// An entry that the target is to have before the run, and that is known to be right.
    private struct Entry {
        enum Path { case row(Int), position(Int) }
        let path: Path
        let record: IndexRecord
        /// Whether the target has it.
        let isHere: Bool
        /// Whether the record may not vouch for its file.
        let isDoubtful: Bool
        /// The status of the source's file, if somebody has changed the file since: it is taken all the same.
        var changed: FileStatus?
        /// Whether the manifest names it and the run leaves it alone: it would be lost if it were not taken.
        var isLeftAlone = false

        /// In a tree that pulls have made, everything counts as installed, to be removed when a manifest no longer
        /// names it.
        init(path: Path, record: IndexRecord, isHere: Bool, isDoubtful: Bool = false) {
            var record = record
            record.installed = true
            (self.path, self.record, self.isHere, self.isDoubtful) = (path, record, isHere, isDoubtful)
        }

        /// The record of the file to place.
        var wanted: IndexRecord {
            var wanted = record
            guard let changed else { return wanted }
            wanted.status = IndexRecord.Status(changed)
            if changed.kind == .link || record.kind == .link { wanted.kind = changed.kind == .link ? .link : .file }
            return wanted
        }

        /// The record for the target's index, once the entry is there as `placed`. A changed file keeps its former
        /// record, which does not match it, unless it was hashed: whatever is used of the file is hashed first.
        func known(_ placed: IndexRecord) -> IndexRecord {
            changed != nil ? record : isDoubtful ? placed.doubted : placed
        }
    }

    /// The change at a path. Positions are those in the source's index and in the target's.
    private enum Step {
        /// This many entries that both trees have.
        case shared(known: Int, former: Int, count: Int)
        /// An entry that differs, and its position in the target's index.
        case one(Entry, former: Int?)
        /// An entry of the target that is to be removed.
        case gone(former: Int)
    }

    /// Makes the target like the source.
    ///
    /// - Returns: The target's index, and the rows that the target has and the source does not: an earlier run has
    ///   placed them.
    /// - Throws: ``EngineError``; a second call continues where this one ended.
    func run() throws(EngineError) -> (index: StatIndex, ahead: [Int]) {
        let former = try building { () throws(FileError) in
            let log = try IndexLog.load(target)
            return try environment.fold(
                log, into: try .load(from: target), in: target, isStopped: environment.isStopped)
        }
        let (steps, ahead) = try building { () throws(FileError) in try survey(beside: former ?? .empty) }
        try requireRoom(for: steps)
        let index = try building { () throws(FileError) in try place(steps, over: former ?? .empty) }
        return (index, ahead)
    }

    private func building<R>(_ body: () throws(FileError) -> R) throws(EngineError) -> R {
        let result = Result { () throws(FileError) in try body() }
        if environment.stop.isStopped { throw EngineError(.interrupted, "stopped while the new tree was begun") }
        do throws(FileError) { return try result.get() } catch {
            throw EngineError(
                .ioError, "\(escaped(source.path)): cannot make \(escaped(targetPath)) like it: \(error)",
                cause: error.cause)
        }
    }

    private func place(_ steps: [Step], over former: StatIndex) throws(FileError) -> StatIndex {
        openDirectories(of: former)
        var work = Work(self)
        var draft = IndexDraft(like: known)
        for (number, step) in steps.enumerated() {
            if number % 256 == 0, environment.stop.isStopped { return .empty }
            switch step {
            case .shared(let position, let own, let count):
                draft.append(installed: own..<(own + count), of: former, or: (known, position))
            case .gone(let own): work.remove(own, of: former)
            case .one(let entry, let own):
                withPath(entry) { path in
                    if entry.isHere {
                        draft.append(entry.record, path)
                        return
                    }
                    var taken = entry
                    // What the target's record says of a changed file is not what the source has.
                    let here = taken.isLeftAlone && taken.changed != nil ? nil : own.flatMap(former.trusted)
                    var placed = work.place(taken.wanted, path, over: here)
                    if placed == nil, taken.isLeftAlone, let there = work.source(path) {
                        // Another name of the very same file, placed a moment ago, changes its status.
                        taken.changed = there
                        placed = work.place(taken.wanted, path, over: nil)
                    }
                    guard let placed else {
                        if taken.isLeftAlone { work.miss(path) }
                        return
                    }
                    let isRead = taken.isLeftAlone && taken.changed != nil
                    draft.append((isRead ? work.examine(path) : nil) ?? taken.known(placed), path)
                }
            }
        }
        let index = draft.index()
        if environment.stop.isStopped { return .empty }
        work.removeEmptied()
        if let error = work.failure { throw error }
        // A hard link is the very file that is on the disk already.
        if environment.isDurable, work.hasWritten { try environment.synchronize(target) }
        copyChunkMap()
        guard let index else { return .empty }
        // Otherwise, after a kill, all of a new tree would be checked, and read, once more.
        if work.placed > index.count / 8 {
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

    /// The entries that the target is to have, in ``PathOrder``. Only entries that it does not have are checked in the
    /// source: files of the manifest are read where nothing is known of them, others count as long as they are as a
    /// pull has left them.
    private func survey(beside former: StatIndex) throws(FileError) -> (steps: [Step], ahead: [Int]) {
        var difference = Difference(self, former)
        var (there, here) = (0, 0)
        var unknown = rowsUnknown(beside: former)[...]
        var changed = changedOthers(beside: former)[...]
        while there < known.count || here < former.count || !unknown.isEmpty {
            var most = Int.max
            if let row = unknown.first {
                let (bound, ownBound) = manifest.files.withPath(row) { (known.lowerBound($0), former.lowerBound($0)) }
                guard bound > there || ownBound > here else {
                    difference.add(row: row)
                    unknown.removeFirst()
                    continue
                }
                most = bound - there
            }
            most = min(most, (changed.first ?? known.count) - there)
            let count = known.countShared(from: there, with: former, from: here, most: most)
            if count > 0 {
                difference.steps.append(.shared(known: there, former: here, count: count))
                (there, here) = (there + count, here + count)
                continue
            }
            let order = order(there, here, of: former)
            if order <= 0, changed.first == there {
                changed.removeFirst()
                difference.take(there, over: order == 0 ? here : nil)
            } else {
                difference.add(order <= 0 ? there : nil, order >= 0 ? here : nil)
            }
            if order <= 0 { there += 1 }
            if order >= 0 { here += 1 }
        }
        return try difference.resolved()
    }

    /// Positions in the source's index of files that the manifest names and the run leaves alone, and of which one of
    /// the trees no longer has what a pull has left there: somebody has touched, edited, replaced or removed it. Also
    /// those in ``edited``.
    private func changedOthers(beside former: StatIndex) -> [Int] {
        guard rows.count < manifest.files.count else { return edited }
        let (from, to) = (Directories(source), Directories(target))
        var walk = IndexWalk(index: former)
        return (0..<known.count).filter { position in
            guard !environment.stop.isStopped, !known.isDirectory(position), let record = known.record(position) else {
                return false
            }
            return known.withPath(position) { path -> Bool in
                guard let row = manifest.files.row(of: path) else { return edited.hasRow(position) }
                guard !rows.hasRow(row) else { return false }
                guard let there = from.status(of: path), record.matches(there) else { return true }
                guard let own = walk.find(path).flatMap(former.record) else { return false }
                // Each name that a file gets in another tree changes its status.
                return to.status(of: path).map { $0.isSameFile(as: there) || own.matches($0) } != true
            }
        }
    }

    /// Negative, zero or positive as a path of the source's index comes before, equals or comes after one of the
    /// target's.
    private func order(_ position: Int, _ own: Int, of former: StatIndex) -> Int {
        guard position < known.count else { return 1 }
        guard own < former.count else { return -1 }
        return known.withPath(position) { path in former.withPath(own) { PathOrder.compare(path, $0) } }
    }

    /// Rows of which nothing is known, but which the source may have.
    private func rowsUnknown(beside former: StatIndex) -> [Int] {
        guard !isExact else { return [] }
        var (theirs, ours) = (IndexWalk(index: known), IndexWalk(index: former))
        return rows.filter { row in
            manifest.files.withPath(row) { path in
                let (position, own) = (theirs.find(path), ours.find(path))
                return position == nil && own == nil
            }
        }
    }

    /// The differences between the trees, path by path.
    private struct Difference {
        private let mirror: TreeMirror
        private let former: StatIndex
        private let directories: Directories
        /// `nil` for a step that is still open.
        var steps: [Step?] = []
        private var ahead: [Int] = []
        /// Rows to check, and the positions of their records in both indexes.
        private var open: [(step: Int, row: Int, position: Int?, own: Int?)] = []
        /// The first error.
        private var failure: FileError?

        init(_ mirror: TreeMirror, _ former: StatIndex) {
            (self.mirror, self.former) = (mirror, former)
            directories = Directories(mirror.source)
        }

        mutating func add(row: Int, _ position: Int? = nil, _ own: Int? = nil) {
            open.append((steps.count, row, position, own))
            steps.append(nil)
        }

        /// - Parameters:
        ///   - position: In the source's index; `nil` if the path is not there.
        ///   - own: In the target's.
        mutating func add(_ position: Int?, _ own: Int?) {
            let there = position.flatMap(mirror.known.trusted)
            let here = own.flatMap(former.trusted)
            if let row = row(position, own) {
                guard let here else { return add(row: row, position, own) }
                let files = mirror.manifest.files
                let isShown = there.map(here.isSame) ?? false
                let isWanted =
                    here.digest == files.contentDigest(row) && here.kind == files.kind(row)
                    && (isShown || !files.withPath(row) { isTaken($0, by: here.kind) })
                if isWanted, !isShown { ahead.append(row) }
                guard isWanted || isShown else { return add(row: row, position, own) }
                let entry = Entry(path: .row(row), record: there.map(here.later) ?? here, isHere: true)
                return steps.append(.one(entry, former: own))
            }
            if let position {
                if let here, let there, here.isSame(as: there) {
                    let entry = Entry(path: .position(position), record: here.later(there), isHere: true)
                    return steps.append(.one(entry, former: own))
                }
                return take(position, over: own)
            }
            if let own { steps.append(.gone(former: own)) }
        }

        /// Takes the source's entry, whatever the target has; the source may no longer have it.
        mutating func take(_ position: Int, over own: Int?) {
            if let entry = entry(.position(position), position) {
                steps.append(.one(entry, former: own))
            } else if let own {
                steps.append(.gone(former: own))
            }
        }

        /// Whether the source has something below a path, or something else in place of a directory above it: no tree
        /// has both.
        private func isTaken(_ path: UnsafeBufferPointer<UInt8>, by kind: FileTable.Kind) -> Bool {
            let known = mirror.known
            if kind != .directory, known.hasFiles(below: Array(path)) { return true }
            return path.indices.contains { end in
                guard path[end] == 0x2F else { return false }
                return known.position(of: UnsafeBufferPointer(rebasing: path[..<end])).map { !known.isDirectory($0) }
                    ?? false
            }
        }

        private func row(_ position: Int?, _ own: Int?) -> Int? {
            if let position { return mirror.known.withPath(position) { row(of: $0) } }
            return own.flatMap { own in former.withPath(own) { row(of: $0) } }
        }

        /// The row of a path, if the run places it.
        private func row(of path: UnsafeBufferPointer<UInt8>) -> Int? {
            guard let row = mirror.manifest.files.row(of: path) else { return nil }
            let rows = mirror.rows
            if rows.count == mirror.manifest.files.count { return row }
            return rows.hasRow(row) ? row : nil
        }

        /// The entry for a place in the source that is as a pull has left it. If that is not certain, the file is taken
        /// over all the same, and hashed there. So is one that has changed since, if it is a large file of the run, as
        /// most of it may still be what it was, or one that the manifest names and the run leaves alone.
        private mutating func entry(_ path: Entry.Path, _ position: Int) -> Entry? {
            guard let record = mirror.known.record(position) else { return nil }
            let found = mirror.known.withPath(position) { [directories] place -> Result<FileStatus?, FileError> in
                do throws(FileError) {
                    let found = try directories.withLeaf(of: place) { directory, leaf throws(FileError) in
                        try treeStatus(of: place, leaf, in: directory)
                    }
                    return .success(found ?? nil)
                } catch { return .failure(error) }
            }
            switch found {
            case .success(let there?):
                let isRight = record.kind == .directory ? there.kind == .directory : record.matches(there)
                var entry = Entry(
                    path: path, record: record, isHere: false, isDoubtful: !mirror.known.trusts(record))
                let files = mirror.manifest.files
                if case .position = path, record.kind != .directory {
                    entry.isLeftAlone = mirror.known.withPath(position, files.row(of:)) != nil
                }
                if isRight { return entry }
                guard record.kind != .directory, there.kind == .file || there.kind == .link else { return nil }
                let isTaken =
                    switch path {
                    case .row(let row): there.kind == .file && record.kind != .link && files.blobs(row).count > 1
                    case .position: entry.isLeftAlone
                    }
                guard isTaken else { return nil }
                entry.changed = there
                return entry
            case .success: return nil
            case .failure(let error):
                // The run fetches its own files then; any other file would be lost.
                let isGone = error.isMissing || error.code == .tooManySymbolicLinkLevels
                if case .position = path, !isGone { failure = failure ?? error }
                return nil
            }
        }

        /// Checks the open rows.
        ///
        /// - Throws: ``FileError`` for a file of the source that may or may not be there.
        mutating func resolved() throws(FileError) -> (steps: [Step], ahead: [Int]) {
            let found = Inventory(
                of: mirror.manifest, rows: open.map(\.row), in: mirror.source, index: mirror.known,
                traitPolicy: .ignored, environment: mirror.environment, progress: mirror.progress)
            for (step, row, position, own) in open {
                let right = found.records[row].map { Entry(path: .row(row), record: $0, isHere: false) }
                if let entry = right ?? position.flatMap({ entry(.row(row), $0) }) {
                    steps[step] = .one(entry, former: own)
                } else {
                    steps[step] = own.map { .gone(former: $0) }
                }
            }
            if let failure { throw failure }
            return (steps.compactMap(\.self), ahead)
        }
    }

    /// Requires room for the content of a new tree, if files cannot be shared.
    private func requireRoom(for steps: [Step]) throws(EngineError) {
        guard sharing == .copy else { return }
        let bytes = steps.reduce(UInt64(0)) { sum, step in
            guard case .one(let entry, _) = step, !entry.isHere, entry.record.kind != .directory else { return sum }
            return sum.saturatingAdd(entry.wanted.status.size)
        }
        let free = try usable(target.freeSpace())
        guard bytes > 0, free.bytes <= bytes else { return }
        throw EngineError(
            .ioError,
            "\(escaped(target.path)): a second tree needs \(ByteCount(bytes)), since files cannot be shared here, but only "
                + "\(ByteCount(free.bytes)) are free; nothing was changed", cause: .diskFull)
    }

    /// Opens directories whose modes keep this user from changing them; the run gives them their modes again.
    private func openDirectories(of index: StatIndex) {
        let directories = Directories(target)
        for position in 0..<index.count where index.isDirectory(position) {
            index.withPath(position, directories.openToOwner)
        }
    }

    /// Copies the map of the chunks of large files, for the run. Without the map more is fetched.
    private func copyChunkMap() {
        guard let file = openToRead(source.state, ChunkMap.name), let size = status(file.raw)?.size,
            let copy = try? createFile(ChunkMap.name + ".new", in: target.state, .readWrite)
        else { return }
        guard cloneFile(file.raw, to: copy.raw) == nil || copyBytes(of: file.raw, size, to: copy.raw) == nil else {
            return
        }
        _ = renameEntry(ChunkMap.name + ".new", in: target.state, to: ChunkMap.name, in: target.state)
    }

    /// The changes in the target. For one thread.
    private struct Work {
        private let mirror: TreeMirror
        private let from: Directories
        private let to: Directories
        private var emptied: [[UInt8]] = []
        /// The first error.
        private(set) var failure: FileError?
        /// The number of entries placed.
        private(set) var placed = 0
        /// Whether any of them has bytes of its own.
        private(set) var hasWritten = false

        init(_ mirror: TreeMirror) {
            self.mirror = mirror
            from = Directories(mirror.source)
            to = Directories(mirror.target)
        }

        /// Removes an entry that the source does not have.
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

        /// Removes directories that are empty now.
        mutating func removeEmptied() {
            to.closeAll()
            let directories = Directories(mirror.target, capacity: 1)
            for path in emptied.reversed() { directories.removeEmpty(path) }
        }

        /// Gives the target an entry of the source.
        ///
        /// - Parameter former: The record of the target's entry at the path.
        /// - Returns: The record of the entry; `nil` if it is not there now.
        mutating func place(_ record: IndexRecord, _ path: UnsafeBufferPointer<UInt8>, over former: IndexRecord?)
            -> IndexRecord?
        {
            guard failure == nil else { return nil }
            placed += 1
            do throws(FileError) {
                return try to.withLeaf(of: path, create: true) { directory, leaf throws(FileError) -> IndexRecord? in
                    if record.kind == .directory { return try place(record, leaf, in: directory, path) }
                    return try from.withLeaf(of: path) { source, name throws(FileError) -> IndexRecord? in
                        guard let wanted = try treeStatus(of: path, name, in: source), record.matches(wanted) else {
                            return nil
                        }
                        if let there = try treeStatus(of: path, leaf, in: directory) {
                            let isRight =
                                there.isSameFile(as: wanted)
                                || former.map {
                                    $0.digest == record.digest && $0.kind == record.kind && $0.matches(there)
                                }
                                    ?? false
                            if isRight { return made(record, there) }
                            if there.kind == .directory {
                                removeTree(leaf, in: directory)
                            } else {
                                removeFile(leaf, in: directory)
                            }
                        }
                        return try share(record, wanted, from: name, in: source, as: leaf, in: directory, at: path)
                    } ?? nil
                } ?? nil
            } catch {
                failure = error
                return nil
            }
        }

        /// The record of a file of the target with its present content: the next run need not read it again. `nil` if
        /// it cannot be read.
        func examine(_ path: UnsafeBufferPointer<UInt8>) -> IndexRecord? {
            guard var reader = try? PlaceReader(mirror.target, isStopped: mirror.environment.isStopped) else {
                return nil
            }
            return reader.record(of: path)
        }

        /// The status of an entry of the source; `nil` for none, and after an error.
        func source(_ path: UnsafeBufferPointer<UInt8>) -> FileStatus? { failure == nil ? from.status(of: path) : nil }

        /// Notes that a file of the source could not be taken, which the next tree would then lack.
        mutating func miss(_ path: UnsafeBufferPointer<UInt8>) {
            guard source(path) != nil else { return }
            failure = FileError(
                step: "take over", path: shown(path), code: .permissionDenied,
                remark: "this user may not read it, or somebody is writing to it")
        }

        private func made(_ record: IndexRecord, _ status: FileStatus) -> IndexRecord {
            var made = record
            made.status = IndexRecord.Status(status)
            return made
        }

        private func shown(_ path: some Collection<UInt8>) -> String { String(decoding: path, as: UTF8.self) }

        private func place(
            _ record: IndexRecord, _ leaf: UnsafePointer<CChar>, in directory: Int32, _ path: UnsafeBufferPointer<UInt8>
        ) throws(FileError) -> IndexRecord? {
            if let there = try treeStatus(of: path, leaf, in: directory), there.kind != .directory {
                removeFile(leaf, in: directory)
            }
            let mode = mirror.target.umask.holding(in: directory).less(0o777)
            if let code = makeDirectory(leaf, in: directory, mode: mode), code != .fileExists {
                throw FileError(step: "create directory", path: shown(path), code: code)
            }
            guard let found = try treeStatus(of: path, leaf, in: directory) else { return nil }
            // The run sets its mode and time.
            return IndexRecord(directory: found, keeping: .none, installed: record.installed)
        }

        /// Gives the target a file or link of the source: another name for it, or else a clone or copy.
        ///
        /// - Parameters:
        ///   - wanted: Its status a moment ago.
        ///   - name: Its name in the source, in the directory with the descriptor `source`.
        ///   - leaf: Its name in the target, in the directory with the descriptor `directory`; free by now.
        /// - Returns: Its record in the target; `nil` if it has changed meanwhile, or its owner lets nobody read it.
        private mutating func share(
            _ record: IndexRecord, _ wanted: FileStatus, from name: UnsafePointer<CChar>, in source: Int32,
            as leaf: UnsafePointer<CChar>, in directory: Int32, at path: UnsafeBufferPointer<UInt8>
        ) throws(FileError) -> IndexRecord? {
            if record.kind == .link {
                return try copyLink(record, wanted, from: name, in: source, as: leaf, in: directory, at: path)
            }
            guard mirror.sharing == .link, addName(leaf, in: directory, to: name, in: source) == nil else {
                // The file has too many names, or belongs to somebody else: link(2).
                return try copyFile(record, wanted, from: name, in: source, as: leaf, in: directory, at: path)
            }
            if wanted.permissions & 0o222 != 0 {
                _ = setMode(leaf, in: directory, FileMode(wanted.permissions & ~0o222))
            }
            guard let found = try treeStatus(of: path, leaf, in: directory), record.isSameContent(as: found) else {
                removeFile(leaf, in: directory)
                return nil
            }
            return made(record, found)
        }

        private func copyLink(
            _ record: IndexRecord, _ wanted: FileStatus, from name: UnsafePointer<CChar>, in source: Int32,
            as leaf: UnsafePointer<CChar>, in directory: Int32, at path: UnsafeBufferPointer<UInt8>
        ) throws(FileError) -> IndexRecord? {
            guard let text = readLink(source, name) else {
                let code = Errno.last
                // The link is gone, or something else is in its place.
                if code == .noSuchFileOrDirectory || code == .invalidArgument { return nil }
                throw failed("read", path, code)
            }
            let code = (text.map(CChar.init(bitPattern:)) + [0]).withUnsafeBufferPointer { target -> Errno? in
                guard let start = target.baseAddress else { return .invalidArgument }
                return makeSymbolicLink(leaf, in: directory, to: start)
            }
            if let code { throw failed("create link", path, code) }
            _ = setModified(leaf, in: directory, wanted.modified)
            guard let found = try treeStatus(of: path, leaf, in: directory) else { return nil }
            return made(record, found)
        }

        private mutating func copyFile(
            _ record: IndexRecord, _ wanted: FileStatus, from name: UnsafePointer<CChar>, in source: Int32,
            as leaf: UnsafePointer<CChar>, in directory: Int32, at path: UnsafeBufferPointer<UInt8>
        ) throws(FileError) -> IndexRecord? {
            guard let reading = openToRead(source, name) else {
                let code = Errno.last
                // The file is gone or was replaced, or its owner, this user or another one, has closed it to readers.
                let isTheirs = wanted.user != CurrentProcess.user
                let isClosed = wanted.permissions & 0o400 == 0 || isTheirs
                let isRefused = code == .permissionDenied || code == .notPermitted
                if code == .noSuchFileOrDirectory || code == .tooManySymbolicLinkLevels || isRefused && isClosed {
                    return nil
                }
                throw failed("read", path, code)
            }
            guard status(reading.raw) == wanted else { return nil }
            guard let writing = makeFile(leaf, in: directory, mode: 0o600) else { throw failed("create", path, .last) }
            hasWritten = true
            if cloneFile(reading.raw, to: writing.raw) != nil,
                let code = copyBytes(of: reading.raw, wanted.size, to: writing.raw)
            {
                throw failed("copy", path, code)
            }
            let mode = FileMode(wanted.permissions & 0o777 & (mirror.sharing == .link ? ~0o222 : 0o777))
            let code =
                handOverACLs(of: reading.raw, to: writing.raw, isDirectory: false) ?? setMode(writing.raw, mode)
                ?? setModified(writing.raw, wanted.modified)
            if let code { throw failed("create", path, code) }
            // A clone has the bytes that are known when its source has not changed since.
            guard status(reading.raw) == wanted, let found = status(writing.raw), found.size == wanted.size else {
                removeFile(leaf, in: directory)
                return nil
            }
            return made(record, found)
        }

        private func failed(_ step: String, _ path: UnsafeBufferPointer<UInt8>, _ code: Errno) -> FileError {
            FileError(step: step, path: shown(path), code: code)
        }
    }
}

/// The status of a path in one of the trees; `nil` if there is nothing, or no longer anything.
///
/// - Throws: ``FileError`` if the status is unknown: there may be somebody's file, which would be lost with the tree.
func treeStatus(of path: some Collection<UInt8>, _ leaf: UnsafePointer<CChar>, in directory: Int32) throws(FileError)
    -> FileStatus?
{
    switch status(directory, leaf) {
    case .success(let found): return found
    case .failure(let code):
        throw FileError(step: "look at", path: String(decoding: path, as: UTF8.self), code: code)
    }
}

extension IndexRecord {
    /// Whether a file has the content of this record, provided that only its names and its mode have changed.
    fileprivate func isSameContent(as found: FileStatus) -> Bool {
        status.isOfSameFile(as: Status(found)) && (found.kind == .link) == (kind == .link)
    }
}
