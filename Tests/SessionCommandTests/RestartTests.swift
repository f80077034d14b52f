import CommandTestSupport
import Foundation
import Testing

/// The machine goes down and comes up again: every process is gone, and so are sockets and locks. What an agent goes by
/// afterwards is on the disk; it looks neither at process ids nor at a boot id. `agents.sh restart` does the same with
/// a new boot id and process ids that begin anew.
@Suite("After a restart of the machine", .timeLimit(.minutes(10)))
struct RestartTests {
    private func startAgent(_ set: ServedSet) throws -> Process {
        let agent = set.tool.process(["agent", "run"])
        agent.standardOutput = FileHandle.nullDevice
        agent.standardError = FileHandle.nullDevice
        try agent.run()
        return agent
    }

    /// States of all sessions by name, and the hooks that are owed.
    private func states(_ set: ServedSet) throws -> [String: String] {
        Dictionary(
            uniqueKeysWithValues: try set.tool.run(["status", "--json"]).objects().map { session in
                let owed = session["owed_hooks"] as? Int ?? 0
                return (
                    session["session"] as? String ?? "",
                    (session["state"] as? String ?? "") + (owed > 0 ? ", hook owed" : "")
                )
            })
    }

    private func until(_ expected: [String: String], _ set: ServedSet) async throws {
        var found: [String: String] = [:]
        for _ in 0..<600 {
            found = try states(set)
            if found == expected { return }
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(found == expected)
    }

    @Test("A command says what it waits for where the agent takes long to answer, and goes on when it does")
    func silentAgent() async throws {
        let set = try ServedSet()
        let agent = try startAgent(set)
        defer { agent.terminate() }
        while try set.tool.run(["agent", "status"]).status != 0 { try await Task.sleep(for: .milliseconds(20)) }
        kill(agent.processIdentifier, SIGSTOP)
        defer { kill(agent.processIdentifier, SIGCONT) }
        let (asking, said) = (set.tool.process(["agent", "status"]), try set.scratch.file())
        asking.standardOutput = FileHandle.nullDevice
        asking.standardError = try FileHandle(forWritingTo: said)
        try asking.run()
        var text = ""
        while asking.isRunning, !text.contains("Waiting for the agent") {
            try await Task.sleep(for: .milliseconds(50))
            text = try String(contentsOf: said, encoding: .utf8)
        }
        kill(agent.processIdentifier, SIGCONT)
        asking.waitUntilExit()
        #expect(asking.terminationStatus == 0 && text.contains("agent.lock"), "\(text)")
    }

    @Test("With nothing but 'agent run' everything goes on; what was paused stays so [S19 S23 S24 S26 S150 F089]")
    func restart() async throws {
        let set = try ServedSet()
        try set.script(
            "hook.sh",
            """
            echo $$ > ../hook-process
            echo $SYNCAGENT_RUN_ID $SYNCAGENT_ATTEMPT >> ../calls
            [ $SYNCAGENT_ATTEMPT != 1 ] || exec sleep 600
            """)
        let first = try startAgent(set)
        func enqueue(_ name: String, _ arguments: String...) throws {
            let outcome = try set.tool.run(
                ["pull", set.url, "--session", name, "--into", name, "--background"] + arguments)
            #expect(outcome.status == 0, "\(outcome.error)")
        }
        try enqueue("in-hook", "--hook", "./hook.sh")
        while !FileManager.default.fileExists(atPath: set.scratch.path + "/calls") {
            try await Task.sleep(for: .milliseconds(20))
        }
        try enqueue("later", "--not-before", "2s")
        try enqueue("paused", "--paused")

        kill(first.processIdentifier, SIGKILL)
        first.waitUntilExit()
        // The hook is a process of the machine, too.
        let hook = try #require(Int32(set.text("hook-process").trimmingCharacters(in: .whitespacesAndNewlines)))
        kill(hook, SIGKILL)
        let problems = try set.tool.run(["doctor"])
        #expect(problems.output.contains("no process is working on it"), "\(problems.output)")
        let socket = set.scratch.path + "/.local/state/syncagent/agent.sock"
        try FileManager.default.removeItem(atPath: socket)
        let second = try startAgent(set)
        defer { second.terminate() }
        try await until(["in-hook": "idle", "later": "idle", "paused": "paused"], set)

        let calls = try set.text("calls").split(separator: "\n").map { $0.split(separator: " ") }
        #expect(calls.map(\.last) == ["1", "2"] && Set(calls.map(\.first)).count == 1)
        #expect(try set.text("in-hook/a.txt") == "one" && set.text("later/a.txt") == "one")
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/paused/a.txt"))
        for name in ["in-hook", "later"] { _ = try set.tool.run(["events", name, "--json"]).events() }
        let doctor = try set.tool.run(["doctor", "--strict"])
        #expect(doctor.status == 0, "\(doctor.output)")
    }

    @Test(
        "Killed in a hook and cancelled then, the run owes nothing: its hook is not called again, doctor finds nothing wrong, and the next pull goes on [S33 S102 F089]",
        arguments: [["--atomic"], []])
    func cancelledAfterKill(how: [String]) async throws {
        let set = try ServedSet()
        try set.script(
            "hook.sh",
            """
            echo $$ > ../hook-process
            echo $SYNCAGENT_RUN_ID $SYNCAGENT_ATTEMPT >> ../calls
            [ -e ../may-end ] || exec sleep 600
            """)
        func calls() throws -> [[Substring]] {
            try set.text("calls").split(separator: "\n").map { $0.split(separator: " ") }
        }
        func enqueue() throws {
            let arguments = ["pull", set.url, "--into", "tower", "--background", "--hook", "./hook.sh"] + how
            let outcome = try set.tool.run(arguments)
            #expect(outcome.status == 0, "\(outcome.error)")
        }
        let first = try startAgent(set)
        try enqueue()
        while !FileManager.default.fileExists(atPath: set.scratch.path + "/calls") {
            try await Task.sleep(for: .milliseconds(20))
        }
        kill(first.processIdentifier, SIGKILL)
        first.waitUntilExit()
        let hook = try #require(Int32(set.text("hook-process").trimmingCharacters(in: .whitespacesAndNewlines)))
        kill(hook, SIGKILL)

        let second = try startAgent(set)
        defer { second.terminate() }
        // It may have called the hook again by then, as its second attempt: that is stopped, too.
        let cancel = try set.tool.run(["cancel", "com.example.tower"])
        #expect(cancel.status == 0, "\(cancel.error)")
        try await until(["com.example.tower": "idle"], set)
        let before = try calls()
        #expect([["1"], ["1", "2"]].contains(before.map { String($0.last ?? "") }))
        let hooks = try set.tool.run(["hooks", "list", "--json"]).objects()
        #expect(hooks.map { $0["state"] as? String } == ["failed"] && hooks.first?["ended"] as? String == "stopped")
        let doctor = try set.tool.run(["doctor", "--strict"])
        #expect(doctor.status == 0, "\(doctor.output)")
        #expect(try !set.tool.run(["report"]).output.contains("hooks replay"))

        try set.scratch.write(Data(), to: "may-end")
        try enqueue()
        let wait = try set.tool.run(["wait", "com.example.tower"])
        #expect(wait.status == 0, "\(wait.error)")
        let after = try calls()
        #expect(after.count == before.count + 1 && after.last?.first != before.first?.first)
        #expect(try set.tool.run(["doctor", "--strict"]).status == 0)
    }
}
