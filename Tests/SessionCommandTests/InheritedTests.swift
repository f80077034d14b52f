import CommandTestSupport
import Foundation
import Testing

/// What a process inherits of whoever starts it does not reach what it does for others.
@Suite("What belongs to one process stays there", .timeLimit(.minutes(10)))
struct InheritedTests {
    /// Runs the program after commands of a shell.
    private func run(_ tool: Tool, after words: String, _ arguments: [String]) throws -> Tool.Outcome {
        let process = tool.process(arguments)
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", "\(words); exec \"$0\" \"$@\"", Tool.url.path] + arguments
        return try tool.run(process)
    }

    private func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    private func expectModes(of background: BackgroundSet, in place: String, file: Int, directory: Int) throws {
        let place = background.published.scratch.path + "/" + place
        #expect(try mode(place) == directory)
        #expect(try mode(place + "/sheets") == directory)
        #expect(try mode(place + "/a.txt") == file)
        #expect(try mode(place + "/sheets/b.txt") == file)
        #expect(try mode(place + "/.syncagent") == 0o700)
    }

    @Test("A background pull installs with the umask of whoever asked, not of whoever started the agent")
    func background() throws {
        let background = try BackgroundSet()
        let (tool, url) = (background.tool, background.published.url)
        // The agent is of somebody who keeps everything to himself.
        let first = ["pull", url, "--background", "--session", "own", "--into", "own"]
        #expect(try run(tool, after: "umask 077", first).status == 0)
        #expect(try tool.run(["wait", "own"]).status == 0)
        try expectModes(of: background, in: "own", file: 0o600, directory: 0o700)
        let second = ["pull", url, "--background", "--session", "web", "--into", "web"]
        #expect(try run(tool, after: "umask 022", second).status == 0)
        #expect(try tool.run(["wait", "web"]).status == 0)
        try expectModes(of: background, in: "web", file: 0o644, directory: 0o755)
        let third = ["pull", url, "--background", "--session", "team", "--into", "team", "--umask", "002"]
        #expect(try run(tool, after: "umask 077", third).status == 0)
        #expect(try tool.run(["wait", "team"]).status == 0)
        try expectModes(of: background, in: "team", file: 0o664, directory: 0o775)

        let status = try #require(try tool.run(["status", "web", "--json"]).events().first)
        #expect((status["run"] as? [String: Any])?["umask"] as? String == "022")
        let lines = try tool.run(["status", "team"]).output.split(separator: "\n")
        #expect(lines.contains { $0.hasPrefix("umask ") && $0.hasSuffix(" 002") }, "\(lines)")
        let state = background.published.scratch.path + "/.local/state/syncagent"
        for name in try FileManager.default.subpathsOfDirectory(atPath: state) {
            let found = try #require(try mode(state + "/" + name))
            #expect(found & 0o077 == 0, "\(name): \(String(found, radix: 8))")
        }
    }

    @Test("A pull in the foreground keeps to its own umask, or to --umask")
    func foreground() throws {
        let background = try BackgroundSet()
        let (tool, url) = (background.tool, background.published.url)
        #expect(try run(tool, after: "umask 027", ["pull", url, "--into", "own"]).status == 0)
        try expectModes(of: background, in: "own", file: 0o640, directory: 0o750)
        let wider = ["pull", url, "--session", "web", "--into", "web", "--umask", "0"]
        #expect(try run(tool, after: "umask 077", wider).status == 0)
        try expectModes(of: background, in: "web", file: 0o666, directory: 0o777)
    }

    @Test("A schedule's runs have the umask of 'schedule add', or the one that is said there")
    func schedule() throws {
        let background = try BackgroundSet()
        let (tool, url) = (background.tool, background.published.url)
        for (name, umask, said) in [("a", "022", []), ("b", "077", ["--umask", "002"])] {
            let words = [
                "schedule", "add", url, "--into", name, "--session", name, "--name", name, "--nightly", "02:00",
                // Other tests keep the machine busy.
                "--backend", "agent", "--max-load", "1000",
            ]
            #expect(try run(tool, after: "umask \(umask)", words + said).status == 0)
        }
        #expect(try tool.run(["agent", "stop"]).status == 0)
        for name in ["a", "b"] {
            let outcome = try run(tool, after: "umask 077", ["schedule", "run", name, "--now"])
            #expect(outcome.status == 0, "\(outcome.error)")
        }
        try expectModes(of: background, in: "a", file: 0o644, directory: 0o755)
        try expectModes(of: background, in: "b", file: 0o664, directory: 0o775)
    }

    @Test("A caller that ignores and blocks SIGCHLD takes no hook, verifier or condition its exit status")
    func childSignal() throws {
        let background = try BackgroundSet()
        let (published, tool, url) = (background.published, background.tool, background.published.url)
        try published.script("hook.sh", "echo ran >> ../ran; exit 0")
        try published.script("verify.sh", "cat > /dev/null; exit 0")
        for (place, background) in [("front", []), ("back", ["--background", "--condition-program", "/bin/true"])] {
            let words = [
                "pull", url, "--into", place, "--session", place, "--hook", "./hook.sh", "--verify-program",
                "./verify.sh",
            ]
            let process = tool.process(words)
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            let signals = ["--ignore-signal=CHLD,USR1,ALRM", "--block-signal=CHLD,USR2", Tool.url.path]
            process.arguments = signals + words + background
            let outcome = try tool.run(process)
            #expect(outcome.status == 0, "\(outcome.error)")
            let wait = try tool.run(["wait", place])
            let hooks = try tool.run(["hooks", "list"]).output
            #expect(wait.status == 0, "\(wait.error) \(hooks)")
        }
        #expect(try published.text("ran") == "ran\nran\n")
    }

    @Test("Without its runtime directory the agent listens in the state directory")
    func noRuntimeDirectory() throws {
        let background = try BackgroundSet()
        let (tool, gone) = (background.tool, ["XDG_RUNTIME_DIR": background.published.scratch.path + "/gone"])
        let words = ["pull", background.published.url, "--into", "tower", "--background"]
        let outcome = try tool.run(words, environment: gone)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(FileManager.default.fileExists(atPath: background.socket))
        #expect(try tool.run(["wait"], environment: gone).status == 0)
        #expect(try tool.run(["agent", "status"]).status == 0)
    }

    @Test("An agent is found whatever runtime directory the caller has, and makes its socket anew when that is gone")
    func otherRuntimeDirectory() async throws {
        let background = try BackgroundSet()
        let (tool, scratch) = (background.tool, background.published.scratch)
        let runtime = scratch.path + "/run"
        let login = ["XDG_RUNTIME_DIR": runtime]
        func process(_ environment: [String: String]) throws -> Int? {
            try tool.run(["agent", "status", "--json"], environment: environment).objects().first?["process"] as? Int
        }
        try FileManager.default.createDirectory(atPath: runtime, withIntermediateDirectories: true)
        let words = ["pull", background.published.url, "--into", "tower", "--background", "--paused"]
        let outcome = try tool.run(words, environment: login)
        #expect(outcome.status == 0, "\(outcome.error)")
        let agent = try #require(try process(login))
        #expect(FileManager.default.fileExists(atPath: runtime + "/syncagent/agent.sock"))
        // As cron or a service has it, and another login with a directory of its own.
        for environment in [[:], ["XDG_RUNTIME_DIR": scratch.path]] { #expect(try process(environment) == agent) }

        // The login ends.
        try FileManager.default.removeItem(atPath: runtime)
        for _ in 0..<200 where !FileManager.default.fileExists(atPath: background.socket) {
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(try process([:]) == agent, "\(background.log)")
        // The next one begins, and an agent that was killed has left a socket there.
        try scratch.write(Data(), to: "run/syncagent/agent.sock")
        #expect(try process(login) == agent)
        #expect(try tool.run(["resume"], environment: login).status == 0)
        #expect(try tool.run(["wait"]).status == 0)
    }

    @Test("Two state directories share a runtime directory: each has an agent of its own, and nobody asks the other's")
    func sharedRuntimeDirectory() async throws {
        let shared = try SharedRuntime()
        let (sets, runtime, login) = (shared.sets, shared.runtime, shared.login)
        try shared.pull(sets[0])
        #expect(try shared.process(sets[1]) == nil)
        #expect(try sets[1].tool.run(["agent", "stop"], environment: login).error.contains("No agent is running."))
        try shared.pull(sets[1])
        let agents = [try #require(try shared.process(sets[0])), try #require(try shared.process(sets[1]))]
        #expect(agents[0] != agents[1])
        #expect(FileManager.default.fileExists(atPath: sets[1].socket))
        // Somebody else has taken its place.
        let socket = runtime + "/syncagent/agent.sock"
        try FileManager.default.moveItem(atPath: socket, toPath: socket + ".former")
        #expect(FileManager.default.createFile(atPath: socket, contents: nil))
        let deadline = ContinuousClock.now + .seconds(20)
        while try shared.process(sets[0]) != agents[0], ContinuousClock.now < deadline {
            try? FileManager.default.removeItem(atPath: socket)
            try await Task.sleep(for: .milliseconds(50))
        }
        for (set, agent) in zip(sets, agents) {
            #expect(try shared.process(set) == agent)
            #expect(try set.tool.run(["agent", "stop"], environment: login).status == 0)
        }
    }

    @Test("Agents of two state directories stay apart although the one started while the other's socket was missing")
    func takenRuntimeDirectory() async throws {
        let shared = try SharedRuntime()
        let (sets, login) = (shared.sets, shared.login)
        try shared.pull(sets[0])
        try FileManager.default.removeItem(atPath: shared.runtime + "/syncagent")
        try shared.pull(sets[1])
        var calm = 0
        let deadline = ContinuousClock.now + .seconds(120)
        while calm < 12, ContinuousClock.now < deadline {
            let found = try sets.map(shared.process)
            calm = found.allSatisfy { $0 != nil } ? calm + 1 : 0
            try await Task.sleep(for: .milliseconds(100))
        }
        #expect(calm == 12)
        for set in sets { #expect(try set.tool.run(["agent", "stop"], environment: login).status == 0) }
    }

    @Test(
        "An agent is found, and no second one starts, although its lock was emptied or removed",
        arguments: [true, false])
    func lostLock(isEmptied: Bool) throws {
        let background = try BackgroundSet()
        let tool = background.tool
        let runtime = background.published.scratch.path + "/run"
        let login = ["XDG_RUNTIME_DIR": runtime]
        try FileManager.default.createDirectory(atPath: runtime, withIntermediateDirectories: true)
        let words = ["pull", background.published.url, "--into", "tower", "--background", "--paused"]
        #expect(try tool.run(words, environment: login).status == 0)
        func process() throws -> Int? {
            try tool.run(["agent", "status", "--json"], environment: login).objects().first?["process"] as? Int
        }
        let agent = try #require(try process())
        let lock = background.published.scratch.path + "/.local/state/syncagent/agent.lock"
        if isEmptied {
            let file = try #require(FileHandle(forWritingAtPath: lock))
            try file.truncate(atOffset: 0)
        } else {
            try FileManager.default.removeItem(atPath: lock)
        }
        #expect(try process() == agent)
        #expect(try tool.run(["agent", "run"], environment: login).status == 75)
        #expect(try tool.run(["resume"], environment: login).status == 0)
        #expect(try tool.run(["wait"], environment: login).status == 0)
        #expect(try process() == agent)
        #expect(try tool.run(["agent", "stop"], environment: login).status == 0)
    }

    @Test("What an ended agent has left in its lock leads nobody to the agent of another state directory")
    func staleLock() throws {
        let (one, other) = (try BackgroundSet(), try BackgroundSet())
        #expect(try other.pull("--paused").status == 0)
        #expect(try other.tool.run(["agent", "stop"]).status == 0)
        let outcome = try one.pull("--paused")
        #expect(outcome.status == 0, "\(outcome.error)")
        try other.published.scratch.write(
            Data("1\n\(one.socket)\n".utf8), to: ".local/state/syncagent/agent.lock")
        #expect(try one.tool.run(["agent", "status"]).status == 0)
        #expect(try other.tool.run(["agent", "status"]).status == 69)
    }

    @Test("An agent that cannot start is told of with its own words and status")
    func cannotStart() throws {
        let background = try BackgroundSet()
        let (tool, scratch) = (background.tool, background.published.scratch)
        let words = ["pull", background.published.url, "--into", "tower", "--background"]
        func refused(_ runtime: String, status: Int32, _ text: String) throws {
            let outcome = try tool.run(words, environment: ["XDG_RUNTIME_DIR": runtime])
            #expect(outcome.status == status && outcome.error.contains(text), "\(outcome.error)")
            #expect(!outcome.error.contains("host name") && !outcome.error.contains("in time"))
        }
        try scratch.write(Data(), to: "file/syncagent/agent.sock")
        try refused(scratch.path + "/file", status: 73, "/file/syncagent/agent.sock is in the way")
        let doctor = try tool.run(["doctor"], environment: ["XDG_RUNTIME_DIR": scratch.path + "/file"])
        #expect(doctor.output.contains("problem  agent: none can start: "), "\(doctor.output)")
        // A name that is taken, as where somebody else's directory cannot be written to.
        try scratch.write(Data(), to: "taken/syncagent")
        try refused(scratch.path + "/taken", status: 73, "/taken/syncagent for the socket")
        try refused(scratch.path + "/taken", status: 73, "Set XDG_RUNTIME_DIR to a directory of your own.")
        // Others may write to it.
        let open = scratch.path + "/open"
        try FileManager.default.createDirectory(atPath: open, withIntermediateDirectories: true)
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: open)
        try refused(open, status: 73, "/open")
        let long = scratch.path + "/" + String(repeating: "d", count: 90)
        try FileManager.default.createDirectory(atPath: long, withIntermediateDirectories: true)
        try refused(long, status: 78, "longer than 107 bytes")
    }
}

/// Two state directories of one login.
private struct SharedRuntime {
    let sets: [BackgroundSet]
    let runtime: String

    var login: [String: String] { ["XDG_RUNTIME_DIR": runtime] }

    init() throws {
        sets = [try BackgroundSet(), try BackgroundSet()]
        runtime = sets[0].published.scratch.path + "/run"
        try FileManager.default.createDirectory(atPath: runtime, withIntermediateDirectories: true)
    }

    /// The process of a set's agent; `nil` while nobody answers. Never that of the other one.
    func process(_ set: BackgroundSet) throws -> Int? {
        let status = try set.tool.run(["agent", "status", "--json"], environment: login).objects().first
        guard let status else { return nil }
        #expect((status["state_directory"] as? String)?.hasPrefix(set.published.scratch.path) == true)
        return status["process"] as? Int
    }

    func pull(_ set: BackgroundSet) throws {
        let words = ["pull", set.published.url, "--into", "tower", "--background", "--paused"]
        let outcome = try set.tool.run(words, environment: login)
        #expect(outcome.status == 0, "\(outcome.error)")
    }
}
