import SyncModel
import SyncReport
import SyncStore

/// A store in which sessions have had their nights: what the engine and the agent record, with times of a test's own.
struct StoreStory {
    let store: SyncStore
    let session: String
    let request: StoredSession

    init(_ session: String, in store: SyncStore, destination: String = "/srv/assets") {
        self.store = store
        self.session = session
        request = StoredSession(identifier: session, project: session, destination: destination, device: 1, inode: 2)
    }

    /// Begins a run; it supersedes an open one.
    func begin(
        _ run: String, at time: Int64, location: String = "https://cdn.example.com/tower/manifest.json",
        groups: [String] = ["all"], hooks: [RunHook] = [], userData: String? = nil, expectedBytes: UInt64? = nil,
        isHeld: Bool = true
    ) throws {
        var start = RunStart(session: request, run: run, manifest: .zero, recipe: RunRecipe(manifest: location))
        start.groups = groups
        start.recipe.hooks = hooks
        start.recipe.origin = .schedule
        start.recipe.expectedBytes = expectedBytes
        start.facts.userData = userData
        try store.begin(start, now: time, isHeld: isHeld)
        try event("run.started", run, at: time)
    }

    /// Records an event as the engine does.
    func event(_ name: String, _ run: String?, at time: Int64, _ fill: (inout JSONLine) -> Void = { _ in }) throws {
        let line = JSONLine.object {
            $0.field("event", name)
            $0.field("time", timestamp(milliseconds: time))
            if let run {
                $0.field("session", session)
                $0.field("run", run)
            }
            fill(&$0)
        }
        try store.append([line.bytes], to: session, time: time)
    }

    /// What one process did for a run.
    struct Work {
        var elapsed: Int64 = 60_000
        var waited: Int64 = 0
        var installed = 0
        var reused = 0
        var failed = 0
        var received: UInt64 = 0
        var reusedBytes: UInt64 = 0
        var requests: UInt64 = 0
        var origins: [(name: String, requests: UInt64, bytes: UInt64, failed: Int)] = []
        var directories: [(path: String?, files: Int, bytes: UInt64)] = []
        var otherBytes: UInt64 = 0
        var stopped: String?
    }

    @discardableResult func summary(_ work: Work, _ run: String, at time: Int64) throws -> SessionTotals {
        var totals = SessionTotals()
        totals.received = work.received
        totals.requests = work.requests
        totals.files = UInt64(work.installed + work.reused)
        totals.elapsed = work.elapsed
        try event("run.summary", run, at: time) { line in
            line.field("elapsed_ms", work.elapsed)
            if work.waited > 0 { line.field("waited_ms", work.waited) }
            line.field("requests", work.requests)
            line.field("received", work.received)
            line.field("reused", work.reusedBytes)
            line.field("stopped", optional: work.stopped)
            line.key("files")
            line.object {
                $0.field("installed", work.installed)
                $0.field("reused", work.reused)
                $0.field("removed", 0)
                $0.field("failed", work.failed)
            }
            line.key("origins")
            line.array { array in
                for origin in work.origins {
                    array.object {
                        $0.field("origin", origin.name)
                        $0.field("requests", origin.requests)
                        $0.field("bytes", origin.bytes)
                        $0.field("transfers", origin.requests)
                        $0.field("failed", origin.failed)
                    }
                }
            }
            if work.otherBytes > 0 { line.field("other_bytes", work.otherBytes) }
            line.key("directories")
            line.array { array in
                for directory in work.directories {
                    array.object {
                        $0.field("path", optional: directory.path)
                        $0.field("files", directory.files)
                        $0.field("bytes", directory.bytes)
                    }
                }
            }
        }
        return totals
    }

    /// A process stops its work on a run, which waits.
    func stop(_ work: Work, _ run: String, at time: Int64, reason: RestReason = .policy) throws {
        var work = work
        work.stopped = reason.rawValue
        let totals = try summary(work, run, at: time)
        try event("run.stopped", run, at: time) { $0.field("reason", reason) }
        let input = reason == .userStop ? RunInput.paused : .released
        try store.apply(input, to: run, reason: reason, counts: RunCounts(), work: totals, now: time)
    }

    /// A run comes to its end.
    func finish(
        _ work: Work, _ run: String, at time: Int64, total: Int, unchanged: Int = 0, bytesTotal: UInt64 = 0,
        result: RunResult = .ok, error: String? = nil, cause: FailureCause? = nil, exitStatus: Int32? = nil
    ) throws {
        let totals = try summary(work, run, at: time)
        var counts = RunCounts()
        counts.files.total = total
        counts.files.unchanged = unchanged
        counts.files.installed = work.installed
        counts.files.reused = work.reused
        counts.files.failed = work.failed
        counts.bytes.total = bytesTotal
        counts.bytes.received = work.received
        counts.bytes.reused = work.reusedBytes
        counts.requests = work.requests
        try store.finish(
            run: run, result: result, counts: counts, error: error, cause: cause, exitStatus: exitStatus, work: totals,
            now: time)
    }

    /// The run's hooks are owed and called.
    func hooks(
        _ run: String, at time: Int64, took: Int64, ended: String = "exit 0", output: String = "", changed: Int = 1,
        groups: [String] = ["all"]
    ) throws {
        let groups = groups.map { CompletedGroup(name: $0, result: .ok, changed: changed) }
        for hook in try store.complete(groups, of: run, now: time) {
            _ = try store.started(hook: hook.identifier, now: time)
            try store.finished(
                hook: hook.identifier, ended == "exit 0" ? .succeeded : .failed, ended: ended, output: output,
                now: time + took)
        }
    }
}

/// Times of the stories: hours and minutes of days of November 2026, UTC.
func november(_ day: Int, _ hour: Int = 0, _ minute: Int = 0, _ second: Int = 0) -> Int64 {
    let midnight: Int64 = 1_795_219_200 + Int64(day - 21) * 86_400
    return (midnight + Int64(hour * 3_600 + minute * 60 + second)) * 1_000
}

let mebi: UInt64 = 1 << 20

func clock(at now: Int64) -> ReportClock { ReportClock(now: now, offset: { _ in 0 }) }

extension SyncStore {
    /// A report as the command makes it.
    func report(
        at now: Int64, since: Int64? = nil, nights: Bool = true, schedules: [String: ReportReader.Schedule] = [:]
    ) throws -> MorningReport {
        var reader = ReportReader(store: self, clock: clock(at: now), version: "0.1.0")
        (reader.host, reader.schedules) = ("render-07", schedules)
        return try reader.report(since: since ?? now - 86_400_000, hasNights: nights)
    }

    /// A report's text as one string.
    func text(at now: Int64, since: Int64? = nil, schedules: [String: ReportReader.Schedule] = [:]) throws -> String {
        let report = try report(at: now, since: since, nights: false, schedules: schedules)
        return report.lines(clock(at: now)).joined(separator: "\n")
    }
}
