import SyncContent
import SyncFiles
package import SyncManifest
import SyncModel
package import SyncPlugins
import SyncSystem

/// Makes staged files visible, in batches, on a thread of its own.
///
/// Always in this order: write every byte of the batch, one syncfs(2), record it in the index log, rename each file.
/// The renames of a batch become durable with the next batch's syncfs (or the last one, or an extra one if no batch
/// follows within a second); only then does the batch count as installed. git's `core.fsyncMethod=batch` has the same
/// idea.
///
/// A syncfs that fails is the last one: the kernel reports a lost write once, so a later success proves nothing about
/// earlier writes. From then on no batch is placed, files that no syncfs has covered count as failed, and staging is
/// cleared.
final class Committer: Sendable {
    /// A verified file in staging, ready for its place.
    struct Staged: Sendable {
        enum Source: Sendable {
            /// The file's status when it was hashed; `nil` for a link.
            case file(Staging.File, FileStatus?)
            /// A member of a directory assembled in staging, by the directory's number; the file's status there.
            case member(of: Int, FileStatus)
        }
        var row: Int
        var source: Source
        /// The SHA-256 of the content; for a link, of the target's text.
        var digest: SHA256Digest

        init(row: Int, file: Staging.File, _ status: FileStatus?) {
            self.row = row
            source = .file(file, status)
            digest = file.digest
        }

        init(row: Int, memberOf directory: Int, _ status: FileStatus, digest: SHA256Digest) {
            self.row = row
            source = .member(of: directory, status)
            self.digest = digest
        }
    }

    /// The results by row. Read after ``finish()``.
    struct Outcome: Sendable {
        var records = RecordColumn()
        var failures: [(row: Int, error: FileError)] = []
        /// Rows refused by verifiers, with their reasons.
        var refusals: [Int: String] = [:]
        /// Whether files are in place that no syncfs has covered. They count as failed.
        var leftUnsynced = false
    }

    /// A batch ends at this many files …
    private static let batchFiles = 2048
    /// … or this many **bytes** …
    private static let batchBytes: UInt64 = 128 << 20
    /// … or when its first file has waited this many **milliseconds**.
    private static let batchAge = 1000
    /// The number of files that may wait before ``add(_:)`` blocks.
    private static let mostWaiting = 8 * batchFiles

    private struct State: Sendable {
        var waiting: [Staged] = []
        var bytes: UInt64 = 0
        var finishing = false
        var outcome = Outcome()
    }

    private let state: Monitor<State>
    private let thread: Monitor<WorkerThread?>
    private let manifest: Manifest
    private let destination: Destination
    private let staging: Staging
    private let isDurable: Bool
    private let verifications: [FileVerification]
    private let wholes: WholeDirectories
    private let backup: BackupDirectory?
    private let disk: DiskState
    private let isStopped: @Sendable () -> Bool
    private let synchronize: @Sendable (Destination) throws(FileError) -> Void
    private let onCommitted: @Sendable ([Int]) -> Void

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - isDurable: Whether to syncfs; without it a power cut can leave empty files.
    ///   - wholes: Directories being assembled in staging; none may be chosen if there are verifications.
    ///   - disk: Notified when a file cannot be placed.
    ///   - isStopped: Whether a stop was requested: then files that a verifier could not check stay in staging.
    ///   - synchronize: syncfs(2) on the destination.
    ///   - onCommitted: Called on the committer's thread with the rows of each batch, once they are durable.
    /// - Throws: ``ThreadError``.
    init(
        manifest: Manifest, destination: Destination, staging: Staging, isDurable: Bool,
        verifications: [FileVerification] = [], wholes: WholeDirectories = WholeDirectories(),
        backup: BackupDirectory? = nil, disk: DiskState = DiskState(),
        isStopped: @escaping @Sendable () -> Bool = { false },
        synchronize: @escaping @Sendable (Destination) throws(FileError) -> Void = { try $0.synchronize() },
        start: WorkerThread.Starter = WorkerThread.system, onCommitted: @escaping @Sendable ([Int]) -> Void
    ) throws(ThreadError) {
        (self.manifest, self.destination, self.staging) = (manifest, destination, staging)
        (self.isDurable, self.verifications) = (isDurable, verifications)
        (self.wholes, self.backup, self.disk) = (wholes, backup, disk)
        (self.isStopped, self.synchronize, self.onCommitted) = (isStopped, synchronize, onCommitted)
        var outcome = Outcome()
        outcome.records = RecordColumn(manifest.files)
        state = Monitor(State(outcome: outcome))
        thread = Monitor(nil)
        let started = try start("commit") { [self] in work() }
        thread.withLock { $0 = started }
    }

    /// Hands over a verified file. From any thread; blocks while too many wait.
    func add(_ staged: Staged) {
        let size = manifest.files.size(staged.row)
        state.wait { state -> Void? in
            guard state.waiting.count < Self.mostWaiting else { return nil }
            state.waiting.append(staged)
            state.bytes = state.bytes &+ size
            return ()
        }
    }

    /// Commits the rest, ends the thread, and returns the result of every row.
    func finish() -> Outcome {
        state.change { $0.finishing = true }
        thread.withLock { $0 }?.join()
        return state.withLock(\.outcome)
    }

    private func work() {
        let placement = Placement(manifest, destination, staging, wholes, backup)
        /// Files placed since the last syncfs.
        var placed: [(row: Int, record: IndexRecord)] = []
        while true {
            let (staged, isLast) = nextBatch(hasPlaced: !placed.isEmpty)
            state.change { _ in }  // Wakes threads that wait for room.
            let batch = verified(staged)
            if isDurable { placement.keepBackups(of: batch) }
            if !batch.isEmpty || !placed.isEmpty && !isLast { makeDurable(&placed, placement) }
            if let error = disk.syncFailure {
                take(Placed(failures: batch.map { ($0.row, error) }), &placed)
            } else {
                take(placement.place(batch), &placed)
            }
            guard isLast else { continue }
            if disk.syncFailure == nil { take(placement.finish(), &placed) }
            if !placed.isEmpty { makeDurable(&placed, placement) }
            // The run has failed anyway; files that stay in staging are checked before they are used.
            if disk.syncFailure != nil { try? staging.clear() }
            return
        }
    }

    /// - Parameter hasPlaced: Whether files of the last batch are not durable yet. Then an empty batch follows if no
    ///   other does, so that they need not wait for the next file, which may take hours.
    private func nextBatch(hasPlaced: Bool) -> (batch: [Staged], isLast: Bool) {
        var ticks = 0
        return state.wait(every: 50) { state -> ([Staged], Bool)? in
            ticks += state.waiting.isEmpty && !hasPlaced ? 0 : 1
            let isFull = state.waiting.count >= Self.batchFiles || state.bytes >= Self.batchBytes
            guard isFull || state.finishing || ticks * 50 > Self.batchAge else { return nil }
            defer {
                state.waiting = []
                state.bytes = 0
            }
            return (state.waiting, state.finishing)
        }
    }

    /// Removes files that a verifier refuses from the batch and from staging.
    private func verified(_ batch: [Staged]) -> [Staged] {
        var batch = batch
        if !verifications.isEmpty { Self.waitForClock(after: batch) }
        for verification in verifications where !batch.isEmpty {
            let refusals = verification.refusals(batch, of: manifest, in: staging)
            guard !refusals.isEmpty else { continue }
            for case (let row, .file(let file, _)) in batch.map({ ($0.row, $0.source) }) {
                // A file whose check a stop prevented is checked by the next run.
                if let refusal = refusals[row], !(refusal.isUnchecked && isStopped()) { staging.remove(file) }
            }
            batch.removeAll { refusals[$0.row] != nil }
            state.withLock { $0.outcome.refusals.merge(refusals.mapValues { $0.reason }) { first, _ in first } }
        }
        return batch
    }

    /// Waits, at most 50 ms, until a file that changes from now on gets a later time than those of a batch. The kernel
    /// takes times from CLOCK_REALTIME_COARSE, which stands still for some milliseconds at a time. time(7).
    private static func waitForClock(after batch: [Staged]) {
        let newest = batch.reduce(Int64(0)) { newest, staged in
            guard case .file(_, let status?) = staged.source else { return newest }
            return max(newest, status.changed, status.modified)
        }
        var tries = 0
        while tries < 25, SystemTime.ofFiles <= newest {
            tries += 1
            pauseThread(milliseconds: 2)
        }
    }

    private func take(_ result: Placed, _ placed: inout [(row: Int, record: IndexRecord)]) {
        placed += result.records
        for failure in result.failures { disk.note(failure.error) }
        state.withLock { $0.outcome.failures += result.failures }
    }

    /// Makes everything written so far durable; then placed files count, and are reported.
    private func makeDurable(_ placed: inout [(row: Int, record: IndexRecord)], _ placement: Placement) {
        if isDurable, disk.syncFailure == nil {
            do throws(FileError) { try synchronize(destination) } catch { disk.fail(syncing: error) }
        }
        let rows = placed.map(\.row)
        state.withLock { [placed] state in
            guard let error = disk.syncFailure else { return state.outcome.records.take(placed) }
            state.outcome.failures += rows.map { ($0, error) }
            state.outcome.leftUnsynced = state.outcome.leftUnsynced || !rows.isEmpty
        }
        if disk.syncFailure == nil, !rows.isEmpty {
            placement.confirm(placed)
            onCommitted(rows)
        }
        placed = []
    }
}

/// A verifier, and the files that it checks before they are installed.
package struct FileVerification: Sendable {
    /// Its name in events.
    package var name: String
    package var verifier: any FileVerifier
    /// Patterns of paths as in groups; empty for every file.
    package var include: [Glob]

    package init(name: String, verifier: any FileVerifier, include: [Glob] = []) {
        self.name = name
        self.verifier = verifier
        self.include = include
    }

    private func covers(_ row: Int, of manifest: Manifest) -> Bool {
        manifest.files.kind(row) != .link
            && (include.isEmpty || manifest.files.withPath(row) { path in include.contains { $0.matches(path) } })
    }

    /// Why a file is not installed, and whether it could not be checked, which is not to have passed.
    typealias Refusal = (reason: String, isUnchecked: Bool)

    /// Checks a batch.
    ///
    /// - Returns: The files that are not installed, by row.
    func refusals(_ staged: [Committer.Staged], of manifest: Manifest, in staging: Staging) -> [Int: Refusal] {
        var refusals: [Int: Refusal] = [:]
        func unchecked(_ row: Int, _ reason: String) {
            refusals[row] = ("could not be checked before installation: \(reason)", true)
        }
        let mine = staged.compactMap { entry -> (row: Int, file: Staging.File, status: FileStatus?)? in
            guard covers(entry.row, of: manifest) else { return nil }
            if case .file(let file, let status) = entry.source { return (entry.row, file, status) }
            unchecked(entry.row, "its directory comes as a whole")
            return nil
        }
        guard !mine.isEmpty else { return refusals }
        let files = mine.map { entry in
            StagedFile(
                path: manifest.files.path(entry.row), stagedPath: staging.shown(entry.file),
                size: manifest.files.size(entry.row), sha256: "\(manifest.files.digest(entry.row))")
        }
        do throws(PluginError) {
            let verdicts = try verifier.verify(files)
            guard verdicts.count == files.count else {
                let text = "\(verdicts.count) verdicts on \(files.count) files"
                throw PluginError(plugin: name, code: .badAnswer, message: text)
            }
            for (entry, verdict) in zip(mine, verdicts) {
                switch verdict {
                case .accepted: break
                case .refused(let reason):
                    refusals[entry.row] = ("refused by verifier \(name): \(escaped(reason))", false)
                case .unchecked(let reason): unchecked(entry.row, escaped(reason))
                }
            }
        } catch { for entry in mine { unchecked(entry.row, "\(error)") } }
        // A verifier must not write: what was hashed is what is installed.
        for entry in mine where refusals[entry.row] == nil {
            guard let status = entry.status, staging.fileStatus(of: entry.file) != status else { continue }
            refusals[entry.row] = (
                "changed while verifier \(name) checked it: a verifier must not change the files it checks", false
            )
        }
        return refusals
    }
}
