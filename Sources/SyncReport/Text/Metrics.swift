import SyncModel
package import SyncStore

/// Sessions that have metrics of their own: the first by name.
package let sessionLimit = 500

/// What Prometheus is told: text format 0.0.4.
/// https://prometheus.io/docs/instrumenting/exposition_formats/
///
/// Everything is read from the store at the moment it is asked for, so it is the same whoever asks, and counters go on
/// over the ends of processes. With more than ``sessionLimit`` sessions the others are only counted: the number of series is
/// bounded.
///
/// - Parameters:
///   - agent: When an agent tells it: since when it runs, **milliseconds** since 1970, and its runs.
///   - next: When sessions run next by their schedules, **milliseconds** since 1970.
///   - failingSchedules: How many could not start the last time and have no session to say so.
package func metricsText(
    _ store: SyncStore, version: String, agent: (started: Int64, runs: Int, mostRuns: Int)? = nil,
    next: [String: Int64] = [:], failingSchedules: Int = 0
) throws(StoreError) -> String {
    var families = SessionMetrics.families
    let sessions = try store.sessions()
    let owed = try store.owedHooks()
    for session in sessions.prefix(sessionLimit) {
        let runs = Array(try store.runs(session: session.identifier, limit: 200).reversed())
        let failedHooks = try runs.last.map { run throws(StoreError) in
            try store.hooks(run: run.identifier, limit: 1_000).count(where: \.hasFailed)
        }
        let facts = SessionMetrics.Facts(
            session: session.identifier, runs: runs, success: try store.lastSuccess(of: session.identifier),
            isInterrupted: try runs.last.map { run throws(StoreError) in try store.isInterrupted(run) } ?? false,
            failedHooks: failedHooks ?? 0, owedHooks: owed.count { $0.session == session.identifier },
            totals: session.totals, next: next[session.identifier])
        for index in families.indices { families[index].add(facts) }
    }
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
        "syncagent_failing_schedules", "Schedules that could not start the last time and have no session to say so.")
    page.sample([:], Double(failingSchedules))
    if let agent {
        page.family("syncagent_agent_start_time_seconds", "When the agent started, in seconds since 1970.")
        page.sample([:], Double(agent.started) / 1_000)
        page.family("syncagent_agent_runs", "Runs that the agent is working on.")
        page.sample([:], Double(agent.runs))
        page.family("syncagent_agent_runs_limit", "Runs that the agent may work on at a time.")
        page.sample([:], Double(agent.mostRuns))
    }
    for family in families { family.write(to: &page) }
    return page.text
}
