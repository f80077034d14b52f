package import SyncPlugins

/// Checks an observer: it takes whatever comes, and says so.
package func check(observer: any EventObserver) -> [CheckResult] {
    var book = RuleBook()
    func tell(_ events: [ObservedEvent]) -> String? {
        guard case .failure(let error) = attempt({ () throws(PluginError) in try observer.observe(events) })
        else {
            return nil
        }
        return "it failed: \(error.message)"
    }
    let time = "\"time\":\"2026-11-20T02:00:00.000Z\""
    let started = ObservedEvent(
        name: "run.started",
        json: "{\"event\":\"run.started\",\(time),\"run\":\"r\"}"
    )
    let finished = ObservedEvent(
        name: "pull.finished",
        json: "{\"event\":\"pull.finished\",\(time),\"run\":\"r\",\"result\":\"complete\"}"
    )

    book.rule("A run's first and last event are taken", "Answer null when the events are taken.") {
        tell([started, finished])
    }
    book.rule("No events are taken", "An empty list is answered as any other.") { tell([]) }
    book.rule(
        "Ten thousand events are taken, in batches",
        "Answer soon and work later; while you think, events queue."
    ) {
        tell(
            (0..<10_000).map {
                ObservedEvent(
                    name: "file.committed",
                    json: "{\"event\":\"file.committed\",\(time),\"path\":\"f\($0)\"}"
                )
            }
        )
    }
    book.rule("An event that nobody knows is taken", "Later versions tell more; ignore what is not known.") {
        tell([
            ObservedEvent(
                name: "moon.rose",
                json: "{\"event\":\"moon.rose\",\"deep\":[[[[{}]]]],\"null\":null}"
            )
        ])
    }
    book.rule("Odd texts do it no harm", "Events hold file names: any characters, escaped as JSON has them.")
    {
        tell([
            ObservedEvent(
                name: "file.committed",
                json: "{\"event\":\"file.committed\",\(time),\"path\":\"a\\u0000\\n\\\"\\u202e\u{1F5BC}"
                    + String(repeating: "x", count: 20_000) + "\"}"
            )
        ])
    }
    return book.results
}
