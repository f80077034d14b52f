import SyncTestKit
import Testing

@Suite("The check of event logs", .timeLimit(.minutes(10)))
struct EventLogCheckTests {
    private let start = "{\"event\":\"run.started\",\"run\":\"r\"}"
    private let complete = "{\"event\":\"group.completed\",\"run\":\"r\",\"group\":\"all\"}"
    private let hook =
        "{\"event\":\"hook.started\",\"run\":\"r\",\"group\":\"all\",\"program\":\"/bin/a\",\"attempt\":1}"

    @Test("A log in order is clean, whatever else is in it [S29 S31]")
    func clean() {
        #expect(orderComplaints(inEvents: [start, "not json", "{}", complete, hook]) == [])
    }

    @Test("A hook before its group's completion is found [S31]")
    func found() {
        #expect(orderComplaints(inEvents: [start, hook, complete]).count == 1)
        #expect(orderComplaints(inEvents: [complete]).count == 1)
    }
}
