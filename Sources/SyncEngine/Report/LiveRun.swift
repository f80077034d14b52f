package import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem

/// Records the state of this process's run on disk: its transfers, tasks and progress. A thread checks twice a second
/// and writes what has changed, events too, so that observers are at most a second behind, and a killed process leaves
/// a record.
package final class LiveRun: Sendable {
    private struct State: Sendable {
        var run = ""
        /// Distinguishes this process's work on the run from that of others.
        var epoch: Int64?
        var files: LiveFiles?
        var progress: PullProgress?
        var tasks: TaskTracker?
        /// Returns the progress of the large files.
        var parts: (@Sendable () -> [PartProgress])?
        /// All files of the run, counted before the destination is checked.
        var total: (files: Int, bytes: UInt64) = (0, 0)
        var isEnding = false
        var thread: WorkerThread?
    }

    /// The received bytes of a transfer at the last check, and **bytes** a second; by the transfer's number.
    private typealias Sample = (received: UInt64, rate: Double)

    /// The progress of a large file, in **bytes**.
    typealias PartProgress = (path: String, done: UInt64, total: UInt64)

    private let state = Monitor(State())

    /// The time between checks, in **milliseconds**.
    private static let interval = 500
    /// The most transfers that are written; the rest is only counted.
    static let mostTransfers = 200
    /// The most large files in the record.
    static let mostFiles = 200

    package init() {}

    // MARK: Reported by the run

    /// Starts writing for a run. Without a thread nothing is written: that must not fail a pull.
    func open(run: String, session: String, epoch: Int64?, _ environment: EngineEnvironment) {
        let files = environment.store.liveFiles(of: session)
        state.withLock { $0 = State(run: run, epoch: epoch, files: files) }
        let thread = try? WorkerThread(name: "record") { [self] in work(environment) }
        state.withLock { $0.thread = thread }
    }

    /// Writes once more, then stops.
    func close() {
        let thread = state.change { state in
            state.isEnding = true
            return state.thread
        }
        thread?.join()
        state.withLock { $0 = State() }
    }

    /// Takes the progress of the run.
    func note(_ progress: PullProgress) { state.withLock { $0.progress = progress } }

    /// Takes the files of the run, before the destination is checked for them.
    func setTotal(of files: RunFiles) { state.withLock { $0.total = (files.rows.count, files.bytes) } }

    /// Starts the tasks of the run.
    func begin(_ files: RunFiles) -> TaskTracker {
        let (run, live) = state.withLock { ($0.run, $0.files) }
        let tasks = TaskTracker(files.all, files: live, run: run)
        state.withLock { $0.tasks = tasks }
        return tasks
    }

    /// Reports the progress of large files from now on.
    func watch(_ parts: @escaping @Sendable () -> [PartProgress]) { state.withLock { $0.parts = parts } }

    /// The tasks of the run; `nil` before the destination has been checked.
    var tasks: TaskTracker? { state.withLock { $0.tasks } }

    // MARK: The thread

    private func work(_ environment: EngineEnvironment) {
        var samples: [UInt64: Sample] = [:]
        var last: [RequestStatus] = []
        var written: [UInt8] = []
        var lookedAt = environment.now()
        while true {
            var looks = 0
            let isEnding = state.wait(every: Self.interval) { state -> Bool? in
                looks += 1
                return state.isEnding ? true : looks > 1 ? false : nil
            }
            // Events pending at the end are recorded with the end.
            if !isEnding { environment.events.record() }
            environment.keep()
            let now = environment.now()
            // A stopped or finished run has nothing on the wire.
            let told =
                isEnding
                ? ([], 0) : environment.transferStatuses(limit: Self.mostTransfers, at: WallTime(milliseconds: now))
            let transfers = told?.transfers ?? last
            samples = Self.rates(transfers, samples, milliseconds: now - lookedAt)
            lookedAt = now
            last = transfers
            let state = state.withLock { $0 }
            if let files = state.files, state.total.files > 0 || !transfers.isEmpty {
                let json = record(transfers, more: told?.more ?? 0, samples, state, environment)
                if json != written {
                    // A record that cannot be written is just not shown.
                    try? files.write(requests: json)
                    environment.requests(json)
                    written = json
                }
            }
            if isEnding { return }
        }
    }

    private static func rates(_ transfers: [RequestStatus], _ samples: [UInt64: Sample], milliseconds: Int64)
        -> [UInt64: Sample]
    {
        var next: [UInt64: Sample] = [:]
        for transfer in transfers {
            let before = samples[transfer.transfer]
            var rate = before?.rate ?? 0
            if let before, milliseconds > 0, transfer.received >= before.received {
                let latest = Double(transfer.received - before.received) * 1_000 / Double(milliseconds)
                rate = rate == 0 ? latest : (rate + latest) / 2
            }
            next[transfer.transfer] = (transfer.received, rate < 1 ? 0 : rate)
        }
        return next
    }

    // MARK: The record

    private func record(
        _ transfers: [RequestStatus], more: Int, _ samples: [UInt64: Sample], _ state: State,
        _ environment: EngineEnvironment
    ) -> [UInt8] {
        let (counts, totals) = (state.tasks?.counts() ?? [:], environment.transport.totals)
        return JSONLine.object { line in
            line.field("run", state.run)
            line.field("epoch", optional: state.epoch)
            line.field("process", environment.process)
            if state.total.files > 0 {
                line.key("files")
                var files = FileCounts()
                files.total = state.total.files
                (files.installed, files.unchanged) = (counts[.installed] ?? 0, counts[.unchanged] ?? 0)
                files.reused = counts[.reused] ?? 0
                files.failed = (counts[.failed] ?? 0) + (counts[.cancelled] ?? 0)
                files.write(to: &line)
            }
            line.field("bytes_total", state.total.bytes)
            line.field("bytes_received", totals.bytesReceived)
            line.field("requests_sent", totals.requests)
            if let progress = state.progress { line.object("progress") { progress.write(to: &$0) } }
            line.list("requests", transfers) { transfer, line in
                let subject = environment.events.subject(of: TransferID(rawValue: transfer.transfer))
                var status = transfer
                status.path = subject?.path
                if status.path == nil {
                    status.object = subject?.object ?? String(transfer.original.split(separator: "/").last ?? "")
                }
                status.tasks = subject?.tasks ?? 0
                status.rate = UInt64(exactly: (samples[transfer.transfer]?.rate ?? 0).rounded()) ?? 0
                status.write(to: &line)
            }
            line.field("more", more)
            line.list("parts", (state.parts?() ?? []).prefix(Self.mostFiles)) { part, line in
                line.field("path", part.path)
                line.field("bytes_done", part.done)
                line.field("bytes_total", part.total)
            }
        }.bytes
    }
}

extension EngineEnvironment {
    /// The statuses of all transports; `nil` if the network transport cannot tell now. The first local transfer comes
    /// first, the other local ones last.
    fileprivate func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)? {
        guard let web = transport.transferStatuses(limit: limit, at: now) else { return nil }
        let local = localTransport.transferStatuses(limit: limit, at: now) ?? ([], 0)
        let (read, queued) = (local.transfers.prefix(1), local.transfers.dropFirst())
        let told = (read + web.transfers + queued).prefix(limit)
        let all = web.transfers.count + web.more + local.transfers.count + local.more
        return (Array(told), all - told.count)
    }
}

extension PullProgress {
    /// The fields of an event `progress`.
    package func write(to line: inout JSONLine) {
        line.field("phase", phase.rawValue)
        line.field("files_done", filesDone)
        line.field("files_total", filesTotal)
        line.field("bytes_done", bytesDone)
        line.field("bytes_total", bytesTotal)
    }
}
