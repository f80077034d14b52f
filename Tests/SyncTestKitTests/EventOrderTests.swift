import SyncModel
import SyncTestKit
import Testing

private typealias Event = EventOrder.Event

private func complaints(_ events: [Event]) -> [String] {
    var order = EventOrder()
    return events.compactMap { order.take($0) }
}

private func task(_ name: EventName, _ path: String) -> Event { Event(name, run: "r", path: path) }

private func hook(_ name: EventName, attempt: Int? = nil, group: String = "all") -> Event {
    Event(name, run: "r", group: group, program: "/bin/true", attempt: attempt)
}

private let begin = [Event(.runStarted, run: "r"), Event(.planReady, run: "r")]
private let complete = Event(.groupCompleted, run: "r", group: "all")
private let finish = Event(.pullFinished, run: "r")

@Suite("The order of events", .timeLimit(.minutes(10)))
struct EventOrderTests {
    @Test("A whole run in order has nothing wrong with it [S29 S30 S31 S41]")
    func whole() {
        let tasks = [
            task(.taskRedirected, "a"), task(.taskRedirected, "a"), task(.taskInstalled, "b"),
            task(.taskInstalled, "a"), task(.taskFailed, "c"), task(.taskRemoved, "d"),
        ]
        let named = Event(.groupCompleted, run: "r", group: "sheets")
        let hooks = [
            hook(.hookStarted, attempt: 1), hook(.hookFinished), hook(.hookStarted, attempt: 2), hook(.hookFinished),
        ]
        #expect(complaints(begin + tasks + [named, complete] + hooks + [finish]) == [])
        #expect(complaints(begin + [complete, finish]) == [], "nothing to do is a run, too")
    }

    @Test("A program that is a file hook and an ordinary one is two hooks [S131]")
    func twoHooks() {
        func files(_ name: EventName) -> Event {
            Event(name, run: "r", group: "all", program: "/bin/true", attempt: 1, batch: 100)
        }
        let both = [files(.hookStarted), files(.hookFinished), hook(.hookStarted, attempt: 1), hook(.hookFinished)]
        #expect(complaints(begin + [complete] + both + [finish]) == [])
        #expect(complaints(begin + [complete] + both + [files(.hookStarted)]).count == 1)
    }

    @Test("A run that is taken up, and a hook that is owed once more, are in order [S19 S25 S33 F089]")
    func takenUp() {
        let again = [Event(.runStarted, run: "r"), task(.taskInstalled, "b"), complete]
        #expect(complaints(begin + [task(.taskInstalled, "a")] + again + [hook(.hookStarted, attempt: 1)]) == [])
        #expect(
            complaints(
                begin + [
                    complete, hook(.hookStarted, attempt: 1), begin[0], hook(.hookStarted, attempt: 2),
                    hook(.hookFinished),
                ] + [finish, hook(.hookStarted, attempt: 3), hook(.hookFinished)]) == [])
    }

    @Test(
        "Each rule finds what breaks it",
        arguments: [
            ([task(.taskInstalled, "a")], "run.started has not come"),
            (begin + [task(.taskInstalled, "a"), task(.taskInstalled, "a")], "a has ended"),
            (begin + [task(.taskFailed, "a"), task(.taskInstalled, "a")], "a has ended"),
            (begin + [task(.taskInstalled, "a"), task(.taskRedirected, "a")], "a has ended"),
            (begin + [complete, task(.taskInstalled, "a")], "group 'all' is complete"),
            (begin + [complete, complete], "group all is complete"),
            (begin + [hook(.hookStarted, attempt: 1)], "group.completed has not come"),
            (begin + [complete, hook(.hookStarted, attempt: 1, group: "b")], "group.completed has not come"),
            (begin + [complete, hook(.hookFinished)], "no attempt has started"),
            (
                begin + [
                    complete, hook(.hookStarted, attempt: 1), hook(.hookFinished), hook(.hookStarted, attempt: 1),
                ], "attempt 1 after attempt 1"
            ), (begin + [complete, finish, finish], "it has occurred before"),
            (begin + [complete, finish, Event(.planReady, run: "r")], "pull.finished has occurred"),
            (begin + [complete, finish, begin[0]], "the run has finished"),
            ([finish, finish], "it has occurred before"), ([finish, begin[0]], "the run has finished"),
        ]) fileprivate func breaks(events: [Event], complaint: String)
    { #expect(complaints(events).map { $0.hasSuffix(complaint) } == [true], "\(complaints(events))") }

    @Test("A run that waits can end without ever having started [S12]")
    func neverStarted() {
        #expect(complaints([Event(.conditionBlocked, run: "r"), finish]) == [])
    }

    @Test("Runs are judged by themselves [S35]")
    func apart() {
        #expect(complaints(begin + [complete, Event(.runStarted, run: "s")]) == [])
        #expect(complaints(begin + [Event(.taskInstalled, run: "s", path: "a")]).count == 1)
    }
}
