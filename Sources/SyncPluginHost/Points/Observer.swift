package import SyncModel
package import SyncPlugins
import SyncSystem

/// Sends events to a plugin: method `observer.events`. The next batch is sent only once the plugin has acknowledged the
/// last.
extension PluginClient: EventObserver {
    private static let most = 500
    /// Most **bytes** of one request; a longer event is sent alone.
    private static let mostBytes = 256 << 10
    /// Most **bytes** of an event that fits a line of the protocol with what is around it.
    private static let longest = 1_000_000
    /// The last **bytes** of a hook's output that stay in a longer event; each may take six in JSON.
    private static let outputTail = 64 << 10

    package func observe(_ events: [SessionEvent]) throws(PluginError) {
        var rest = events.map(Self.fitting)[...]
        while !rest.isEmpty {
            let batch = takeBatch(&rest, most: Self.most, bytes: Self.mostBytes) {
                $0.json.utf8.count + 2 * $0.name.utf8.count + 32
            }
            _ = try call("observer.events") { line in
                line.list("events", batch) { event, line in
                    line.field("name", event.name)
                    line.json("event", event.json)
                }
            }
        }
    }

    /// The event, with only the end of a hook's output if it would be too long for a line.
    private static func fitting(_ event: SessionEvent) -> SessionEvent {
        guard event.json.utf8.count > longest, var members = JSONValue(text: event.json)?.object,
            let output = members["output"]?.string
        else { return event }
        members["output"] = .string("…" + String(decoding: output.utf8.suffix(outputTail), as: UTF8.self))
        return SessionEvent(json: JSONValue.object(members).text)
    }
}

/// Checks an observer: it must accept and acknowledge any event.
package func check(observer: any EventObserver) -> [CheckResult] {
    var book: [CheckResult] = []
    func send(_ events: [SessionEvent]) -> String? {
        guard case .failure(let error) = Result(catching: { () throws(PluginError) in try observer.observe(events) })
        else {
            return nil
        }
        return "it failed: \(error.message)"
    }
    // With every field that such an event always has: an observer may rely on them.
    func sample(_ name: String, _ fields: String) -> SessionEvent {
        let head = #"{"event":"\#(name)","time":"2026-11-20T02:00:00.000Z","session":"check","run":"r""#
        return SessionEvent(json: "\(head),\(fields)}")
    }
    func installed(_ path: String) -> SessionEvent {
        let digest = String(repeating: "0", count: 64)
        return sample("task.installed", #""path":"\#(path)","size":1,"sha256":"\#(digest)","source":"network""#)
    }
    let started = sample(
        "run.started",
        #""project":"check","manifest":"/m.json","manifest_sha256":"\#(String(repeating: "0", count: 64))","#
            + #""destination":"/srv/check""#)
    let finished = sample(
        "pull.finished",
        #""result":"ok","files":{"total":1,"installed":1,"unchanged":0,"reused":0,"removed":0,"failed":0},"#
            + #""bytes":{"total":1,"received":1,"reused":0},"manifest":{"bytes":1,"parts":0,"parts_fetched":0},"#
            + #""requests":1,"elapsed_ms":1"#)

    book.rule("A run's first and last event are accepted", "Answer null when the events are accepted.") {
        send([started, finished])
    }
    book.rule("An empty list of events is accepted", "Answer an empty list like any other.") { send([]) }
    book.rule(
        "Ten thousand events are accepted, in batches", "Answer soon and work later; events queue until you answer."
    ) {
        send((0..<10_000).map { installed("f\($0)") })
    }
    book.rule("An unknown event is accepted", "Later versions add more; ignore what you do not know.") {
        send([SessionEvent(json: "{\"event\":\"moon.rose\",\"deep\":[[[[{}]]]],\"null\":null}")])
    }
    book.rule("It handles odd strings", "Events contain file names with any characters, escaped as in JSON.") {
        send([installed("a\\u0000\\n\\\"\\u202e\u{1F5BC}" + String(repeating: "x", count: 20_000))])
    }
    return book
}
