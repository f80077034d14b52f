import ArgumentParser
import SyncControl
import SyncControlServer
import SyncModel

/// `syncagent events`: what has happened in a session, and what happens.
struct EventsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events",
        abstract: "Print the events of a session, from the first that is kept or from a number on.",
        discussion: """
            Every event has a number, `seq`; with --since N the next one is N + 1, so a program that keeps the last \
            number it has dealt with misses nothing and sees nothing twice. Times are in UTC. Needs no agent; with --follow one is \
            started when there is work and nobody is at it.
            """
    )

    @OptionGroup
    var session: SessionArgument

    @Flag(name: .shortAndLong, help: "Wait for more, until SIGINT or SIGTERM.")
    var follow = false

    @Option(help: ArgumentHelp("Only events after this one.", valueName: "n"))
    var since: Int64 = 0

    @OptionGroup(title: "Output")
    var format: JSONFlag

    func validate() throws {
        if since < 0 { throw ValidationError("--since takes 0 or more, not \(since).") }
    }

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        let store = try state.store()
        let name = try StateAccess.session(session.session, in: store)
        let start = EventFeed(store: store, session: name, after: since)
        let (json, follow) = (format.json, follow)
        do {
            try await StopSignals.cancelling(notice: {}, atOnce: {}) {
                var feed = start
                var care = RunCare(state)
                let watch = RunWatch(store: store, session: name)
                while true {
                    let lines = try feed.next()
                    for line in lines { output.line(json ? line.text : EventText.line(line)) }
                    guard lines.isEmpty else { continue }
                    guard follow else { return }
                    if case .open(let status) = try watch.look() { try await care.look(at: status) }
                    try await TaskThreads.sleep(for: .milliseconds(200))
                }
            }
        } catch {
            if let status = StopSignals.requestedStatus { throw CommandFailure(status) }
            throw error
        }
    }
}
