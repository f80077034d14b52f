package import SyncPlugins

/// Checks an observer: it takes whatever comes, and says so.
package func check(observer: any EventObserver) -> [CheckResult] {
    var book = RuleBook()
    func tell(_ events: [ObservedEvent]) -> String? {
        guard case .failure(let error) = attempt({ () throws(PluginError) in try observer.observe(events) }) else {
            return nil
        }
        return "it failed: \(error.message)"
    }
    let time = "\"time\":\"2026-11-20T02:00:00.000Z\""
    let started = ObservedEvent(name: "run.started", json: "{\"event\":\"run.started\",\(time),\"run\":\"r\"}")
    let finished = ObservedEvent(
        name: "pull.finished", json: "{\"event\":\"pull.finished\",\(time),\"run\":\"r\",\"result\":\"complete\"}")

    book.rule("A run's first and last event are accepted", "Answer null when the events are accepted.") {
        tell([started, finished])
    }
    book.rule("An empty list of events is accepted", "Answer an empty list like any other.") { tell([]) }
    book.rule(
        "Ten thousand events are accepted, in batches", "Answer soon and work later; events queue until you answer."
    ) {
        tell(
            (0..<10_000).map {
                ObservedEvent(
                    name: "file.committed", json: "{\"event\":\"file.committed\",\(time),\"path\":\"f\($0)\"}")
            })
    }
    book.rule("An unknown event is accepted", "Later versions add more; ignore what you do not know.") {
        tell([ObservedEvent(name: "moon.rose", json: "{\"event\":\"moon.rose\",\"deep\":[[[[{}]]]],\"null\":null}")])
    }
    book.rule("It handles odd strings", "Events contain file names with any characters, escaped as in JSON.") {
        tell([
            ObservedEvent(
                name: "file.committed",
                json: "{\"event\":\"file.committed\",\(time),\"path\":\"a\\u0000\\n\\\"\\u202e\u{1F5BC}"
                    + String(repeating: "x", count: 20_000) + "\"}")
        ])
    }
    return book.results
}
