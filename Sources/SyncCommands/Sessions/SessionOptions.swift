import ArgumentParser
import SyncModel
import SyncStore

/// Which session a verb is about.
struct SessionArgument: ParsableArguments {
    @Argument(
        help: ArgumentHelp("The session.  (default: the only one there is)", valueName: "session"),
        completion: .custom { _, _, _ in knownSessions() }
    )
    var session: String?

    func validate() throws {
        if session == "" { throw ValidationError("SESSION wants a name, not an empty string.") }
    }
}

/// The names of the sessions there are, for a shell that completes them; none where they cannot be read.
@Sendable
func knownSessions() -> [String] {
    guard let state = try? StateAccess(output: Output(quiet: true)), let store = try? state.existingStore()
    else { return [] }
    return ((try? store.sessions()) ?? []).map(\.identifier)
}

/// Whether data is printed for people or for programs.
struct JSONFlag: ParsableArguments {
    @Flag(help: "Print JSON, one object a line, as the agent's control API says it.")
    var json = false
}
