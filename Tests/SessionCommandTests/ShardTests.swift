import CommandTestSupport
import Foundation
import Testing

/// One set, published and pulled in pieces by processes that do not talk to each other.
@Suite("Shards", .timeLimit(.minutes(10)))
struct ShardTests {
    private static func files(_ count: Int = 900) -> [String: Data] {
        var files: [String: Data] = [:]
        for number in 0..<count {
            files["d\(number / 50)/f\(number)"] = Data("content \(number) ".utf8) + Data(count: number % 700)
        }
        var state: UInt64 = 7
        for number in 0..<4 {
            let bytes = (0..<400_000).map { _ -> UInt8 in
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return UInt8(truncatingIfNeeded: state >> 56)
            }
            files["d\(number * 3)/big"] = Data(bytes)
        }
        return files
    }

    private func publish(_ set: ServedSet, _ count: Int) throws {
        let start = ["publish", "assets", "--to", "site", "--project", "com.example.tower"]
        for number in 0..<count {
            let outcome = try set.tool.run(start + ["--shard", "\(number)/\(count)"])
            #expect(outcome.status == 0, "\(outcome.error)")
        }
        let outcome = try set.tool.run(start + ["--join", "\(count)"])
        #expect(outcome.status == 0, "\(outcome.error)")
    }

    @Test("A join needs no --project: it is that of the shards")
    func joinsWithoutProject() throws {
        let set = try ServedSet(["a.txt": Data("a".utf8), "b/c.txt": Data("c".utf8)])
        let start = ["publish", "assets", "--to", "fresh"]
        for number in 0..<2 {
            let shard = try set.tool.run(start + ["--project", "com.example.other", "--shard", "\(number)/2"])
            #expect(shard.status == 0, "\(shard.error)")
        }
        let joined = try set.tool.run(start + ["--join", "2"])
        #expect(joined.status == 0 && joined.error.contains("com.example.other revision 1"), "\(joined)")
    }

    private func shard(_ number: Int, _ count: Int, _ set: ServedSet, _ more: String...) -> Process {
        set.tool.process(["pull", set.url, "--into", "tower", "--shard", "\(number)/\(count)", "--json"] + more)
    }

    private func join(_ count: Int, _ set: ServedSet, _ more: String...) throws -> Tool.Outcome {
        try set.tool.run(["pull", set.url, "--into", "tower", "--join", "\(count)", "--json"] + more)
    }

    private func differences(_ set: ServedSet, _ other: String = "assets") throws -> String {
        let diff = Process()
        diff.executableURL = URL(fileURLWithPath: "/usr/bin/diff")
        diff.arguments = ["-r", "-x", ".syncagent", set.scratch.path + "/\(other)", set.scratch.path + "/tower"]
        let pipe = Pipe()
        diff.standardOutput = pipe
        try diff.run()
        let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        diff.waitUntilExit()
        return text
    }

    private func cost(_ outcome: Tool.Outcome) throws -> (bytes: Int, requests: Int, installed: Int) {
        let last = try #require(outcome.objects().last { $0["event"] as? String == "pull.finished" })
        let bytes = last["bytes"] as? [String: Any]
        let files = last["files"] as? [String: Any]
        return (
            bytes?["received"] as? Int ?? -1, last["requests"] as? Int ?? -1, files?["installed"] as? Int ?? -1
        )
    }

    @Test(
        "1, 4 and 16 shards give the same tree at about the cost of one pull, and the hook runs once",
        arguments: [1, 4, 16])
    func whole(count: Int) throws {
        let set = try ServedSet(Self.files())
        try publish(set, count)
        try set.script("hook.sh", "echo $SYNCAGENT_SESSION $SYNCAGENT_RESULT $SYNCAGENT_CHANGED >> ../calls")
        let once = try cost(try set.tool.run(["pull", set.url, "--into", "once", "--json"]))
        var (bytes, requests, installed) = (0, 0, 0)
        for number in (0..<count).reversed() {
            let outcome = try set.tool.run(shard(number, count, set))
            #expect(outcome.status == 0, "\(outcome.error)")
            let own = try cost(outcome)
            (bytes, requests, installed) = (bytes + own.bytes, requests + own.requests, installed + own.installed)
        }
        #expect(installed == Self.files().count)
        let joined = try join(count, set, "--hook", "./hook.sh")
        #expect(joined.status == 0, "\(joined.error)")
        let last = try cost(joined)
        #expect(last.installed == installed, "what the shards have brought is what has changed")
        // The manifest, and nothing else.
        #expect(last.requests <= 2 && last.bytes < 20_000)
        // Every shard asks for the manifest, and a pack at a border is asked for twice.
        #expect(bytes <= once.bytes + count * 90_000, "\(bytes) of \(once.bytes)")
        #expect(requests <= once.requests + count * 8, "\(requests) of \(once.requests)")
        #expect(try differences(set) == "")
        // The name alone is that of the pull beside it.
        #expect(try set.text("calls") == "com.example.tower:tower ok \(installed)\n")
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/tower/.syncagent/shards"))
        let names = try set.tool.run(["status", "--json"]).objects().compactMap { $0["session"] as? String }
        #expect(names.contains("com.example.tower.shard-0-of-\(count)"))
        // Nothing is left to do for any of them.
        #expect(try join(count, set).status == 0)
        #expect(try cost(try set.tool.run(shard(0, count, set))).installed == 0)
        // What that one has left goes, though the join finds everything unchanged.
        #expect(FileManager.default.fileExists(atPath: set.scratch.path + "/tower/.syncagent/shards"))
        #expect(try join(count, set).status == 0)
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/tower/.syncagent/shards"))
    }

    @Test("What is not complete is named, with 75, and nothing is shown as whole before")
    func missing() throws {
        let set = try ServedSet(Self.files(300))
        try set.script("hook.sh", "echo called >> ../calls")
        for number in [0, 2] { #expect(try set.tool.run(shard(number, 4, set)).status == 0) }
        let early = try join(4, set, "--hook", "./hook.sh")
        #expect(early.status == 75)
        #expect(early.error.contains("shards 1, 3 of 4 are not complete"), "\(early.error)")
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/calls"))
        for number in [1, 3] { #expect(try set.tool.run(shard(number, 4, set)).status == 0) }
        // Another release in between: what was brought is not that.
        try set.scratch.write(Data("changed".utf8), to: "assets/d1/f60")
        try set.publish()
        let late = try join(4, set, "--hook", "./hook.sh")
        #expect(late.status == 75 && late.error.contains("shards 0–3 of 4"), "\(late.error)")
        for number in 0..<4 { #expect(try set.tool.run(shard(number, 4, set)).status == 0) }
        // A file that somebody has damaged since is brought again.
        try set.scratch.write(Data("damaged".utf8), to: "tower/d2/f110")
        let joined = try join(4, set, "--hook", "./hook.sh")
        #expect(joined.status == 0, "\(joined.error)")
        #expect(try differences(set) == "")
        #expect(try set.text("calls") == "called\n")
    }

    @Test("The next release is brought with another number of shards, and the join prunes")
    func nextNight() throws {
        let set = try ServedSet(Self.files())
        try publish(set, 4)
        for number in 0..<4 { #expect(try set.tool.run(shard(number, 4, set)).status == 0) }
        #expect(try join(4, set).status == 0)
        try FileManager.default.removeItem(atPath: set.scratch.path + "/assets/d3/f150")
        try FileManager.default.removeItem(atPath: set.scratch.path + "/assets/d17")
        try set.scratch.write(Data("new".utf8), to: "assets/d5/new")
        try publish(set, 7)
        var installed = 0
        for number in 0..<7 {
            let outcome = try set.tool.run(shard(number, 7, set))
            #expect(outcome.status == 0, "\(outcome.error)")
            installed += try cost(outcome).installed
        }
        #expect(installed == 1, "what was here is not brought again")
        let joined = try join(7, set, "--prune")
        #expect(joined.status == 0, "\(joined.error)")
        #expect(try differences(set) == "")
    }

    @Test("What a pull of the whole has brought since the shards is pruned later, whatever shards have come after it")
    func wholeBetween() throws {
        let set = try ServedSet(Self.files(60))
        for number in 0..<2 { #expect(try set.tool.run(shard(number, 2, set)).status == 0) }
        try set.scratch.write(Data("between".utf8), to: "assets/d0/between")
        try set.publish()
        #expect(try set.pull().status == 0)
        try set.scratch.write(Data("next".utf8), to: "assets/d1/next")
        try set.publish()
        for number in 0..<2 { #expect(try set.tool.run(shard(number, 2, set)).status == 0) }
        #expect(try join(2, set).status == 0)
        for path in ["d0/between", "d0/f7"] {
            try FileManager.default.removeItem(atPath: set.scratch.path + "/assets/\(path)")
        }
        try set.publish()
        #expect(try set.pull("--prune").status == 0)
        #expect(try differences(set) == "")
    }

    @Test("A release that is older than what a pull of the whole has brought is refused by shards, too: 77")
    func olderThanWhole() throws {
        let set = try ServedSet(Self.files(60))
        for number in 0..<2 { #expect(try set.tool.run(shard(number, 2, set)).status == 0) }
        try set.scratch.write(Data("second".utf8), to: "assets/d0/f7")
        try set.publish()
        try FileManager.default.copyItem(atPath: set.scratch.path + "/site", toPath: set.scratch.path + "/second")
        try set.scratch.write(Data("third".utf8), to: "assets/d0/f7")
        try set.publish()
        #expect(try set.pull().status == 0)
        let older = ["pull", "second/manifest.json", "--into", "tower", "--shard"]
        for number in 0..<2 { #expect(try set.tool.run(older + ["\(number)/2"]).status == 77) }
        #expect(try set.text("tower/d0/f7") == "third")
    }

    @Test("What shards have brought, and nobody has joined, a pull of the whole takes for its own")
    func neverJoined() throws {
        let set = try ServedSet(Self.files(60))
        for number in 0..<2 { #expect(try set.tool.run(shard(number, 2, set)).status == 0) }
        try FileManager.default.removeItem(atPath: set.scratch.path + "/assets/d0/f7")
        try set.scratch.write(Data("second".utf8), to: "assets/d0/f8")
        try set.publish()
        let plan = try #require(try set.pull("--prune", "--dry-run", "--json").objects().last)
        #expect(plan["replaced"] == nil && plan["prunable"] as? Int == 1, "\(plan)")
        let pulled = try set.pull("--prune")
        #expect(pulled.status == 0 && !pulled.error.contains("no pull had installed"), "\(pulled.error)")
        #expect(try differences(set) == "")
    }

    @Test("What shards of another number have brought, and nobody has joined, is pruned by the next join")
    func leftByOthers() throws {
        let set = try ServedSet(Self.files(60))
        #expect(try set.pull().status == 0)
        for path in ["d0/f7", "d1/new"] { try set.scratch.write(Data("second".utf8), to: "assets/\(path)") }
        try set.publish()
        for number in 0..<4 { #expect(try set.tool.run(shard(number, 4, set)).status == 0) }
        for path in ["d0/f7", "d1/new", "d9/big"] {
            try FileManager.default.removeItem(atPath: set.scratch.path + "/assets/\(path)")
        }
        try set.publish()
        for number in 0..<3 { #expect(try set.tool.run(shard(number, 3, set)).status == 0) }
        #expect(try join(3, set, "--prune").status == 0)
        #expect(try differences(set) == "")
    }

    @Test("What shards have brought of a later release is pruned by a join that goes back to the one joined before")
    func leftByLater() throws {
        let set = try ServedSet(Self.files(60))
        for number in 0..<2 { #expect(try set.tool.run(shard(number, 2, set)).status == 0) }
        #expect(try join(2, set).status == 0)
        try FileManager.default.copyItem(atPath: set.scratch.path + "/site", toPath: set.scratch.path + "/first")
        try set.scratch.write(Data("later".utf8), to: "assets/d1/later")
        try set.publish()
        for number in 0..<2 { #expect(try set.tool.run(shard(number, 2, set)).status == 0) }
        try FileManager.default.removeItem(atPath: set.scratch.path + "/assets/d1/later")
        let back = try set.tool.run(["pull", "first/manifest.json", "--into", "tower", "--join", "2", "--prune"])
        #expect(back.status == 0, "\(back.error)")
        #expect(try differences(set) == "")
    }

    @Test("A file that was the last of its shard, and is no longer listed, is pruned though nobody has joined before")
    func lastOfShard() throws {
        let names = (0..<10).map { "m\($0)" }
        let files = names.map { ($0, Data("content of \($0)".utf8)) }
        let set = try ServedSet(Dictionary(uniqueKeysWithValues: files))
        try publish(set, 2)
        #expect(try set.tool.run(shard(0, 2, set)).status == 0)
        let tower = try FileManager.default.contentsOfDirectory(atPath: set.scratch.path + "/tower")
        let last = try #require(names.last(where: tower.contains))
        #expect(try set.tool.run(shard(1, 2, set)).status == 0)
        // Another one comes in its shard, so that the next one begins where it did.
        try FileManager.default.removeItem(atPath: set.scratch.path + "/assets/\(last)")
        try set.scratch.write(Data("content of mm".utf8), to: "assets/m00")
        try publish(set, 2)
        for number in 0..<2 { #expect(try set.tool.run(shard(number, 2, set)).status == 0) }
        let joined = try join(2, set, "--prune")
        #expect(joined.status == 0, "\(joined.error)")
        #expect(try differences(set) == "")
    }

    @Test("A directory closed to others is so before the join, and one closed to its owner takes what is new")
    func closedDirectories() throws {
        let set = try ServedSet(Self.files(60))
        let files = FileManager.default
        func mode(_ path: String) throws -> Int? {
            try files.attributesOfItem(atPath: set.scratch.path + "/\(path)")[.posixPermissions] as? Int
        }
        func give(_ mode: Int, to path: String) throws {
            try files.setAttributes([.posixPermissions: mode], ofItemAtPath: set.scratch.path + "/\(path)")
        }
        func bring() throws {
            let published = try set.tool.run(["publish", "assets", "--to", "site", "--preserve", "modes"])
            #expect(published.status == 0, "\(published.error)")
            for number in 0..<2 {
                let outcome = try set.tool.run(shard(number, 2, set))
                #expect(outcome.status == 0, "\(outcome.error)")
            }
        }
        try give(0o700, to: "assets/d0")
        try give(0o555, to: "assets/d1")
        defer { for path in ["assets/d1", "tower/d1"] { try? give(0o755, to: path) } }
        try bring()
        #expect(try mode("tower/d0") == 0o700, "nobody else looks in meanwhile")
        #expect(try join(2, set).status == 0)
        #expect(try mode("tower/d1") == 0o555)
        try give(0o755, to: "assets/d1")
        try set.scratch.write(Data("new".utf8), to: "assets/d1/new")
        try give(0o555, to: "assets/d1")
        try bring()
        #expect(try join(2, set).status == 0)
        #expect(try mode("tower/d1") == 0o555)
        #expect(try differences(set) == "")
    }

    @Test("A shard that finds no manifest has failed itself, and not the whole or another shard")
    func failedTry() throws {
        let set = try ServedSet(Self.files(60))
        for number in 0..<2 { #expect(try set.tool.run(shard(number, 2, set)).status == 0) }
        #expect(try join(2, set).status == 0)
        for name in ["manifest.json", "manifest.json.zst"] {
            try FileManager.default.removeItem(atPath: set.scratch.path + "/site/\(name)")
        }
        #expect(try set.tool.run(shard(1, 2, set)).status == 66)
        func failed() throws -> [String] {
            try set.tool.run(["status", "--json"]).objects().filter {
                ($0["run"] as? [String: Any])?["result"] as? String == "failed"
            }.compactMap { $0["session"] as? String }
        }
        #expect(try failed() == ["com.example.tower.shard-1-of-2"])
        #expect(try join(2, set).status == 66)
        #expect(try failed().sorted() == ["com.example.tower", "com.example.tower.shard-1-of-2"])
    }

    @Test("One shard twice, a shard and a pull of the whole: one of them ends with 75; two shards work side by side")
    func busy() async throws {
        let set = try ServedSet(Self.files(300))
        let slow = shard(0, 2, set, "--limit-rate", "5K")
        slow.standardOutput = FileHandle.nullDevice
        slow.standardError = FileHandle.nullDevice
        try slow.run()
        defer { slow.terminate() }
        // Whoever stages something has the lock.
        let staging = set.scratch.path + "/tower/.syncagent/shards/0-of-2/staging"
        while slow.isRunning, (FileManager.default.subpaths(atPath: staging) ?? []).isEmpty {
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(try set.tool.run(shard(0, 2, set)).status == 75)
        #expect(try set.pull().status == 75)
        #expect(try join(2, set).status == 75)
        #expect(try set.tool.run(shard(1, 2, set)).status == 0)
        slow.terminate()
        slow.waitUntilExit()
        #expect(try set.tool.run(shard(0, 2, set)).status == 0)
        #expect(try join(2, set).status == 0)
        #expect(try differences(set) == "")
    }

    @Test("Shards killed at random go on where they were, and the hook runs once [R1]")
    func killed() async throws {
        let set = try ServedSet(Self.files())
        try set.script("hook.sh", "echo called >> ../calls")
        for round in 0..<8 {
            for number in 0..<3 {
                let process = shard(number, 3, set)
                process.standardOutput = FileHandle.nullDevice
                process.standardError = FileHandle.nullDevice
                try process.run()
                try await Task.sleep(for: .milliseconds(Int.random(in: 5...(100 + 40 * round))))
                kill(process.processIdentifier, round % 2 == 0 ? SIGKILL : SIGTERM)
                process.waitUntilExit()
            }
        }
        for number in 0..<3 {
            let outcome = try set.tool.run(shard(number, 3, set))
            #expect(outcome.status == 0, "\(outcome.error)")
        }
        let joined = try join(3, set, "--hook", "./hook.sh")
        #expect(joined.status == 0, "\(joined.error)")
        #expect(try differences(set) == "")
        #expect(try set.text("calls") == "called\n")
    }

    @Test("A shard killed on its first night still knows what the whole knows, and what it has put in place")
    func killedAtFirst() async throws {
        let set = try ServedSet(Self.files(300))
        for number in 0..<2 { #expect(try set.tool.run(shard(number, 2, set)).status == 0) }
        #expect(try join(2, set).status == 0)
        for number in stride(from: 0, to: 300, by: 2) {
            let bytes = Data((0..<4_000).map { _ in UInt8.random(in: 0...255) })
            try set.scratch.write(bytes, to: "assets/d\(number / 50)/f\(number)")
        }
        try set.publish()
        let process = shard(0, 3, set, "--limit-rate", "30K")
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        let log = set.scratch.path + "/tower/.syncagent/shards/0-of-3/index.log"
        func noted() -> Int { (try? FileManager.default.attributesOfItem(atPath: log)[.size] as? Int) ?? 0 }
        // On a busy machine it may have ended before anybody sees its log: then there is nothing to kill, and the rest holds, too.
        while process.isRunning, noted() == 0 { try await Task.sleep(for: .milliseconds(5)) }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        for number in 0..<3 { #expect(try set.tool.run(shard(number, 3, set)).status == 0) }
        #expect(try join(3, set).status == 0)
        // Of a file that has not changed since the first night, too, it is known who has put it there.
        for number in [1, 51] {
            try FileManager.default.removeItem(atPath: set.scratch.path + "/assets/d\(number / 50)/f\(number)")
        }
        try set.publish()
        for number in 0..<3 { #expect(try set.tool.run(shard(number, 3, set)).status == 0) }
        let joined = try join(3, set, "--prune")
        #expect(joined.status == 0, "\(joined.error)")
        #expect(try differences(set) == "")
    }

    @Test("The entry point for indexed jobs takes its shard from the environment, and its join waits for the others")
    func indexedJob() throws {
        let set = try ServedSet(Self.files(300))
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Examples/kubernetes/shard.sh")
        let path = Tool.url.deletingLastPathComponent().path
        func run(_ arguments: [String], _ more: [String: String] = [:]) throws -> Tool.Outcome {
            let settings = [
                "PATH": "\(path):/usr/bin:/bin", "SHARDS": "3", "DIR": "assets", "OUT": "out",
                "PROJECT": "com.example.tower", "SOURCE": "out/manifest.json", "INTO": "tower",
                "HOOK": "./hook.sh", "JOIN_WAIT": "0",
            ]
            let process = set.tool.process(arguments, environment: settings.merging(more) { $1 })
            process.executableURL = script
            return try set.tool.run(process)
        }
        try set.script("hook.sh", "echo called >> ../calls")
        for what in ["publish", "pull"] {
            for index in [2, 0] { #expect(try run([what], ["JOB_COMPLETION_INDEX": "\(index)"]).status == 0) }
            let early = try run(["join", what])
            #expect(early.status == 75 && early.error.contains("shard 1 of 3"), "\(early.error)")
            #expect(try run([what], ["JOB_COMPLETION_INDEX": "1"]).status == 0)
            let joined = try run(["join", what])
            #expect(joined.status == 0, "\(joined.error)")
        }
        #expect(try differences(set) == "")
        #expect(try set.text("calls") == "called\n")
        #expect(try run([]).status == 64)
        #expect(try run(["pull"]).status != 0, "no index: not an indexed job")
    }

    @Test("Options that make no sense for a piece are refused: 64")
    func usage() throws {
        let set = try ServedSet()
        for options in [
            ["--shard", "4/4"], ["--shard", "x"], ["--shard", "0/2", "--join", "2"], ["--join", "0"],
            ["--shard", "0/2", "--hook", "./x"], ["--shard", "0/2", "--prune"],
            ["--shard", "0/2", "--atomic=exchange"],
            ["--join", "2", "--background"], ["--join", "2", "--dry-run"],
        ] {
            let outcome = try set.tool.run(["pull", set.url, "--into", "tower"] + options)
            #expect(outcome.status == 64, "\(options)")
        }
    }
}
