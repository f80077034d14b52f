import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// `wait`, `attach`, `events --follow` and `status --watch`: what they say of what only a person moves, and that they end when
/// they are asked to.
@Suite("Looking on", .timeLimit(.minutes(10)))
struct LookingOnTests {
    private static let resume = "'syncagent resume com.example.tower' resumes it"

    @Test("A manifest whose URLs only a transport plugin serves is listed file by file")
    func pluginScheme() throws {
        let scratch = try Scratch()
        let tool = Tool(scratch)
        let digest = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
        try scratch.write(Data("one".utf8), to: "tower/a.txt")
        let entry = #"{"path":"a.txt","size":3,"sha256":"\#(digest)","urls":["shelf:///a.txt"]}"#
        let text = #"{"format":"syncagent-manifest/1","project":"tower","files":[\#(entry)]}"#
        try scratch.write(Data(text.utf8), to: "m.json")
        // Nothing is fetched, so that it is never started.
        let use = #"{plugins: {use: [{plugin: "/bin/true", point: "transport", for: ["shelf:"]}]}}"#
        try scratch.write(Data(use.utf8), to: "config.json")
        let pull = try tool.run(["pull", "m.json", "--into", "tower", "--config", "config.json"])
        #expect(pull.status == 0, "\(pull.error)")
        let tasks = try tool.run(["status", "tower", "--tasks"])
        #expect(tasks.status == 0 && tasks.output.contains("a.txt"), "\(tasks.error)")
        // Where there is none of that name, that is said.
        #expect(try tool.run(["hooks", "list", "nosuch"]).status == 66)
        #expect(try Tool(try Scratch()).run(["hooks", "list", "nosuch"]).status == 66)
    }

    @Test("status --tasks tells a manifest that cannot be opened from one that is no longer kept")
    func closedManifests() throws {
        let set = try ServedSet()
        let home = set.scratch.path + "/home"
        let manifests = home + "/state/syncagent/manifests"
        try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: true)
        // Nothing is closed to root.
        let isRoot = geteuid() == 0
        try #require(!isRoot || chown(home, 4242, 4242) == 0)
        func run(_ arguments: String...) throws -> Tool.Outcome {
            let process = set.tool.process(arguments, environment: ["HOME": home, "XDG_STATE_HOME": home + "/state"])
            if isRoot {
                process.executableURL = URL(fileURLWithPath: "/usr/bin/setpriv")
                process.arguments = ["--reuid=4242", "--regid=4242", "--clear-groups", Tool.url.path] + arguments
            }
            return try set.tool.run(process)
        }
        let pull = try run("pull", set.url, "--into", home + "/tower")
        #expect(pull.status == 0, "\(pull.error)")
        let kept = try FileManager.default.contentsOfDirectory(atPath: manifests).first { !$0.hasSuffix(".head") }
        let manifest = manifests + "/" + (try #require(kept))
        for closed in [manifests, manifest] {
            #expect(chmod(closed, 0) == 0)
            let outcome = try run("status", "--tasks")
            #expect(outcome.status == 73, "\(outcome.error)")
            #expect(outcome.error.contains("cannot open \(closed): Permission denied"), "\(outcome.error)")
            #expect(outcome.error.contains("able to read everything in \(manifests)"), "\(outcome.error)")
            #expect(chmod(closed, 0o700) == 0)
        }
        #expect(try run("status", "--tasks").output.contains("a.txt"))
        try FileManager.default.removeItem(atPath: manifests)
        let gone = try run("status", "--tasks")
        #expect(gone.status == 66 && gone.error.contains("is no longer kept"), "\(gone.error)")
    }

    /// A program that is looked at while it runs; what it says on standard error goes into a file.
    private struct Onlooker {
        let process: Process
        let error: URL

        init(_ tool: Tool, _ arguments: [String]) throws {
            process = tool.process(arguments)
            error = try tool.scratch.file()
            process.standardOutput = FileHandle.nullDevice
            process.standardError = try FileHandle(forWritingTo: error)
            try process.run()
        }

        var said: String { (try? String(contentsOf: error, encoding: .utf8)) ?? "" }

        func until(_ isThere: () throws -> Bool) async throws {
            for _ in 0..<1_200 {
                if try isThere() { return }
                try await Task.sleep(for: .milliseconds(50))
            }
            Issue.record("it did not come: \(said)")
        }

        /// Interrupts it.
        ///
        /// - Returns: How it ended, and how long that took.
        func interrupted() -> (status: Int32, time: Duration) {
            let start = ContinuousClock.now
            kill(process.processIdentifier, SIGINT)
            process.waitUntilExit()
            return (process.terminationReason == .exit ? process.terminationStatus : -1, .now - start)
        }
    }

    /// - Parameter hasEvents: Whether the run has lived long enough for its first events to be on disk.
    private func expectRest(of background: BackgroundSet, because why: String, hasEvents: Bool = true) async throws {
        let tool = background.tool
        for verb in [["wait"], ["attach"], ["attach", "--json", "--since", "0"]] {
            let outcome = try tool.run(verb)
            #expect(outcome.status == 75, "\(verb): \(outcome.error)")
            #expect(outcome.error.contains("\(why); \(Self.resume)"), "\(verb): \(outcome.error)")
            if verb.contains("--json"), hasEvents { #expect(!outcome.output.isEmpty) }
        }
        for verb in [["events", "--follow"], ["status", "--watch"], ["status", "--watch", "--requests"]] {
            let onlooker = try Onlooker(tool, verb)
            try await onlooker.until { onlooker.said.contains("\(why); \(Self.resume)") }
            #expect(onlooker.process.isRunning)
            #expect(onlooker.interrupted().status == 130, "\(verb): \(onlooker.said)")
        }
    }

    @Test(
        "What only a person moves ends wait and attach with 75 and the command to type; events and status say it and look on [S43]"
    )
    func paused() async throws {
        let background = try BackgroundSet(["a.bin": Data(patternedBytes(size: 400_000, seed: 7))])
        #expect(try background.pull("--limit-rate", "2K").status == 0)
        let (waiting, attached) = (try Onlooker(background.tool, ["wait"]), try Onlooker(background.tool, ["attach"]))
        #expect(try background.tool.run(["pause"]).status == 0)
        for onlooker in [waiting, attached] {
            onlooker.process.waitUntilExit()
            #expect(onlooker.process.terminationStatus == 75)
            #expect(onlooker.said.contains("stopped by you; \(Self.resume)"), "\(onlooker.said)")
        }
        try await expectRest(of: background, because: "stopped by you")
    }

    @Test(
        "A pull that was killed is taken up by the agent that runs already, as soon as somebody waits for it [S23 F085]"
    )
    func takenUp() async throws {
        let background = try BackgroundSet()
        let (tool, published) = (background.tool, background.published)
        #expect(try background.pull().status == 0)
        #expect(try tool.run(["wait"]).status == 0)
        try published.script("hook.sh", "echo $SYNCAGENT_ATTEMPT >> ../calls; [ $SYNCAGENT_ATTEMPT = 2 ] || sleep 45")
        let pull = tool.process([
            "pull", published.url, "--into", "other", "--session", "other", "--hook", "./hook.sh", "--quiet",
        ])
        try pull.run()
        while (try? published.text("calls")) != "1\n", pull.isRunning { try await Task.sleep(for: .milliseconds(20)) }
        // The agent has nothing to do, and looks around once a minute.
        kill(pull.processIdentifier, SIGKILL)
        pull.waitUntilExit()
        let start = ContinuousClock.now
        let wait = try tool.run(["wait", "other", "--timeout", "90s"])
        #expect(wait.status == 0, "\(wait.error) \(background.log)")
        #expect(ContinuousClock.now - start < .seconds(30), "it was not left to the agent's next look")
        #expect(try published.text("calls") == "1\n2\n")
    }

    @Test("A run whose process is lost again and again is put aside, and whoever waits is told so [F087]")
    func putAside() async throws {
        let background = try BackgroundSet(["a.bin": Data(patternedBytes(size: 400_000, seed: 7))])
        #expect(try background.pull("--limit-rate", "2K").status == 0)
        // It brings each next agent up.
        let waiting = try Onlooker(background.tool, ["wait"])
        try await waiting.until {
            guard waiting.process.isRunning else { return true }
            let status = try background.tool.run(["status", "com.example.tower", "--json"]).objects().first
            if let holder = status?["holder"] as? Int { kill(pid_t(holder), SIGKILL) }
            return false
        }
        #expect(waiting.process.terminationStatus == 75)
        let why = "its process was lost repeatedly"
        #expect(waiting.said.contains("\(why); \(Self.resume)"), "\(waiting.said)")
        // Each agent is killed as soon as it has the run, maybe before it has written anything.
        try await expectRest(of: background, because: why, hasEvents: false)
    }

    @Test(
        "Whoever follows ends when nobody reads it any more, and with 74 where the disk is full",
        arguments: [["events", "--follow"], ["events", "--follow", "--json"], ["status", "--watch"]])
    func unread(
        verb: [String]
    ) throws {
        let set = try ServedSet()
        #expect(try set.pull("--quiet").status == 0)
        let pipe = Pipe()
        try pipe.fileHandleForReading.close()
        let full = try #require(FileHandle(forWritingAtPath: "/dev/full"))
        for (output, status) in [(pipe.fileHandleForWriting, Int32(0)), (full, 74)] {
            let process = set.tool.process(verb)
            process.standardOutput = output
            process.standardError = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            #expect(process.terminationStatus == status, "\(verb)")
        }
        // Also where nothing more comes, as behind `grep -m1 pull.finished`.
        let read = Pipe()
        let process = set.tool.process(verb)
        process.standardOutput = read
        process.standardError = FileHandle.nullDevice
        try process.run()
        #expect(!read.fileHandleForReading.availableData.isEmpty)
        try read.fileHandleForReading.close()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(verb)")
    }

    @Test(
        "SIGINT ends whoever looks on within seconds, also while it is held up: nobody reads what it prints [F085]",
        arguments: [["events", "--follow"], ["status", "--watch", "--json"], ["attach"], ["wait"]])
    func heldUp(
        verb: [String]
    ) async throws {
        let set = try ServedSet()
        #expect(try set.pull("--quiet").status == 0)
        let pipe = Pipe()
        let end = pipe.fileHandleForWriting.fileDescriptor
        // Full: the next write waits.
        _ = fcntl(end, F_SETFL, O_NONBLOCK)
        while write(end, [UInt8](repeating: 0, count: 4_096), 4_096) > 0 {}
        while write(end, [0], 1) > 0 {}
        _ = fcntl(end, F_SETFL, 0)
        let process = set.tool.process(verb)
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let tasks = "/proc/\(process.processIdentifier)/task"
        for _ in 0..<600 {
            let threads = (try? FileManager.default.contentsOfDirectory(atPath: tasks)) ?? []
            let places = threads.map { (try? String(contentsOfFile: "\(tasks)/\($0)/wchan", encoding: .utf8)) ?? "" }
            if places.contains(where: { $0.contains("pipe_w") }) { break }
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(process.isRunning)
        let start = ContinuousClock.now
        kill(process.processIdentifier, SIGINT)
        process.waitUntilExit()
        #expect(process.terminationReason == .exit && process.terminationStatus == 130)
        #expect(.now - start < .seconds(4))
        withExtendedLifetime(pipe) {}
    }
}
