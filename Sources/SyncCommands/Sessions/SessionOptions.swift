import ArgumentParser
import SyncModel

/// Which session a verb is about.
struct SessionArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("The session.  (default: the only one there is)", valueName: "session"))
    var session: String?

    func validate() throws {
        if session == "" { throw ValidationError("SESSION wants a name, not an empty string.") }
    }
}

/// Whether data is printed for people or for programs.
struct JSONFlag: ParsableArguments {
    @Flag(help: "Print JSON, one object a line, as the agent's control API says it.")
    var json = false
}
