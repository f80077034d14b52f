import CommandTestSupport
import Foundation
import Testing

/// A published set whose user has schedules that the agent fires: nothing of the machine's cron or systemd is touched.
private final class ScheduledSet {
    let published: ServedSet
    var tool: Tool { published.tool }

    init(_ files: [String: Data] = ["a.txt": Data("one".utf8), "sheets/b.txt": Data("two".utf8)]) throws {
        published = try ServedSet(files)
    }

    deinit {
        // None may be running.
        _ = try? published.tool.run(["agent", "stop"])
    }

    func add(_ arguments: String...) throws -> Tool.Outcome { try add(arguments) }

    func add(_ arguments: [String]) throws -> Tool.Outcome {
        try tool.run(
            ["schedule", "add", published.url, "--into", "tower", "--backend", "agent", "--interactive"] + arguments)
    }

    /// The files that are kept of schedules.
    func kept() throws -> [String] {
        ["/.config/syncagent/schedules", "/.local/state/syncagent/schedules"].flatMap { path in
            (try? FileManager.default.contentsOfDirectory(atPath: published.scratch.path + path)) ?? []
        }.filter { !$0.hasPrefix(".") }
    }

    /// A time of day so many **minutes** from now, UTC.
    static func time(in minutes: Int) -> String {
        let total = (Int(Date().timeIntervalSince1970) / 60 + minutes + 1_440) % 1_440
        return String(format: "%02d:%02d", total / 60, total % 60)
    }
}

@Suite(.timeLimit(.minutes(10)))
struct ScheduleTests {
    @Test("A schedule is added, listed, shown, run, replaced and removed; nothing of it stays [S132]")
    func life() throws {
        let set = try ScheduledSet()
        try set.published.script("hook.sh", "echo $SYNCAGENT_RESULT > ../hook-ran")
        let night = ScheduledSet.time(in: 120)
        let added = try set.add(
            "--nightly", night, "--window", "4h", "--jitter", "30m", "--time-zone", "Etc/UTC", "--hook", "./hook.sh")
        #expect(added.status == 0, "\(added.error)")
        #expect(added.error.contains("tower: every night \(night)-"), "\(added.error)")
        #expect(added.error.contains("by the agent: --backend agent"), "\(added.error)")

        let listed = try #require(try set.tool.run(["schedule", "list", "--json"]).objects().first)
        #expect(listed["name"] as? String == "tower")
        #expect(listed["window_minutes"] as? Int == 240)
        #expect((0...1_800).contains(try #require(listed["delay_seconds"] as? Int)))
        #expect(try set.tool.run(["schedule", "show", "tower"]).output.contains(set.published.scratch.path))

        // Outside of the window nothing happens, and that is no failure.
        let early = try set.tool.run(["schedule", "run", "tower"])
        #expect(early.status == 0 && early.error.contains("does not run at this time"), "\(early.error)")
        #expect(try set.tool.run(["schedule", "run", "tower", "--missed"]).status == 0)
        #expect(!FileManager.default.fileExists(atPath: set.published.scratch.path + "/hook-ran"))

        let run = try set.tool.run(["schedule", "run", "tower", "--now"])
        #expect(run.status == 0, "\(run.error)")
        #expect(try set.published.text("tower/sheets/b.txt") == "two")
        #expect(try set.published.text("hook-ran") == "ok\n")
        let after = try set.tool.run(["schedule", "list"])
        #expect(after.output.contains("ok, "), "\(after.output)")

        let again = try set.add("--nightly", "03:00")
        #expect(again.status == 0 && again.error.contains("tower: replaced; every night 03:00"), "\(again.error)")
        #expect(try set.tool.run(["schedule", "list", "--json"]).objects().count == 1)

        #expect(try !set.tool.run(["doctor"]).output.contains("schedule tower"))
        #expect(try set.tool.run(["agent", "stop"]).status == 0)
        #expect(try set.tool.run(["doctor"]).output.contains("schedule tower: the agent starts it, and is not running"))

        #expect(try set.tool.run(["schedule", "remove", "tower"]).status == 0)
        #expect(try set.kept() == [])
        #expect(try set.tool.run(["schedule", "remove", "tower"]).status == 66)
        #expect(try set.tool.run(["schedule", "run", "tower"]).status == 66)
        #expect(try set.published.text("tower/a.txt") == "one")
    }

    @Test(
        "A night that has begun is worked on until it is done, by whoever fires it; ready-by says why it starts when it does"
    )
    func night() throws {
        let set = try ScheduledSet()
        let added = try set.add(
            "--nightly", ScheduledSet.time(in: -30), "--window", "4h", "--ready-by", ScheduledSet.time(in: 180),
            "--time-zone", "Etc/UTC", "--name", "early")
        #expect(added.status == 0, "\(added.error)")
        // It is new: the night that has begun is not made up for by itself.
        #expect(try set.tool.run(["schedule", "run", "early", "--missed"]).status == 0)
        #expect(!FileManager.default.fileExists(atPath: set.published.scratch.path + "/tower"))
        let run = try set.tool.run(["schedule", "run", "early"])
        #expect(run.status == 0, "\(run.error)")
        #expect(run.error.contains("no earlier nights are known"), "\(run.error)")
        #expect(try set.published.text("tower/a.txt") == "one")
        let listed = try #require(try set.tool.run(["schedule", "list", "--json"]).objects().first)
        #expect(listed["nights_known"] as? Int == 1)
        #expect((listed["why"] as? String)?.contains("in 1 night") == true)
    }

    @Test(
        "With --switch-at a night builds the new revision, and readers see it when the time has come, not before",
        arguments: ["exchange", "links"])
    func switchAt(layout: String) throws {
        let set = try ScheduledSet()
        let atomic = "--atomic=\(layout)"
        #expect(
            try set.tool.run(["pull", set.published.url, "--into", "tower", atomic, "--keep-for", "0"]).status == 0)
        try set.published.scratch.write(Data("three".utf8), to: "assets/a.txt")
        try set.published.publish()
        // The next full minute, unless that is too near.
        let now = Int(Date().timeIntervalSince1970)
        let minutes = now % 60 > 40 ? 2 : 1
        let (shown, clock) = ((now / 60 + minutes) * 60, ScheduledSet.time(in: minutes))
        let added = try set.add(
            atomic, "--keep-for", "0", "--nightly", ScheduledSet.time(in: -30), "--window", "4h", "--switch-at", clock,
            "--time-zone", "Etc/UTC", "--name", "early")
        #expect(added.status == 0, "\(added.error)")
        #expect(added.error.contains("shown at \(clock)"), "\(added.error)")
        let run = set.tool.process(["schedule", "run", "early"])
        run.standardOutput = FileHandle.nullDevice
        run.standardError = FileHandle.nullDevice
        try run.run()
        // It is built, and waits.
        let revisions = ["revisions", "com.example.tower", "--json"]
        func states() throws -> [String?] {
            try set.tool.run(revisions).objects().map { $0["state"] as? String }
        }
        while try states() != ["current", "building"], Int(Date().timeIntervalSince1970) < shown - 1 {}
        #expect(try set.published.text("tower/a.txt") == "one")
        run.waitUntilExit()
        #expect(run.terminationStatus == 0)
        #expect(Int(Date().timeIntervalSince1970) >= shown)
        #expect(try set.published.text("tower/a.txt") == "three")
        #expect(try states() == ["current", "kept"])
    }

    @Test("--now starts what waits for its window")
    func now() throws {
        let set = try ScheduledSet()
        let window = "\(ScheduledSet.time(in: 120))-\(ScheduledSet.time(in: 180)) Etc/UTC"
        let pull = try set.tool.run(["pull", set.published.url, "--into", "tower", "--background", "--window", window])
        #expect(pull.status == 0, "\(pull.error)")
        while try !set.tool.run(["status"]).output.contains("blocked by window") {}
        #expect(try set.add("--nightly", ScheduledSet.time(in: 120), "--window", "1h").status == 0)
        let run = try set.tool.run(["schedule", "run", "tower", "--now"])
        #expect(run.status == 0 && run.error.contains("continues"), "\(run.error)")
        #expect(try set.published.text("tower/a.txt") == "one")
    }

    @Test("--now lets a run go on that somebody has paused, and does not say that it is paused")
    func nowPaused() throws {
        let set = try ScheduledSet()
        let pull = try set.tool.run(["pull", set.published.url, "--into", "tower", "--background", "--paused"])
        #expect(pull.status == 0, "\(pull.error)")
        #expect(try set.add("--nightly", ScheduledSet.time(in: 120), "--window", "1h").status == 0)
        let run = try set.tool.run(["schedule", "run", "tower", "--now"])
        #expect(run.status == 0 && !run.error.contains("paused"), "\(run.error)")
        #expect(try set.published.text("tower/a.txt") == "one")
    }

    @Test("SIGTERM leaves the run to the agent")
    func terminated() async throws {
        let set = try ScheduledSet(["large.bin": Data((0..<400_000).map { _ in UInt8.random(in: .min ... .max) })])
        #expect(try set.add("--nightly", "02:00", "--limit-rate", "4K").status == 0)
        let process = set.tool.process(["schedule", "run", "tower", "--now"])
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        while try !set.tool.run(["status"]).output.contains("running"), process.isRunning {
            try await Task.sleep(for: .milliseconds(20))
        }
        process.terminate()
        process.waitUntilExit()
        #expect(process.terminationStatus == 143)
        #expect(try set.tool.run(["wait", "--timeout", "1s"]).status == 75)
    }

    @Test("When the agent is killed meanwhile, another one goes on, and the run's own result is the command's")
    func agentKilled() async throws {
        let set = try ScheduledSet()
        try set.published.script(
            "hook.sh",
            """
            echo $SYNCAGENT_ATTEMPT >> ../calls
            echo $$ > ../hook-process
            [ $SYNCAGENT_ATTEMPT != 1 ] || exec sleep 500
            """)
        #expect(try set.add("--nightly", "02:00", "--hook", "./hook.sh").status == 0)
        let said = try set.published.scratch.file()
        let process = set.tool.process(["schedule", "run", "tower", "--now"])
        process.standardOutput = FileHandle.nullDevice
        process.standardError = try FileHandle(forWritingTo: said)
        try process.run()
        var hook: Int32?
        while hook == nil, process.isRunning {
            try await Task.sleep(for: .milliseconds(20))
            let text = (try? set.published.text("hook-process")) ?? ""
            hook = Int32(text.trimmingCharacters(in: .whitespacesAndNewlines))
        }
        let agent = try set.tool.run(["agent", "status", "--json"]).objects().first?["process"] as? Int
        kill(Int32(try #require(agent)), SIGKILL)
        // Its hook would outlive it.
        kill(try #require(hook), SIGKILL)
        let end = ContinuousClock.now + .seconds(120)
        while process.isRunning, .now < end { try await Task.sleep(for: .milliseconds(50)) }
        if process.isRunning { process.terminate() }
        process.waitUntilExit()
        let words = try String(contentsOf: said, encoding: .utf8)
        #expect(process.terminationStatus == 0 && words.contains("complete"), "\(words)")
        #expect(try set.published.text("calls") == "1\n2\n")
    }

    @Test("What a schedule selects is shown")
    func selection() throws {
        let set = try ScheduledSet()
        #expect(try set.add("--nightly", "02:00", "--include", "maps/**", "--exclude", "**/*.psd").status == 0)
        let shown = try set.tool.run(["schedule", "show", "tower"]).output
        #expect(shown.contains("includes     maps/**\n") && shown.contains("excludes     **/*.psd\n"), "\(shown)")
    }

    @Test("The path of a webhook is not shown: it is often a secret")
    func webhook() throws {
        let set = try ScheduledSet()
        #expect(try set.add("--nightly", "02:00", "--hook", "https://hooks.example.com/services/s3cret").status == 0)
        let shown = try set.tool.run(["schedule", "show", "tower"]).output
        #expect(shown.contains("hooks.example.com") && !shown.contains("s3cret"), "\(shown)")
    }

    @Test(
        "What makes no sense is refused by name, and nothing is kept",
        arguments: [
            (["--nightly", "25:00"], "--nightly"), (["--nightly", "02:00", "--window", "90s"], "--window"),
            (["--nightly", "02:00", "--window", "25h"], "--window"),
            (["--nightly", "02:00", "--window", "30m", "--jitter", "30m"], "--jitter"),
            (["--nightly", "02:00", "--ready-by", "02:00"], "--ready-by"),
            (["--nightly", "02:00", "--on", "mon,someday"], "someday"),
            (["--nightly", "02:00", "--time-zone", "Nowhere/City"], "Nowhere/City"),
            (["--nightly", "02:00", "--name", "../x"], "--name"), (["--nightly", "02:00", "--force"], "--force"),
        ])
    func refused(arguments: [String], word: String) throws {
        let set = try ScheduledSet()
        let outcome = try set.tool.run(["schedule", "add", set.published.url, "--into", "x"] + arguments)
        #expect(outcome.status == 64)
        #expect(outcome.error.contains(word), "\(outcome.error)")
        #expect(try set.kept() == [])
    }

    @Test("A hook whose program is not there is told when the schedule is set up")
    func missingHook() throws {
        let set = try ScheduledSet()
        let added = try set.add(["--nightly", ScheduledSet.time(in: 120), "--hook", "/opt/no/such/hook"])
        #expect(added.status == 0)
        #expect(added.error.contains("/opt/no/such/hook does not exist; the hook fails"), "\(added.error)")
        let plugin = try set.add(["--nightly", "02:00", "--hook", "plugin:nix"])
        #expect(plugin.status == 0 && plugin.error.contains("names no hook 'nix'"), "\(plugin.error)")
    }

    @Test("An agent that is killed while a scheduled run waits is started again by the command that waits for the run")
    func lostAgent() throws {
        let set = try ScheduledSet()
        #expect(try set.add("--nightly", "02:00", "--condition-program", "/bin/false").status == 0)
        let run = set.tool.process(["schedule", "run", "tower", "--now"])
        run.standardError = FileHandle.nullDevice
        try run.run()
        defer { run.terminate() }
        while try !set.tool.run(["status"]).output.contains("blocked by") { usleep(20_000) }
        let lock = try set.published.text(".local/state/syncagent/agent.lock")
        func killAgent(_ lock: String) throws {
            kill(try #require(lock.split(separator: "\n").first.flatMap { Int32($0) }), SIGKILL)
        }
        try killAgent(lock)
        var isBack = false
        for _ in 0..<500 where !isBack {
            usleep(20_000)
            isBack =
                try set.published.text(".local/state/syncagent/agent.lock") != lock
                && set.tool.run(["agent", "status"]).status == 0
        }
        #expect(isBack)
        // As after a reboot, where cron starts what was missed: nothing was, but the run is still open.
        run.terminate()
        run.waitUntilExit()
        try killAgent(set.published.text(".local/state/syncagent/agent.lock"))
        while try set.tool.run(["agent", "status"]).status == 0 { usleep(20_000) }
        #expect(try set.tool.run(["schedule", "run", "tower", "--missed"]).status == 0)
        #expect(try set.tool.run(["agent", "status"]).status == 0)
    }

    @Test("A session that was removed is not the schedule's any more, although another pull gets its name")
    func removedSession() throws {
        let set = try ScheduledSet()
        #expect(try set.add("--nightly", "02:00").status == 0)
        #expect(try set.tool.run(["schedule", "run", "tower", "--now"]).status == 0)
        #expect(try set.tool.run(["rm", "com.example.tower"]).status == 0)
        #expect(try set.tool.run(["pull", set.published.url, "--into", "other"]).status == 0)
        let listed = try #require(try set.tool.run(["schedule", "list", "--json"]).objects().last)
        #expect(listed["name"] as? String == "tower" && listed["session"] == nil)
    }

    @Test("A hook that a release names is not kept with a schedule: a later release may name another one, or none")
    func namedHook() throws {
        let set = try ScheduledSet()
        try set.published.scratch.write(
            Data("{hooks: {reindex: {program: '/bin/true'}}}".utf8), to: ".config/syncagent/config.json")
        let publish = ["publish", "assets", "--to", "site", "--project", "com.example.tower"]
        let named = ["--group", "sheets=sheets/**", "--group-hook", "sheets=reindex"]
        #expect(try set.tool.run(publish + named).status == 0)
        #expect(try set.add("--nightly", "02:00").status == 0)
        #expect(try set.tool.run(["schedule", "run", "tower", "--now"]).status == 0)
        #expect(try set.tool.run(["hooks", "list"]).output.contains("/bin/true"))
        #expect(try set.tool.run(publish + ["--group", "others=a.txt"]).status == 0)
        let later = try set.tool.run(["schedule", "run", "tower", "--now"])
        #expect(later.status == 0, "\(later.error)")
    }

    @Test("A schedule whose file cannot be parsed, or is refused, is in the list, the report and the metrics")
    func unparsed() throws {
        let set = try ScheduledSet()
        #expect(try set.published.pull().status == 0)
        #expect(try set.add("--nightly", "02:00").status == 0)
        let file = set.published.scratch.url.appendingPathComponent(".config/syncagent/schedules/tower.json")
        let whole = try Data(contentsOf: file)
        try Data("{".utf8).write(to: file)
        let listed = try set.tool.run(["schedule", "list"])
        #expect(listed.error.contains("tower.json cannot be parsed"), "\(listed.error)")
        #expect(!listed.error.contains("No schedules"), "\(listed.error)")
        #expect(try set.tool.run(["schedule", "run", "tower"]).status == 78)
        let report = try set.tool.run(["report"]).output
        #expect(report.contains("ATTENTION  tower: its schedule could not start"), "\(report)")
        #expect(report.contains("tower.json cannot be parsed"), "\(report)")
        #expect(try set.tool.run(["metrics"]).output.contains("\nsyncagent_failing_schedules 1\n"))
        // Nor does one run whose file others could change.
        try whole.write(to: file)
        #expect(try set.tool.run(["metrics"]).output.contains("\nsyncagent_failing_schedules 0\n"))
        try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: file.path)
        #expect(try set.tool.run(["report"]).output.contains("tower.json: others may write to it"))
        #expect(try set.tool.run(["metrics"]).output.contains("\nsyncagent_failing_schedules 1\n"))
    }

    @Test("A second manifest into the same directory is told when the schedule is set up; a second time of day is not")
    func rivals() throws {
        let set = try ScheduledSet()
        #expect(try set.add("--nightly", "02:00").status == 0)
        let again = try set.add("--nightly", "05:00", "--name", "again")
        #expect(again.status == 0 && !again.error.contains("the same directory"), "\(again.error)")
        let url = set.published.url.replacing("manifest.json", with: "other.json")
        let other = try set.tool.run(
            ["schedule", "add", url, "--into", "tower", "--nightly", "03:00", "--backend", "agent", "--name", "other"])
        #expect(other.status == 0 && other.error.contains("schedule tower pulls \(set.published.url) into the same"))
    }

    @Test("A schedule that could not start is in the report, with its session or by itself [S132]")
    func couldNotStart() throws {
        let set = try ScheduledSet()
        let nothing = set.published.url.replacing("manifest.json", with: "nope.json")
        func add(_ name: String, _ arguments: String...) throws {
            let fixed = ["--into", "tower", "--nightly", "02:00", "--backend", "agent", "--name", name]
            let outcome = try set.tool.run(["schedule", "add", nothing] + fixed + arguments)
            #expect(outcome.status == 0, "\(outcome.error)")
            // Unless somebody says otherwise it waits for what suits the machine [S49].
            #expect(outcome.error.contains("It runs only on mains power"), "\(outcome.error)")
        }
        try add("night")
        #expect(try set.tool.run(["schedule", "run", "night", "--now"]).status == 66)
        let alone = try set.tool.run(["report"]).output
        #expect(alone.contains("ATTENTION  night: its schedule could not start"), "\(alone)")
        #expect(alone.contains("nope.json: no manifest there"), "\(alone)")

        #expect(try set.published.pull().status == 0)
        try add("other", "--session", "com.example.tower")
        #expect(try set.tool.run(["schedule", "run", "other", "--now"]).status == 66)
        let told = try set.tool.run(["report"]).output
        #expect(told.contains("FAILED     com.example.tower: it failed"), "\(told)")
        #expect(try set.tool.run(["status"]).output.contains("idle (failed)"))
        let listed = try #require(try set.tool.run(["schedule", "list", "--json"]).objects().last)
        #expect(listed["name"] as? String == "other" && listed["result"] as? String == "failed")
        #expect((listed["error"] as? String)?.contains("no manifest there") == true, "\(listed)")
        let doctor = try set.tool.run(["doctor", "--strict"])
        #expect(doctor.status == 2 && doctor.output.contains("problem  session com.example.tower:"))
        #expect(doctor.output.contains("problem  schedule night: it could not start"), "\(doctor.output)")
        let events = try set.tool.run(["events", "com.example.tower", "--json"]).output
        #expect(events.contains("\"event\":\"schedule.failed\"") && events.contains("\"schedule\":\"other\""))

        // A session that is named for another destination has not failed; the schedule has.
        let elsewhere = ["--into", "elsewhere", "--session", "com.example.tower", "--name", "third"]
        let added = try set.tool.run(
            ["schedule", "add", nothing, "--nightly", "02:00", "--backend", "agent"] + elsewhere)
        #expect(added.status == 0, "\(added.error)")
        #expect(try set.published.pull().status == 0)
        #expect(try set.tool.run(["schedule", "run", "third", "--now"]).status == 66)
        let session = try set.tool.run(["status", "com.example.tower"]).output
        #expect(session.contains("finished, ok"), "\(session)")
        let third = try #require(try set.tool.run(["schedule", "list", "--json"]).objects().last)
        #expect(third["name"] as? String == "third" && third["result"] as? String == "failed", "\(third)")
        let both = try set.tool.run(["report"]).output
        #expect(both.contains("ATTENTION  third: its schedule could not start"), "\(both)")
    }

    @Test("A failing schedule that is paused or removed, and a removed session, are not in the metrics file any more")
    func failingNoMore() throws {
        let set = try ScheduledSet()
        try set.published.scratch.write(
            Data("{metrics: {textfile: \"../../m.prom\"}}".utf8), to: ".config/syncagent/config.json")
        #expect(try set.published.pull().status == 0)
        let nothing = set.published.url.replacing("manifest.json", with: "nope.json")
        for verb in ["pause", "remove"] {
            let added = try set.tool.run(
                ["schedule", "add", nothing, "--into", "night", "--nightly", "02:00", "--backend", "agent"])
            #expect(added.status == 0, "\(added.error)")
            #expect(try set.tool.run(["schedule", "run", "night", "--now"]).status == 66)
            #expect(try set.published.text("m.prom").contains("\nsyncagent_failing_schedules 1\n"))
            #expect(try set.tool.run(["schedule", verb, "night"]).status == 0)
            #expect(try set.published.text("m.prom").contains("\nsyncagent_failing_schedules 0\n"), "\(verb)")
        }
        #expect(try set.published.text("m.prom").contains("com.example.tower"))
        #expect(try set.tool.run(["rm", "com.example.tower"]).status == 0)
        #expect(try !set.published.text("m.prom").contains("com.example.tower"))
    }

    @Test("A schedule that cannot reach its manifest is in the report while it goes on trying [S51 S132]")
    func unreachable() async throws {
        let set = try ScheduledSet()
        let dead = ["schedule", "add", "http://127.0.0.1:1/manifest.json", "--into", "tower", "--name", "night"]
        let added = try set.tool.run(dead + ["--nightly", "02:00", "--backend", "agent", "--interactive"])
        #expect(added.status == 0, "\(added.error)")
        let process = set.tool.process(["schedule", "run", "night"])
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        defer { process.terminate() }
        let deadline = ContinuousClock.now + .seconds(90)
        var report = ""
        while !report.contains("ATTENTION"), process.isRunning, ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(500))
            report = try set.tool.run(["report"]).output
        }
        #expect(process.isRunning && report.contains("ATTENTION  night: its schedule could not start"), "\(report)")
        #expect(report.contains("cannot fetch the manifest"), "\(report)")
    }

    @Test("Whatever a pull can be asked for, a night can: what it hands on reaches its hooks")
    func handedOn() throws {
        let set = try ScheduledSet()
        try set.published.script("hook.sh", "cat > ../report")
        let night = ["--nightly", ScheduledSet.time(in: 120), "--hook", "./hook.sh"]
        let data = ["--user-data", #"{"a": [7, null, "\u0000é"]}"#, "--expected-bytes", "6"]
        let added = try set.add(night + data)
        #expect(added.status == 0, "\(added.error)")
        #expect(try set.tool.run(["schedule", "run", "tower", "--now"]).status == 0)
        #expect(try set.published.text("report").contains(#""user_data":{"a":[7,null,"\u0000é"]},"#))
        let status = try #require(try set.tool.run(["status", "--json"]).objects().first)
        #expect((status["run"] as? [String: Any])?["expected_bytes"] as? Int == 6)

        let unsigned = try set.add(night + ["--trust", "first"])
        #expect(unsigned.status == 77 && unsigned.error.contains("is not signed"), "\(unsigned.error)")
        #expect(try set.add(night + ["--stale", "7d"]).status == 64)
    }

    @Test("'schedule apply' says what is wrong with a file without the control characters in it")
    func appliedControlCharacters() throws {
        let set = try ScheduledSet()
        for (key, value) in [
            ("nightly", "\\u001b[31m"), ("session", "\\u001b]0;x\\u0007"), ("connections", "\\u001b[2J"),
        ] {
            let file = """
                {"format": "syncagent-schedules/1", "schedules": [{"name": "a", "manifest": "https://h.example/m.json",
                 "into": "/srv/a", "nightly": "02:00", "\(key)": "\(value)"}]}
                """.replacingOccurrences(of: key == "nightly" ? #""nightly": "02:00", "# : "\0", with: "")
            try set.published.scratch.write(Data(file.utf8), to: "schedules.json")
            let outcome = try set.tool.run(["schedule", "apply", "schedules.json"])
            #expect(outcome.status == 65, "\(outcome.error)")
            #expect(outcome.error.contains("\\u{1b}"), "\(outcome.error)")
            #expect(!(outcome.error + outcome.output).unicodeScalars.contains("\u{1B}"))
        }
    }

    @Test("A file of schedules that others could change is refused with 77")
    func appliedChangeable() throws {
        let set = try ScheduledSet()
        let file = try set.published.scratch.write(
            Data(#"{"format": "syncagent-schedules/1", "schedules": []}"#.utf8), to: "schedules.json")
        try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: file.path)
        let outcome = try set.tool.run(["schedule", "apply", "schedules.json"])
        #expect(outcome.status == 77 && outcome.error.contains("others may write to it"), "\(outcome.error)")
    }

    @Test("A key that is an option of 'pull' and not of 'schedule add' is no key of a file")
    func appliedForeignKey() throws {
        let set = try ScheduledSet()
        let file = """
            {"format": "syncagent-schedules/1", "schedules": [{"name": "a", "manifest": "https://h.example/m.json",
             "into": "/srv/a", "nightly": "02:00", "background": true}]}
            """
        try set.published.scratch.write(Data(file.utf8), to: "schedules.json")
        let outcome = try set.tool.run(["schedule", "apply", "schedules.json"])
        #expect(outcome.status == 65, "\(outcome.error)")
        #expect(outcome.error.contains("schedules.json:1: a: background: no such key"), "\(outcome.error)")
    }

    @Test("--dry-run prints what would be installed and changes nothing")
    func dryRun() throws {
        let set = try ScheduledSet()
        let outcome = try set.add("--nightly", "02:00", "--dry-run")
        #expect(outcome.status == 0 && outcome.output.contains("nothing is installed"))
        #expect(try set.kept() == [])
    }

    @Test(
        "A TZ of the shell by which cron does not go is told",
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/crontab"), "SKIPPED: no crontab"))
    func zoneOfShell() throws {
        let set = try ScheduledSet()
        let add = ["schedule", "add", set.published.url, "--into", "tower", "--nightly", "02:00", "--dry-run"]
        let isUnset = !FileManager.default.fileExists(atPath: "/etc/localtime")
        for (backend, zone, isTold) in [
            ("cron", "Pacific/Chatham", true), ("agent", "Pacific/Chatham", false),
            ("cron", ":/etc/localtime", isUnset),
        ] {
            let outcome = try set.tool.run(add + ["--backend", backend], environment: ["TZ": zone])
            #expect(outcome.status == 0, "\(outcome.error)")
            #expect(outcome.error.contains("TZ is \(zone) here") == isTold, "\(outcome.error)")
        }
    }
}
