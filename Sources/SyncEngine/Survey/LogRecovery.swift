import SyncFiles
import SyncManifest
import SyncModel
import SyncStore
import SyncSystem

extension PullRun {
    /// Takes over what a killed process of this run, or of a run that it replaces, put in place: those files count as
    /// installed by this run, and missing events are recorded now, before their group is complete.
    func recover(_ survey: Survey, _ files: inout RunFiles) throws(EngineError) {
        guard !survey.logged.isEmpty else { return }
        let table = files.manifest.files
        let placed = files.rows.filter { row in
            survey.inventory.records.has(row) && table.withPath(row) { survey.logged.contains(Array($0)) }
        }
        guard !placed.isEmpty else { return }
        // The renames may not be on the disk yet, and a run that fetches nothing syncs nothing else.
        if environment.isDurable { try onDisk(environment.synchronize(destination)) }
        try recording { () throws(StoreError) in
            let logged = try recordedPaths(of: loggingRun(), atMost: files.rows.count)
            for row in placed {
                let isReused = logged[SessionEvent.spelled(table.path(row))]
                // A run that has ended has counted the file.
                if isReused != nil, !isContinued { continue }
                files[row] = isReused == true ? .reused : .installed
                if isReused == nil { journal.installed(row, of: files.manifest, isReused: nil) }
            }
            // Only then is the log no longer needed: another kill, or a power cut, must lose nothing.
            try environment.events.flush(synced: environment.isDurable)
        }
    }

    /// Takes over the files of a tree that its readers did not have, whoever put them there: this run shows them. They
    /// count as the run's, and missing events are recorded now, before its groups are complete.
    ///
    /// - Parameters:
    ///   - unseen: Files that readers did not have; those that are not unchanged are counted already.
    ///   - isReused: Whether the bytes were here before the run; otherwise a process of this run may have fetched them.
    mutating func claim(_ unseen: [Int], _ files: inout RunFiles, isReused: Bool) throws(EngineError) {
        let table = files.manifest.files
        let rows = unseen.filter { files[$0] == .unchanged }
        guard !rows.isEmpty else { return }
        let run = isContinued ? report.run : nil
        let logged = try recording { () throws(StoreError) in try recordedPaths(of: run, atMost: files.rows.count) }
        for row in rows {
            let before = logged[SessionEvent.spelled(table.path(row))]
            files[row] = before ?? isReused ? .reused : .installed
            if before ?? isReused { report.bytes.reused = report.bytes.reused.saturatingAdd(table.size(row)) }
            if before == nil { journal.installed(row, of: files.manifest, isReused: isReused ? true : nil) }
        }
    }

    /// The files as hooks are to see them: with those that earlier processes of this run have put in place, or earlier
    /// runs that did not get as far as their groups.
    func withUnreported(_ files: RunFiles) throws(StoreError) -> RunFiles {
        // Files of a new tree that its readers did not have are counted by `claim`.
        guard trees == nil, let last = try isContinued ? report.run : former()?.identifier else { return files }
        // A run that has reached its groups has counted earlier files, whatever its result.
        let all = try environment.store.groups(of: last).first { $0.name == RunRecipe.groupOfAll }
        guard all?.result == nil else { return files }
        var placed: [[UInt8]: Bool] = [:]
        try scan(atMost: files.rows.count) { event in
            if event.kind == .groupCompleted { placed.removeAll() }
            if let path = event.installedPath { placed[path] = event.isReused }
        }
        guard !placed.isEmpty else { return files }
        var counted = files
        for row in files.rows where files[row] == .unchanged {
            guard let isReused = placed[SessionEvent.spelled(files.manifest.files.path(row))] else { continue }
            counted[row] = isReused ? .reused : .installed
        }
        return counted
    }

    /// The session's run before this one.
    private func former() throws(StoreError) -> StoredRun? {
        try environment.store.runs(session: session, limit: 2).first { $0.identifier != report.run }
    }

    /// The run that the log belongs to; `nil` for one that this run replaces, of which nothing has been counted.
    private func loggingRun() throws(StoreError) -> String? {
        if isContinued { return report.run }
        let former = try former()
        return former?.state == .superseded ? nil : former?.identifier
    }

    /// Paths with a recorded `task.installed` of a run, as spelled in the events, and whether their bytes were local.
    private func recordedPaths(of run: String?, atMost count: Int) throws(StoreError) -> [[UInt8]: Bool] {
        guard let run else { return [:] }
        var logged: [[UInt8]: Bool] = [:]
        try scan(atMost: count) { event in
            if let path = event.installedPath, event.isOf(run: run) { logged[path] = event.isReused }
        }
        return logged
    }

    /// Passes on the session's latest events: enough of them for `count` files.
    private func scan(atMost count: Int, _ take: (SessionEvent) -> Void) throws(StoreError) {
        let end = try environment.store.session(session)?.lastSequence ?? 0
        // The events of the files, each with others that may precede it: hops, waits, failures.
        try environment.store.scanEvents(of: session, after: max(0, end - Int64(count) * 3 - 20_000)) { event in
            take(event)
            return true
        }
    }
}

extension RunJournal {
    /// Whether the process that completed the run's groups has reported what it did.
    func isSummarized() throws(StoreError) -> Bool {
        var isSummarized = false
        try environment.store.scanEvents(of: session, after: 0) { event in
            switch event.kind {
            case .groupCompleted where event.isOf(run: run): isSummarized = false
            case .runSummary where event.isOf(run: run): isSummarized = true
            default: break
            }
            return true
        }
        return isSummarized
    }
}

// The fields that recovery reads from an event's line. The line is not parsed: there can be very many, and paths are
// compared as they are spelled.
extension SessionEvent {
    /// The path of a `task.installed` as it is spelled in JSON, without quotes; `nil` for another event.
    var installedPath: [UInt8]? { kind == .taskInstalled ? spelling(of: "path").map { Array($0) } : nil }

    /// Whether a `task.installed` says that the bytes were local.
    var isReused: Bool { spelling(of: "source")?.elementsEqual("reused".utf8) ?? false }

    func isOf(run: String) -> Bool { spelling(of: "run")?.elementsEqual(run.utf8) ?? false }

    /// A path as it is spelled in JSON, without quotes.
    static func spelled(_ path: String) -> [UInt8] {
        var line = JSONLine()
        line.value(path)
        return Array(line.bytes.dropFirst().dropLast())
    }
}

extension EngineEnvironment {
    /// Adds what a killed run put in place to an index: it is ours whatever the manifest says, so that it can be pruned
    /// or removed later. A file is hashed again first, unless its logged status still matches.
    ///
    /// - Parameter log: The killed run's log. It stays until the caller removes it; to fold it twice does no harm.
    /// - Returns: The new index, already on the disk, so that another kill does not lose it; `nil` when stopped: then
    ///   nothing has changed.
    /// - Throws: ``FileError``.
    func fold(
        _ log: [IndexLog.Entry], into index: StatIndex, in destination: Destination,
        isStopped: @escaping @Sendable () -> Bool
    ) throws(FileError) -> StatIndex? {
        guard !log.isEmpty else { return index }
        guard let found = try verified(log, in: destination, isStopped: isStopped) else { return nil }
        var writer = StatIndexWriter(in: destination)
        index.merge(found) { writer.append($0, path: $1) }
        try writer.write(owner: index.owner, completion: nil, revision: index.revision, durable: isDurable)
        return try StatIndex.load(from: destination)
    }

    /// The index that a fold would write, in memory only; `nil` when stopped.
    ///
    /// - Throws: ``FileError`` when the log, or what it names, cannot be read.
    func foldPreview(_ index: StatIndex, in destination: Destination) throws(FileError) -> StatIndex? {
        let log = try IndexLog.load(destination)
        guard !log.isEmpty else { return index }
        guard let found = try verified(log, in: destination, isStopped: isStopped) else { return nil }
        return index.replacingRecords { append in index.merge(found, append) }
    }

    /// The latest entry for each path, in ``PathOrder``, with a record if the logged file is still in place; `nil` when
    /// stopped.
    ///
    /// - Throws: ``FileError`` when a place cannot be read: without the log, nothing would show that its file is ours.
    private func verified(
        _ log: [IndexLog.Entry], in destination: Destination, isStopped: @escaping @Sendable () -> Bool
    ) throws(FileError) -> [(entry: IndexLog.Entry, record: IndexRecord?)]? {
        var latest: [[UInt8]: IndexLog.Entry] = [:]
        for entry in log { latest[entry.path] = entry }
        let entries = latest.values.sorted { PathOrder.precedes($0.path, $1.path) }
        let checked = concurrently(
            over: entries.count, threads: workers, name: "fold", isStopped: isStopped,
            by: { _ in try PlaceReader(destination, isStopped: isStopped) }
        ) { reader, place -> Result<IndexRecord?, FileError> in
            do throws(FileError) { return .success(try reader.read(entries[place])) } catch {
                // Below a link or a file that has replaced its directory, the entry is gone. A directory that is closed
                // to its owner, as a manifest can ask for, is opened only later.
                let isGone = error.isMissing || error.code == .tooManySymbolicLinkLevels
                return isGone || error.code == .permissionDenied ? .success(nil) : .failure(error)
            }
        }
        if isStopped() { return nil }
        guard checked.count == entries.count else {
            throw FileError(step: "read", path: destination.path, code: .noMemory)
        }
        var found: [(entry: IndexLog.Entry, record: IndexRecord?)] = entries.map { ($0, nil) }
        for (position, record) in checked { found[position].record = try record.get() }
        return found
    }
}

extension StatIndex {
    /// Passes on the records of the index and those that were found, in ``PathOrder``; for one path, the found record
    /// if there is one.
    fileprivate func merge(
        _ found: [(entry: IndexLog.Entry, record: IndexRecord?)],
        _ append: (IndexRecord, UnsafeBufferPointer<UInt8>) -> Void
    ) {
        var walk = IndexWalk(index: self)
        for (entry, record) in found {
            entry.path.withUnsafeBufferPointer { path in
                // A found record replaces the index's.
                let position = walk.find(path) { pass($0...$0, to: append) }
                if let record = record ?? position.flatMap(self.record) { append(record, path) }
            }
        }
        pass(walk.rest, to: append)
    }
}
