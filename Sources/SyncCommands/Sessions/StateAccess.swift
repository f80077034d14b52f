import Foundation
import SyncAgent
import SyncAssembly
import SyncModel
import SyncStore
import SyncSystem

/// Access to the user's state and to the agent, for verbs on sessions.
///
/// Verbs that change nothing read the state themselves and need no agent.
struct StateAccess: Sendable {
    let place: AgentPlace
    let output: Output
    private let environment: EnvironmentPaths

    init(environment: EnvironmentPaths = .ofProcess, output: Output) throws(CommandFailure) {
        place = try environment.agentPlace()
        (self.environment, self.output) = (environment, output)
    }

    /// Determines the agent's socket anew each time: it changes when a login ends, while a waiting command goes on.
    var client: ControlClient { ControlClient(socketPath: ((try? environment.agentPlace()) ?? place).socketPath) }

    /// Whether an agent was killed, and none has taken its place: one that ends removes its socket.
    var hasLostAgent: Bool { exists(place.socketPath) && !place.isLocked }

    /// Opens the state; `nil` if there is none yet. Creates none.
    func existingStore() throws(CommandFailure) -> SyncStore? {
        // A state that exists but cannot be examined is not missing: opening it gives the reason.
        let code = exists(place.stateDirectory + "/syncagent.sqlite") ? nil : Errno.last
        guard code != .noSuchFileOrDirectory, code != .notDirectory else { return nil }
        return try Self.open(place.stateDirectory, warn: output.warning)
    }

    /// - Parameter warn: Called if the state was damaged and begins anew.
    static func open(_ directory: String, warn: (String) -> Void) throws(CommandFailure) -> SyncStore {
        try translating(openState(directory, warn: warn))
    }

    /// Opens the state, which must exist if a session does.
    func store() throws(CommandFailure) -> SyncStore {
        guard let store = try existingStore() else { throw Self.noSessions }
        return store
    }

    /// The state, and the session that a command works on, see ``session(_:in:prefersOpen:)``.
    func session(_ named: String?, prefersOpen: Bool = false) throws -> (store: SyncStore, name: String) {
        let store = try store()
        return (store, try Self.session(named, in: store, prefersOpen: prefersOpen))
    }

    static let noSessions = CommandFailure(.noInput, "No sessions. 'syncagent pull MANIFEST' creates one.")

    /// The session that a command works on: the one named, or the only one.
    ///
    /// - Parameter prefersOpen: Whether, of several sessions, the only one with an open run is taken.
    /// - Throws: ``CommandFailure`` with status 66 if there is no such session, 64 if there are several.
    static func session(_ named: String?, in store: SyncStore, prefersOpen: Bool = false) throws -> String {
        if let named {
            guard try store.session(named) == nil else { return named }
            throw CommandFailure(.noInput, "There is no session '\(escaped(named))'. 'syncagent status' lists them.")
        }
        let all = try store.sessions().map(\.identifier)
        guard let first = all.first else { throw noSessions }
        guard all.count == 1 else {
            if prefersOpen {
                let names = Set(try store.runs(onlyOpen: true, limit: 1_000).map(\.session))
                if names.count == 1, let only = names.first { return only }
            }
            let names = all.prefix(20).map { "  " + escaped($0) }.joined(separator: "\n")
            let more = all.count > 20 ? "\n  … \(all.count - 20) more" : ""
            throw CommandFailure(.usage, "Which session? There are \(all.count):\n\(names)\(more)")
        }
        return first
    }
}
