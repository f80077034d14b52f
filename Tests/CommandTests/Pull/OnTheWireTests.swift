import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// Two files with URLs of their own, and somebody else who looks on while they are fetched.
final class Wire {
    let scratch: Scratch
    let tool: Tool
    let origin: FaultServer
    let edge: FaultServer
    let big = ServedObject(patternedBytes(size: 3_000_000, seed: 3))
    let small = ServedObject(patternedBytes(size: 5_000, seed: 4))
    /// Processes that were started and may be alive.
    private var started: [Process] = []

    /// The origin redirects `big.bin` to the edge, with a signature.
    init() throws {
        scratch = try Scratch()
        tool = Tool(scratch)
        (origin, edge) = (try FaultServer(), try FaultServer())
        origin.serve(small, at: "/small.bin")
        origin.script("/big.bin", .redirect(to: edge.url("/cdn/big.bin?sig=canary")))
        edge.serve(big, at: "/cdn/big.bin")
        try write()
    }

    deinit { for process in started where process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    /// Writes the manifest, with `more` entries of `files`.
    func write(_ more: String = "") throws {
        func entry(_ name: String, _ object: ServedObject) -> String {
            let url = origin.url("/" + name)
            return
                "{\"path\":\"\(name)\",\"size\":\(object.bytes.count),\"sha256\":\"\(object.sha256)\",\"urls\":[\"\(url)\"]}"
        }
        let text = """
            {"format":"syncagent-manifest/1","project":"com.example.wire",\
            "files":[\(entry("big.bin", big)),\(entry("small.bin", small))\(more)]}
            """
        try scratch.write(Data(text.utf8), to: "manifest.json")
    }

    /// Starts a pull in the foreground that nobody waits for.
    func start(_ arguments: [String] = []) throws -> Process {
        let process = tool.process(["pull", "manifest.json", "--into", "tree", "--quiet"] + arguments)
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        started.append(process)
        return process
    }

    func pull(_ arguments: [String] = []) throws -> Tool.Outcome {
        try tool.run(["pull", "manifest.json", "--into", "tree", "--json"] + arguments)
    }

    func status(_ arguments: String...) throws -> [[String: Any]] {
        let outcome = try tool.run(["status", "com.example.wire", "--json"] + arguments)
        return outcome.status == 0 ? try outcome.objects() : []
    }

    /// Looks until something is so, for 20 s at most.
    func look(
        _ arguments: String..., until isSo: ([[String: Any]]) -> Bool, sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> [[String: Any]] {
        let deadline = ContinuousClock.now + .seconds(20)
        while true {
            let outcome = try tool.run(["status", "com.example.wire", "--json"] + arguments)
            let found = outcome.status == 0 ? try outcome.objects() : []
            if isSo(found) { return found }
            guard ContinuousClock.now < deadline else {
                Issue.record("last seen: \(outcome.output)\(outcome.error)", sourceLocation: sourceLocation)
                return found
            }
            usleep(50_000)
        }
    }
}

extension [[String: Any]] {
    /// The states of tasks by path.
    fileprivate var states: [String: String] {
        Dictionary(map { ($0["path"] as? String ?? "", $0["state"] as? String ?? "") }) { first, _ in first }
    }
}

@Suite("What is on the wire, seen by somebody else", .timeLimit(.minutes(10)))
struct OnTheWireTests {
    @Test(
        "A transfer shows where it began, where redirects have led and why, how far it is; a killed one the last known [S66 S72 S75 S76 S105 V64]"
    )
    func requests() throws {
        let wire = try Wire()
        wire.edge.script("/cdn/big.bin", .object(wire.big).stalling(at: 1_000_000))
        let pull = try wire.start()
        let seen = try wire.look("--requests") { $0.contains { ($0["received"] as? Int ?? 0) >= 900_000 } }
        let request = try #require(seen.first)
        #expect(request["path"] as? String == "big.bin" && request["object"] == nil)
        #expect(request["tasks"] as? Int == 1 && request["attempt"] as? Int == 1)
        #expect(request["original"] as? String == wire.origin.url("/big.bin"))
        #expect(request["current"] as? String == wire.edge.url("/cdn/big.bin"), "a query may be a secret")
        #expect(request["source"] as? String == wire.edge.url(""))
        #expect(request["range"] as? [Int] == [0, 3_000_000])
        #expect(["receiving", "stalled"].contains(request["state"] as? String))
        #expect(request["since"] is String && request["rate"] is Int)
        let hops = try #require(request["hops"] as? [[String: String]])
        #expect(hops.map { $0["reason"] } == ["redirect 302"])
        #expect(hops.first?["from"] == wire.origin.url("/big.bin"))
        #expect(hops.last?["to"] == request["current"] as? String, "without query, as every URL here")

        let tasks = try wire.look("--tasks") { $0.states["small.bin"] == "installed" }
        #expect(tasks.states["big.bin"] == "running")
        #expect(tasks.first?["transfer"] as? Int == request["transfer"] as? Int)
        #expect(tasks.first?["sha256"] as? String == wire.big.sha256)
        #expect(tasks.first?["size"] as? Int == 3_000_000)
        // A pull in the foreground counts, too; its progress is told a moment after.
        let whole = try wire.look { session in
            let run = session.first?["run"] as? [String: Any]
            return (run?["files"] as? [String: Any])?["installed"] as? Int == 1
                && (run?["progress"] as? [String: Any])?["files_done"] as? Int == 1
        }
        let run = try #require(whole.first?["run"] as? [String: Any])
        #expect((run["files"] as? [String: Any])?["total"] as? Int == 2)

        kill(pull.processIdentifier, SIGKILL)
        pull.waitUntilExit()
        let left = try #require(try wire.status("--requests").first)
        #expect(left["state"] as? String == "waiting", "nobody works on it")
        #expect(left["current"] as? String == wire.edge.url("/cdn/big.bin"))
        #expect(try wire.status("--tasks").states == ["big.bin": "waiting", "small.bin": "installed"])

        wire.edge.script("/cdn/big.bin", .object(wire.big))
        #expect(try wire.pull().status == 0)
        #expect(try wire.status("--requests").isEmpty)
        let states = try wire.status("--tasks").states
        #expect(states == ["big.bin": "installed", "small.bin": "installed"], "both by one run")
        for path in try wire.scratch.contents(of: ".local/state/syncagent") where !path.hasSuffix("links") {
            let file = wire.scratch.url.appendingPathComponent(".local/state/syncagent/" + path)
            guard let data = FileManager.default.contents(atPath: file.path) else { continue }
            #expect(data.range(of: Data("canary".utf8)) == nil, "\(path) has a signature")
        }
    }

    @Test("A task that failed says why; the next run tries it again [S100 S105]")
    func failures() throws {
        let wire = try Wire()
        wire.origin.script("/big.bin", .status(404))
        #expect(try wire.pull().status == 2)
        let failed = try wire.status("--tasks", "--state", "failed")
        #expect(failed.states == ["big.bin": "failed"])
        #expect((failed.first?["reason"] as? String)?.contains("404") == true)
        #expect(try wire.status("--tasks", "--path", "sm*").states == ["small.bin": "installed"])
        #expect(try wire.status("--tasks", "--path", "nothing/**").isEmpty)
        wire.origin.serve(wire.big, at: "/big.bin")
        wire.origin.script("/big.bin", .object(wire.big))
        #expect(try wire.pull().status == 0)
        #expect(try wire.status("--tasks").states == ["big.bin": "installed", "small.bin": "unchanged"])
        #expect(try wire.pull().status == 0)
        #expect(try wire.status("--tasks").states == ["big.bin": "unchanged", "small.bin": "unchanged"])
    }

    @Test("What waits says for what and until when, and goes back to work when the server is back [S27 S53]")
    func outage() throws {
        let wire = try Wire()
        try wire.edge.closePort()
        let pull = try wire.start()
        let waiting = try wire.look("--requests") { $0.contains { $0["state"] as? String == "waiting" } }
        let request = try #require(waiting.first)
        #expect((request["reason"] as? String)?.isEmpty == false && request["until"] is String)
        #expect(try wire.status("--tasks", "--state", "waiting").states.keys.contains("big.bin"))
        let session = try wire.look { ($0.first?["reason"] as? String) == "connectivity" }
        let waits = (session.first?["run"] as? [String: Any])?["waits"] as? [String]
        #expect(waits?.first?.contains(wire.edge.url("")) == true, "\(waits ?? [])")
        wire.edge.script("/cdn/big.bin", .object(wire.big).stalling(at: 2_000_000))
        try wire.edge.openPort()
        _ = try wire.look("--requests") { $0.contains { ($0["received"] as? Int ?? 0) > 1_000_000 } }
        let after = try wire.look { ($0.first?["reason"] as? String) == nil }
        #expect(((after.first?["run"] as? [String: Any])?["waits"] as? [String]) == [], "bytes have come since")
        wire.edge.script("/cdn/big.bin", .object(wire.big))
        wire.edge.releaseStalls()
        pull.waitUntilExit()
        #expect(pull.terminationStatus == 0)
    }

    @Test("A file that was put off runs again while its bytes come, not only once it is in place [S51 S98]")
    func putOff() throws {
        let wire = try Wire()
        let half = FaultAnswer.object(wire.big).stalling(at: 1_000_000)
        wire.edge.script("/cdn/big.bin", .unavailable(429, retryAfter: "1"), half)
        let output = try wire.scratch.file()
        let pull = wire.tool.process(["pull", "manifest.json", "--into", "tree", "--json"])
        pull.standardOutput = try FileHandle(forWritingTo: output)
        pull.standardError = FileHandle.nullDevice
        try pull.run()
        defer { if pull.isRunning { kill(pull.processIdentifier, SIGKILL) } }
        _ = try wire.look("--tasks") { $0.states["big.bin"] == "waiting" }
        _ = try wire.look("--requests") { $0.contains { ($0["received"] as? Int ?? 0) >= 900_000 } }
        #expect(try wire.status("--tasks").states["big.bin"] == "running")
        wire.edge.script("/cdn/big.bin", .object(wire.big))
        wire.edge.releaseStalls()
        pull.waitUntilExit()
        #expect(pull.terminationStatus == 0)
        // Each request that went out after a wait, not each file: of two files one was put off once, then broke off.
        let lines = String(decoding: try Data(contentsOf: output), as: UTF8.self)
        let events = try Tool.Outcome(status: 0, output: lines, error: "").events()
        let steps = events.first { $0["event"] as? String == "run.summary" }?["tasks"] as? [String: Int]
        let (started, delayed) = (steps?["started"] ?? 0, steps?["delayed"] ?? 0)
        #expect(delayed >= 1 && started == 2 + delayed, "\(steps ?? [:])")
    }

    @Test("For people: a line for what each transfer is at, and one for each file")
    func text() throws {
        let wire = try Wire()
        wire.edge.script("/cdn/big.bin", .object(wire.big).stalling(at: 1_000_000))
        let pull = try wire.start()
        _ = try wire.look("--requests") { $0.contains { ($0["received"] as? Int ?? 0) >= 900_000 } }
        let requests = try wire.tool.run(["status", "--requests"])
        #expect(requests.output.contains("big.bin: "), "\(requests.output)")
        #expect(requests.output.contains("redirect 302 to \(wire.edge.url("/cdn/big.bin"))"), "\(requests.output)")
        #expect(!requests.output.contains("canary"))
        let tasks = try wire.tool.run(["status", "com.example.wire", "--tasks"])
        #expect(tasks.output.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(tasks.output)")
        #expect(tasks.output.contains("running") && tasks.output.contains("big.bin"))
        wire.edge.script("/cdn/big.bin", .object(wire.big))
        wire.edge.releaseStalls()
        pull.waitUntilExit()
        #expect(try wire.tool.run(["status", "--state", "failed"]).status == 64)
        #expect(try wire.tool.run(["status", "--tasks", "--state", "odd"]).status == 64)
    }

    @Test("A redirecting origin is asked once a night, not once a run; a link that fails is asked for again [S76 S149]")
    func redirectMemory() throws {
        let edge = try FaultServer()
        let set = try ScriptedSet()
        let packs = try set.scratch.contents(of: "site").filter { $0.hasSuffix(".pack") }
        let pack = try #require(packs.first)
        for path in packs {
            let data = try #require(FileManager.default.contents(atPath: set.scratch.path + "/site/" + path))
            edge.serve(ServedObject(Array(data)), at: "/edge/\(path)")
            set.server.respond(to: "/site/\(path)") { _ in .redirect(to: edge.url("/edge/\(path)")) }
        }
        func redirects() -> Int { set.server.log.requests(to: "/site/\(pack)").count }
        #expect(try set.tool.run(["pull", set.manifest, "--into", "one", "--session", "one"]).status == 0)
        #expect(redirects() == 1)
        let second = try set.tool.run(["pull", set.manifest, "--into", "two", "--session", "two", "--json"])
        #expect(second.status == 0, "\(second.error)")
        #expect(redirects() == 1, "the second run knows where it is")
        #expect(try set.moves(second).contains { $0.contains("-> \(edge.url("/edge/\(pack)"))") }, "and says so")
        let file = set.scratch.url.appendingPathComponent(".local/state/syncagent/links").path
        let attributes = try FileManager.default.attributesOfItem(atPath: file)
        #expect((attributes[.posixPermissions] as? Int) == 0o600)

        // The edge has moved: the remembered link fails, and the origin is asked again.
        let data = try #require(FileManager.default.contents(atPath: set.scratch.path + "/site/" + pack))
        edge.respond(to: "/edge/\(pack)") { _ in .status(404) }
        edge.serve(ServedObject(Array(data)), at: "/moved/\(pack)")
        set.server.respond(to: "/site/\(pack)") { _ in .redirect(to: edge.url("/moved/\(pack)")) }
        let third = try set.tool.run(["pull", set.manifest, "--into", "three", "--session", "three"])
        #expect(third.status == 0, "\(third.error)")
        #expect(redirects() == 2)
        #expect(try set.tool.run(["pull", set.manifest, "--into", "four", "--session", "four"]).status == 0)
        #expect(redirects() == 2, "and that is remembered, too")
    }

    @Test("A manifest behind a redirect to the latest one is asked for there every time")
    func latestManifest() throws {
        let set = try ScriptedSet()
        let front = try FaultServer()
        front.respondToOthers { [base = set.server.url("/site/")] in
            .redirect(to: base + $0.path.dropFirst("/latest/".count))
        }
        let manifest = front.url("/latest/manifest.json")
        for _ in 0..<2 {
            let pull = try set.tool.run(["pull", manifest, "--into", "tower"])
            #expect(pull.status == 0, "\(pull.error)")
        }
        #expect(front.log.requests(to: "/latest/manifest.json.zst").count == 2)
    }

    @Test(
        "Rewriting is told with its rule, a plugin's replacement with its name, a plugin's cancel as cancelled; each names file and transfer [S54 S76]",
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/python3")))
    func told() throws {
        let wire = try Wire()
        let (origin, edge) = (wire.origin.url("/"), wire.edge.url("/"))
        wire.edge.serve(wire.small, at: "/near/small.bin")
        wire.edge.serve(wire.big, at: "/big.bin")
        wire.origin.serve(wire.small, at: "/unwanted.bin")
        let file = wire.origin.url("/unwanted.bin")
        try wire.write(
            ",{\"path\":\"unwanted.bin\",\"size\":5000,\"sha256\":\"\(wire.small.sha256)\",\"urls\":[\"\(file)\"]}"
                .replacing(wire.small.sha256, with: String(repeating: "ab", count: 32)))
        let plugin = """
            #!/usr/bin/python3
            import json, sys
            def answer(request):
                if request["url"].endswith("small.bin") and "/near/" not in request["url"]:
                    return {"disposition": "replace", "request": {"url": "\(edge)near/small.bin?token=canary"}}
                if request["url"].endswith("unwanted.bin"):
                    return {"disposition": "cancel", "reason": "not on this site"}
                return {"disposition": "continue"}
            for line in sys.stdin:
                message = json.loads(line)
                if "id" not in message: continue
                result = None
                if message["method"] == "initialize":
                    result = {"protocol": 1, "name": "route", "version": "1", "points": ["resolver"]}
                elif message["method"] == "resolver.resolve":
                    result = {"dispositions": [answer(one) for one in message["params"]["requests"]]}
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
                if message["method"] == "shutdown": break
            """
        let program = try wire.scratch.write(Data(plugin.utf8), to: ".config/syncagent/plugins/syncagent-plugin-route")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program.path)
        try wire.scratch.write(
            Data("{ plugins: { use: [{ plugin: 'route', point: 'resolver', for: ['\(origin)'] }] } }".utf8),
            to: "c.json")
        let pull = try wire.pull(["--config", "c.json", "--rewrite", "\(origin)big \(edge)big"])
        #expect(pull.status == 2, "\(pull.error)")
        let events = try pull.events()
        let hops = events.filter { $0["event"] as? String == "task.redirected" }
        #expect(hops.allSatisfy { $0["transfer"] is Int && $0["path"] is String }, "\(hops)")
        let rule = try #require(hops.first { $0["rule"] != nil })
        #expect(rule["path"] as? String == "big.bin" && rule["reason"] as? String == "rewrite")
        #expect(rule["rule"] as? Int == 1)
        #expect(rule["from"] as? String == origin + "big.bin" && rule["to"] as? String == edge + "big.bin")
        let replaced = try #require(hops.first { $0["plugin"] != nil })
        #expect(replaced["path"] as? String == "small.bin" && replaced["plugin"] as? String == "route")
        #expect(replaced["from"] as? String == origin + "small.bin")
        #expect(replaced["to"] as? String == edge + "near/small.bin?…", "a query may be a secret")
        let cancelled = events.filter { $0["event"] as? String == "task.cancelled" }
        #expect(cancelled.map { $0["path"] as? String } == ["unwanted.bin"])
        #expect((cancelled.first?["reason"] as? String)?.contains("not on this site") == true)
        #expect(!events.contains { $0["event"] as? String == "task.failed" })
        #expect(wire.origin.log.requestCount == 0, "nobody was asked for what is elsewhere, or unwanted")
        let tasks = try wire.status("--tasks")
        #expect(tasks.states == ["big.bin": "installed", "small.bin": "installed", "unwanted.bin": "cancelled"])
        #expect(!(pull.output + pull.error).contains("canary"))
        let report = try wire.tool.run(["report"])
        #expect(report.output.contains("not on this site"), "\(report.output)")
    }

    @Test("A file by URLs of its own that a pack has, too, is fetched once; without the pack it comes by its URLs")
    func equalToPacked() throws {
        for (name, size) in [("small", 40_000), ("large", 3_000_000)] {
            let bytes = patternedBytes(size: size, seed: 9)
            let object = ServedObject(bytes)
            let server = try FaultServer()
            server.serve(object, at: "/loose.bin")
            // A manifest with two equal files in packs, of which one is made one with URLs of its own.
            let set = try ScriptedSet(files: ["twin.bin": Data(bytes), "copy.bin": Data(bytes)]) { text in
                guard var document = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any],
                    var files = document["files"] as? [[String: Any]],
                    let copy = files.firstIndex(where: { $0["path"] as? String == "copy.bin" })
                else { return "" }
                files[copy]["blobs"] = nil
                files[copy]["urls"] = [server.url("/loose.bin")]
                document["files"] = files
                let data = try? JSONSerialization.data(withJSONObject: document)
                return String(decoding: data ?? Data(), as: UTF8.self)
            }
            let pull = try set.pull([set.manifest])
            #expect(pull.status == 0, "\(name): \(pull.error)")
            #expect(server.log.requestCount == 0, "\(name): the pack has it")
            let end = try #require(try pull.events().last)
            let received = (end["bytes"] as? [String: Any])?["received"] as? Int ?? .max
            #expect(received < size + 50_000, "\(name): \(received)")
            for path in ["tower/twin.bin", "tower/copy.bin"] {
                let file = set.scratch.url.appendingPathComponent(path)
                #expect(FileManager.default.contents(atPath: file.path) == Data(bytes), "\(path)")
            }
            // The packs are gone: what has a URL of its own comes by that.
            for path in try set.scratch.contents(of: "site") where path.hasSuffix(".pack") {
                set.server.script("/site/\(path)", .status(404))
            }
            let alone = try set.tool.run(["pull", set.manifest, "--into", "other", "--json"])
            #expect(alone.status == 2)
            let here = set.scratch.url.appendingPathComponent("other/copy.bin")
            #expect(FileManager.default.contents(atPath: here.path) == Data(bytes), "\(alone.error)")
        }
    }

    @Test("How sources stand, and where redirects lead, outlives kill -9: the next run begins with it [S76 F042]")
    func standing() throws {
        let wire = try Wire()
        let (bad, good) = (try FaultServer(), wire.edge)
        // What is equal would be fetched once.
        let small = (0..<12).map { ServedObject(patternedBytes(size: 5_000, seed: UInt64(50 + $0))) }
        let held = ServedObject(patternedBytes(size: 3_000_000, seed: 49))
        for (number, object) in small.enumerated() {
            bad.script("/\(number).bin", .status(500))
            good.serve(object, at: "/\(number).bin")
        }
        good.script("/held.bin", .object(held).stalling(at: 500_000))
        bad.script("/held.bin", .status(500))
        func write(_ numbers: Range<Int>) throws {
            let urls = { (name: String) in "\"\(bad.url("/\(name)"))\",\"\(good.url("/\(name)"))\"" }
            var more =
                ",{\"path\":\"held.bin\",\"size\":3000000,\"sha256\":\"\(held.sha256)\",\"urls\":[\(urls("held.bin"))]}"
            for number in numbers {
                more += ",{\"path\":\"f/\(number).bin\",\"size\":5000,\"sha256\":\"\(small[number].sha256)\""
                more += ",\"urls\":[\(urls("\(number).bin"))]}"
            }
            try wire.write(more)
        }
        try write(0..<6)
        wire.origin.script("/big.bin", .redirect(to: wire.edge.url("/cdn/big.bin")))
        wire.edge.script("/cdn/big.bin", .object(wire.big).stalling(at: 1_000_000))
        let pull = try wire.start()
        _ = try wire.look("--requests") { $0.count { ($0["received"] as? Int ?? 0) >= 400_000 } == 2 }
        let state = wire.scratch.path + "/.local/state/syncagent/"
        func kept(_ name: String, _ text: String) -> Bool {
            FileManager.default.contents(atPath: state + name).map {
                String(decoding: $0, as: UTF8.self).contains(text)
            } ?? false
        }
        let deadline = ContinuousClock.now + .seconds(20)
        while !(kept("sources", "aside ") && kept("links", "/big.bin")), ContinuousClock.now < deadline {
            usleep(50_000)
        }
        #expect(kept("sources", bad.url("")) && kept("links", "/big.bin"), "on disk while it goes on")
        kill(pull.processIdentifier, SIGKILL)
        pull.waitUntilExit()

        // More files, a server that is well again, and links that no longer stall.
        for (number, object) in small.enumerated() { bad.serve(object, at: "/\(number).bin") }
        good.script("/held.bin", .object(held))
        wire.edge.script("/cdn/big.bin", .object(wire.big))
        try write(0..<12)
        let (asked, redirected) = (bad.log.requestCount, wire.origin.log.requests(to: "/big.bin").count)
        let again = try wire.pull()
        #expect(again.status == 0, "\(again.error)")
        #expect(bad.log.requestCount == asked, "the good one is asked first")
        #expect(wire.origin.log.requests(to: "/big.bin").count == redirected, "where it led is known")
    }
}
