import SyncModel
package import SyncStore

/// What Prometheus is told: text format 0.0.4.
/// https://prometheus.io/docs/instrumenting/exposition_formats/
///
/// Everything is read from the store at the moment it is asked for, so it is the same whoever asks, and counters go on
/// over the ends of processes.
package struct Metrics: Sendable {
    /// What only a running agent knows.
    package struct AgentFacts: Sendable, Equatable {
        /// **Milliseconds** since 1970.
        package var started: Int64
        package var runningRuns: Int
        package var maximumRuns: Int

        package init(started: Int64, runningRuns: Int, maximumRuns: Int) {
            self.started = started
            self.runningRuns = runningRuns
            self.maximumRuns = maximumRuns
        }
    }

    private let store: SyncStore
    private let version: String
    private let agent: AgentFacts?
    private let next: [String: Int64]

    /// With more sessions than these the others are only counted: the number of series is bounded.
    package static let sessionLimit = 500

    /// - Parameters:
    ///   - agent: When an agent tells it.
    ///   - next: When sessions run next by their schedules, **milliseconds** since 1970.
    package init(store: SyncStore, version: String, agent: AgentFacts? = nil, next: [String: Int64] = [:]) {
        self.store = store
        self.version = version
        self.agent = agent
        self.next = next
    }

    package func text() throws(StoreError) -> String {
        var families = SessionMetrics.families
        let sessions = try store.sessions()
        let owed = try store.owedHooks()
        let totals = try store.totals()
        for session in sessions.prefix(Self.sessionLimit) {
            let runs = Array(try store.runs(session: session.identifier, limit: 200).reversed())
            let facts = SessionMetrics.Facts(
                session: session.identifier, runs: runs,
                isInterrupted: try runs.last.map { run throws(StoreError) in try store.isInterrupted(run) } ?? false,
                failedHooks: try failedHooks(of: runs.last), owedHooks: owed.count { $0.session == session.identifier },
                totals: totals[session.identifier] ?? SessionTotals(), next: next[session.identifier])
            for index in families.indices { families[index].add(facts) }
        }
        var page = MetricPage()
        page.family("syncagent_build_info", .gauge, "The version of syncagent; always 1.")
        page.sample(["version": version], 1)
        page.family("syncagent_sessions", .gauge, "Sessions in the state directory.")
        page.sample([:], Double(sessions.count))
        let hidden = max(0, sessions.count - Self.sessionLimit)
        page.family(
            "syncagent_sessions_omitted", .gauge,
            "Sessions beyond the first \(Self.sessionLimit) by name, which have no other metrics.")
        page.sample([:], Double(hidden))
        if let agent { add(agent, to: &page) }
        for family in families { family.write(to: &page) }
        return page.text
    }

    private func failedHooks(of run: StoredRun?) throws(StoreError) -> Int {
        guard let run else { return 0 }
        return try store.hooks(run: run.identifier, limit: 1_000).count { $0.state == .failed }
    }

    private func add(_ agent: AgentFacts, to page: inout MetricPage) {
        page.family("syncagent_agent_start_time_seconds", .gauge, "When the agent started, in seconds since 1970.")
        page.sample([:], Double(agent.started) / 1_000)
        page.family("syncagent_agent_runs", .gauge, "Runs that the agent is working on.")
        page.sample([:], Double(agent.runningRuns))
        page.family("syncagent_agent_runs_limit", .gauge, "Runs that the agent may work on at a time.")
        page.sample([:], Double(agent.maximumRuns))
    }
}
