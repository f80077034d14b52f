import CommandTestSupport
import Foundation
import Testing

/// `ls`, `diff` and `cat` on the built program.
@Suite(.timeLimit(.minutes(10)))
struct ReadingCommandTests {
    @Test("ls lists what the manifest has, by path, with groups; a group alone; as JSON; and keeps nothing")
    func list() throws {
        let set = try ServedSet()
        let all = try set.tool.run(["ls", set.url])
        #expect(all.status == 0, "\(all.error)")
        #expect(all.output == "3 - a.txt\n3 - sheets/b.txt  (sheets)\n")
        #expect(try set.tool.run(["ls", "site", "--group", "sheets"]).output == "3 - sheets/b.txt  (sheets)\n")
        #expect(try set.tool.run(["ls", "site/manifest.json.zst", "--group", "none"]).status == 64)
        let objects = try set.tool.run(["ls", set.url, "--json"]).objects()
        #expect(objects.map { $0["path"] as? String } == ["a.txt", "sheets/b.txt"])
        #expect(objects.last?["groups"] as? [String] == ["sheets"] && objects.first?["size"] as? Int == 3)
        #expect(try set.tool.run(["ls", "none.json"]).status == 66)
        let state = try set.scratch.contents(of: ".local/state/syncagent").filter { !$0.hasPrefix("publish") }
        #expect(state == [])
    }

    @Test("ls lists one file, or what is below a directory; a path that nothing has ends with 66 and a hint")
    func listBelow() throws {
        let set = try ServedSet()
        for path in ["sheets", "sheets/", "./sheets", "sheets/b.txt"] {
            #expect(try set.tool.run(["ls", set.url, path]).output == "3 - sheets/b.txt  (sheets)\n", "\(path)")
        }
        let both = "3 - a.txt\n3 - sheets/b.txt  (sheets)\n"
        #expect(try set.tool.run(["ls", "site", "sheets", "a.txt"]).output == both)
        #expect(try set.tool.run(["ls", "site", "."]).output == both)
        let none = try set.tool.run(["ls", set.url, "a.txt", "sheets/c.txt"])
        #expect(none.status == 66 && none.output == "")
        #expect(none.error.contains("has no file sheets/c.txt; did you mean sheets/b.txt?"), "\(none.error)")
    }

    @Test("channel list shows the same of a URL as of the directory behind it")
    func channels() throws {
        let set = try ServedSet()
        try set.scratch.write(Data("beta".utf8), to: "assets/beta.txt")
        let beta = try set.tool.run(["publish", "assets", "--to", "site", "--channel", "beta"])
        #expect(beta.status == 0, "\(beta.error)")
        let here = try set.tool.run(["channel", "list", "site"])
        #expect(here.output.contains("default      1\n") && here.output.contains("beta         2\n"), "\(here)")
        for url in [set.url, set.url.replacing("/manifest.json", with: "/")] {
            let there = try set.tool.run(["channel", "list", url])
            #expect(there.status == 0 && there.output == here.output, "\(there)")
        }
        let objects = try set.tool.run(["channel", "list", set.url, "--json"]).objects()
        #expect(objects.map { $0["channel"] as? String } == ["default", "beta"])
        #expect(objects.map { $0["revision"] as? Int } == [1, 2])
        // Of a set that has nothing but channels.
        for name in ["manifest.json", "manifest.json.zst"] {
            try FileManager.default.removeItem(atPath: set.scratch.path + "/site/\(name)")
        }
        let only = try set.tool.run(["channel", "list", set.url])
        #expect(only.status == 0 && only.output == "beta         2\n", "\(only)")
        #expect(try set.tool.run(["ls", set.url]).status == 66)
        // Where nothing is published there are none.
        let none = try set.tool.run(["channel", "list", "assets"])
        #expect(none.status == 66 && none.error.contains("has no channels"), "\(none)")
    }

    @Test("diff ends with 0 for the same files and 1 for others, and says what an update fetches")
    func difference() throws {
        let set = try ServedSet()
        let same = try set.tool.run(["diff", "site", set.url])
        #expect(same.status == 0 && same.output == "" && same.error == "The same 2 files.\n", "\(same.error)")
        try FileManager.default.copyItem(
            at: set.scratch.url.appendingPathComponent("site"), to: set.scratch.url.appendingPathComponent("old"))
        try set.scratch.write(Data("other".utf8), to: "assets/a.txt")
        try set.scratch.write(Data("new".utf8), to: "assets/c.txt")
        try set.publish()
        let other = try set.tool.run(["diff", "old", set.url])
        #expect(other.status == 1)
        #expect(other.output == "changed  a.txt  (5 B)\nadded    c.txt  (3 B)\n", "\(other.output)")
        #expect(other.error == "1 added, 1 changed, 0 renamed, 0 removed, 1 unchanged; 8 B to fetch\n")
        let last = try #require(try set.tool.run(["diff", "old", set.url, "--json"]).objects().last)
        #expect(last["fetch"] as? Int == 8 && last["different"] as? Bool == true)
        #expect(try set.tool.run(["diff", "none", set.url]).status == 66)
    }

    @Test("diff says what of a file changed where nothing is to be fetched for it")
    func aspects() throws {
        let set = try ServedSet()
        try FileManager.default.copyItem(
            at: set.scratch.url.appendingPathComponent("site"), to: set.scratch.url.appendingPathComponent("old"))
        let file = set.scratch.url.appendingPathComponent("assets/a.txt")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
        try set.scratch.write(Data("one".utf8), to: "assets/sheets/b.txt")
        try set.publish()
        let other = try set.tool.run(["diff", "old", "site"])
        #expect(other.output == "changed  a.txt  (mode)\nchanged  sheets/b.txt  (content)\n", "\(other.output)")
        let first = try #require(try set.tool.run(["diff", "old", "site", "--json"]).objects().first)
        #expect(first["what"] as? [String] == ["mode"] && first["fetch"] as? Int == 0)
    }

    @Test(
        "What a full disk cuts short on standard output ends with 74",
        arguments: ["ls site", "ls site --json", "diff none.json site", "completion bash", "--help"])
    func full(
        words: String
    ) throws {
        let set = try ServedSet()
        try set.scratch.write(
            Data(#"{"format":"syncagent-manifest/1","project":"none","files":[]}"#.utf8), to: "none.json")
        let process = set.tool.process(words.split(separator: " ").map(String.init))
        process.standardOutput = FileHandle(forWritingAtPath: "/dev/full")
        let errors = Pipe()
        process.standardError = errors
        try process.run()
        let said = String(decoding: try errors.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 74, "\(said)")
        #expect(said.hasSuffix("cannot write to standard output: No space left on device\n"), "\(said)")
    }

    @Test("Closed standard descriptors are nobody else's: the work is done, and data that went nowhere ends with 74")
    func closed() throws {
        let set = try ServedSet()
        let process = set.tool.process([])
        let said = try set.scratch.file()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.standardError = try FileHandle(forWritingTo: said)
        let steps = ["publish assets --to again --json", "pull again --into copy --json", "ls again"]
        let lost = steps.map { step in
            ["<&- >&-", "<&- >&- 2>&-"].map { "\"$0\" \(step) \($0); [ $? = 74 ] || exit 1" }.joined(separator: "\n")
        }
        // These have nothing to say there.
        let silent = ["publish assets --to quiet", "pull quiet --into copy2"].map {
            "\"$0\" \($0) <&- >&- 2>&- || exit 2"
        }
        process.arguments = ["-c", (lost + silent).joined(separator: "\n"), Tool.url.path]
        try process.run()
        process.waitUntilExit()
        let errors = try String(contentsOf: said, encoding: .utf8)
        #expect(process.terminationStatus == 0, "\(errors)")
        let words = "cannot write to standard output: Bad file descriptor\n"
        #expect(errors.components(separatedBy: words).count == steps.count + 1, "\(errors)")
        for place in ["copy", "copy2"] {
            let copied = try set.scratch.contents(of: place).filter { !$0.hasPrefix(".syncagent") }
            #expect(copied == ["a.txt", "sheets", "sheets/b.txt"])
        }
    }

    @Test("A listing whose reader has had enough is no failure")
    func left() throws {
        let set = try ServedSet()
        let process = set.tool.process(["ls", "site"])
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try output.fileHandleForReading.close()
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
    }

    @Test("cat writes one file, byte for byte; a path that is not there is 66 with the nearest")
    func one() throws {
        let set = try ServedSet()
        #expect(try set.tool.run(["cat", set.url, "sheets/b.txt"]).output == "two")
        #expect(try set.tool.run(["cat", "site/manifest.json", "a.txt"]).output == "one")
        let near = try set.tool.run(["cat", set.url, "sheet/B.txt"])
        #expect(near.status == 66 && near.error.contains("did you mean sheets/b.txt?"), "\(near.error)")
        let mistyped = try set.tool.run(["cat", set.url, "sheets/bb.txt"])
        #expect(mistyped.status == 66 && mistyped.error.contains("did you mean sheets/b.txt?"), "\(mistyped.error)")
        let directory = try set.tool.run(["cat", set.url, "sheets"])
        #expect(directory.status == 66 && directory.error.contains("is a directory"), "\(directory.error)")
        #expect(try set.tool.run(["cat", set.url, ""]).status == 64)
    }

    @Test("Damaged bytes are 65, and none of them is written")
    func damaged() throws {
        let set = try ServedSet()
        let pack = try #require(try set.scratch.contents(of: "site/packs").first)
        let path = set.scratch.url.appendingPathComponent("site/packs/\(pack)")
        try Data(repeating: 0x2E, count: try Data(contentsOf: path).count).write(to: path)
        let outcome = try set.tool.run(["cat", "site", "a.txt"])
        #expect(outcome.status == 65 && outcome.output == "", "\(outcome.error)")
    }

    @Test("What is pinned has to be signed for them, too")
    func trust() throws {
        let set = try SignedSet()
        try set.pin()
        #expect(try set.tool.run(["cat", set.url, "a.txt"]).output == "one")
        try set.remove("site/trust")
        for arguments in [["ls", set.url], ["diff", set.url, set.url], ["cat", set.url, "a.txt"]] {
            let outcome = try set.tool.run(arguments)
            #expect(outcome.status == 77 && outcome.output == "", "\(outcome.error)")
        }
    }
}
