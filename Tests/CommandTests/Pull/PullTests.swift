import CommandTestSupport
import Foundation
import Testing

@Suite(.timeLimit(.minutes(10)))
struct PullTests {
    @Test("A pull brings the files; the next one costs one request and no byte [S64]")
    func twice() throws {
        let set = try ServedSet()
        let first = try set.pull("--json")
        #expect(first.status == 0, "\(first.error)")
        #expect(try set.text("tower/a.txt") == "one")
        #expect(try set.text("tower/sheets/b.txt") == "two")

        let second = try set.pull("--json")
        #expect(second.status == 0)
        let last = try #require(try second.events().last)
        #expect(last["event"] as? String == "pull.finished")
        #expect(last["requests"] as? Int == 1)
        #expect((last["bytes"] as? [String: Int])?["received"] == 0)
    }

    @Test("Paths behind the manifest select files and directories as they are named, and nothing else")
    func paths() throws {
        let set = try ServedSet([
            "a[1].txt": Data("one".utf8), "a1.txt": Data("two".utf8), "maps/b": Data("three".utf8),
            "mapsheet": Data("four".utf8),
        ])
        func pull(_ arguments: String...) throws -> Tool.Outcome {
            try set.tool.run(["pull", set.url, "--into", "tower"] + arguments)
        }
        for (path, status, message) in [
            ("nowhere", 64, "no file or directory nowhere"), ("map", 64, "no file or directory map"),
            ("a*.txt", 64, "use --include"), ("/maps", 64, "relative to the destination"),
        ] as [(String, Int32, String)] {
            let refused = try pull(path)
            #expect(refused.status == status && refused.error.contains(message), "\(path): \(refused.error)")
        }
        let pulled = try pull("a[1].txt", "maps")
        #expect(pulled.status == 0, "\(pulled.error)")
        let found = try set.scratch.contents(of: "tower").filter { !$0.hasPrefix(".") }
        #expect(found == ["a[1].txt", "maps", "maps/b"])
        #expect(try pull("maps", "--include", "*1.txt").status == 0)
        #expect(try set.text("tower/a1.txt") == "two")
        #expect(try set.tool.run(["verify", set.url, "--into", "tower", "maps"]).status == 0)
        #expect(try set.tool.run(["verify", set.url, "--into", "tower", "mapsheet"]).status == 2)
    }

    @Test("A name with a colon is a path where its directory is here, and a URL with one slash shows no password")
    func colons() throws {
        let set = try ServedSet(["a": Data("one".utf8)])
        try FileManager.default.createDirectory(atPath: set.scratch.path + "/sets:a", withIntermediateDirectories: true)
        let path = try set.tool.run(["plan", "sets:a/manifest.json", "--into", "tower"])
        #expect(path.status == 66 && !path.error.contains("transport"), "\(path.error)")
        let scheme = try set.tool.run(["plan", "sets:b/manifest.json", "--into", "tower"])
        #expect(scheme.status == 66 && scheme.error.contains("no transport plugin"), "\(scheme.error)")
        let url = try set.tool.run(["plan", "https:/user:secret@example.com/m.json", "--into", "tower"])
        #expect(url.status == 66 && url.error.contains("two slashes") && !url.error.contains("secret"), "\(url.error)")
    }

    @Test("A release in another directory is made of the one before it, which then goes")
    func renamedRelease() throws {
        var numbers = SystemRandomNumberGenerator()
        var data = Data((0..<300_000).map { _ in UInt8.random(in: 0...255, using: &numbers) })
        let set = try ServedSet(["tool-1.2/data.bin": data, "a": Data("a".utf8), "b": Data("b".utf8)])
        #expect(try set.pull().status == 0)
        data[150_000] ^= 1
        try FileManager.default.removeItem(at: set.scratch.url.appendingPathComponent("assets/tool-1.2"))
        try set.scratch.write(data, to: "assets/tool-1.3/data.bin")
        try set.publish()
        let pulled = try set.pull("--prune", "--json")
        #expect(pulled.status == 0, "\(pulled.error)")
        let last = try #require(try pulled.events().last)
        let received = try #require((last["bytes"] as? [String: Int])?["received"])
        #expect(received < 3_000, "manifest and delta, not 300,000 bytes: \(received)")
        #expect(
            try set.scratch.contents(of: "tower").filter { !$0.hasPrefix(".") } == [
                "a", "b", "tool-1.3", "tool-1.3/data.bin",
            ])
        #expect(try Data(contentsOf: set.scratch.url.appendingPathComponent("tower/tool-1.3/data.bin")) == data)
    }

    @Test("--json prints the contract's last line, in its order, and objects with event and time")
    func contract() throws {
        let set = try ServedSet()
        let outcome = try set.pull("--json", "--quiet")
        #expect(outcome.error == "")
        let events = try outcome.events()
        for event in events {
            #expect(event["event"] is String)
            #expect((event["time"] as? String)?.hasSuffix("Z") == true)
        }
        let names = events.compactMap { $0["event"] as? String }
        #expect(names.first == "run.started")
        #expect(names.contains("plan.ready"))
        #expect(names.filter { $0 == "task.installed" }.count == 2)
        #expect(names.contains("group.completed"))
        let last = try #require(outcome.output.split(separator: "\n").last)
        let shape = last.replacing(#/"time":"[^"]*"/#) { _ in "\"time\":T" }.replacing(#/"run":"[^"]*"/#) { _ in
            "\"run\":R"
        }.replacing(#/:\d+/#) { _ in ":N" }
        #expect(
            shape == #"{"event":"pull.finished","time":T,"result":"ok","session":"com.example.tower","run":R,"#
                + #""files":{"total":N,"installed":N,"unchanged":N,"reused":N,"removed":N,"failed":N},"#
                + #""bytes":{"total":N,"received":N,"reused":N},"#
                + #""manifest":{"bytes":N,"parts":N,"parts_fetched":N},"requests":N,"elapsed_ms":N}"#)
    }

    @Test("Without --json, standard output stays empty; --quiet says nothing")
    func quiet() throws {
        let set = try ServedSet()
        let plain = try set.pull()
        #expect(plain.output == "")
        #expect(plain.error.contains("2 files: 2 installed"), "\(plain.error)")
        let quiet = try set.pull("--quiet")
        #expect(quiet.output == "" && quiet.error == "")
    }

    @Test("--dry-run fetches no file and creates nothing")
    func dryRun() throws {
        let set = try ServedSet()
        let outcome = try set.pull("--dry-run")
        #expect(outcome.status == 0)
        #expect(outcome.output.contains("to fetch"))
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/tower"))
    }

    @Test("A hook runs once a pull, told what changed, also when nothing did [S18 S21 S41]")
    func hook() throws {
        let set = try ServedSet()
        try set.script("hook", "env | grep ^SYNCAGENT_ | sort >>../told; cat >../report; pwd >../where")
        #expect(try set.pull("--hook", "./hook").status == 0)
        let told = try set.text("told")
        for line in [
            "SYNCAGENT_ATTEMPT=1", "SYNCAGENT_CHANGED=2", "SYNCAGENT_DESTINATION=\(set.scratch.path)/tower",
            "SYNCAGENT_GROUP=all", "SYNCAGENT_RESULT=ok", "SYNCAGENT_SESSION=com.example.tower",
        ] { #expect(told.contains("\(line)\n"), "\(told)") }
        #expect(told.contains("SYNCAGENT_RUN_ID="))
        #expect(try set.text("where") == "\(set.scratch.path)/tower\n")
        let report = try #require(
            try JSONSerialization.jsonObject(with: Data(set.text("report").utf8)) as? [String: Any])
        #expect((report["entries"] as? [[String: Any]])?.count == 2)
        #expect(report["requests"] as? Int == 2, "the manifest and one span")

        #expect(try set.pull("--hook", "./hook").status == 0)
        let both = try set.text("told")
        #expect(both.contains("SYNCAGENT_CHANGED=0\n"))
        #expect(both.components(separatedBy: "SYNCAGENT_RUN_ID=").count == 3, "two pulls, two calls")
    }

    @Test("A file hook gets the files that changed, so many a call, before the hook; when nothing changed none [S131]")
    func fileHook() throws {
        let set = try ServedSet()
        try set.script(
            "files", "echo $SYNCAGENT_BATCH of $SYNCAGENT_BATCHES >>../told; grep -o '\"path\":\"[^\"]*\"' >>../told")
        try set.script("hook", "echo hook >>../told; cat >/dev/null")
        let hooks = ["--hook", "./hook", "--file-hook", "./files", "--file-hook-batch", "1"]
        let first = "1 of 2\n\"path\":\"a.txt\"\n2 of 2\n\"path\":\"sheets/b.txt\"\nhook\n"
        #expect(try set.tool.run(["pull", set.url, "--into", "tower"] + hooks).status == 0)
        #expect(try set.text("told") == first)
        #expect(try set.tool.run(["pull", set.url, "--into", "tower"] + hooks).status == 0)
        #expect(try set.text("told") == first + "hook\n")
        let list = try set.tool.run(["hooks", "list"]).output.split(separator: "\n").map { $0.split(separator: " ") }
        let batch = try #require(list.first?.firstIndex(of: "BATCH"))
        #expect(list.dropFirst().map { $0[batch] } == ["-", "1", "-", "1"])
    }

    @Test("A failing hook ends a pull with 5, the files being in place", arguments: ["exit 3", "kill -9 $$"])
    func failingHook(body: String) throws {
        let set = try ServedSet()
        try set.script("hook", body)
        let outcome = try set.pull("--hook", "./hook")
        #expect(outcome.status == 5)
        #expect(outcome.error.contains("hook"), "\(outcome.error)")
        #expect(try set.text("tower/a.txt") == "one")
    }

    @Test("A group hook runs for its group only")
    func groupHook() throws {
        let set = try ServedSet()
        try set.script("hook", "echo $SYNCAGENT_GROUP $SYNCAGENT_CHANGED >>../told; cat >/dev/null")
        #expect(try set.pull("--group", "sheets", "--group-hook", "sheets=./hook").status == 0)
        #expect(try set.text("told") == "sheets 1\n")
        #expect(try set.scratch.contents(of: "tower").filter { $0.hasSuffix(".txt") } == ["sheets/b.txt"])
    }

    @Test(
        "A group that the manifest does not have ends with 64, and so does a hook for one",
        arguments: [["--group", "nope"], ["--group-hook", "nope=/bin/true"]])
    func unknownGroup(option: [String]) throws {
        let set = try ServedSet()
        for _ in 0..<2 {
            let outcome = try set.tool.run(["pull", set.url, "--into", "tower"] + option)
            #expect(outcome.status == 64, "\(outcome.error)")
            #expect(outcome.error.contains("nope"), "\(outcome.error)")
            #expect(outcome.error.contains("sheets"), "\(outcome.error)")
            #expect(try set.pull().status == 0)
        }
    }

    @Test("verify names what differs and what is missing, with 2; a pull mends it")
    func verify() throws {
        let set = try ServedSet()
        #expect(try set.pull().status == 0)
        #expect(try set.tool.run(["verify", set.url, "--into", "tower"]).status == 0)
        try set.scratch.write(Data("0ne".utf8), to: "tower/a.txt")
        try FileManager.default.removeItem(atPath: set.scratch.path + "/tower/sheets/b.txt")
        let outcome = try set.tool.run(["verify", set.url, "--into", "tower"])
        #expect(outcome.status == 2)
        #expect(outcome.output.contains("a.txt: differs"), "\(outcome.output)")
        #expect(outcome.output.contains("sheets/b.txt: missing"), "\(outcome.output)")
        #expect(try set.pull().status == 0)
        #expect(try set.tool.run(["verify", set.url, "--into", "tower"]).status == 0)
    }

    @Test("plan explains the requests and creates nothing [S130]")
    func plan() throws {
        let set = try ServedSet()
        let outcome = try set.tool.run(["plan", set.url, "--into", "tower"])
        #expect(outcome.status == 0)
        #expect(outcome.output.contains("requests"), "\(outcome.output)")
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/tower"))
        let json = try #require(try set.tool.run(["plan", set.url, "--into", "tower", "--json"]).events().last)
        #expect(json["event"] as? String == "plan")
    }

    @Test("A pack that lies never becomes a visible file [V42]")
    func wrongBytes() throws {
        let set = try ServedSet()
        let pack = try #require(try set.scratch.contents(of: "site/packs").first)
        let file = set.scratch.url.appendingPathComponent("site/packs/\(pack)")
        var bytes = try Data(contentsOf: file)
        bytes[bytes.startIndex] ^= 1
        try bytes.write(to: file)
        let outcome = try set.pull("--json")
        #expect(outcome.status == 2, "\(outcome.error)")
        #expect(try set.scratch.contents(of: "tower").filter { $0.hasSuffix(".txt") }.count < 2)
        #expect(try outcome.events().last?["result"] as? String != "ok")
    }
}
