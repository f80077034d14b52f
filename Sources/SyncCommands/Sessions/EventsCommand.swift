import ArgumentParser
import SyncAgent
import SyncModel
import SyncSchedule
import SyncStore

struct EventsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events", abstract: "Print a session's events, from the oldest one kept or after a given one.",
        discussion: """
            Every event has a number, `seq`. --since N starts with event N + 1, so a program that stores the last \
            number it has handled misses no event and gets none twice. If there is no event N, such as after a power \
            cut, the exit status is 66: read again from 0. Times are local, with their offset from UTC; with --json \
            they are in UTC. Needs no agent, but --follow starts one if there is work and none is running, and reports \
            on standard error what the session is waiting for.
            """)

    @OptionGroup var session: SessionArgument

    @Flag(
        name: .shortAndLong, help: "Keep waiting for new events until SIGINT or SIGTERM, or until nobody reads them."
    ) var follow = false

    @Option(help: "Only events after this one.".taking("n")) var since: Int64 = 0

    @OptionGroup var place: SystemOption

    @OptionGroup(title: "Output") var format: JSONFlag

    func validate() throws {
        if place.system, follow {
            throw ValidationError("--system and --follow are mutually exclusive: --follow may start an agent.")
        }
        if since < 0 { throw ValidationError("--since takes 0 or more, not \(since).") }
    }

    func run() async throws {
        let output = Output()
        let state = try StateAccess(environment: place.environment(), output: output)
        let (store, name) = try state.session(session.session)
        let (json, follow, start) = (format.json, follow, since)
        try await StopSignals.ending(within: StopSignals.onlooker) {
            var seen = start
            var follower = SessionFollower(state)
            let watch = RunWatch(store: store, session: name)
            while true {
                let events = try store.nextEvents(of: name, after: &seen)
                for event in events { output.line(json ? event.json : event.shown()) }
                // Nobody reads on.
                guard !output.isBroken else { return }
                guard events.isEmpty else { continue }
                guard follow else { return }
                if case .open(let status) = try watch.check() { try await follower.update(with: status) }
                try await Task.sleep(for: .milliseconds(200))
            }
        }
    }
}

extension SessionEvent {
    /// A line for people: number, time, name, then the other fields.
    func shown(in zone: Zone = .machine) -> String {
        // Fields of every event, or of no use to people; then the fields that matter most.
        let hidden: Set = ["seq", "event", "time", "session", "run"]
        let first = ["path", "group", "result", "program", "attempt", "reason", "state"]
        let object = JSONValue(text: text)?.object ?? [:]
        let name = object["event"]?.string ?? "?"
        let time = object["time"]?.string.flatMap { parseTimestamp($0) }.map { zone.stamp($0) } ?? ""
        let keys =
            first.filter { object[$0] != nil }
            + object.keys.filter { !hidden.contains($0) && !first.contains($0) }.sorted()
        let fields = keys.compactMap { key in object[key].map { "\(key)=\(Self.text($0))" } }
        return ([sequence.map(String.init) ?? "-", time, escaped(name)] + fields).joined(separator: "  ")
    }

    private static func text(_ value: JSONValue) -> String {
        switch value {
        case .string(let text):
            let plain = escaped(text)
            return plain.contains(" ") || plain.isEmpty ? "\"\(plain)\"" : plain
        case .object(let object):
            return object.sorted { $0.key < $1.key }.map { "\($0.key):\(text($0.value))" }.joined(separator: ",")
        case .array(let list): return "[" + list.prefix(20).map(text).joined(separator: ",") + "]"
        case .null, .bool, .integer, .number: return value.text
        }
    }
}
