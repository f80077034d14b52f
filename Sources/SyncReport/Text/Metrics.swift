import SyncModel
package import SyncStore

/// Number of sessions with their own metrics: the first by name.
package let sessionLimit = 500

/// The metrics for Prometheus: text format 0.0.4.
/// https://prometheus.io/docs/instrumenting/exposition_formats/
///
/// Everything is read from the store on request, so it is the same for every requester, and counters survive the end of
/// processes. Sessions beyond ``sessionLimit`` are only counted, so that the number of series is bounded.
///
/// - Parameters:
///   - store: `nil` where there is no state yet: there are no sessions.
///   - agent: If an agent serves them: when it started, in **milliseconds** since 1970, and its runs.
///   - next: The next scheduled runs of sessions, in **milliseconds** since 1970.
///   - failingSchedules: Number of schedules that could not start the last time and have no session that records it.
package func metricsText(
    _ store: SyncStore?, version: String, agent: (started: Int64, runs: Int, mostRuns: Int)? = nil,
    next: [String: Int64] = [:], failingSchedules: Int = 0
) throws(StoreError) -> String {
    let sessions = try store?.sessions() ?? []
    let metrics = try store.map { store throws(StoreError) in try sessionMetrics(store, sessions, next) } ?? []
    var page = MetricPage()
    page.family("syncagent_build_info", "The version of syncagent; always 1.")
    page.sample(["version": version], 1)
    page.family("syncagent_sessions", "Sessions in the state directory.")
    page.sample([:], Double(sessions.count))
    let hidden = max(0, sessions.count - sessionLimit)
    page.family(
        "syncagent_sessions_omitted",
        "Sessions beyond the first \(sessionLimit) by name, which have no other metrics.")
    page.sample([:], Double(hidden))
    page.family(
        "syncagent_failing_schedules", "Schedules that could not start the last time and have no session that shows it."
    )
    page.sample([:], Double(failingSchedules))
    if let agent {
        page.family("syncagent_agent_start_time_seconds", "When the agent started, in seconds since 1970.")
        page.sample([:], Double(agent.started) / 1_000)
        page.family("syncagent_agent_runs", "Runs that the agent is working on, without those that only call hooks.")
        page.sample([:], Double(agent.runs))
        page.family("syncagent_agent_runs_limit", "Runs that the agent may work on at a time.")
        page.sample([:], Double(agent.mostRuns))
    }
    SessionMetrics.write(metrics, to: &page)
    return page.text
}

/// The facts about the first sessions, at most ``sessionLimit``.
private func sessionMetrics(_ store: SyncStore, _ sessions: [StoredSession], _ next: [String: Int64])
    throws(StoreError) -> [SessionMetrics]
{
    var metrics: [SessionMetrics] = []
    let owed = try store.owedHooks()
    for session in sessions.prefix(sessionLimit) {
        let runs = Array(try store.runs(session: session.identifier, limit: 200).reversed())
        let failedHooks = try runs.last.map { run throws(StoreError) in
            try store.hooks(run: run.identifier, limit: 1_000).count(where: \.hasFailed)
        }
        let isInterrupted = try runs.last.map { run throws(StoreError) in try store.isInterrupted(run) }
        metrics.append(
            SessionMetrics(
                session: session.identifier, last: runs.last, ended: runs.last { $0.result != nil },
                success: try store.lastSuccess(of: session.identifier), isInterrupted: isInterrupted ?? false,
                failedHooks: failedHooks ?? 0, owedHooks: owed.count { $0.session == session.identifier },
                totals: session.totals, next: next[session.identifier]))
    }
    return metrics
}
