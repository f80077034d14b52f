import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// A published set and the agent of its user, which is stopped at the end.
final class BackgroundSet {
    let published: ServedSet
    var tool: Tool { published.tool }

    init(_ files: [String: Data] = ["a.txt": Data("one".utf8), "sheets/b.txt": Data("two".utf8)]) throws {
        published = try ServedSet(files)
    }

    deinit {
        // None may be running.
        _ = try? published.tool.run(["agent", "stop"])
    }

    func pull(_ arguments: String...) throws -> Tool.Outcome {
        try tool.run(["pull", published.url, "--into", "tower", "--background"] + arguments)
    }

    /// The agent's socket, for clients that are not the program.
    var socket: String { published.scratch.path + "/.local/state/syncagent/agent.sock" }

    var log: String {
        (try? String(contentsOfFile: published.scratch.path + "/.local/state/syncagent/agent.log", encoding: .utf8))
            ?? ""
    }
}

@Suite(.timeLimit(.minutes(10)))
struct BackgroundTests {
    @Test("A destination that is not there before its first revision is shown is no problem, nor after a cancel")
    func notShownYet() throws {
        let background = try BackgroundSet()
        #expect(try background.pull("--atomic", "--paused").status == 0)
        let waiting = try background.tool.run(["doctor", "--strict"])
        #expect(waiting.status == 0, "\(waiting.output)")
        #expect(try background.tool.run(["cancel"]).status == 0)
        let cancelled = try background.tool.run(["doctor", "--strict"])
        #expect(cancelled.status == 0, "\(cancelled.output)")
        let removed = try background.tool.run(["rm", "com.example.tower"])
        #expect(removed.status == 0 && !removed.error.contains("its files"), "\(removed.error)")
    }

    @Test("resume asks again with the options of a pull in the foreground")
    func optionsOfForeground() throws {
        let background = try BackgroundSet()
        let set = background.published
        let (packs, away) = (set.scratch.path + "/site/packs", set.scratch.path + "/away")
        try FileManager.default.moveItem(atPath: packs, toPath: away)
        let site = set.url.replacing("manifest.json", with: "")
        let pull = try set.tool.run([
            "pull", "http://set.invalid/manifest.json", "--rewrite", "http://set.invalid/ \(site)", "--into", "tower",
        ])
        #expect(pull.status == 2, "\(pull.error)")
        try FileManager.default.moveItem(atPath: away, toPath: packs)
        #expect(try set.tool.run(["resume"]).status == 0)
        let wait = try set.tool.run(["wait", "--timeout", "60s"])
        #expect(wait.status == 0, "\(wait.error)")
    }

    @Test("resume after a failure calls the hooks that were asked for, and of the manifest's those of the newest one")
    func resumedHooks() throws {
        let background = try BackgroundSet()
        let set = background.published
        for name in ["asked", "named"] { try set.script(name, "echo \(name) $SYNCAGENT_RESULT >> ../calls") }
        let config = "{hooks: {index: {program: '\(set.scratch.path)/named'}}}"
        try set.scratch.write(Data(config.utf8), to: "config.json")
        func publish(_ arguments: String...) throws {
            let outcome = try set.tool.run(["publish", "assets", "--to", "site"] + arguments)
            #expect(outcome.status == 0, "\(outcome.error)")
        }
        try publish("--group-hook", "sheets=index", "--group", "sheets=sheets/**")
        let (packs, away) = (set.scratch.path + "/site/packs", set.scratch.path + "/away")
        try FileManager.default.moveItem(atPath: packs, toPath: away)
        let pull = try set.pull("--config", "config.json", "--hook", "./asked")
        #expect(pull.status == 2, "\(pull.error)")
        let calls = try set.text("calls").split(separator: "\n").sorted()
        #expect(calls == ["asked failed", "named failed"])
        // The newest one names no hook, and has not even the group.
        try FileManager.default.moveItem(atPath: away, toPath: packs)
        try publish("--no-groups")
        #expect(try set.tool.run(["resume"]).status == 0)
        let wait = try set.tool.run(["wait", "--timeout", "60s"])
        #expect(wait.status == 0, "\(wait.error)")
        #expect(try set.text("calls").split(separator: "\n").sorted() == ["asked failed", "asked ok", "named failed"])
    }

    @Test("A condition's plugin gets the settings that the configuration has now, from an agent that runs already")
    func conditionSettings() throws {
        let background = try BackgroundSet()
        let (tool, scratch) = (background.tool, background.published.scratch)
        try background.published.script(
            "gate",
            #"""
            while IFS= read -r line; do
                id=${line#*'"id":'} && id=${id%%,*}
                case $line in
                *'"initialize"'*)
                    case $line in *'"shut"'*) state=blocked ;; *) state=ok ;; esac
                    result='{"protocol":1,"name":"gate","points":["condition"]}' ;;
                *condition.state*) result='{"state":"'$state'","reason":"the gate is shut"}' ;;
                *) result=null ;;
                esac
                printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
            done
            """#)
        func configure(_ word: String, in file: String = ".config/syncagent/config.json") throws {
            let use = "{ plugin: '\(scratch.path)/gate', point: 'condition', settings: { gate: '\(word)' } }"
            try scratch.write(Data("{ plugins: { use: [\(use)] } }".utf8), to: file)
        }
        func expectBlocked() throws {
            for _ in 0..<600 {
                if try tool.run(["status"]).output.contains("the gate is shut") { break }
                Thread.sleep(forTimeInterval: 0.05)
            }
            #expect(try tool.run(["status"]).output.contains("blocked by gate since"), "\(background.log)")
        }
        try configure("shut")
        let outcome = try background.pull("--condition", "gate")
        #expect(outcome.status == 0, "\(outcome.error)")
        try expectBlocked()
        try configure("open")
        #expect(try tool.run(["resume"]).status == 0)
        let wait = try tool.run(["wait", "--timeout", "60s"])
        #expect(wait.status == 0, "\(wait.error) \(background.log)")
        // For a run with a file of its own, that file counts.
        try configure("shut", in: "own.json")
        let own = try background.pull("--condition", "gate", "--config", "own.json")
        #expect(own.status == 0, "\(own.error)")
        try expectBlocked()
        #expect(try tool.run(["cancel"]).status == 0)
    }

    @Test("--background starts an agent and returns; the agent finishes the pull and runs its hook [S10 S17]")
    func background() throws {
        let background = try BackgroundSet()
        try background.published.script("hook.sh", "echo $SYNCAGENT_RESULT $SYNCAGENT_CHANGED > ../hook-ran")
        let outcome = try background.pull("--hook", "./hook.sh", "--label", "nightly")
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(outcome.error.contains("com.example.tower: run "), "\(outcome.error)")
        let wait = try background.tool.run(["wait"])
        #expect(wait.status == 0, "\(wait.error) \(background.log)")
        #expect(try background.published.text("tower/sheets/b.txt") == "two")
        #expect(try background.published.text("hook-ran") == "ok 2\n")

        let agent = try #require(try background.tool.run(["agent", "status", "--json"]).objects().first)
        #expect(agent["on_demand"] as? Bool == true)
        #expect(agent["sessions"] as? Int == 1)
        let status = try background.tool.run(["status", "com.example.tower"])
        #expect(status.output.contains("nightly"), "\(status.output)")
        #expect(try background.tool.run(["doctor", "--strict"]).status == 0)
        #expect(try background.tool.run(["agent", "stop"]).status == 0)
        #expect(try background.tool.run(["agent", "status"]).status == 69)
        #expect(!FileManager.default.fileExists(atPath: background.socket))
    }

    @Test(
        "The agent shows sets as a whole and calls their hooks, and does not bring what was rolled back",
        arguments: ["exchange", "links"])
    func atomic(layout: String) throws {
        let background = try BackgroundSet()
        let set = background.published
        try set.script("hook.sh", "echo $SYNCAGENT_RESULT ${SYNCAGENT_ROLLBACK-no} >> ../hook-ran")
        for text in ["one", "two"] {
            try set.scratch.write(Data(text.utf8), to: "assets/a.txt")
            try set.publish()
            let outcome = try background.pull("--atomic=\(layout)", "--keep-for", "0", "--hook", "./hook.sh")
            #expect(outcome.status == 0, "\(outcome.error)")
            let wait = try background.tool.run(["wait"])
            #expect(wait.status == 0, "\(wait.error) \(background.log)")
            #expect(try set.text("tower/a.txt") == text)
        }
        let switches = try background.tool.run(["events", "com.example.tower", "--json"]).events().filter {
            $0["event"] as? String == "tree.switched"
        }
        #expect(switches.count == 2)
        let back = try background.tool.run(["rollback", "com.example.tower"])
        #expect(back.status == 0, "\(back.error)")
        #expect(try set.text("tower/a.txt") == "one")
        #expect(try set.text("hook-ran") == "ok no\nok no\nok 1\n")
        #expect(try background.pull("--atomic=\(layout)", "--keep-for", "0").status == 0)
        #expect(try background.tool.run(["wait"]).status == 77)
        #expect(try set.text("tower/a.txt") == "one")
    }

    @Test(
        "The agent refuses at once to begin a set as a whole where files of one's own are in the way, and changes nothing",
        arguments: ["exchange", "links"])
    func atomicRefused(layout: String) throws {
        let background = try BackgroundSet()
        let set = background.published
        try set.scratch.write(Data("mine".utf8), to: "tower/own/notes.txt")
        let outcome = try background.pull("--atomic=\(layout)")
        #expect(outcome.status == 77 && outcome.error.contains("own/notes.txt"), "\(outcome.error)")
        let place = set.scratch.path + "/tower"
        #expect(try FileManager.default.contentsOfDirectory(atPath: place) == ["own"])
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/.syncagent-tower"))
        #expect(try set.text("tower/own/notes.txt") == "mine")
    }

    @Test("Without --into a project goes to its own directory here, also when it has another destination already")
    func place() throws {
        let background = try BackgroundSet()
        let elsewhere = ["pull", background.published.url, "--into", "elsewhere"]
        #expect(try background.tool.run(elsewhere).status == 0)
        let outcome = try background.tool.run(["pull", background.published.url, "--background"])
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try background.tool.run(["wait", "com.example.tower:com.example.tower"]).status == 0)
        #expect(try background.published.text("com.example.tower/sheets/b.txt") == "two")
    }

    @Test("The agent calls file hooks as the command does [S131]")
    func fileHook() throws {
        let background = try BackgroundSet()
        try background.published.script(
            "files", "echo $SYNCAGENT_BATCH of $SYNCAGENT_BATCHES >>../told; cat >/dev/null")
        let outcome = try background.pull("--file-hook", "./files", "--file-hook-batch", "1")
        #expect(outcome.status == 0, "\(outcome.error)")
        let wait = try background.tool.run(["wait"])
        #expect(wait.status == 0, "\(wait.error) \(background.log)")
        #expect(try background.published.text("told") == "1 of 2\n2 of 2\n")
        // Once more, because a person asks: every file.
        let hook = try #require(try background.tool.run(["hooks", "list", "--json"]).events().first)
        #expect(hook["batch"] as? Int == 1 && hook["state"] as? String == "done")
        #expect(try background.tool.run(["hooks", "replay", "\(hook["number"] ?? "?")"]).status == 0)
        #expect(try background.tool.run(["wait"]).status == 0)
    }

    @Test("An agent that nobody can reach for a while is not said to be gone: stop waits for it [G6]")
    func unreachableForAWhile() throws {
        let background = try BackgroundSet()
        #expect(try background.pull("--paused").status == 0)
        let (socket, elsewhere) = (background.socket, background.socket + ".elsewhere")
        try FileManager.default.moveItem(atPath: socket, toPath: elsewhere)
        // A program of its own: the threads of Swift's tasks may all be waiting for programs.
        let back = Process()
        back.executableURL = URL(fileURLWithPath: "/bin/sh")
        // Not over one that the agent has made anew meanwhile.
        back.arguments = ["-c", "sleep 0.8; exec mv -n \"$0\" \"$1\"", elsewhere, socket]
        try back.run()
        let stop = try background.tool.run(["agent", "stop"])
        back.waitUntilExit()
        #expect(stop.status == 0 && stop.error.contains("The agent has stopped."), "\(stop.error)")
        #expect(try background.tool.run(["agent", "stop"]).error.contains("No agent is running."))
    }

    @Test("The same request again is the same run, and says so [S106]")
    func twice() throws {
        let background = try BackgroundSet()
        let first = try #require(try background.pull("--paused", "--json").objects().first)
        let second = try #require(try background.pull("--paused", "--json").objects().first)
        #expect(first["event"] as? String == "run.enqueued")
        #expect(first["is_new"] as? Bool == true)
        #expect(second["is_new"] as? Bool == false)
        #expect(first["run"] as? String == second["run"] as? String)
    }

    @Test("A paused run starts when it is resumed; attach looks on to its end [S43]")
    func paused() throws {
        let background = try BackgroundSet()
        #expect(try background.pull("--paused").status == 0)
        let status = try background.tool.run(["status"])
        #expect(status.output.contains("paused"), "\(status.output)")
        #expect(status.output.contains("syncagent resume com.example.tower"), "\(status.output)")
        // Only a person ends that: there is nothing to wait for.
        let wait = try background.tool.run(["wait"])
        #expect(wait.status == 75)
        #expect(wait.error.contains("'syncagent resume com.example.tower' resumes it"), "\(wait.error)")
        #expect(try background.tool.run(["resume"]).status == 0)
        let attach = try background.tool.run(["attach"])
        #expect(attach.status == 0, "\(attach.error)")
        #expect(attach.error.contains("com.example.tower: complete"), "\(attach.error)")
    }

    @Test("A run that is not to start yet says until when; cancel gives it up, rm forgets the session [S46 S103]")
    func notBefore() throws {
        let background = try BackgroundSet()
        #expect(try background.pull("--not-before", "2h").status == 0)
        let status = try background.tool.run(["status"])
        #expect(status.output.contains("not to start until"), "\(status.output)")
        let refused = try background.tool.run(["rm", "com.example.tower"])
        #expect(refused.status == 77, "\(refused.error)")
        #expect(try background.tool.run(["pause"]).status == 0)
        #expect(try background.tool.run(["pause"]).status == 0)
        #expect(try background.tool.run(["cancel"]).status == 0)
        #expect(try background.tool.run(["wait", "--quiet"]).status == 2)
        #expect(try background.tool.run(["rm", "com.example.tower"]).status == 0)
        #expect(try background.tool.run(["status"]).output == "")
    }

    @Test("rm --files removes what was installed and nobody has changed [S103]")
    func removeFiles() throws {
        let background = try BackgroundSet()
        #expect(try background.pull().status == 0)
        #expect(try background.tool.run(["wait"]).status == 0)
        try background.published.scratch.write(Data("mine".utf8), to: "tower/a.txt")
        #expect(try background.tool.run(["rm", "com.example.tower", "--files"]).status == 0)
        #expect(try background.published.text("tower/a.txt") == "mine")
        #expect(!FileManager.default.fileExists(atPath: background.published.scratch.path + "/tower/sheets"))
    }

    @Test("rm --files removes nothing, nor the session, where the destination is not there [S103 S113]")
    func removeFilesOfNothing() throws {
        let background = try BackgroundSet()
        #expect(try background.pull().status == 0)
        #expect(try background.tool.run(["wait"]).status == 0)
        let tower = background.published.scratch.path + "/tower"
        try FileManager.default.moveItem(atPath: tower, toPath: tower + "-elsewhere")
        for isEmptyPlace in [false, true] {
            if isEmptyPlace {
                try FileManager.default.createDirectory(atPath: tower, withIntermediateDirectories: false)
            }
            let refused = try background.tool.run(["rm", "com.example.tower", "--files"])
            #expect(refused.status == 73 && refused.error.contains("leave --files out"), "\(refused.error)")
            #expect(try background.tool.run(["status", "com.example.tower"]).status == 0)
        }
        #expect(try background.tool.run(["rm", "com.example.tower"]).status == 0)
        #expect(try background.published.text("tower-elsewhere/a.txt") == "one")
    }

    @Test("rm --files of a session removes nothing where another one has the same files [S103]")
    func removeFilesOfTwo() throws {
        let background = try BackgroundSet()
        let pull = ["pull", background.published.url, "--into", "tower", "--session"]
        for name in ["one", "other"] { #expect(try background.tool.run(pull + [name]).status == 0) }
        let refused = try background.tool.run(["rm", "other", "--files"])
        #expect(refused.status == 64 && refused.error.contains("session 'one'"), "\(refused.error)")
        // Whatever name it has.
        let link = background.published.scratch.path + "/same"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "tower")
        let third = ["pull", background.published.url, "--into", "same", "--session", "third"]
        #expect(try background.tool.run(third).status == 0)
        #expect(try background.tool.run(["rm", "third", "--files"]).status == 64)
        #expect(try background.tool.run(["rm", "third"]).status == 0)
        #expect(try background.published.text("tower/a.txt") == "one")
        #expect(try background.tool.run(["rm", "one"]).status == 0)
        #expect(try background.tool.run(["rm", "other", "--files"]).status == 0)
        #expect(!FileManager.default.fileExists(atPath: background.published.scratch.path + "/tower/a.txt"))
    }

    @Test("rm forgets a session whose destination can no longer be used; with --files it does not [S103]")
    func removeUnusable() throws {
        let background = try BackgroundSet()
        #expect(try background.pull().status == 0)
        #expect(try background.tool.run(["wait"]).status == 0)
        let state = background.published.scratch.path + "/tower/.syncagent"
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: state)
        let refused = try background.tool.run(["rm", "com.example.tower", "--files"])
        #expect(refused.status == 73 && refused.error.contains("others may write to it"), "\(refused.error)")
        let removed = try background.tool.run(["rm", "com.example.tower"])
        #expect(removed.status == 0, "\(removed.error)")
        #expect(try background.tool.run(["status"]).output == "")
        #expect(try background.published.text("tower/a.txt") == "one")
    }

    @Test("rm --files of a shard's session removes nothing, nor the session: its files are those of the whole [S103]")
    func removeFilesOfShard() throws {
        let background = try BackgroundSet()
        let pull = ["pull", background.published.url, "--into", "tower"]
        for more in [["--shard", "0/2"], ["--shard", "1/2"], ["--join", "2"]] {
            #expect(try background.tool.run(pull + more).status == 0)
        }
        let name = "com.example.tower.shard-0-of-2"
        let refused = try background.tool.run(["rm", name, "--files"])
        #expect(refused.status == 64 && refused.error.contains("or keep the files"), "\(refused.error)")
        #expect(try background.tool.run(["rm", name]).status == 0)
        #expect(try background.published.text("tower/a.txt") == "one")
        #expect(try background.published.text("tower/sheets/b.txt") == "two")
    }

    @Test("A signal while the agent looks for the manifest ends --background --json with pull.finished, too")
    func signalOfBackground() throws {
        let background = try BackgroundSet()
        let server = try FaultServer()
        server.respondToOthers { _ in .silence }
        let output = try background.published.scratch.file()
        let process = background.tool.process([
            "pull", server.url("/m.json"), "--into", "tower", "--background", "--json",
        ])
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = FileHandle.nullDevice
        try process.run()
        for _ in 0..<2_000 where server.log.requestCount == 0 && process.isRunning { usleep(5_000) }
        #expect(process.isRunning)
        kill(process.processIdentifier, SIGTERM)
        process.waitUntilExit()
        server.releaseStalls()
        #expect(process.terminationReason == .exit && process.terminationStatus == 143)
        let lines = try String(contentsOf: output, encoding: .utf8).split(separator: "\n")
        #expect(lines.count == 1 && lines.first?.contains(#""event":"pull.finished""#) == true, "\(lines)")
        #expect(lines.first?.contains(#""status":143"#) == true, "\(lines)")
    }

    @Test(
        "A signal ends who looks on, and nothing else [S10 S16 S115]",
        arguments: [(["attach"], SIGINT, 130), (["events", "--follow"], SIGTERM, 143), (["wait"], SIGTERM, 143)]
            as [([String], Int32, Int32)])
    func detach(verb: [String], signal: Int32, status: Int32) async throws {
        let background = try BackgroundSet()
        #expect(try background.pull("--not-before", "2h").status == 0)
        let errors = try background.published.scratch.file()
        let process = background.tool.process(verb)
        process.standardOutput = FileHandle.nullDevice
        process.standardError = try FileHandle(forWritingTo: errors)
        try process.run()
        // It takes signals as soon as its handlers stand, proc(5).
        let path = "/proc/\(process.processIdentifier)/status"
        var caught: UInt64 = 0
        while process.isRunning, caught & (1 << (signal - 1)) == 0 {
            try await Task.sleep(for: .milliseconds(10))
            let line = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").first {
                $0.hasPrefix("SigCgt:")
            }
            caught = line.flatMap { UInt64($0.dropFirst(7).drop(while: \.isWhitespace), radix: 16) } ?? 0
        }
        kill(process.processIdentifier, signal)
        process.waitUntilExit()
        #expect(process.terminationStatus == status)
        if verb == ["attach"] {
            #expect(try String(contentsOf: errors, encoding: .utf8).contains("Detached; the run continues"))
        }
        #expect(try background.tool.run(["status"]).output.contains("not to start until"))
    }

    @Test("A second agent says that one is running, one on demand in silence; --replace takes over [F091]")
    func second() async throws {
        let background = try BackgroundSet()
        #expect(try background.pull("--paused").status == 0)
        let loud = try background.tool.run(["agent", "run"])
        #expect(loud.status == 75)
        #expect(loud.error.contains("--replace"))
        let quiet = try background.tool.run(["agent", "run", "--on-demand"])
        #expect(quiet.status == 75)
        #expect(quiet.error == "")

        let before = try #require(try background.tool.run(["agent", "status", "--json"]).objects().first)
        let process = background.tool.process(["agent", "run", "--replace"])
        process.standardError = FileHandle.nullDevice
        // It cannot be asked before it has made another.
        try FileManager.default.removeItem(atPath: background.socket)
        try process.run()
        defer {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
        var agent: [String: Any]?
        while agent?["process"] as? Int != Int(process.processIdentifier) {
            try await Task.sleep(for: .milliseconds(50))
            agent = try background.tool.run(["agent", "status", "--json"]).objects().first
        }
        #expect(agent?["on_demand"] as? Bool == false)
        #expect(agent?["process"] as? Int != before["process"] as? Int)
        #expect(try background.tool.run(["resume"]).status == 0)
        #expect(try background.tool.run(["wait"]).status == 0)
    }

    @Test("SIGTERM brings the agent to rest; systemd is told of both [S23]")
    func systemd() async throws {
        let background = try BackgroundSet()
        let path = background.published.scratch.path + "/notify"
        let listener = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        defer { close(listener) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0)
        let process = background.tool.process(["agent", "run"], environment: ["NOTIFY_SOCKET": path])
        process.standardError = FileHandle.nullDevice
        try process.run()
        var buffer = [UInt8](repeating: 0, count: 100)
        func message() -> String {
            let count = recv(listener, &buffer, buffer.count, 0)
            return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
        }
        #expect(message() == "READY=1")
        #expect(try background.tool.run(["agent", "status"]).status == 0)
        kill(process.processIdentifier, SIGTERM)
        #expect(message() == "STOPPING=1")
        process.waitUntilExit()
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == 0)
    }

    @Test(
        "What only means something with --background is refused without it [S45]",
        arguments: [["--not-before", "02:00"], ["--paused"], ["--label", "x"]])
    func onlyInBackground(
        arguments: [String]
    ) throws {
        let outcome = try Tool(try Scratch()).run(["pull", "m.json"] + arguments)
        #expect(outcome.status == 64)
        #expect(outcome.error.contains("--background"), "\(outcome.error)")
    }

    @Test("What the command said about transfers counts in the agent: --max-redirects [S21]", arguments: [0, 1])
    func settings(limit: Int) throws {
        let background = try BackgroundSet()
        let server = try FaultServer()
        let site = background.published.scratch.url.appendingPathComponent("site")
        for path in try background.published.scratch.contents(of: "site") {
            guard let data = FileManager.default.contents(atPath: site.appendingPathComponent(path).path) else {
                continue
            }
            server.serve(ServedObject(Array(data)), at: (path.hasPrefix("packs/") ? "/moved/" : "/") + path)
        }
        server.respondToOthers { $0.path.hasPrefix("/packs/") ? .redirect(to: "/moved\($0.path)") : .status(404) }
        let outcome = try background.tool.run([
            "pull", server.url("/manifest.json"), "--background", "--into", "tower", "--max-redirects", "\(limit)",
        ])
        #expect(outcome.status == 0, "\(outcome.error)")
        let wait = try background.tool.run(["wait"])
        #expect((wait.status == 0) == (limit == 1), "\(wait.output)\(wait.error)")
        let file = background.published.scratch.path + "/tower/a.txt"
        #expect(FileManager.default.fileExists(atPath: file) == (limit == 1))
    }

    @Test("Without --into the files go where a pull in the foreground puts them [S21]")
    func project() throws {
        let background = try BackgroundSet()
        let outcome = try background.tool.run(["pull", background.published.url, "--background"])
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try background.tool.run(["wait"]).status == 0)
        #expect(try background.published.text("com.example.tower/a.txt") == "one")
    }

    @Test("A secret on the command line is not kept: --background refuses it with 64 and starts nothing [V64]")
    func secret() throws {
        let background = try BackgroundSet()
        let outcome = try background.pull("--header", "Authorization: Bearer s3cret")
        #expect(outcome.status == 64)
        #expect(outcome.error.contains("Authorization"), "\(outcome.error)")
        #expect(!outcome.error.contains("s3cret"))
        #expect(try background.tool.run(["agent", "status"]).status == 69)
    }

    @Test("A manifest that is not there ends --background with 66, and nothing is enqueued")
    func missing() throws {
        let background = try BackgroundSet()
        let outcome = try background.tool.run([
            "pull", background.published.url + ".missing", "--into", "tower", "--background",
        ])
        #expect(outcome.status == 66, "\(outcome.error)")
        #expect(try background.tool.run(["status"]).output == "")
    }
}
