import CPosix
import SyncFiles
import SyncManifest
import SyncModel
import SyncUnpack

/// Makes staged files visible, in batches, on a thread of its own.
///
/// Order, and no other: every byte of the batch written → one syncfs(2) → record in the index log → rename each.
/// The renames of a batch become durable with the syncfs of the next one (or the last); only then is the
/// batch told. git's `core.fsyncMethod=batch` has the same idea.
final class Committer: Sendable {
    /// A verified file in staging, ready for its place.
    struct Staged: Sendable {
        var row: Int
        var file: Staging.File
    }

    /// What became of rows. Read after ``finish()``.
    struct Outcome: Sendable {
        var records: [(row: Int, record: IndexRecord)] = []
        var failures: [(row: Int, error: FileError)] = []
        /// What verifiers did not let in, with their reasons.
        var refusals: [Int: String] = [:]
    }

    /// A batch ends at this many files …
    private static let batchFiles = 2048
    /// … or this many **bytes** …
    private static let batchBytes: UInt64 = 128 << 20
    /// … or when its first file has waited so many **milliseconds**.
    private static let batchAge = 1000

    private struct State: Sendable {
        var waiting: [Staged] = []
        var bytes: UInt64 = 0
        var finishing = false
        var outcome = Outcome()
    }

    private let state = Monitor(State())
    private let thread: Monitor<WorkerThread?>
    private let manifest: Manifest
    private let destination: Destination
    private let staging: Staging
    private let isDurable: Bool
    private let verifications: [FileVerification]
    private let onCommitted: @Sendable ([Int]) -> Void

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - isDurable: Whether to syncfs; without it a power cut can leave empty files.
    ///   - verifications: Who looks at files before they are placed.
    ///   - onCommitted: Called on the committer's thread with the rows of each batch, once they are durable.
    init(
        manifest: Manifest,
        destination: Destination,
        staging: Staging,
        isDurable: Bool,
        verifications: [FileVerification] = [],
        onCommitted: @escaping @Sendable ([Int]) -> Void
    ) {
        self.manifest = manifest
        self.destination = destination
        self.staging = staging
        self.isDurable = isDurable
        self.verifications = verifications
        self.onCommitted = onCommitted
        thread = Monitor(nil)
        let started = WorkerThread(name: "commit") { [self] in work() }
        thread.withLock { $0 = started }
    }

    /// Hands over a verified file. Any thread.
    func add(_ staged: Staged) {
        let size = manifest.files.size(staged.row)
        state.withLock {
            $0.waiting.append(staged)
            $0.bytes = $0.bytes &+ size
        }
    }

    /// Commits what is left, ends the thread, and returns what became of every row.
    func finish() -> Outcome {
        state.change { $0.finishing = true }
        thread.withLock { $0 }?.join()
        return state.withLock(\.outcome)
    }

    private func work() {
        let directories = Directories(destination)
        var log: LogBox?
        var untold: [Int] = []
        while true {
            let (staged, isLast) = nextBatch()
            let batch = verified(staged)
            if !batch.isEmpty {
                let failure = synchronize()
                tell(&untold)
                if let failure {
                    state.withLock { $0.outcome.failures += batch.map { ($0.row, failure) } }
                } else {
                    untold = place(batch, directories, &log)
                }
            }
            guard isLast else { continue }
            if !untold.isEmpty { _ = synchronize() }
            tell(&untold)
            return
        }
    }

    private func nextBatch() -> (batch: [Staged], isLast: Bool) {
        var ticks = 0
        return state.wait(every: 50) { state -> ([Staged], Bool)? in
            ticks += state.waiting.isEmpty ? 0 : 1
            let isFull = state.waiting.count >= Self.batchFiles || state.bytes >= Self.batchBytes
            guard isFull || state.finishing || ticks * 50 > Self.batchAge else { return nil }
            defer {
                state.waiting = []
                state.bytes = 0
            }
            return (state.waiting, state.finishing)
        }
    }

    /// Leaves out what a verifier does not let in; that is gone.
    private func verified(_ batch: [Staged]) -> [Staged] {
        var batch = batch
        for verification in verifications where !batch.isEmpty {
            let refusals = verification.refusals(batch, of: manifest, in: staging)
            guard !refusals.isEmpty else { continue }
            for entry in batch where refusals[entry.row] != nil { staging.remove(entry.file) }
            batch.removeAll { refusals[$0.row] != nil }
            state.withLock { $0.outcome.refusals.merge(refusals) { first, _ in first } }
        }
        return batch
    }

    private func synchronize() -> FileError? {
        guard isDurable else { return nil }
        do throws(FileError) {
            try destination.synchronize()
            return nil
        } catch {
            return error
        }
    }

    private func tell(_ rows: inout [Int]) {
        if !rows.isEmpty { onCommitted(rows) }
        rows = []
    }

    /// The log is opened with the first batch: a run that changes nothing writes nothing.
    private final class LogBox {
        var log: IndexLog
        init(_ log: consuming IndexLog) { self.log = log }
    }

    private func place(_ batch: [Staged], _ directories: Directories, _ log: inout LogBox?) -> [Int] {
        var placed: [Int] = []
        var records: [(row: Int, record: IndexRecord)] = []
        var failures: [(row: Int, error: FileError)] = []
        // Logged before it is placed: a kill in between leaves nothing that nobody knows to be ours.
        do throws(FileError) {
            if log == nil { log = LogBox(try IndexLog(destination)) }
            try log?.log.append(
                batch.map { staged in
                    IndexLog.Entry(
                        path: manifest.files.withPath(staged.row) { Array($0) },
                        digest: staged.file.name.digest,
                        kind: manifest.files.indexKind(staged.row)
                    )
                }
            )
        } catch {
            // Without the log a crash costs a re-hash and the right to prune these files.
        }
        for staged in batch {
            do throws(FileError) {
                let record = try place(staged, directories)
                placed.append(staged.row)
                records.append((staged.row, record))
            } catch {
                staging.remove(staged.file)
                failures.append((staged.row, error))
            }
        }
        state.withLock {
            $0.outcome.records += records
            $0.outcome.failures += failures
        }
        return placed
    }

    private func place(_ staged: Staged, _ directories: Directories) throws(FileError) -> IndexRecord {
        let files = manifest.files
        let result: Result<IndexRecord, FileError> = files.withPath(staged.row) { path in
            do throws(FileError) {
                let name = path.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0
                let parent = UnsafeBufferPointer(rebasing: path[..<max(0, name - 1)])
                guard let directory = try directories.descriptor(parent, create: true),
                    let leaf = path.baseAddress
                else { throw FileError(step: "enter", path: files.path(staged.row), code: ENOENT) }
                // The arena keeps a NUL behind each path, so the tail is a C string.
                let record = (leaf + name).withMemoryRebound(to: CChar.self, capacity: path.count - name + 1)
                {
                    rename(staged, to: $0, in: directory)
                }
                return .success(try record.get())
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func rename(
        _ staged: Staged,
        to name: UnsafePointer<CChar>,
        in directory: Int32
    ) -> Result<IndexRecord, FileError> {
        let files = manifest.files
        func failed(_ step: String, _ code: Int32) -> Result<IndexRecord, FileError> {
            let remark: String? =
                code == EISDIR || code == ENOTEMPTY || code == EEXIST
                ? "a directory is in the way; move it away" : nil
            return .failure(FileError(step: step, path: files.path(staged.row), code: code, remark: remark))
        }
        let code = staging.rename(staged.file, to: name, in: directory)
        guard code == 0 else { return failed("put in place", code) }
        switch status(directory, name) {
        case .success(let found?):
            return .success(
                IndexRecord(
                    status: found,
                    digest: staged.file.name.digest,
                    kind: files.indexKind(staged.row),
                    installed: true
                )
            )
        case .success(nil): return failed("find again", ENOENT)
        case .failure(let code): return failed("look at", code.errno)
        }
    }
}

extension FileTable {
    /// The row's kind as the index has it.
    func indexKind(_ row: Int) -> IndexRecord.Kind {
        switch kind(row) {
        case .file: .file
        case .executable: .executable
        case .link: .link
        }
    }
}
