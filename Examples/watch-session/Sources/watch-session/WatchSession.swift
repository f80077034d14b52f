import Foundation
import SyncAgent

/// Asks the agent for a set of files and follows its session; start it as often as you like.
///
///     watch-session SESSION                         follow what the agent does
///     watch-session SESSION MANIFEST DESTINATION    ask for a set first
///
/// The place in the session's events is kept in `SESSION.cursor` in the working directory: each event is told once,
/// whether this program, the agent or the machine was gone in between.
@main
struct WatchSession {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        guard arguments.count == 1 || arguments.count == 3, let name = arguments.first else {
            complain("usage: watch-session SESSION [MANIFEST DESTINATION]")
            exit(64)
        }
        do {
            try await watch(name, Array(arguments.dropFirst()))
        } catch let error as ControlError {
            complain(error.message)
            exit(error.exitStatus.rawValue)
        } catch {
            complain("\(error)")
            exit(1)
        }
    }

    static func watch(_ name: String, _ request: [String]) async throws {
        guard let place = AgentPlace(environment: ProcessInfo.processInfo.environment) else {
            complain("There is no home directory.")
            exit(73)
        }
        let session = AgentSession(name, client: ControlClient(socketPath: place.socketPath))
        if request.count == 2 {
            let reply = try await session.enqueue(manifest: request[0], into: request[1])
            tell("run \(reply.run) is \(reply.state)" + (reply.isNew ? "" : ", as before"))
        }

        let cursor = CursorFile(path: FileManager.default.currentDirectoryPath + "/\(name).cursor")
        let (status, events) = try await session.open(after: try cursor.read())
        if let run = status?.run { tell("\(name): run \(run.run) is \(run.state)") }
        for try await event in events {
            if event.name == "pull.finished" {
                let end = try event.fields(RunCompletion.self)
                tell("\(name): \(end.result), \(end.files.installed) of \(end.files.total) files are new")
            } else {
                tell("\(name): \(event.name)")
            }
            // Only now: what is cut off here is told again.
            if let number = event.sequence { try cursor.write(number) }
        }
    }

    /// At once, also into a pipe: who follows wants to see it now.
    static func tell(_ text: String) { FileHandle.standardOutput.write(Data("\(text)\n".utf8)) }

    static func complain(_ text: String) {
        FileHandle.standardError.write(Data("watch-session: \(text)\n".utf8))
    }
}
