import CommandTestSupport
import Foundation
import Testing

@Suite(.timeLimit(.minutes(10)))
struct PublishTests {
    /// A directory with a few files, a link and a program.
    static func source(in scratch: Scratch) throws {
        for index in 0..<30 {
            try scratch.write(Data(repeating: UInt8(index), count: 100 * index), to: "in/sheets/A-\(index).pdf")
        }
        try scratch.write(Data("#!/bin/sh\n".utf8), to: "in/bin/run")
        chmod(scratch.path + "/in/bin/run", 0o755)
        symlink("A-1.pdf", scratch.path + "/in/sheets/latest.pdf")
    }

    static func files(_ scratch: Scratch, below directory: String) throws -> [String: Data] {
        var found: [String: Data] = [:]
        for path in try scratch.contents(of: directory) {
            // Directories cannot be read and are left out.
            if let data = try? Data(contentsOf: scratch.url.appendingPathComponent("\(directory)/\(path)")) {
                found[path] = data
            }
        }
        return found
    }

    @Test("publish says what it did: for people on standard error, as JSON on standard output")
    func reports() throws {
        let scratch = try Scratch()
        try Self.source(in: scratch)
        let people = try Tool(scratch).run(["publish", "in", "--to", "out", "--project", "com.example.tower"])
        #expect(people.status == 0)
        #expect(people.output == "")
        #expect(people.error.hasPrefix("com.example.tower revision 1: 31 files, 1 link, "), "\(people.error)")

        let stamps = try scratch.contents(of: ".local/state/syncagent/publish")
        #expect(stamps.count == 1 && stamps[0].hasSuffix(".stamps"), "kept outside of what is served")

        let machine = try Tool(scratch).run(["publish", "in", "--to", "out", "--json", "--quiet"])
        #expect(machine.error == "")
        let last = try #require(try machine.events().last)
        #expect(last["event"] as? String == "publish.finished")
        #expect(last["result"] as? String == "ok")
        #expect(last["unchanged"] as? Bool == true)
        #expect(last["files"] as? Int == 31)
        #expect((last["packs"] as? [String: Int])?["reused"] == 1)
    }

    @Test("A disk that is full when the default channel moves changes neither form of the manifest, and leaves nothing")
    func fullAtMove() throws {
        let scratch = try Scratch()
        // The text has 300 KiB, and its frame a hundredth of that.
        for number in 0..<2_000 { try scratch.write(Data(), to: "in/a-name-that-takes-some-room-\(number)") }
        let publish = ["publish", "in", "--to", "out", "--project", "com.example.tower", "--channel"]
        #expect(try Tool(scratch).run(publish + ["default"]).status == 0)
        try scratch.write(Data("new".utf8), to: "in/new")
        #expect(try Tool(scratch).run(publish + ["beta"]).status == 0)
        func manifests() throws -> [String: Data] {
            try Self.files(scratch, below: "out").filter { !$0.key.contains("/") }
        }
        let before = try manifests()
        #expect(Set(before.keys) == ["manifest.json", "manifest.json.zst"])
        let move = Tool(scratch).process(["channel", "set", "out", "default", "beta"])
        let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\""
        move.arguments = ["-c", script, Tool.url.path] + (move.arguments ?? [])
        move.executableURL = URL(fileURLWithPath: "/bin/sh")
        let full = try Tool(scratch).run(move)
        #expect(full.status == 74, "\(full.error)")
        #expect(full.error.contains("cannot write out/manifest.json: File too large"), "\(full.error)")
        #expect(try manifests() == before)
        let moved = try Tool(scratch).run(["channel", "set", "out", "default", "beta"])
        #expect(moved.status == 0, "\(moved.error)")
        #expect(try manifests()["manifest.json"] != before["manifest.json"])
    }

    @Test("SOURCE_DATE_EPOCH fixes the time, so that equal input gives equal output anywhere")
    func reproducible() throws {
        let scratch = try Scratch()
        try Self.source(in: scratch)
        let epoch = ["SOURCE_DATE_EPOCH": "1795140000"]
        try scratch.write(Data("x".utf8), to: "any/a.txt")
        for wrong in ["today", "-1", "253402300800"] {
            let refused = try Tool(scratch).run(
                ["publish", "any", "--to", "none"], environment: ["SOURCE_DATE_EPOCH": wrong])
            #expect(refused.status == 64 && refused.error.contains("SOURCE_DATE_EPOCH"), "\(refused.error)")
        }
        for (output, jobs) in [("a", "1"), ("b", "5")] {
            let arguments = ["publish", "in", "--to", output, "--jobs", jobs, "--group", "sheets=sheets/**"]
            #expect(try Tool(scratch).run(arguments, environment: epoch).status == 0)
        }
        let first = try Self.files(scratch, below: "a")
        #expect(first == (try Self.files(scratch, below: "b")))
        let text = String(decoding: first["manifest.json"] ?? Data(), as: UTF8.self)
        #expect(text.contains("\"created\":\"2026-11-20T02:00:00.000Z\""))
        #expect(text.contains("{\"name\":\"sheets\",\"include\":[\"sheets/**\"]}"))
    }

    @Test("A set gets another name with --rename; where the old one was pulled, files are hashed and not fetched again")
    func renamed() throws {
        let set = try ServedSet()
        #expect(try set.pull().status == 0)
        let arguments = ["publish", "assets", "--to", "site", "--project", "com.example.spire"]
        let refused = try set.tool.run(arguments)
        #expect(refused.status == 64 && refused.error.contains("--rename"), "\(refused.error)")
        let outcome = try set.tool.run(arguments + ["--rename"])
        #expect(outcome.status == 0 && outcome.error.contains("com.example.spire revision 2: "), "\(outcome.error)")
        #expect(outcome.error.contains("from now on, and no longer com.example.tower"), "\(outcome.error)")
        let former = try set.pull()
        #expect(former.status == 73 && former.error.contains("tower/.syncagent"), "\(former.error)")
        try FileManager.default.removeItem(atPath: set.scratch.path + "/tower/.syncagent")
        let pulled = try set.pull("--json")
        #expect(pulled.status == 0, "\(pulled.error)")
        let last = try #require(try pulled.events().last)
        #expect((last["bytes"] as? [String: Int])?["received"] == 0, "\(last)")
        let sessions = try set.tool.run(["status", "--json"])
        for name in ["com.example.tower", "com.example.spire"] { #expect(sessions.output.contains(name)) }
    }

    static let failing: [(arguments: [String], status: Int32, words: String)] = [
        (["none", "--to", "out"], 66, "none"), (["in"], 64, "--to"),
        (["in", "--to", "in/out"], 64, "inside the source"), (["in", "--to", "file/out"], 73, "cannot create"),
        (["in", "--to", "out", "--base", "none.json"], 66, "none.json"),
        (["in", "--to", "out", "--base", "in/sheets/A-1.pdf"], 65, "A-1.pdf"),
        (["in", "--to", "out", "--base", "x", "--no-base"], 64, "--no-base"),
        (["in", "--to", "out", "--no-base", "--repack"], 64, "--repack"),
        (["in", "--to", "out", "--level", "20"], 64, "1 to 19"),
        (["in", "--to", "out", "--jobs", "0"], 64, "1 to 256"), (["in", "--to", "out", "--pack-size", "0"], 64, "'0'"),
        (["in", "--to", "out", "--revision", "-1"], 64, "revision"),
        (["in", "--to", "out", "--project", "a b"], 64, "identifier"),
        (["in", "--to", "out", "--group", "sheets"], 64, "NAME="),
        (["in", "--to", "out", "--group", "all=**"], 64, "all"),
        (["in", "--to", "out", "--group", "g=**", "--group-hook", "g=a/b"], 64, "identifier"),
        (["in", "--to", "out", "--group", "g=**", "--group-hook", "h=x"], 64, "the group 'h'"),
        (["in", "--to", "out", "--exclude", "/x"], 64, "matches no path"),
        (["in", "--to", "https://cdn.example.com/x?token=secret"], 64, "not 'https://cdn.example.com/x?…'"),
        (["in", "--to", "ftp://host/x"], 64, "of this machine"),
        (["in", "--to", "ada@cdn.example.com:tower"], 64, "not 'cdn.example.com:tower'"),
        (["in", "--to", "host:"], 64, "begin with ./"), (["empty", "--to", "out"], 77, "--allow-fewer"),
        (["keyed", "--to", "out"], 77, "  id_rsa"), (["linked", "--to", "out"], 78, "--no-config"),
        (["listed", "--to", "out"], 78, "exclude_from[0]"),
    ]

    @Test("publish ends with the status of what is wrong, and writes no manifest", arguments: failing)
    func failures(arguments: [String], status: Int32, words: String) throws {
        let scratch = try Scratch()
        try Self.source(in: scratch)
        try scratch.write(Data(), to: "file")
        try FileManager.default.createDirectory(atPath: scratch.path + "/empty", withIntermediateDirectories: true)
        try scratch.write(Data("-----BEGIN RSA PRIVATE KEY-----\n".utf8), to: "keyed/id_rsa")
        try scratch.write(Data("{level: 9}".utf8), to: "settings")
        try scratch.write(Data(), to: "linked/a")
        symlink("../settings", scratch.path + "/linked/publish.json")
        try scratch.write(Data("{exclude_from: ['../settings']}".utf8), to: "listed/publish.json")
        let outcome = try Tool(scratch).run(["publish"] + arguments)
        #expect(outcome.status == status, "\(outcome.error)")
        #expect(outcome.error.contains(words), "\(outcome.error)")
        #expect(try !scratch.contents(of: ".").contains { $0.hasSuffix("manifest.json") })
    }

    @Test(
        "publish --json ends with a line of JSON, however early it fails",
        arguments: [
            (["none", "--to", "out"], 66, "publish.finished", "none"),
            (["none", "--to", "out", "--dry-run"], 66, "publish.planned", "none"),
            (["in", "--to", "out", "--level", "20"], 64, "publish.finished", "1 to 19"),
            (["in", "--to", ""], 64, "publish.finished", "empty string"),
            (["in", "--to", "out", "--wrong"], 64, "publish.finished", "--wrong"),
        ])
    func jsonErrors(arguments: [String], status: Int, event: String, words: String) throws {
        let scratch = try Scratch()
        try Self.source(in: scratch)
        let outcome = try Tool(scratch).run(["publish"] + arguments + ["--json"])
        #expect(outcome.status == Int32(status))
        let last = try #require(try outcome.events().last)
        #expect(last["event"] as? String == event && last["result"] as? String == "failed")
        let error = try #require(last["error"] as? [String: Any])
        #expect(error["status"] as? Int == status)
        #expect((error["message"] as? String)?.contains(words) == true, "\(error)")
    }

    /// Root reads everything, unless it gives that privilege away: setpriv(1), capabilities(7).
    @Test("A file that cannot be read is named: exit 74, and no manifest")
    func unreadable() throws {
        let scratch = try Scratch()
        try Self.source(in: scratch)
        chmod(scratch.path + "/in/sheets/A-3.pdf", 0)
        let arguments = ["publish", "in", "--to", "out"]
        let process = Tool(scratch).process(arguments)
        if geteuid() == 0 {
            process.executableURL = URL(fileURLWithPath: "/usr/bin/setpriv")
            process.arguments = ["--bounding-set=-dac_override,-dac_read_search", Tool.url.path] + arguments
        }
        let error = try scratch.file()
        process.standardError = try FileHandle(forWritingTo: error)
        try process.run()
        process.waitUntilExit()
        let said = try String(contentsOf: error, encoding: .utf8)
        #expect(process.terminationStatus == 74, "\(said)")
        #expect(said.contains("sheets/A-3.pdf"), "\(said)")
        #expect(try !scratch.contents(of: ".").contains { $0.hasSuffix("manifest.json") })
    }

    @Test("What cannot be published is named, and --exclude and --safe-links leave it out: exit 65, then 0")
    func refusals() throws {
        let scratch = try Scratch()
        try Self.source(in: scratch)
        symlink("/etc/passwd", scratch.path + "/in/out.txt")
        mkfifo(scratch.path + "/in/pipe", 0o600)
        let refused = try Tool(scratch).run(["publish", "in", "--to", "out"])
        #expect(refused.status == 65)
        #expect(refused.error.contains("  out.txt: ") && refused.error.contains("  pipe: a fifo"), "\(refused.error)")
        #expect(refused.error.contains("leave them out: --safe-links for links"), "\(refused.error)")
        let noLinks = try Tool(scratch).run(["publish", "in", "--to", "out", "--safe-links"])
        #expect(noLinks.error.contains("leave them out: --exclude"), "\(noLinks.error)")
        let published = try Tool(scratch).run(["publish", "in", "--to", "out", "--exclude", "pipe", "--safe-links"])
        #expect(published.status == 0, "\(published.error)")
        #expect(published.error.contains("1 link that leaves the tree is left out"))
    }

    @Test("Killed in the middle: no manifest; the next run clears up and completes", arguments: [SIGKILL, SIGINT])
    func killed(signal: Int32) throws {
        let scratch = try Scratch()
        try Self.source(in: scratch)
        // Enough for the slowest level to be at it when the signal comes.
        var state: UInt32 = 1
        let words = (0..<2_000_000).map { _ -> UInt16 in
            state = state &* 1_664_525 &+ 1_013_904_223
            return UInt16(truncatingIfNeeded: (state >> 20) & 0x3FF)
        }
        try scratch.write(words.withUnsafeBytes { Data($0) }, to: "in/models/site.ifc")
        try scratch.write(Data(count: 0), to: "log")
        let process = Tool(scratch).process(["publish", "in", "--to", "out", "--level", "19", "--jobs", "1"])
        process.standardError = try FileHandle(forWritingTo: scratch.url.appendingPathComponent("log"))
        try process.run()
        while process.isRunning {
            if (try? scratch.contents(of: "out/packs"))?.isEmpty == false { break }
            usleep(1_000)
        }
        kill(process.processIdentifier, signal)
        process.waitUntilExit()
        let left = try scratch.contents(of: "out")
        #expect(!left.contains("manifest.json"))
        if signal == SIGINT {
            #expect(process.terminationStatus == 130)
            #expect(left == ["manifests", "packs"])
        }
        #expect(try Tool(scratch).run(["publish", "in", "--to", "out"]).status == 0)
        #expect(try Tool(scratch).run(["publish", "in", "--to", "fresh"]).status == 0)
        let names = try scratch.contents(of: "out")
        // A release's manifest has the name of its digest, and says when it was made.
        func known(_ names: [String]) -> [String] { names.map { $0.hasPrefix("manifests/") ? "manifests/*" : $0 } }
        #expect(known(names) == known(try scratch.contents(of: "fresh")))
        #expect(names.contains("manifest.json") && !names.contains { $0.contains(".publish") })
    }
}
