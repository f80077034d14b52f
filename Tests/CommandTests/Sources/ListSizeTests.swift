import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// Lists say no sizes: they are found out with the bytes.
@Suite(.timeLimit(.minutes(10)))
struct ListSizeTests {
    /// More than a first request asks for.
    private static let large = patternedBytes(size: 3_000_000, seed: 7)

    private func asked(_ set: ListedFiles, _ path: String) -> Int { set.server.log.requests(to: "/maps/" + path).count }

    @Test(
        "A small file comes whole with the one request that finds out its size, and of a large one no byte comes twice")
    func once() throws {
        var files = ["large.bin": Self.large, "exact.bin": patternedBytes(size: 1 << 20, seed: 8)]
        for number in 0..<40 { files["d/\(number)"] = patternedBytes(size: 100 + number, seed: UInt64(number)) }
        let set = try ListedFiles(files)
        let outcome = try set.run("pull", set.url, "--json")
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try set.text("maps/large.bin") == Self.large && set.text("maps/d/7") == files["d/7"])
        let log = set.server.log
        for path in files.keys where path != "large.bin" {
            #expect(asked(set, path) == 1, "\(path)\n\(log.description)")
        }
        #expect(log.bytesSent(to: "/maps/large.bin") == Self.large.count, "\(log.description)")
        #expect(log.entries.allSatisfy { $0.request.method == "GET" })
        let last = try #require(try outcome.events().last)
        #expect((last["files"] as? [String: Int])?["installed"] == files.count, "\(last)")
        #expect((last["bytes"] as? [String: Int])?["total"] == files.values.reduce(0) { $0 + $1.count }, "\(last)")
        #expect(last["requests"] as? Int == log.requestCount)
        _ = set.requests()
        #expect(try set.run("pull", set.url).status == 0 && set.requests() == 1)
        #expect(try set.run("verify", set.url).status == 0 && set.requests() == 1)
    }

    @Test("Servers without ranges give small files whole, and are stopped where a large one begins")
    func withoutRanges() throws {
        let huge = patternedBytes(size: 40_000_000, seed: 9)
        let set = try ListedFiles(["small": Array("s".utf8), "large": Self.large, "huge": huge])
        for (path, object) in set.files { set.server.script("/maps/" + path, .object(object).ignoringRanges()) }
        let outcome = try set.run("pull", set.url, "--json")
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try set.text("maps/huge") == huge && set.text("maps/large") == Self.large)
        #expect(asked(set, "small") == 1 && asked(set, "large") == 1 && asked(set, "huge") == 2)
        #expect(set.server.log.bytesSent(to: "/maps/huge") < huge.count + (16 << 20))
    }

    @Test(
        "Answers that do not say the size, refuse ranges, or have nothing to give are asked for as a whole at most once more"
    )
    func odd() throws {
        let set = try ListedFiles(["a": Array("one".utf8), "b": Array("two".utf8)])
        set.server.script(
            "/maps/a", FaultAnswer.object(ServedObject(text: "one")).withUnknownTotal(),
            .object(ServedObject(text: "one")))
        set.server.script(
            "/maps/b", FaultAnswer.object(ServedObject(text: "two")).refusingRanges(),
            .object(ServedObject(text: "two")))
        // An empty file, by a digest that does not tell.
        set.server.serve(ServedObject([]), at: "/maps/none")
        let lines = set.files.map { "\($0.value.sha256)  \($0.key)\n" }.joined()
        set.server.serve(
            ServedObject(text: lines + "d41d8cd98f00b204e9800998ecf8427e  none\n"), at: "/maps/SHA256SUMS")
        let outcome = try set.run("pull", set.url, "--json")
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try set.text("maps/a") == Array("one".utf8) && set.text("maps/b") == Array("two".utf8))
        #expect(try set.text("maps/none").isEmpty)
        #expect(
            asked(set, "a") == 2 && asked(set, "b") == 2 && asked(set, "none") == 1, "\(set.server.log.description)")
    }

    @Test("Compressed answers are refused by name")
    func coded() throws {
        let set = try ListedFiles(["a": Array("one".utf8), "b": Array("two".utf8)])
        set.server.script("/maps/b", FaultAnswer.object(ServedObject(text: "two")).claimingGzip())
        let outcome = try set.run("pull", set.url, "--json")
        #expect(outcome.status == 2 && outcome.output.contains("Content-Encoding"), "\(outcome.output)")
        #expect(try set.text("maps/a") == Array("one".utf8))
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/maps/b"))
    }

    @Test("Wrong bytes are told with who sent them, and the next mirror is asked")
    func mirrors() throws {
        let (set, other) = (try ListedFiles([:]), try FaultServer())
        for (server, text) in [(set.server, "onE"), (other, "one")] {
            server.serve(ServedObject(text: text), at: "/small")
        }
        let file = "<file name=\"small\"><hash type=\"sha-256\">\(ServedObject(text: "one").sha256)</hash>"
        let urls =
            "<url priority=\"1\">\(set.server.url("/small"))</url><url priority=\"2\">\(other.url("/small"))</url>"
        set.server.serve(
            ServedObject(
                text: "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\(file)\(urls)</file></metalink>"),
            at: "/maps/set.meta4")
        let outcome = try set.run("pull", set.server.url("/maps/set.meta4"), "--json")
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try set.text("maps/small") == Array("one".utf8))
        let told = try #require(try outcome.events().first { $0["event"] as? String == "source.wrong_bytes" })
        #expect(told["source"] as? String == set.server.url("/small") && told["path"] as? String == "small")
        #expect(told["got_sha256"] as? String == ServedObject(text: "onE").sha256)
        #expect(set.server.log.requests(to: "/small").count == 1 && other.log.requests(to: "/small").count == 1)
    }

    @Test("A size that was that of an older file is asked for again once the right one is there")
    func older() throws {
        let set = try ListedFiles(["large.bin": Self.large])
        // The list came before the file.
        set.server.serve(ServedObject(patternedBytes(size: 2_500_000, seed: 4)), at: "/maps/large.bin")
        #expect(try set.run("pull", set.url).status == 2)
        set.server.serve(ServedObject(Self.large), at: "/maps/large.bin")
        let outcome = try set.run("pull", set.url)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try set.text("maps/large.bin") == Self.large)
    }

    @Test("Who only looks asks for a byte of each file, and a pull for those that are selected")
    func looking() throws {
        let set = try ListedFiles(["north/a": patternedBytes(size: 50_000, seed: 1), "south/b": Self.large])
        for verb in ["plan", "ls", "import"] {
            let before = set.server.log.bytesSent
            let outcome = try set.run(verb == "import" ? [verb, set.url] : [verb, set.url, "--json"])
            #expect(outcome.status == 0, "\(verb): \(outcome.error)")
            #expect(outcome.output.contains(verb == "plan" ? "3050000" : "3000000"), "\(outcome.output)")
            let list = try #require(set.server.log.requests(to: "/maps/SHA256SUMS").last).bytesSent
            #expect(set.server.log.bytesSent - before == list + 2, "\(verb)")
        }
        #expect(try set.run("diff", set.url, set.url).status == 0)
        #expect(try set.run("verify", set.url).status != 0)
        _ = set.requests()
        let some = try set.run("pull", set.url, "--include", "north/**")
        #expect(some.status == 0 && set.requests() == 2, "\(some.error)")
        #expect(try set.run("ls", set.url).output.contains("3000000") && set.requests() == 2)
        #expect(try set.run("verify", set.url, "--include", "north/**").status == 0)
    }

    @Test("What is here already, at its place or under another name, is not fetched to find out its size")
    func here() throws {
        let set = try ListedFiles(["a": patternedBytes(size: 5_000, seed: 1), "b": Self.large])
        try set.scratch.write(Data(Self.large), to: "maps/b")
        #expect(try set.run("pull", set.url).status == 0)
        #expect(asked(set, "a") == 1 && asked(set, "b") == 0)
        // Known by the destination alone.
        try FileManager.default.removeItem(atPath: set.scratch.path + "/.local/state/syncagent/manifests")
        let moved = set.files["b"].map { "\($0.sha256)  moved\n" } ?? ""
        set.server.serve(ServedObject(text: moved), at: "/maps/SHA256SUMS")
        #expect(try set.run("pull", set.url).status == 0)
        #expect(try set.text("maps/moved") == Self.large && asked(set, "moved") == 0)
    }

    @Test("What has come before a kill does not come again: files that are whole, and the beginning of others [S31]")
    func killed() throws {
        var files = ["slow.bin": Self.large, "middle.bin": patternedBytes(size: 800_000, seed: 3)]
        for number in 0..<30 { files["d/\(number)"] = patternedBytes(size: 2_000, seed: UInt64(number)) }
        let set = try ListedFiles(files)
        for (path, place) in [("slow.bin", 600_000), ("middle.bin", 500_000)] {
            let object = try #require(set.files[path])
            set.server.script("/maps/" + path, .object(object).stalling(at: place), .object(object))
        }
        let pull = set.tool.process(["pull", set.url, "--quiet"])
        pull.standardError = FileHandle.nullDevice
        try pull.run()
        func size(_ path: String) -> Int {
            let name = set.scratch.path + "/maps/.syncagent/learning/" + (set.files[path]?.sha256 ?? "")
            return (try? FileManager.default.attributesOfItem(atPath: name)[.size] as? Int) ?? 0
        }
        let learned = set.scratch.path + "/maps/.syncagent/learned"
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            let lines = FileManager.default.contents(atPath: learned).map { $0.count { $0 == 0x2E } } ?? 0
            if lines >= 30, size("slow.bin") >= 550_000, size("middle.bin") >= 450_000 { break }
            usleep(20_000)
        }
        kill(pull.processIdentifier, SIGKILL)
        pull.waitUntilExit()
        set.server.releaseStalls()
        let before = set.server.log.bytesSent
        _ = set.requests()
        let outcome = try set.run("pull", set.url)
        #expect(outcome.status == 0, "\(outcome.error)")
        for (path, bytes) in files { #expect(try set.text("maps/" + path) == bytes) }
        let rest = (3_000_000 - 550_000) + (800_000 - 450_000)
        #expect(set.server.log.bytesSent - before <= rest, "\(set.server.log.description)")
        for number in 0..<30 { #expect(asked(set, "d/\(number)") == 1) }
    }

    @Test("A set in pieces has its sizes before it is cut, whoever pulls which piece")
    func pieces() throws {
        var files = ["large.bin": Self.large]
        for number in 0..<60 { files["d/\(number)"] = patternedBytes(size: 1_000 + number, seed: UInt64(number)) }
        let set = try ListedFiles(files)
        for shard in ["0/2", "1/2"] {
            let outcome = try set.run("pull", set.url, "--into", "maps", "--shard", shard)
            #expect(outcome.status == 0, "\(outcome.error)")
        }
        let joined = try set.run("pull", set.url, "--into", "maps", "--join", "2")
        #expect(joined.status == 0, "\(joined.error)")
        for (path, bytes) in files { #expect(try set.text("maps/" + path) == bytes) }
    }

    @Test(
        "Transfers that find out sizes are shown as any others, with their paths, and end in the tasks of the run [S66]"
    )
    func shown() throws {
        let set = try ListedFiles(["a": Array("one".utf8), "slow.bin": Self.large])
        let object = try #require(set.files["slow.bin"])
        set.server.script("/maps/slow.bin", .object(object).stalling(at: 200_000), .object(object))
        let pull = set.tool.process(["pull", set.url, "--quiet"])
        pull.standardError = FileHandle.nullDevice
        try pull.run()
        defer { if pull.isRunning { kill(pull.processIdentifier, SIGKILL) } }
        let deadline = ContinuousClock.now + .seconds(60)
        var requests: [[String: Any]] = []
        while ContinuousClock.now < deadline {
            requests = (try? set.run("status", "maps", "--requests", "--json").objects()) ?? []
            if requests.contains(where: { $0["path"] as? String == "slow.bin" }) { break }
            usleep(100_000)
        }
        #expect(requests.contains { $0["path"] as? String == "slow.bin" && $0["tasks"] as? Int == 1 }, "\(requests)")
        let tasks = try set.run("status", "maps", "--tasks", "--json").objects()
        #expect(tasks.contains { $0["path"] as? String == "slow.bin" }, "\(tasks)")
        set.server.releaseStalls()
        pull.waitUntilExit()
        #expect(pull.terminationStatus == 0)
        #expect(try set.text("maps/slow.bin") == Self.large)
    }
}
