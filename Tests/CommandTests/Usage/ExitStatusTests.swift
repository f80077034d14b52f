import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ExitStatusTests {
    static let samples = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Manifests/samples")

    @Test(
        "A manifest that is not there ends with 66, as a path and as a URL [F044]",
        arguments: ["pull", "plan", "verify"])
    func missingManifest(verb: String) throws {
        let set = try ServedSet()
        let path = try set.tool.run([verb, "no-such.json", "--into", "elsewhere"])
        #expect(path.status == 66)
        #expect(path.error.contains("no-such.json"), "\(path.error)")
        let url = try set.tool.run([verb, set.url + ".missing", "--into", "elsewhere"])
        #expect(url.status == 66, "\(url.error)")
        #expect(url.error.contains("404"), "\(url.error)")
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/elsewhere"))
    }

    @Test(
        "A broken manifest ends with 65, names the JSON path and creates nothing [F105 F106 F107]",
        arguments: [
            ("path-parent", "files[0].path"), ("duplicate-key", "size"), ("size-negative", "files[0].size"),
            ("later-version", "format"), ("link-leaves-tree", "link"), ("url-scheme", "urls"),
            ("path-of-the-agent", "files[0].path"), ("web-page", ""),
        ])
    func brokenManifest(sample: String, words: String) throws {
        let scratch = try Scratch()
        let manifest = Self.samples.appendingPathComponent("invalid/\(sample).json").path
        let outcome = try Tool(scratch).run(["pull", manifest, "--into", "tower"])
        #expect(outcome.status == 65, "\(outcome.error)")
        #expect(words.isEmpty || outcome.error.contains(words), "\(outcome.error)")
        #expect(try scratch.contents(of: ".").allSatisfy { !$0.hasPrefix("tower") })
    }

    @Test(
        "Too few open files, or too little address space for threads, ends with 78 and a limit that will do [F081]",
        arguments: [
            (
                "ulimit -n 16",
                "syncagent needs at least 24 open files, and the limit is 16. Raise it: ulimit -n 1024"
            ),
            (
                "ulimit -v 204800",
                "syncagent needs at least 300 MiB of address space, and the limit is 200 MiB. Raise it: ulimit -v 307200"
            ), ("ulimit -S -n 16", ""), ("ulimit -n 64", ""),
        ])
    func limits(limit: String, words: String) throws {
        let set = try ServedSet()
        let process = set.tool.process([])
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", limit + " && exec \"$0\" \"$@\"", Tool.url.path, "pull", set.url, "--into", "t"]
        let outcome = try set.tool.run(process)
        #expect(outcome.status == (words.isEmpty ? 0 : 78), "\(outcome.error)")
        #expect(words.isEmpty || outcome.error.contains(words), "\(outcome.error)")
        #expect(words.isEmpty || !FileManager.default.fileExists(atPath: set.scratch.path + "/t"))
    }

    @Test("A relative path in a working directory that was removed ends with 73; an absolute one does its work")
    func removedWorkingDirectory() throws {
        let set = try ServedSet()
        func run(_ arguments: [String]) throws -> Tool.Outcome {
            let process = set.tool.process([])
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" \"$@\""
            process.arguments = ["-c", script, Tool.url.path] + arguments
            return try set.tool.run(process)
        }
        let name = "removed-\(UUID().uuidString)"
        let target = set.scratch.path + "/target"
        for arguments in [
            ["pull", set.url, "--into", name], ["plan", set.url, "--into", name], ["verify", set.url, "--into", name],
            ["pull", set.url, "--into", name, "--background"],
            ["pull", set.url, "--into", target, "--backup-dir", name],
            ["pull", set.url, "--into", target, "--hook", "./\(name)"],
            ["pull", set.url, "--into", target, "--verify-program", "./\(name) -x"],
            ["pull", set.url, "--into", target, "--background", "--condition-program", "./\(name)"],
            ["schedule", "add", set.url, "--into", target, "--nightly", "02:00", "--condition-program", "./\(name)"],
            ["pull", set.url, "--into", target, "--credentials", name], ["publish", name, "--to", name],
            ["schedule", "apply", name],
        ] {
            let outcome = try run(arguments)
            #expect(outcome.status == 73, "\(arguments): \(outcome.error)")
            let words = "the working directory is gone: change into one that exists, or give an absolute path"
            #expect(outcome.error.contains(words), "\(arguments): \(outcome.error)")
            // Nothing is made below the root directory.
            #expect(!FileManager.default.fileExists(atPath: "/\(name)"))
        }
        let whole = try run(["pull", set.url, "--into", target])
        #expect(whole.status == 0, "\(whole.error)")
    }

    @Test("An argument, a working directory and a home that are not UTF-8 are refused, and no other directory is made")
    func notText() throws {
        let set = try ServedSet()
        func run(_ script: String, _ arguments: [String] = [], _ environment: [String: String] = [:]) throws
            -> Tool.Outcome
        {
            let process = set.tool.process([], environment: environment)
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            process.arguments = ["-c", "d=$(printf 'f\\377'); " + script, Tool.url.path] + arguments
            return try set.tool.run(process)
        }
        let argument = try run("exec \"$0\" pull \"$1\" --json --into \"$d\"", [set.url])
        #expect(argument.status == 64 && argument.error.contains("not UTF-8: f\\xff"), "\(argument.error)")
        #expect(argument.output.contains("pull.finished"), "\(argument.output)")
        let inside = "mkdir \"$d\"; cd \"$d\" && \"$0\" pull \"$@\"; s=$?; ls | wc -l; cd ..; rmdir \"$d\"; exit $s"
        for words in [[set.url], [set.url, "--into", "x"], ["m.json", "--into", set.scratch.path + "/y"]] {
            let outcome = try run(inside, words)
            #expect(outcome.status == 73, "\(words): \(outcome.error)")
            #expect(outcome.error.contains("the path of the working directory is not UTF-8"), "\(outcome.error)")
            #expect(outcome.output.trimmingCharacters(in: .whitespacesAndNewlines) == "0", "\(outcome.output)")
        }
        let absolute = try run(inside, [set.url, "--into", set.scratch.path + "/z"])
        #expect(absolute.status == 0, "\(absolute.error)")
        let home = try run("HOME=\"$PWD/$d\" exec \"$0\" pull \"$1\" --into h", [set.url])
        #expect(home.status == 73 && home.error.contains("this path is not UTF-8"), "\(home.error)")
        for path in ["f\u{FFFD}", "x", "h"] {
            #expect(!FileManager.default.fileExists(atPath: "\(set.scratch.path)/\(path)"))
        }
    }

    @Test("However early it ends, the last line of pull --json is pull.finished with the exit status and a message")
    func lastLine() throws {
        let set = try ServedSet()
        try set.scratch.write(Data(), to: "file")
        try set.scratch.write(Data("{".utf8), to: "broken.json")
        let cases: [([String], Int32)] = [
            (["pull", "--json"], 64), (["pull", set.url, "--json", "--connections", "65"], 64),
            (["pull", "broken.json", "--json"], 65), (["pull", "no-such.json", "--json"], 66),
            (["pull", "http://127.0.0.1:1/manifest.json", "--json", "--deadline", "1s"], 69),
            (["pull", set.url, "--json", "--into", "file/tower"], 73),
            (["pull", set.url, "--json", "--config", "no-such-config.json"], 78),
        ]
        for (arguments, status) in cases {
            let outcome = try set.tool.run(arguments)
            #expect(outcome.status == status, "\(arguments): \(outcome.error)")
            let line = outcome.output.split(separator: "\n").last.map { Data($0.utf8) } ?? Data()
            let event = try JSONSerialization.jsonObject(with: line) as? [String: Any]
            #expect(event?["event"] as? String == "pull.finished" && event?["result"] as? String == "failed")
            let error = event?["error"] as? [String: Any]
            #expect(error?["status"] as? Int == Int(status), "\(arguments)")
            #expect((error?["message"] as? String)?.isEmpty == false, "\(arguments)")
            #expect((event?["files"] as? [String: Any])?["installed"] as? Int == 0)
        }
        let whole = try set.tool.run(["pull", set.url, "--json", "--into", "whole"])
        #expect(whole.status == 0)
        let ends = whole.output.split(separator: "\n").filter { $0.contains("\"pull.finished\"") }
        #expect(ends.count == 1 && ends.first?.contains("\"error\"") == false)
        #expect(try set.tool.run(["pull", "--json", "--help"]).output.contains("pull.finished\",\"time") == false)
    }

    @Test("A destination that cannot be made ends with 73")
    func destination() throws {
        let set = try ServedSet()
        try set.scratch.write(Data(), to: "file")
        let outcome = try set.tool.run(["pull", set.url, "--into", "file/tower"])
        #expect(outcome.status == 73, "\(outcome.error)")
        #expect(outcome.error.contains("file"), "\(outcome.error)")
        #expect(outcome.error.contains("Not a directory"), "\(outcome.error)")
    }

    @Test("A server that does not answer ends with 69 at the deadline, and is complained about once [S51]")
    func unreachable() throws {
        let outcome = try Tool(try Scratch()).run([
            "pull", "http://127.0.0.1:1/manifest.json", "--into", "tower", "--deadline", "3s",
        ])
        #expect(outcome.status == 69, "\(outcome.error)")
        #expect(outcome.error.components(separatedBy: "waiting for").count <= 3, "\(outcome.error)")
    }

    @Test("A set whose file is gone from the server ends with 2 and names the file")
    func missingFile() throws {
        let set = try ServedSet()
        let digest = String(repeating: "ab", count: 32)
        let manifest = """
            {"format":"syncagent-manifest/1","project":"p","files":[{"path":"x","size":3,"sha256":"\(digest)",\
            "urls":["gone.bin"]}]}
            """
        try set.scratch.write(Data(manifest.utf8), to: "site/loose.json")
        let url = set.url.replacingOccurrences(of: "manifest.json", with: "loose.json")
        let outcome = try set.tool.run(["pull", url, "--into", "tower"])
        #expect(outcome.status == 2, "\(outcome.error)")
        #expect(outcome.error.contains("x"), "\(outcome.error)")
        #expect(outcome.error.contains("404"), "\(outcome.error)")
        let end = try #require(try set.tool.run(["pull", url, "--into", "tower", "--json"]).events().last)
        let error = end["error"] as? [String: Any]
        // The one cause that all of them have, as on the terminal.
        #expect(error?["message"] as? String == "1 file could not be fetched: \(origin(of: url)): status 404")
    }

    private func origin(of url: String) -> String {
        url.split(separator: "/", omittingEmptySubsequences: false).prefix(3).joined(separator: "/")
    }

    @Test(
        "A stop keeps what was fetched, ends with 143 or 130, and the next pull goes on [F085]",
        arguments: [SIGTERM, SIGINT])
    func stop(signal: Int32) throws {
        var files: [String: Data] = [:]
        for number in 0..<64 {
            files["f\(number).bin"] = Data(ServeTests.bytes(64 << 10).map { $0 ^ UInt8(truncatingIfNeeded: number) })
        }
        let set = try ServedSet(files)
        let output = Pipe()
        let process = set.tool.process(["pull", set.url, "--into", "tower", "--json", "--limit-rate", "1M"])
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        // As soon as something is in place, so that there is something to keep.
        var text = ""
        while !text.contains("task.installed"), let part = try output.fileHandleForReading.read(upToCount: 4096),
            !part.isEmpty
        { text += String(decoding: part, as: UTF8.self) }
        kill(process.processIdentifier, signal)
        text += String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        let end = try Tool.Outcome(status: 0, output: text, error: "").events().last
        let error = end?["error"] as? [String: Any]
        #expect(end?["event"] as? String == "pull.finished" && end?["stopped"] as? String == "user_stop")
        #expect(error?["status"] as? Int == Int(128 + signal))
        #expect((error?["message"] as? String)?.hasPrefix("stopped by SIG") == true)
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == (signal == SIGTERM ? 143 : 130))

        let total = files.values.reduce(0) { $0 + $1.count }
        let next = try set.pull("--json")
        #expect(next.status == 0)
        let last = try #require(try next.events().last)
        let received = try #require((last["bytes"] as? [String: Int])?["received"])
        #expect(received < total, "what was kept is not fetched again")
        #expect(try set.tool.run(["verify", set.url, "--into", "tower"]).status == 0)
    }

    @Test("A pull whose terminal closes keeps what was fetched and ends with 143; nobody is said to have stopped it")
    func hangUp() throws {
        let set = try ServedSet(["a.bin": ServeTests.bytes(64 << 10), "b.bin": ServeTests.bytes(2 << 20)])
        let output = Pipe()
        let process = set.tool.process(["pull", set.url, "--into", "tower", "--json", "--limit-rate", "100K"])
        // Whoever runs the tests may have been started by nohup(1).
        process.arguments = ["--default-signal=HUP", Tool.url.path] + (process.arguments ?? [])
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        var text = ""
        while !text.contains("run.started") {
            let part = output.fileHandleForReading.availableData
            if part.isEmpty { break }
            text += String(decoding: part, as: UTF8.self)
        }
        kill(process.processIdentifier, SIGHUP)
        text += String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationReason == .exit && process.terminationStatus == 143)
        let end = try Tool.Outcome(status: 0, output: text, error: "").events().last
        #expect(end?["stopped"] as? String == "terminal_closed")
        #expect(
            (end?["error"] as? [String: Any])?["message"] as? String
                == "stopped by SIGHUP; everything fetched so far is kept")
        let status = try set.tool.run(["status"])
        #expect(status.output.contains("ended when its terminal closed"), "\(status.output)")
        #expect(try set.pull().status == 0)
    }

    @Test("Two pulls into one destination: the second ends with 75 [S3]")
    func busy() throws {
        let set = try ServedSet(["big.bin": ServeTests.bytes(2 << 20)])
        let process = set.tool.process(["pull", set.url, "--into", "tower", "--json", "--limit-rate", "100K"])
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        _ = try output.fileHandleForReading.read(upToCount: 1)
        let second = try set.pull()
        #expect(second.status == 75, "\(second.error)")
        process.terminate()
        _ = try output.fileHandleForReading.readToEnd()
        process.waitUntilExit()
        #expect(process.terminationStatus == 143)
    }

    @Test(
        "A server that refuses ends a pull with 77, a manifest as its packs, and one that refuses what was shown says so",
        arguments: [401, 403])
    func refusal(status: Int) throws {
        let set = try ScriptedSet()
        let packs = try set.scratch.contents(of: "site/packs")
        for pack in packs { set.server.script("/site/packs/\(pack)", .status(status)) }
        let partly = try set.pull([set.manifest])
        #expect(partly.status == 77 && partly.output.contains("status \(status)"), "\(partly.output)")
        #expect(try partly.events().last?["result"] as? String == "failed")
        for verb in ["pull", "plan", "verify", "ls"] {
            let target = verb == "ls" ? [] : ["--into", "none"]
            let outcome = try set.tool.run([verb, set.server.url("/other/manifest.json")] + target)
            #expect(outcome.status == 66, "\(outcome.error)")
        }
        set.server.respondToOthers { _ in .status(status) }
        for verb in ["pull", "plan", "verify", "ls"] {
            let target = verb == "ls" ? [] : ["--into", "none"]
            let outcome = try set.tool.run([verb, set.server.url("/other/manifest.json")] + target)
            #expect(outcome.status == 77, "\(verb): \(outcome.error)")
            #expect(outcome.error.contains("status \(status)"), "\(outcome.error)")
        }
        try set.secret("[\(set.server.url(""))]\ntype = bearer\ntoken = canary\n", to: "credentials")
        let shown = try set.pull([set.server.url("/other/"), "--credentials", "credentials"])
        #expect(shown.status == 77 && shown.error.contains("refused"), "\(shown.error)")
        #expect(!(shown.output + shown.error).contains("canary"))
    }
}
