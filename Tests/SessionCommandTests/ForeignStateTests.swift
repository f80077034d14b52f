import CommandTestSupport
import Foundation
import Testing

/// `sudo -E` and its like: root with the variables of somebody else.
@Suite(
    "What belongs to another user is neither believed nor asked",
    .enabled(if: geteuid() == 0, "only root can be two users"), .timeLimit(.minutes(10)))
struct ForeignStateTests {
    private static let user: uid_t = 4242

    /// A run of the program as the other user.
    private func other(_ tool: Tool, _ arguments: [String], _ environment: [String: String]) -> Process {
        let process = tool.process(arguments, environment: environment)
        process.executableURL = URL(fileURLWithPath: "/usr/bin/setpriv")
        process.arguments =
            ["--reuid=\(Self.user)", "--regid=\(Self.user)", "--clear-groups", Tool.url.path] + arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        return process
    }

    /// A home of the other user.
    private func home(_ set: ServedSet) throws -> String {
        let home = set.scratch.path + "/other"
        try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: true)
        try #require(chown(home, Self.user, Self.user) == 0)
        return home
    }

    @Test("Root with another user's state gets 73 with path and owner, and runs no hook of his [V55]")
    func state() throws {
        let set = try ServedSet()
        let home = try home(set)
        let variables = ["HOME": home, "XDG_STATE_HOME": home + "/state"]
        try set.script("hook.sh", "echo $(id -u) >> \(home)/calls; exit 3")
        let pull = ["pull", set.url, "--into", home + "/tower", "--hook", set.scratch.path + "/hook.sh"]
        let first = other(set.tool, pull, variables)
        try first.run()
        first.waitUntilExit()
        #expect(first.terminationStatus == 5)
        let calls = try set.text("other/calls")
        #expect(calls.split(separator: "\n").allSatisfy { $0 == "4242" })

        let state = home + "/state/syncagent"
        for arguments in [
            pull, ["plan", set.url], ["verify", set.url], ["status"], ["hooks", "list"], ["gc"],
            ["agent", "run", "--on-demand"], ["resume", "com.example.tower"],
        ] {
            let outcome = try set.tool.run(arguments, environment: variables)
            #expect(outcome.status == 73, "\(arguments): \(outcome.status) \(outcome.error)")
            #expect(
                outcome.error.contains("\(home)/state") && outcome.error.contains("(uid 4242)")
                    && outcome.error.contains("XDG_STATE_HOME"), "\(arguments): \(outcome.error)")
        }
        let doctor = try set.tool.run(["doctor", "--strict"], environment: variables)
        #expect(doctor.status == 2 && doctor.output.contains("belongs to another user"), "\(doctor.output)")
        #expect(try set.text("other/calls") == calls)
        // Where there is none yet, none is made in a directory that is his.
        let none = ["HOME": home, "XDG_STATE_HOME": home]
        let outcome = try set.tool.run(pull, environment: none)
        #expect(outcome.status == 73 && outcome.error.contains("(uid 4242)"), "\(outcome.error)")
        #expect(!FileManager.default.fileExists(atPath: home + "/syncagent"))
        #expect(FileManager.default.fileExists(atPath: state))
    }

    @Test("Another user's agent is asked nothing: 77, and it is as it was [V58]")
    func agent() async throws {
        let set = try ServedSet()
        let home = try home(set)
        let agent = other(set.tool, ["agent", "run"], ["HOME": home, "XDG_RUNTIME_DIR": home])
        try agent.run()
        defer { if agent.isRunning { agent.terminate() } }
        while !FileManager.default.fileExists(atPath: home + "/syncagent/agent.sock") {
            try await Task.sleep(for: .milliseconds(20))
        }
        try await Task.sleep(for: .milliseconds(300))
        let variables = ["XDG_RUNTIME_DIR": home]
        for arguments in [
            ["agent", "status"], ["agent", "stop"], ["pull", set.url, "--into", "tower", "--background"],
        ] {
            let outcome = try set.tool.run(arguments, environment: variables)
            #expect(outcome.status == 77, "\(arguments): \(outcome.status) \(outcome.error)")
            #expect(
                outcome.error.contains("\(home)/syncagent/agent.sock") && outcome.error.contains("(uid 4242)"),
                "\(outcome.error)")
        }
        #expect(agent.isRunning)
        agent.terminate()
        agent.waitUntilExit()
    }

    @Test("A hook that others could change is refused before anything is fetched: 77, and 78 from the configuration")
    func hooks() throws {
        let set = try ServedSet()
        try set.script("hook.sh", "touch ../ran")
        let hook = set.scratch.path + "/hook.sh"
        #expect(chmod(hook, 0o777) == 0)
        let given = try set.pull("--hook", "./hook.sh")
        #expect(given.status == 77 && given.error.contains("run: chmod go-w"), "\(given.error)")
        try set.scratch.write(Data("{hooks: {reindex: {program: '\(hook)'}}}".utf8), to: "c.json")
        let configured = try set.pull("--config", "c.json")
        #expect(configured.status == 78 && configured.error.contains(hook), "\(configured.error)")
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/tower"))
        #expect(chmod(hook, 0o755) == 0)
        #expect(try set.pull("--hook", "./hook.sh").status == 0)
        #expect(FileManager.default.fileExists(atPath: set.scratch.path + "/ran"))
    }

    @Test("doctor says that a state directory which is missing cannot be created")
    func notCreatable() throws {
        let scratch = try Scratch()
        try scratch.write(Data(), to: "file")
        let state = ["XDG_STATE_HOME": scratch.path + "/file/state"]
        let doctor = try Tool(scratch).run(["doctor", "--strict"], environment: state)
        #expect(doctor.status == 2, "\(doctor.output)")
        #expect(doctor.output.contains("\(scratch.path)/file cannot be written to, so no pull can begin"))
    }

    @Test("Not even a log of our own with a second name is written to")
    func log() throws {
        let set = try ServedSet()
        let state = set.scratch.path + "/.local/state/syncagent"
        try FileManager.default.createDirectory(
            atPath: state, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        try set.scratch.write(Data("precious\n".utf8), to: "victim")
        #expect(link(set.scratch.path + "/victim", state + "/agent.log") == 0)
        let outcome = try set.tool.run(["pull", set.url, "--into", "tower", "--background"])
        #expect(outcome.status == 73 && outcome.error.contains("agent.log"), "\(outcome.error)")
        #expect(try set.text("victim") == "precious\n")
    }
}
