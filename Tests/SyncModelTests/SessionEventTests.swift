import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct SessionEventTests {
    @Test(
        "An event says what it is and of what run, whether it has a number yet or not",
        arguments: [
            (#"{"seq":12,"event":"task.installed","time":"2026-11-20T02:00:00.123Z","run":"r","path":"a"}"#, 12),
            (#"{"event":"task.installed","time":"2026-11-20T02:00:00.123Z","run":"r","path":"a"}"#, nil),
        ] as [(String, Int64?)])
    func numbers(json: String, number: Int64?) {
        let event = SessionEvent(json: json)
        #expect(event.sequence == number && event.json == json)
        #expect(event.text == #"{"event":"task.installed","time":"2026-11-20T02:00:00.123Z","run":"r","path":"a"}"#)
        #expect(event.name == "task.installed" && event.kind == .taskInstalled && event.run == "r")
        #expect(event.time == WallTime(milliseconds: 1_795_140_000_123))
        #expect(SessionEvent(sequence: number, line: Array(event.text.utf8)) == event)
    }

    @Test("What is not an event, or not one in this spelling, is given back as it is")
    func odd() {
        for json in ["", "{}", #"{"seq":}"#, #"{"seq":99999999999999999999,"event":"plan"}"#, #"{"seq":x"#] {
            #expect(SessionEvent(json: json).sequence == nil && SessionEvent(json: json).json == json)
        }
        let short = SessionEvent(json: #"{"seq":7}"#)
        #expect(short.sequence == 7 && short.text == "{}" && short.json == #"{"seq":7}"#)
        let sorted = SessionEvent(json: #"{"attempt":1,"event":"hook.finished"}"#)
        #expect(sorted.name == "hook.finished" && sorted.kind == nil && sorted.run == nil && sorted.time == nil)
    }
}
