import Foundation
import SyncModel
import SyncReport
import SyncStore
import Testing

private let morning = november(21, 7, 30)

@Suite("The report for programs", .timeLimit(.minutes(10)))
struct ReportPayloadTests {
    private func payload(_ store: SyncStore, since: Int64? = nil) throws -> [String: Any] {
        let json = try store.report(at: morning, since: since).json.text
        #expect(!json.contains("\n"))
        return try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
    }

    @Test("Three nights in JSON: sums, pieces of work, waits and nights [S134 S135]")
    func threeNightsPayload() throws {
        let object = try payload(threeNights(), since: november(18, 12))
        #expect(object["report"] as? Int == 1 && object["needs_attention"] as? Int == 0)
        #expect(object["generated"] as? String == "2026-11-21T07:30:00.000Z")
        let session = try #require((object["sessions"] as? [[String: Any]])?.first)
        #expect(session["verdict"] as? String == "ok" && session["requests"] as? Int == 70)
        let bytes = try #require(session["bytes"] as? [String: Any])
        #expect(bytes["received"] as? UInt64 == 824 * mebi && bytes["reused"] as? UInt64 == 24 * mebi)
        let runs = try #require(session["runs"] as? [[String: Any]])
        #expect(runs.map { $0["state"] as? String } == ["superseded", "finished"])
        let work = runs.flatMap { $0["work"] as? [[String: Any]] ?? [] }
        #expect(work.map { $0["stopped"] as? String } == ["policy", "policy", "policy", nil])
        let waits = try #require(session["waits"] as? [[String: Any]])
        #expect(waits.map { $0["cause"] as? String } == ["power"])
        #expect(waits.first?["elapsed_ms"] as? Int == 3_000_000)
        let nights = try #require(session["nights"] as? [[String: Any]])
        #expect(nights.map { $0["night"] as? String } == ["2026-11-19", "2026-11-20", "2026-11-21"])
        #expect(nights.map { $0["result"] as? String } == ["stopped", "stopped", "ok"])
        let perNight = nights.compactMap { ($0["bytes"] as? [String: Any])?["received"] as? UInt64 }
        #expect(perNight == [412 * mebi, 294 * mebi, 118 * mebi])
    }

    @Test("What went wrong is told with its kind, examples and advice")
    func problems() throws {
        let object = try payload(fortnight())
        let sessions = try #require(object["sessions"] as? [[String: Any]])
        #expect(sessions.map { $0["verdict"] as? String } == ["attention", "working", "ok", "ok"])
        let problems = try #require(sessions.first?["problems"] as? [[String: Any]])
        #expect(problems.map { $0["kind"] as? String } == ["not_there", "disk_full", "hook_failed"])
        #expect(problems.map { $0["files"] as? Int } == [12, 1, 0])
        #expect((problems.first?["examples"] as? [String])?.count == 3)
        #expect(problems.allSatisfy { ($0["advice"] as? String)?.isEmpty == false })
        let hooks = try #require(sessions.first?["hooks"] as? [[String: Any]])
        #expect(hooks.first?["program"] as? String == "https://chat.example.com/…")
        #expect(hooks.first?["output"] == nil)
    }

    /// Keys in `code` at the beginning of rows of the document's tables, by the heading above them.
    private func documented() throws -> [String: Set<String>] {
        let text = try String(
            contentsOf: repository.appendingPathComponent("Documentation/reference/Report.md"), encoding: .utf8)
        var keys: [String: Set<String>] = [:]
        var heading = ""
        for line in text.split(separator: "\n") {
            if line.hasPrefix("#") { heading = line.drop { $0 == "#" || $0 == " " }.lowercased() }
            guard line.hasPrefix("| `") else { continue }
            let cell = line.dropFirst(2).prefix { $0 != "|" }
            for (place, word) in cell.split(separator: "`", omittingEmptySubsequences: false).enumerated()
            where place % 2 == 1 { keys[heading, default: []].insert(String(word)) }
        }
        return keys
    }

    @Test("Every key is described in Documentation/reference/Report.md, and nothing else is")
    func document() throws {
        var found: [String: Set<String>] = [:]
        func walk(_ value: Any, _ name: String) {
            if let list = value as? [Any] { for element in list { walk(element, name) } }
            guard let object = value as? [String: Any] else { return }
            found[name, default: []].formUnion(object.keys)
            for (key, inner) in object { walk(inner, key) }
        }
        let due = [
            "com.example.tower": ReportReader.Schedule(next: november(22, 2)),
            "film.harbour-dailies": ReportReader.Schedule(next: november(22, 2)),
        ]
        let store = try fortnight()
        try store.hold(run: "weights-21", reason: .condition("metered"), error: "x", due: november(21, 8))
        let labelled = StoreStory("labelled", in: store)
        try labelled.begin("l-1", at: november(21, 1), groups: ["all", "maps"], userData: "[7]", expectedBytes: 80)
        try labelled.finish(
            StoreStory.Work(otherBytes: 4), "l-1", at: november(21, 2), total: 3, result: .failed, error: "no",
            exitStatus: 69)
        var report = try store.report(at: morning, schedules: due)
        report.warnings = ["com.example.tower: root 1 counts until tomorrow only"]
        let json = report.json.text
        #expect(json.contains(#""expected_bytes":80,"user_data":[7]"#))
        walk(try JSONSerialization.jsonObject(with: Data(json.utf8)), "report")
        let described = try documented()
        for (name, keys) in found where name != "via" && name != "examples" {
            #expect(keys.subtracting(described[name] ?? []) == [], "\(name)")
        }
        // Seldom there: a label, lost events, a set that nobody published as a manifest.
        let seldom: Set<String> = ["label", "is_incomplete", "source"]
        for (name, keys) in described {
            #expect(keys.subtracting(found[name] ?? []).subtracting(seldom) == [], "\(name)")
        }
    }
}

@Suite("What events are made of", .timeLimit(.minutes(10)))
struct EventFactsTests {
    @Test(
        "Lines that are no events of ours, or lack what they should have, are left alone",
        arguments: [
            "", "{", "null", "{\"event\":\"run.summary\"", "{\"event\":\"run.summary\"}",
            "{\"event\":\"run.summary\",\"time\":\"yesterday\"}",
            "{\"event\":\"run.summary\",\"time\":\"2026-11-21T01:00:00.000Z\",\"received\":-1,\"requests\":1e400}",
            "{\"event\":\"run.summary\",\"time\":\"2026-11-21T01:00:00.000Z\",\"received\":99999999999999999999,"
                + "\"files\":[],\"origins\":{\"a\":1},\"directories\":[1,null,{\"files\":\"x\"}]}",
            "{\"event\":\"task.failed\",\"time\":\"2026-13-41T99:00:00.000Z\"}",
            "{\"event\":\"condition.cleared\",\"time\":\"2026-11-21T01:00:00.000Z\",\"condition\":7}",
        ])
    func garbage(line: String) throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        try story.begin("1", at: november(21, 1))
        try store.append([Array(line.utf8)], to: "tower", time: november(21, 1))
        try story.finish(StoreStory.Work(received: 5), "1", at: november(21, 2), total: 1)
        let session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.verdict == .ok && session.amounts.received == 5)
    }

    @Test("Sums of absurd numbers end at the largest that there is, in every form of the report")
    func absurd() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        let (most, many) = (Int64.max, Int.max)
        for (number, time) in [november(21, 1), november(21, 2)].enumerated() {
            let run = "\(number)"
            try story.begin(run, at: time)
            try story.event("run.summary", run, at: time) { line in
                for name in ["elapsed_ms", "requests", "received", "reused", "other_bytes"] { line.field(name, most) }
                line.key("files")
                line.object { for name in ["installed", "reused", "removed", "failed"] { $0.field(name, many) } }
                for (list, name) in [("origins", "origin"), ("directories", "path")] {
                    line.key(list)
                    line.array { array in
                        array.object {
                            $0.field(name, "https://h")
                            for name in ["requests", "bytes", "transfers", "failed", "files"] { $0.field(name, most) }
                        }
                    }
                }
            }
            for name in ["transfer.retrying", "transfer.waiting"] {
                try story.event(name, run, at: time) {
                    $0.field("url", "https://h/a")
                    $0.field("wait_ms", most)
                }
            }
            var counts = RunCounts()
            (counts.files.total, counts.files.installed, counts.files.failed) = (.max, .max, .max)
            (counts.bytes.total, counts.bytes.received, counts.requests) = (.max, .max, .max)
            try store.finish(run: run, result: .partial, counts: counts, now: time)
        }
        // Runs whose events are gone, and whose times make no sense.
        for (number, times) in [(Int64.max, Int64.min), (Int64.min, Int64.max)].enumerated() {
            var start = RunStart(
                session: story.request, run: "odd-\(number)", manifest: .zero, recipe: RunRecipe(manifest: "/m.json"))
            start.deadline = .max
            try store.begin(start, now: times.0)
            try store.finish(run: start.run, result: .ok, counts: RunCounts(), now: times.1)
        }
        let due = ["tower": ReportReader.Schedule(next: .max, lastDue: .max)]
        for since in [Int64.min, november(20), .max] {
            let report = try store.report(at: morning, since: since, schedules: due)
            #expect(report.json.text.contains("\"sessions\""))
            #expect(!report.lines(clock(at: morning)).isEmpty)
            #expect(report.page(clock(at: morning)).contains("</html>"))
        }
        let session = try #require(try store.report(at: morning, since: november(20)).sessions.first)
        #expect(session.amounts.elapsed == .max && session.amounts.installed == .max)
        #expect(session.amounts.received == 2 * UInt64(most))
        #expect(session.origins.first?.transfers == .max && session.waits.allSatisfy { $0.elapsed == .max })
        #expect(Exposition(try metricsText(store, version: "0.1.0")).complaints == [])
    }

    @Test("A run whose process was killed is told as interrupted in every form, and its session does not run")
    func interrupted() throws {
        let directory = FileManager.default.temporaryDirectory.path + "/report-" + UUID().uuidString
        // A leftover in the temporary directory harms nobody.
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store = try SyncStore.open(directory: directory, now: 1)
        var lease = try store.lease(of: "tower", process: 42, now: 1)
        try StoreStory("tower", in: store).begin("1", at: november(21, 1))
        func told() throws -> (flags: [Bool], headline: String, text: String, states: [String: Double]) {
            let report = try store.report(at: morning)
            let json = try JSONSerialization.jsonObject(with: Data(report.json.text.utf8))
            let session = try #require(((json as? [String: Any])?["sessions"] as? [[String: Any]])?.first)
            let run = try #require((session["runs"] as? [[String: Any]])?.first)
            #expect(session["state"] as? String == "running" && run["state"] as? String == "running")
            return (
                [session, run].compactMap { $0["is_interrupted"] as? Bool }, session["headline"] as? String ?? "",
                try store.text(at: morning),
                Exposition(try metricsText(store, version: "0.1.0")).values.filter { $0.value == 1 }
            )
        }
        let working = try told()
        #expect(working.flags == [false, false] && working.headline == "is running" && lease != nil)
        #expect(working.states["syncagent_session_state session=tower state=running"] == 1)
        lease = nil
        let left = try told()
        #expect(left.flags == [true, true] && left.headline.hasPrefix("was interrupted"))
        #expect(left.text.contains("was interrupted") && !left.text.contains("running"))
        #expect(left.states["syncagent_session_state session=tower state=waiting"] == 1)
        #expect(left.states["syncagent_session_state session=tower state=running"] == nil)
    }

    @Test("A condition that blocks since before the report counts; one that was over before does not")
    func conditions() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        try story.begin("1", at: november(19, 1), isHeld: false)
        func condition(_ name: String, _ condition: String, _ time: Int64) throws {
            try story.event(name, "1", at: time) {
                $0.field("condition", condition)
                $0.field("detail", "since \(timestamp(milliseconds: time))")
            }
        }
        try condition("condition.blocked", "load", november(19, 9))
        try condition("condition.cleared", "load", november(19, 10))
        try condition("condition.blocked", "power", november(20, 1))
        try condition("condition.blocked", "power", november(20, 2))
        try condition("condition.blocked", "metered", november(20, 9))
        try condition("condition.cleared", "metered", november(20, 10))
        let session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.waits.map(\.cause) == [.condition("power"), .condition("metered")])
        #expect(session.waits.map(\.to) == [nil, november(20, 10)])
        #expect(session.waits.map(\.from) == [november(20, 1), november(20, 9)])
        #expect(session.verdict == .working && session.headline.hasPrefix("blocked by power"))
    }

    @Test(
        "A run that is at its end, or that somebody has stopped, waits for no condition any more",
        arguments: [
            ("pull.finished", nil, true), ("run.stopped", .userCancel, true), ("run.stopped", .userStop, true),
            ("run.stopped", .policy, false), ("run.stopped", .agentRestart, false),
        ] as [(String, RestReason?, Bool)])
    func stopped(event: String, reason: RestReason?, isOver: Bool) throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        try story.begin("1", at: november(21, 1), isHeld: false)
        try story.event("condition.blocked", "1", at: november(21, 1)) { $0.field("condition", "window") }
        try story.event(event, "1", at: november(21, 2)) { $0.field("reason", optional: reason?.rawValue) }
        let session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.waits.map(\.to) == [isOver ? november(21, 2) : nil])
    }

    @Test("Waits for one server for different reasons are told apart, but not by their numbers of bytes")
    func reasons() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        try story.begin("1", at: november(21, 1), isHeld: false)
        for reason in ["status 503", "empty reply", "status 503", "12 bytes are missing", "7 bytes are missing"] {
            try story.event("transfer.retrying", "1", at: november(21, 1)) {
                $0.field("url", "https://h/a")
                $0.field("reason", reason)
                $0.field("wait_ms", 6_000)
            }
        }
        let session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.waits.map(\.count) == [2, 1, 2])
    }

    @Test("A pause that a server asks for is not put down to the network alone")
    func pause() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        try story.begin("1", at: november(21, 1), isHeld: false)
        try story.event("transfer.waiting", "1", at: november(21, 1)) {
            $0.field("url", "https://h/a")
            $0.field("reason", "the server asks for a pause")
            $0.field("wait_ms", 60_000)
        }
        let lines = try store.report(at: morning).lines(clock(at: morning))
        let told = "for a server or the network, 1 min in all: https://h: the server asks for a pause"
        #expect(lines.contains { $0.hasSuffix(told) }, "\(lines)")
    }

    @Test("When all transfers wait for a server at the same time, that is one time without it")
    func parallelWaits() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        try story.begin("1", at: november(21, 1))
        let last = november(21, 1, 2)
        var waits = Array(repeating: (time: november(21, 1), elapsed: 3_000), count: 64)
        waits += [(time: last, elapsed: 10_000), (time: last + 500, elapsed: 900)]
        for (time, elapsed) in waits {
            try story.event("transfer.waiting", "1", at: time) {
                $0.field("url", "https://h/a")
                $0.field("reason", "no connection")
                $0.field("wait_ms", elapsed)
            }
        }
        let wait = try #require(try store.report(at: morning).sessions.first?.waits.first)
        #expect(wait.count == 66 && wait.elapsed == 13_000)
        #expect(wait.from == november(21, 1) && wait.to == last + 10_000)
    }

    @Test("Runs whose events are gone are told from their numbers")
    func withoutEvents() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        var start = RunStart(session: story.request, run: "1", manifest: .zero, recipe: RunRecipe(manifest: "/m.json"))
        start.recipe.origin = .interactive
        try store.begin(start, now: november(21, 1))
        var counts = RunCounts()
        counts.files.total = 3
        counts.files.installed = 3
        counts.bytes.received = 77
        counts.requests = 2
        try store.finish(run: "1", result: .ok, counts: counts, now: november(21, 1, 1))
        let session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.amounts.received == 77 && session.amounts.elapsed == 60_000)
        #expect(session.nights.map(\.amounts.received) == [77])
    }
}
