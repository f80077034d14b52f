import SyncModel
import SyncStore

/// The facts about a session that its metrics tell.
struct SessionMetrics {
    let session: String
    let last: StoredRun?
    /// The last run with a result.
    let ended: StoredRun?
    /// The last run after which every file was in place.
    let success: StoredRun?
    /// Whether the last run is recorded as `running` although no process works on it.
    let isInterrupted: Bool
    let failedHooks: Int
    let owedHooks: Int
    let totals: SessionTotals
    let next: Int64?

    private typealias Samples = [(labels: [String: String], value: Double)]
    private typealias Family = (name: String, help: String, read: (SessionMetrics) -> Samples)

    /// Writes the families of which there are samples.
    static func write(_ all: [SessionMetrics], to page: inout MetricPage) {
        for family in families {
            let samples = all.flatMap { session in
                family.read(session).map {
                    ($0.labels.merging(["session": session.session]) { first, _ in first }, $0.value)
                }
            }
            guard !samples.isEmpty else { continue }
            page.family("syncagent_" + family.name, family.help)
            for (labels, value) in samples { page.sample(labels, value) }
        }
    }

    /// One number per session, unless it is unknown.
    private static func one(_ name: String, _ help: String, _ read: @escaping (SessionMetrics) -> Double?) -> Family {
        (name, help, { facts in read(facts).map { [([:], $0)] } ?? [] })
    }

    /// 1 for the current state, 0 for the others.
    private static func states(
        _ name: String, _ label: String, _ all: [String], _ help: String, _ read: @escaping (SessionMetrics) -> String?
    ) -> Family {
        (
            name, help,
            { facts in
                guard let state = read(facts) else { return [] }
                return all.map { ([label: $0], $0 == state ? 1 : 0) }
            }
        )
    }

    private static func seconds(_ milliseconds: Int64?) -> Double? { milliseconds.map { Double($0) / 1_000 } }

    /// In the order of the page.
    private static var families: [Family] {
        [
            states(
                "session_state", "state", SessionState.allCases.map(\.rawValue),
                "1 for the session's current state."
            ) { facts in
                // It waits for the process that will continue it.
                let state = facts.isInterrupted ? .waiting : SessionState(facts.last?.state)
                return state.rawValue
            },
            (
                "runs_total", "Runs that ended, by result.",
                { facts in
                    [
                        (["result": "ok"], Double(facts.totals.ok)),
                        (["result": "partial"], Double(facts.totals.partial)),
                        (["result": "failed"], Double(facts.totals.failed)),
                    ]
                }
            ), one("received_bytes_total", "Body bytes received, manifests included.") { Double($0.totals.received) },
            one("requests_total", "HTTP requests sent, redirects and retries included.") { Double($0.totals.requests) },
            one("placed_files_total", "Files put in place, fetched or built from local data.") {
                Double($0.totals.files)
            }, one("work_seconds_total", "Time that processes spent on runs.") { Double($0.totals.elapsed) / 1_000 },
            states(
                "last_run_result", "result", RunResult.allCases.map(\.rawValue),
                "1 for the result of the last run that ended."
            ) { $0.ended?.result?.rawValue },
            one("last_success_timestamp_seconds", "When every file was last in place, in seconds since 1970.") {
                seconds($0.success?.finished)
            },
            one("last_run_start_timestamp_seconds", "When the last run that ended started, in seconds since 1970.") {
                seconds($0.ended?.started)
            },
            one("last_run_end_timestamp_seconds", "When the last run ended, in seconds since 1970.") {
                seconds($0.ended?.finished)
            },
            one("last_run_duration_seconds", "Time from the first start of the last run to its end, pauses included.") {
                facts in
                guard let run = facts.ended, let started = run.started, let finished = run.finished else { return nil }
                return Double(max(0, finished.saturatingSubtract(started))) / 1_000
            },
            (
                "last_run_files", "Files of the last run, by outcome.",
                { facts in
                    guard let files = facts.ended?.counts.files else { return [] }
                    return [
                        (["outcome": "installed"], Double(files.installed)),
                        (["outcome": "reused"], Double(files.reused)),
                        (["outcome": "unchanged"], Double(files.unchanged)),
                        (["outcome": "removed"], Double(files.removed)),
                        (["outcome": "failed"], Double(files.failed)),
                    ]
                }
            ),
            one("last_run_received_bytes", "Body bytes that the last process of the last run received.") {
                $0.ended.map { Double($0.counts.bytes.received) }
            },
            one("last_run_reused_bytes", "Bytes that the last run reused from local data.") {
                $0.ended.map { Double($0.counts.bytes.reused) }
            },
            one("last_run_size_bytes", "Size of all files in the last run's manifest.") {
                $0.ended.map { Double($0.counts.bytes.total) }
            },
            one("last_run_requests", "HTTP requests that the last process of the last run sent.") {
                $0.ended.map { Double($0.counts.requests) }
            },
            one("last_run_failed_hooks", "Hooks of the latest run that have failed.") {
                $0.last == nil ? nil : Double($0.failedHooks)
            },
            one("owed_hooks", "Hooks that have not ended yet although their group is complete.") {
                Double($0.owedHooks)
            },
            one("next_run_timestamp_seconds", "When the session's schedule runs next, in seconds since 1970.") {
                seconds($0.next)
            },
        ]
    }
}
