import Foundation
import SyncAgent
import SyncAssembly
import SyncModel
import SyncStore
import SyncSystem

/// What verbs about sessions work with: the user's state, and the place of the agent.
///
/// Verbs that only look read the state themselves and need no agent.
struct StateAccess: Sendable {
    let place: AgentPlace
    let output: Output
    private let environment: EnvironmentPaths

    init(environment: EnvironmentPaths = .ofProcess, output: Output) throws(CommandFailure) {
        place = try environment.agentPlace()
        (self.environment, self.output) = (environment, output)
    }

    /// Looks again where the agent listens: that changes when a login ends, and whoever waits stays.
    var client: ControlClient { ControlClient(socketPath: ((try? environment.agentPlace()) ?? place).socketPath) }

    /// Opens the state; `nil` when there is none yet, and none is made.
    func existingStore() throws(CommandFailure) -> SyncStore? {
        // What is there and cannot be looked at is no missing state: opening it says why.
        let code = exists(place.stateDirectory + "/syncagent.sqlite") ? nil : Errno.last
        guard code != .noSuchFileOrDirectory, code != .notDirectory else { return nil }
        return try Self.open(place.stateDirectory, warn: output.warning)
    }

    /// - Parameter warn: Told that the state was damaged and begins anew.
    static func open(_ directory: String, warn: (String) -> Void) throws(CommandFailure) -> SyncStore {
        try translating(openState(directory, warn: warn))
    }

    /// Opens the state that must be there because a session is.
    func store() throws(CommandFailure) -> SyncStore {
        guard let store = try existingStore() else { throw Self.noSessions }
        return store
    }

    static let noSessions = CommandFailure(.noInput, "No sessions. 'syncagent pull MANIFEST' creates one.")

    /// The session that is meant: the one that was named, or the only one there is.
    ///
    /// - Parameter prefersOpen: Whether the only one with work under way is meant where there are several.
    /// - Throws: ``CommandFailure`` with status 66 when there is no such session, 64 when there are several.
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
