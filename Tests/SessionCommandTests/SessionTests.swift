import CommandTestSupport
import Foundation
import Testing

@Suite(.timeLimit(.minutes(10)))
struct SessionTests {
    @Test("Reading verbs need no state: nothing is there, and nothing is made")
    func nothing() throws {
        let scratch = try Scratch()
        let tool = Tool(scratch)
        #expect(try tool.run(["status"]).status == 0)
        #expect(try tool.run(["hooks", "list"]).status == 0)
        #expect(try tool.run(["gc"]).status == 0)
        #expect(try tool.run(["doctor", "--strict"]).status == 0)
        for verb in [["status", "x"], ["events"], ["wait"], ["pause"], ["attach"], ["rm", "x"]] {
            let outcome = try tool.run(verb)
            #expect(outcome.status == 66, "\(verb): \(outcome.error)")
            #expect(outcome.error.contains("No sessions. 'syncagent pull MANIFEST' creates one."), "\(outcome.error)")
        }
        #expect(!FileManager.default.fileExists(atPath: scratch.path + "/.local"))
    }

    @Test("After a pull its session is there: status, events and wait tell of it without an agent [S20]")
    func afterPull() throws {
        let set = try ServedSet()
        #expect(try set.pull("--quiet").status == 0)
        let table = try set.tool.run(["status"])
        #expect(table.output.contains("com.example.tower  idle (ok)  2/2"), "\(table.output)")
        let json = try #require(try set.tool.run(["status", "com.example.tower", "--json"]).events().first)
        #expect(json["state"] as? String == "idle")
        #expect((json["run"] as? [String: Any])?["result"] as? String == "ok")

        let events = try set.tool.run(["events", "--json"]).events()
        #expect(events.compactMap { $0["seq"] as? Int } == Array(1...events.count))
        #expect(events.first?["event"] as? String == "run.started")
        #expect(events.last?["event"] as? String == "pull.finished")
        let later = try set.tool.run(["events", "--json", "--since", "\(events.count - 1)"]).objects()
        #expect(later.count == 1)
        for verb in [["events"], ["events", "--follow"], ["attach", "--json"]] {
            let lost = try set.tool.run(verb + ["--since", "\(events.count + 1)"])
            #expect(lost.status == 66 && lost.output.isEmpty, "\(verb): \(lost.error)")
            #expect(lost.error.contains("its last is \(events.count)"), "\(lost.error)")
        }

        let wait = try set.tool.run(["wait"])
        #expect(wait.status == 0)
        #expect(wait.error.contains("com.example.tower: complete"))
        #expect(try set.tool.run(["agent", "status"]).status == 69)
    }

    @Test("Without a name several sessions are listed, and none is chosen")
    func several() throws {
        let set = try ServedSet()
        #expect(try set.pull("--session", "one").status == 0)
        #expect(try set.tool.run(["pull", set.url, "--into", "b", "--session", "two"]).status == 0)
        let outcome = try set.tool.run(["events"])
        #expect(outcome.status == 64)
        #expect(outcome.error.contains("There are 2:\n  one\n  two"), "\(outcome.error)")
        #expect(try set.tool.run(["events", "three"]).status == 66)
    }

    @Test("A failed hook makes wait end with 5, status tells it, and hooks list tells what it wrote [S39]")
    func failedHook() throws {
        let set = try ServedSet()
        try set.script("hook.sh", "echo not today; exit 3")
        #expect(try set.pull("--hook", "./hook.sh").status == 5)
        #expect(try set.tool.run(["wait", "--quiet"]).status == 5)
        let status = try set.tool.run(["status"])
        #expect(status.output.contains("idle (ok)") && status.output.contains("a hook failed"), "\(status.output)")
        let told = try #require(try set.tool.run(["status", "--json"]).objects().first)
        #expect(told["failed_hooks"] as? Int == 1)
        let list = try set.tool.run(["hooks", "list", "--output"])
        #expect(list.output.contains("exit 3"))
        #expect(list.output.contains("    not today"))
        let hook = try #require(try set.tool.run(["hooks", "list", "--json"]).events().first)
        #expect(hook["state"] as? String == "failed")
    }

    @Test("A hook leaves a receipt once; a second time is told [S33]")
    func receipt() throws {
        let set = try ServedSet()
        let program = Tool.url.path
        try set.script(
            "hook.sh",
            """
            LD_LIBRARY_PATH="\(ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"] ?? "")"
            export LD_LIBRARY_PATH
            \(program) hooks receipt "$SYNCAGENT_RUN_ID" --check && exit 9
            \(program) hooks receipt "$SYNCAGENT_RUN_ID"
            """)
        let pull = try set.pull("--hook", "./hook.sh", "--json")
        #expect(pull.status == 0, "\(pull.output)")
        let run = try #require(try pull.events().last?["run"] as? String)
        #expect(try set.tool.run(["hooks", "receipt", run, "--check"]).status == 0)
        #expect(try set.tool.run(["hooks", "receipt", run]).status == 2)
        // The run has no hook of that group.
        #expect(try set.tool.run(["hooks", "receipt", run, "--group", "sheets", "--check"]).status == 66)
        #expect(try set.tool.run(["hooks", "receipt", run, "--group", "sheets"]).status == 66)
        #expect(try set.tool.run(["hooks", "receipt", "no-such-run"]).status == 66)
    }

    @Test("Two hooks of one group each find and leave a receipt of their own [S33]")
    func twoReceipts() throws {
        let set = try ServedSet()
        let program = Tool.url.path
        for name in ["one.sh", "two.sh"] {
            try set.script(
                name,
                """
                LD_LIBRARY_PATH="\(ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"] ?? "")"
                export LD_LIBRARY_PATH
                \(program) hooks receipt "$SYNCAGENT_RUN_ID" --check && exit 9
                \(program) hooks receipt "$SYNCAGENT_RUN_ID" && \(program) hooks receipt "$SYNCAGENT_RUN_ID" --check
                """)
        }
        let pull = try set.pull("--hook", "./one.sh", "--hook", "./two.sh", "--json")
        #expect(pull.status == 0, "\(pull.output)")
        let run = try #require(try pull.events().last?["run"] as? String)
        let receipts = set.scratch.path + "/tower/.syncagent/receipts"
        let numbers = try set.tool.run(["hooks", "list", "--json"]).objects().compactMap { $0["number"] as? Int }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: receipts).sorted()
                == numbers.map { "\(run).all.\($0)" }.sorted())
        #expect(try set.tool.run(["hooks", "receipt", run]).status == 64)
    }

    @Test("doctor is content after a pull, and finds a destination that has gone")
    func doctor() throws {
        let set = try ServedSet()
        #expect(try set.pull().status == 0)
        let well = try set.tool.run(["doctor", "--strict"])
        #expect(well.status == 0, "\(well.output)")
        #expect(well.output.contains("libcurl"))
        try FileManager.default.moveItem(atPath: set.scratch.path + "/tower", toPath: set.scratch.path + "/moved")
        let gone = try set.tool.run(["doctor", "--strict", "--json"])
        #expect(gone.status == 2)
        let problems = try gone.events().filter { $0["level"] as? String == "problem" }
        #expect(problems.count == 1, "\(gone.output)")
        #expect(problems.first?["subject"] as? String == "session com.example.tower")
        #expect(try set.tool.run(["doctor"]).status == 0)
        try FileManager.default.createDirectory(atPath: set.scratch.path + "/tower", withIntermediateDirectories: true)
        #expect(try set.tool.run(["doctor", "--strict"]).output.contains("is not the directory of the last pull"))
    }

    @Test("doctor finds that a ledger is lost, and does not ask for access to what it can read")
    func lostLedger() throws {
        let set = try ServedSet()
        #expect(try set.pull("--atomic=links").status == 0)
        try FileManager.default.removeItem(atPath: set.scratch.path + "/tower/.syncagent/ledger")
        let outcome = try set.tool.run(["doctor", "--strict"])
        #expect(outcome.status == 2 && outcome.output.contains("ledger is lost"), "\(outcome.output)")
        #expect(!outcome.output.contains("give this user access"), "\(outcome.output)")
    }

    @Test("gc beside a pull takes nothing that it has on its way [F124]")
    func collectDuringPull() throws {
        let bytes = Data((0..<900_000).map { _ in UInt8.random(in: .min ... .max) })
        let set = try ServedSet(["a.bin": bytes])
        let staging = set.scratch.path + "/tower/.syncagent/staging"
        let pull = set.tool.process(["pull", set.url, "--into", "tower", "--limit-rate", "300K", "--quiet"])
        try pull.run()
        func staged() -> [String] {
            (FileManager.default.enumerator(atPath: staging)?.allObjects as? [String] ?? []).filter { $0.contains("/") }
        }
        for _ in 0..<1_000 where staged().isEmpty && pull.isRunning { usleep(5_000) }
        let before = staged()
        #expect(!before.isEmpty && pull.isRunning)
        let gone = try set.tool.run(["gc"])
        #expect(gone.status == 0 && !gone.output.contains("unfinished files"), "\(gone.output)\(gone.error)")
        #expect(pull.isRunning && staged() == before)
        pull.waitUntilExit()
        #expect(pull.terminationStatus == 0)
        #expect(FileManager.default.contents(atPath: set.scratch.path + "/tower/a.bin") == bytes)
    }

    @Test("gc keeps what is needed and gives back what is not; --dry-run only says so")
    func collect() throws {
        let set = try ServedSet()
        #expect(try set.pull().status == 0)
        let manifests = set.scratch.path + "/.local/state/syncagent/manifests"
        let kept = try FileManager.default.contentsOfDirectory(atPath: manifests).sorted()
        #expect(!kept.isEmpty)
        let old = manifests + "/\(String(repeating: "ab", count: 32)).json"
        try Data("{}".utf8).write(to: URL(fileURLWithPath: old))
        for name in try FileManager.default.contentsOfDirectory(atPath: manifests) {
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: 0)], ofItemAtPath: manifests + "/" + name)
        }
        let staged = set.scratch.path + "/tower/.syncagent/staging/0/rubbish"
        try set.scratch.write(Data("x".utf8), to: "tower/.syncagent/staging/0/rubbish")
        for (name, age) in [("old", 91.0), ("young", 89.0)] {
            try set.scratch.write(Data(), to: "tower/.syncagent/receipts/\(name).all")
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSinceNow: -age * 86_400)],
                ofItemAtPath: set.scratch.path + "/tower/.syncagent/receipts/\(name).all")
        }
        let dry = try set.tool.run(["gc", "--dry-run"])
        #expect(dry.output.contains("receipts of hooks in"), "\(dry.output)")
        #expect(dry.status == 0, "\(dry.error)")
        #expect(dry.output.contains("cached manifests: 1 file, 2 B would be removed"), "\(dry.output)")
        #expect(FileManager.default.fileExists(atPath: old))
        #expect(FileManager.default.fileExists(atPath: staged))
        let gone = try set.tool.run(["gc"])
        #expect(gone.output.contains("cached manifests: 1 file, 2 B removed"), "\(gone.output)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: manifests).sorted() == kept)
        #expect(!FileManager.default.fileExists(atPath: staged))
        let receipts = set.scratch.path + "/tower/.syncagent/receipts"
        #expect(try FileManager.default.contentsOfDirectory(atPath: receipts) == ["young.all"])
        let again = try set.pull("--json").events().last
        #expect(again?["requests"] as? Int == 1)
    }

    @Test("Where a destination does not say which revisions it keeps, gc names its session and removes no manifest")
    func notAsked() throws {
        let set = try ServedSet()
        #expect(try set.pull().status == 0)
        // As it would be if its disk was damaged.
        let ledger = try set.scratch.write(Data("x".utf8), to: "tower/.syncagent/ledger")
        chmod(ledger.path, 0o600)
        let outcome = try set.tool.run(["gc"])
        #expect(outcome.status == 0)
        #expect(
            outcome.error.contains("no cached manifest is removed: session com.example.tower cannot be asked"),
            "\(outcome.error)")
        #expect(outcome.error.contains("run gc again"), "\(outcome.error)")
    }

    @Test("gc counts what went, and says what it could not remove")
    func notCollected() throws {
        let set = try ServedSet()
        #expect(try set.pull().status == 0)
        let staging = "tower/.syncagent/staging"
        try set.scratch.write(Data("x".utf8), to: "\(staging)/0/\(String(repeating: "ab", count: 32))")
        // So deep that it stays.
        let deep = "dir-0000000000000000/" + String(repeating: "a/", count: 70) + "file"
        try set.scratch.write(Data("y".utf8), to: "\(staging)/\(deep)")
        let gone = try set.tool.run(["gc"])
        #expect(gone.output.contains(": 1 file, 1 B removed"), "\(gone.output)")
        #expect(gone.error.contains("\(staging)/dir-0000000000000000"), "\(gone.error)")
    }
}
