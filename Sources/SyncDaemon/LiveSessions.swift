import SyncEngine
import SyncSystem

/// State that readers of events need without waiting for the agent: jobs, followers, and whether the agent has ended.
final class LiveSessions: Sendable {
    private struct State: Sendable {
        var jobs: [String: SessionJob] = [:]
        var followers: [String: Int] = [:]
        var isOver = false
    }

    private let state = Mutex(State())

    /// Running jobs, by session.
    var jobs: [String: SessionJob] { state.withLock(\.jobs) }

    /// Whether the agent accepts no more readers.
    var isOver: Bool { state.withLock(\.isOver) }

    /// Whether any session is followed.
    var hasFollowers: Bool { state.withLock { !$0.followers.isEmpty } }

    func close() { state.withLock { $0.isOver = true } }

    func set(_ job: SessionJob?, for session: String) { state.withLock { $0.jobs[session] = job } }

    func progress(of session: String) -> PullProgress? { jobs[session]?.progress }

    /// Whether a client follows a session; if so, a hook does not raise the launch limiter.
    func isFollowed(_ session: String) -> Bool { state.withLock { $0.followers[session] != nil } }

    func follow(_ session: String) { state.withLock { $0.followers[session, default: 0] += 1 } }

    func unfollow(_ session: String) {
        state.withLock { state in
            let rest = (state.followers[session] ?? 1) - 1
            state.followers[session] = rest > 0 ? rest : nil
        }
    }
}
