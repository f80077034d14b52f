import ArgumentParser
import Foundation
import SyncAgent
import SyncModel
import SyncSchedule
import Testing

@testable import SyncCommands

@Suite("What is kept of schedules, and files of them", .timeLimit(.minutes(10)))
struct ScheduleFileTests {
    private static func definition(_ rule: String) throws -> ScheduleDefinition {
        let request =
            #""request":{"manifest":"https://cdn.example.com/tower/manifest.json","destination":"/srv/tower"}"#
        return try ScheduleDefinition(json: Array("{\"backend\":\"systemd-user\",\(rule)\(request)}".utf8))
    }

    @Test("A definition is read as it is meant, and written so")
    func kept() throws {
        let definition = try Self.definition(
            #""days":["mon","fri"],"jitter_seconds":1800,"nightly":"02:00","ready_by":"07:00","#
                + #""time_zone":"Europe/Berlin","window_minutes":300,"#)
        let timing = definition.timing
        #expect(timing.recurrence == .daily(at: 120, on: [.mon, .fri]) && timing.readyBy == 420)
        #expect(timing.catchesUp && !definition.isPaused && timing.window == 300 && timing.jitter == 1_800)
        var changed = definition
        (changed.isPaused, changed.timing.catchesUp) = (true, false)
        for wanted in [definition, changed] { #expect(try ScheduleDefinition(json: wanted.json()) == wanted) }
    }

    @Test("What is handled is kept to the minute")
    func memory() {
        var memory = ScheduleMemory()
        let slot = Slot(day: CivilDay(number: 20_000), minute: 360)
        memory.handled = slot
        #expect(memory.handled == slot && memory.handledDay == 20_000)
        memory.handled = nil
        #expect(memory == ScheduleMemory())
    }

    @Test("Two rules, or none, in a file that somebody has edited are refused")
    func edited() throws {
        #expect(try Self.definition(#""every_minutes":60,"#).timing.recurrence == .every(minutes: 60))
        #expect(try Self.definition(#""cron":"0 3 * * *","#).timing.recurrence.times == [180])
        for rule in [#""every_minutes":60,"cron":"0 3 * * *","#, "", #""nightly":"25:00","#] {
            #expect(throws: ScheduleError.self) { try Self.definition(rule) }
        }
    }

    private static func file(_ schedule: String) -> [UInt8] {
        Array(#"{"format": "syncagent-schedules/1", "schedules": [{\#(schedule)}]}"#.utf8)
    }

    private static let whole = #""name": "tower", "manifest": "https://h.example/m.json", "into": "/srv/tower""#

    @Test("The keys of a schedule are the options of 'schedule add'")
    func options() throws {
        let text = Self.whole + #", "every": "6h", "on": ["mon", "tue"], "hook": ["/a b", "/c"], "prune": true, "#
        let entries = try ScheduleEntry.all(
            in: Self.file(
                text + #""allow_older": false, "max_load": 0.7, "catch_up": false, "paused": true, "x-mine": []"#),
            shown: "f")
        let entry = try #require(entries.first)
        #expect(
            entry.arguments == [
                "--name=tower", "--into=/srv/tower", "--every=6h", "--on=mon,tue", "--hook=/a b", "--hook=/c",
                "--prune", "--max-load=0.7", "--catch-up=no", "--", "https://h.example/m.json",
            ])
        #expect(entry.isPaused == true)
        // What is false has no word, and must be an option all the same.
        #expect(entry.keys.contains("allow_older") && !entry.keys.contains("paused"))
    }

    @Test("\"atomic\": true is --atomic without a value, the first layout that is possible; a name is that one")
    func atomic() throws {
        let wishes: [(String, LayoutChoice?)] = [("true", .auto), (#""links""#, .links), ("false", nil)]
        for (value, wish) in wishes {
            let text = Self.whole + #", "nightly": "02:00", "atomic": \#(value)"#
            let entry = try #require(try ScheduleEntry.all(in: Self.file(text), shown: "f").first)
            let add = try ScheduleAddCommand.parse(entry.arguments)
            #expect(add.placement.atomic == wish, "\(value)")
            #expect(add.target.manifest == "https://h.example/m.json")
        }
    }

    @Test(
        "A file that is wrong is refused, and the line is named",
        arguments: [
            (#""manifest": "/m", "into": "/d""#, "\"name\""),
            (#""name": "../x", "manifest": "/m", "into": "/d""#, "cannot name"),
            (#""name": "a", "into": "/d""#, "\"manifest\""),
            (#""name": "a", "manifest": "m.json", "into": "/d""#, "absolute"),
            (#""name": "a", "manifest": "/m", "into": "d""#, "absolute"),
            (#""name": "a", "manifest": "/m""#, "\"into\""), (whole + #", "paused": "yes""#, "true or false"),
            (whole + #", "dry_run": true"#, "cannot be set"), (whole + #", "hook": [{}]"#, "a list was found"),
            (whole + #", "hook": null"#, "null was found"),
        ])
    func refused(schedule: String, word: String) {
        let error = #expect(throws: CommandFailure.self) {
            try ScheduleEntry.all(in: Self.file(schedule), shown: "f.json")
        }
        #expect(error?.status == .dataInvalid)
        #expect(
            error?.message.hasPrefix("f.json:1: ") == true && error?.message.contains(word) == true,
            "\(error?.message ?? "")")
    }

    @Test(
        "What is no file of schedules is refused",
        arguments: [
            "[]", "{}", #"{"format": "syncagent-schedules/2", "schedules": []}"#, #"{"format": 1}"#,
            #"{"format": "syncagent-schedules/1"}"#,
            #"{"format": "syncagent-schedules/1", "schedules": [], "more": 1}"#,
        ])
    func noFile(text: String) {
        let error = #expect(throws: CommandFailure.self) { try ScheduleEntry.all(in: Array(text.utf8), shown: "f") }
        #expect(error?.status == .dataInvalid)
    }

    @Test("The same name twice is refused; an empty list is a file")
    func names() throws {
        let two = "{\(Self.whole)}, {\(Self.whole)}"
        let text = #"{"format": "syncagent-schedules/1", "schedules": [\#(two)]}"#
        #expect(throws: CommandFailure.self) { try ScheduleEntry.all(in: Array(text.utf8), shown: "f") }
        let empty = try ScheduleEntry.all(
            in: Array(#"{"format": "syncagent-schedules/1", "schedules": []}"#.utf8), shown: "f")
        #expect(empty.isEmpty)
    }

    @Test("A window of whole minutes is taken for one, and a jitter to the second, however long they are")
    func lengths() throws {
        let words = ["/m", "--into", "/d", "--nightly", "02:00"]
        // As quotients of floating-point numbers, 159 and 478 minutes come out a little short.
        for minutes in [159, 478, 1_439] {
            let add = try ScheduleAddCommand.parse(words + ["--window", "\(minutes)m"])
            #expect(try add.schedule.timing().window == minutes)
        }
        let add = try ScheduleAddCommand.parse(words + ["--jitter", "9460s"])
        #expect(try add.schedule.timing().jitter == 9_460)
    }

    @Test("--weekly is one value in two words; whatever else stands there stays")
    func weekly() {
        let add = ["schedule", "add", "m"]
        #expect(
            ScheduleOptions.joined(add + ["--weekly", "sun", "03:00", "x"]) == add + ["--weekly", "sun 03:00", "x"])
        #expect(ScheduleOptions.joined(add + ["--weekly", "sun 03:00", "x"]) == add + ["--weekly", "sun 03:00", "x"])
        for others in [
            ["pull", "--weekly", "sun", "03:00"], add + ["--weekly", "sun"], add + ["--weekly", "sun", "m.json"],
        ] { #expect(ScheduleOptions.joined(others) == others) }
    }
}
