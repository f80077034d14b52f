import SyncModel
import Testing

private typealias Event = EventOrder.Event

private func complaints(_ events: [Event]) -> [String] {
    var order = EventOrder()
    return events.compactMap { order.take($0) }
}

private func task(_ step: String, _ path: String) -> Event { Event("task.\(step)", run: "r", path: path) }

private func hook(_ step: String, attempt: Int? = nil, group: String = "all") -> Event {
    Event("hook.\(step)", run: "r", group: group, program: "/bin/true", attempt: attempt)
}

private let begin = [Event("run.started", run: "r"), Event("plan.ready", run: "r")]
private let complete = Event("group.completed", run: "r", group: "all")
private let finish = Event("pull.finished", run: "r")

@Suite("The order of events", .timeLimit(.minutes(1)))
struct EventOrderTests {
    @Test("A whole run in order has nothing wrong with it [S29 S30 S31 S41]")
    func whole() {
        let tasks = [
            task("redirected", "a"), task("redirected", "a"), task("downloaded", "a"), task("installed", "b"),
            task("verified", "a"), task("installed", "a"), task("failed", "c"), task("removed", "d"),
        ]
        let named = Event("group.completed", run: "r", group: "sheets")
        let hooks = [
            hook("started", attempt: 1), hook("finished"), hook("started", attempt: 2), hook("finished"),
        ]
        #expect(complaints(begin + tasks + [named, complete] + hooks + [finish]) == [])
        #expect(complaints(begin + [complete, finish]) == [], "nothing to do is a run, too")
    }

    @Test("A program that is a file hook and an ordinary one is two hooks [S131]")
    func twoHooks() {
        func files(_ step: String) -> Event {
            Event("hook.\(step)", run: "r", group: "all", program: "/bin/true", attempt: 1, batch: 100)
        }
        let both = [files("started"), files("finished"), hook("started", attempt: 1), hook("finished")]
        #expect(complaints(begin + [complete] + both + [finish]) == [])
        #expect(complaints(begin + [complete] + both + [files("started")]).count == 1)
    }

    @Test("A run that is taken up, and a hook that is owed once more, are in order [S19 S25 S33 F089]")
    func takenUp() {
        let again = [Event("run.started", run: "r"), task("installed", "b"), complete]
        #expect(complaints(begin + [task("installed", "a")] + again + [hook("started", attempt: 1)]) == [])
        #expect(
            complaints(
                begin + [
                    complete, hook("started", attempt: 1), begin[0], hook("started", attempt: 2),
                    hook("finished"),
                ]
                    + [finish, hook("started", attempt: 3), hook("finished")]
            ) == []
        )
    }

    @Test(
        "Each rule finds what breaks it",
        arguments: [
            ([task("installed", "a")], "run.started has not come"),
            (begin + [task("installed", "a"), task("installed", "a")], "a has ended"),
            (begin + [task("failed", "a"), task("installed", "a")], "a has ended"),
            (begin + [task("verified", "a"), task("downloaded", "a")], "a has been there"),
            (begin + [task("downloaded", "a"), task("redirected", "a")], "a has been downloaded"),
            (begin + [complete, task("installed", "a")], "group 'all' is complete"),
            (begin + [complete, complete], "group all is complete"),
            (begin + [hook("started", attempt: 1)], "group.completed has not come"),
            (begin + [complete, hook("started", attempt: 1, group: "b")], "group.completed has not come"),
            (begin + [complete, hook("finished")], "no attempt has started"),
            (
                begin + [
                    complete, hook("started", attempt: 1), hook("finished"), hook("started", attempt: 1),
                ],
                "attempt 1 after attempt 1"
            ),
            (begin + [complete, finish, finish], "it has come before"),
            (begin + [complete, finish, Event("plan.ready", run: "r")], "pull.finished has come"),
            (begin + [complete, finish, begin[0]], "the run has finished"),
        ]
    )
    fileprivate func breaks(events: [Event], complaint: String) {
        #expect(complaints(events).map { $0.hasSuffix(complaint) } == [true], "\(complaints(events))")
    }

    @Test("Runs are judged by themselves [S35]")
    func apart() {
        #expect(complaints(begin + [complete, Event("run.started", run: "s")]) == [])
        #expect(complaints(begin + [Event("task.installed", run: "s", path: "a")]).count == 1)
    }
}
