import CommandTestSupport
import Foundation
import SyncSystem
import Testing

/// Empty directories, modes and times, from one tree to another by the built program.
@Suite("Empty directories, modes and times", .timeLimit(.minutes(10)))
struct PreservingTests {
    private let scratch: Scratch
    private let tool: Tool

    init() throws {
        scratch = try Scratch()
        tool = Tool(scratch)
        try scratch.write(Data("one".utf8), to: "in/docs/a.txt")
        try scratch.write(Data("two".utf8), to: "in/docs/b.txt")
    }

    private func path(_ path: String) -> String { scratch.url.appendingPathComponent(path).path }

    private func makeDirectory(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: true)
    }

    private func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: path(name)) }

    private func found(_ name: String) throws -> FileStatus? { try status(AT_FDCWD, path(name)).get() }

    private func isDirectory(_ name: String) throws -> Bool { try found(name)?.kind == .directory }

    /// Runs a line of shell in the scratch directory.
    private func shell(_ line: String) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-ec", line]
        process.currentDirectoryURL = scratch.url
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "\(line)")
    }

    private func publish(_ arguments: String...) throws {
        let outcome = try tool.run(["publish", "in", "--to", "site", "--project", "p"] + arguments)
        try #require(outcome.status == 0, "\(outcome.error)")
    }

    /// The last line of a pull that ends with a status.
    @discardableResult private func pull(
        _ arguments: String..., into destination: String = "dest", status: Int32 = 0,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> [String: Any] {
        let session = ["--session", destination]
        let outcome = try tool.run(
            ["pull", "site/manifest.json", "--into", destination, "--json"] + session + arguments)
        #expect(outcome.status == status, "\(outcome.error)", sourceLocation: sourceLocation)
        return try #require(try outcome.events().last)
    }

    private func manifest() throws -> String { try String(contentsOfFile: path("site/manifest.json"), encoding: .utf8) }

    private func files(_ last: [String: Any], _ key: String) -> Int? { (last["files"] as? [String: Any])?[key] as? Int }

    private func received(_ last: [String: Any]) -> Int? { (last["bytes"] as? [String: Any])?["received"] as? Int }

    @Test("Who publishes a directory that only its sticky bit protects is told that nobody gets that")
    func sticky() throws {
        try shell("mkdir -m 1777 in/drop; mkdir in/shared; chmod 2775 in/shared")
        let outcome = try tool.run(["publish", "in", "--to", "site", "--project", "p", "--preserve", "modes"])
        #expect(outcome.status == 0)
        #expect(
            outcome.error.contains("warning: the set-id and sticky bits of 1 file or directory are not kept"),
            "\(outcome.error)")
    }

    // MARK: Empty directories

    @Test("Empty directories come, are missed, come back, and go with --prune when they are no longer named")
    func life() throws {
        try makeDirectory("in/logs/deep")
        try makeDirectory("in/docs/new")
        try publish()
        #expect(try manifest().contains("manifest/1\"") && manifest().contains("\"x-directories\""))
        let first = try pull()
        #expect(files(first, "total") == 2)
        #expect((first["directories"] as? [String: Any])?["made"] as? Int == 2)
        try shell("diff -r --exclude=.syncagent in dest")
        #expect(try tool.run(["verify", "site/manifest.json", "--into", "dest"]).status == 0)

        try remove("dest/logs")
        let verified = try tool.run(["verify", "site/manifest.json", "--into", "dest"])
        #expect(verified.status == 2 && verified.output.contains("logs/deep: missing"), "\(verified.output)")
        let plan = try tool.run(["plan", "site/manifest.json", "--into", "dest", "--json"]).objects()
        #expect(plan.last?["directories"] as? Int == 1)
        let again = try pull()
        #expect(try isDirectory("dest/logs/deep") && files(again, "installed") == 0)

        try remove("in/logs")
        try publish()
        try pull()
        #expect(try isDirectory("dest/logs/deep"), "nothing goes without --prune")
        let pruned = try pull("--prune")
        #expect(try found("dest/logs") == nil && isDirectory("dest/docs/new"))
        #expect((pruned["directories"] as? [String: Any])?["removed"] as? Int == 1)
        #expect(files(pruned, "removed") == 0)
    }

    @Test("What a pull has made before it was cut short is ours: a later --prune removes it")
    func cutShort() throws {
        try makeDirectory("in/logs/deep")
        try publish()
        // The index cannot be written: as if the pull had been killed before.
        try makeDirectory("dest/.syncagent/index/taken")
        try pull(status: 74)
        #expect(try isDirectory("dest/logs/deep"))
        try remove("dest/.syncagent/index")
        try remove("in/logs")
        try publish()
        let plan = try tool.run(["plan", "site/manifest.json", "--into", "dest"])
        #expect(plan.status == 0, "\(plan.error)")
        let pruned = try pull("--prune")
        #expect(try found("dest/logs") == nil)
        #expect((pruned["directories"] as? [String: Any])?["removed"] as? Int == 1)
    }

    @Test("Directories are named before they are made and removed, and counted after it")
    func told() throws {
        try makeDirectory("in/logs")
        try publish()
        let first = try tool.run(["pull", "site/manifest.json", "--into", "dest", "--dry-run", "-v"])
        #expect(first.output.contains("new        logs/\n"), "\(first.output)")
        #expect(first.output.contains("folders    1 to make\n"), "\(first.output)")
        let pull = try tool.run(["pull", "site/manifest.json", "--into", "dest"])
        #expect(pull.error.contains("2 installed, 0 unchanged; 1 directory made; "), "\(pull.error)")
        try remove("in/logs")
        try makeDirectory("in/one")
        try makeDirectory("in/two")
        try publish()
        let plan = try tool.run(["plan", "site/manifest.json", "--into", "dest", "-v"])
        #expect(plan.output.contains("obsolete   logs/  (removed with --prune)\n"), "\(plan.output)")
        #expect(plan.output.contains("obsolete   1 directory, removed with --prune"), "\(plan.output)")
        let dry = ["--dry-run", "-v", "--json", "--prune"]
        let events = try tool.run(["pull", "site/manifest.json", "--into", "dest"] + dry).objects()
        let gone = events.first { $0["path"] as? String == "logs" }
        #expect(gone?["action"] as? String == "removed" && gone?["directory"] as? Bool == true)
        #expect(events.last?["prunable_directories"] as? Int == 1)
        let again = try tool.run(["pull", "site/manifest.json", "--into", "dest", "--prune"])
        #expect(again.error.contains("2 unchanged; 2 directories made, 1 removed; "), "\(again.error)")
    }

    @Test("What --prune may not remove stays: a directory with something in it, and one that was there before")
    func kept() throws {
        try makeDirectory("in/logs")
        try makeDirectory("in/own")
        try makeDirectory("dest/own")
        try publish()
        try pull()
        try scratch.write(Data("mine".utf8), to: "dest/logs/mine")
        try remove("in/logs")
        try remove("in/own")
        try publish()
        try pull("--prune")
        #expect(try isDirectory("dest/own") && found("dest/logs/mine") != nil)
        try remove("dest/logs/mine")
        try pull("--prune")
        #expect(try isDirectory("dest/logs"), "it is somebody else's by now")
    }

    @Test("A file takes the place of an empty directory, and the other way round")
    func exchanged() throws {
        try makeDirectory("in/a")
        try scratch.write(Data("b".utf8), to: "in/b")
        try publish()
        try pull()
        try remove("in/a")
        try remove("in/b")
        try scratch.write(Data("a".utf8), to: "in/a")
        try makeDirectory("in/b")
        try publish()
        try pull()
        try shell("diff -r --exclude=.syncagent in dest")
    }

    @Test("A directory that had files and is empty now stays with --prune, and so does one that gets files")
    func filled() throws {
        try makeDirectory("in/later")
        try publish()
        try pull()
        try scratch.write(Data("x".utf8), to: "in/later/x")
        try remove("in/docs/a.txt")
        try remove("in/docs/b.txt")
        try publish()
        try pull("--prune", "--force")
        try shell("diff -r --exclude=.syncagent in dest")
        #expect(try isDirectory("dest/docs"))
        try pull("--prune")
    }

    @Test("A link in the place of a directory is not followed, and told")
    func planted() throws {
        try makeDirectory("in/logs/inner")
        try makeDirectory("outside")
        try publish()
        try makeDirectory("dest")
        try FileManager.default.createSymbolicLink(atPath: path("dest/logs"), withDestinationPath: path("outside"))
        let last = try pull(status: 2)
        #expect(last["result"] as? String == "partial" && files(last, "installed") == 2)
        #expect(try found("outside/inner") == nil)
        let verified = try tool.run(["verify", "site/manifest.json", "--into", "dest"])
        #expect(verified.status == 2 && verified.output.contains("logs/inner: "), "\(verified.output)")
        try remove("dest/logs")
        try pull()
        #expect(try isDirectory("dest/logs/inner"))
        // Later, too: an index that knows the directory does not make it trusted.
        try remove("dest/logs/inner")
        try FileManager.default.createSymbolicLink(
            atPath: path("dest/logs/inner"), withDestinationPath: path("outside"))
        try pull(status: 2)
        try remove("in/logs")
        try publish()
        try pull("--prune")
        #expect(try isDirectory("outside") && found("dest/logs/inner")?.kind == .link)
    }

    @Test("Groups, patterns and exclusions hold for directories; ls, diff and a dry run name them")
    func selected() throws {
        try makeDirectory("in/logs/deep")
        try makeDirectory("in/tmp")
        try makeDirectory("in/docs/new")
        try publish("--exclude", "tmp", "--group", "logs=logs/**")
        #expect(try !manifest().contains("tmp"))
        try pull("--group", "logs", into: "group")
        #expect(try isDirectory("group/logs/deep") && found("group/docs") == nil)
        try pull("--include", "docs", into: "part")
        #expect(try isDirectory("part/docs/new") && found("part/logs") == nil)
        try pull("--include", "logs/deep", into: "one")
        #expect(try isDirectory("one/logs/deep") && found("one/docs") == nil)
        try pull("docs", "logs/deep", into: "both")
        #expect(try isDirectory("both/docs/new") && isDirectory("both/logs/deep"))
        try pull("--exclude", "logs", into: "rest")
        #expect(try isDirectory("rest/docs/new") && found("rest/logs") == nil)
        let list = try tool.run(["ls", "site"]).output
        #expect(list == "3 - docs/a.txt\n3 - docs/b.txt\n0 d docs/new/\n0 d logs/deep/  (logs)\n", "\(list)")
        try shell("cp -r site old")
        try remove("in/logs")
        let dry = try tool.run(["publish", "in", "--to", "site", "--exclude", "tmp", "--dry-run", "-v"])
        #expect(dry.output == "removed  logs/deep/\n" && dry.error.contains("revision 2"), "\(dry)")
        try publish("--exclude", "tmp")
        let difference = try tool.run(["diff", "old", "site"])
        #expect(difference.status == 1 && difference.output == "removed  logs/deep/\n", "\(difference)")
    }

    @Test("Directories of a set in parts come, too; a set without empty ones has today's bytes")
    func parts() throws {
        try publish("--manifest-parts")
        #expect(try !manifest().contains("x-directories") && manifest().contains("\"parts\""))
        try makeDirectory("in/logs")
        try publish("--manifest-parts")
        try pull()
        #expect(try isDirectory("dest/logs"))
        try pull("--prune")
    }

    @Test("When nothing is new, a set with empty directories is not even read")
    func nothingNew() throws {
        try makeDirectory("in/logs")
        try publish()
        try pull()
        let server = try RunningServer(scratch)
        let arguments = ["pull", server.firstLine, "--into", "dest", "--session", "dest", "--json", "--prune"]
        _ = try tool.run(arguments)
        let last = try #require(try tool.run(arguments).events().last)
        #expect(last["requests"] as? Int == 1 && files(last, "unchanged") == 2)
        // What is put into it is no reason to look again.
        try scratch.write(Data("mine".utf8), to: "dest/logs/mine")
        #expect(try tool.run(arguments).events().last?["requests"] as? Int == 1)
        try remove("dest/logs")
        _ = try tool.run(arguments)
        #expect(try isDirectory("dest/logs"))
    }

    // MARK: Modes and times

    private static let odd = """
        mkdir -p in/private in/closed in/empty in/bin; echo s > in/private/key; echo c > in/closed/c
        echo p > in/bin/tool; : > in/nothing; ln -s docs/a.txt in/link; head -c 3000000 /dev/urandom > in/large
        chmod 600 in/private/key; chmod 4755 in/bin/tool; chmod 444 in/docs/a.txt; chmod 660 in/docs/b.txt
        touch -d '2001-02-03 04:05:06.123456789Z' in/docs/a.txt; touch -d '1969-12-31 23:59:58.5Z' in/nothing
        touch -h -d '1999-01-01Z' in/link; touch -d '2090-06-01Z' in/large; touch -d '2011-11-11Z' in/docs in/empty
        chmod 700 in/private; chmod 555 in/closed; chmod 751 in/empty
        touch -d '2012-12-12Z' in/private in/closed in/bin
        """
    private static let list = "find . -mindepth 1 -path ./.syncagent -prune -o -printf '%P %y %m %T@ %l\\n' | sort"

    /// Modes and times of both trees are the same, set-id bits aside.
    private func compare(_ destination: String = "dest") throws {
        try shell(
            "(cd in && \(Self.list)) | sed 's/ f 4755 / f 755 /' > wanted; (cd \(destination) && \(Self.list)) > had")
        try shell("diff wanted had; diff -r --exclude=.syncagent in \(destination)")
    }

    @Test("With --preserve a tree has its times and modes again, under any umask")
    func preserved() throws {
        try shell(Self.odd)
        try publish("--preserve", "times,modes")
        try shell(
            "umask 077; HOME=\(scratch.path) \(Tool.url.path) pull site/manifest.json --into dest --session dest -q")
        try compare()
        let verified = try tool.run(["verify", "site/manifest.json", "--into", "dest", "--json"])
        #expect(verified.status == 0 && !verified.output.contains("notes"), "\(verified.output)")
        let last = try pull("--prune")
        #expect(files(last, "unchanged") == files(last, "total"))
        try shell("chmod -R u+w in dest")
    }

    @Test("Another user's trees are right with the published modes, or with those of shared files")
    func verifiedByOthers() throws {
        try shell("chmod 644 in/docs/a.txt in/docs/b.txt")
        try publish("--preserve", "modes")
        try pull()
        // A first tree: no other one shares its files yet.
        try pull("--atomic")
        try shell("chmod 777 .syncagent-dest; chmod 444 dest/docs/b.txt")
        let arguments = ["verify", "site/manifest.json", "--into", "dest"]
        let verified = try tool.run(arguments)
        #expect(verified.status == 0, "\(verified.output)\(verified.error)")
        try shell("chmod 640 dest/docs/a.txt")
        #expect(try tool.run(arguments).status != 0)
        try shell("chmod 700 .syncagent-dest")
    }

    @Test("A new revision with other modes and times alone brings no bytes, and everything is as it should be")
    func restyled() throws {
        try shell(Self.odd)
        try publish("--preserve", "times,modes")
        try pull()
        try shell(
            "chmod 640 in/docs/a.txt; touch -d '2022-02-02Z' in/large in/docs/b.txt; chmod 711 in/empty; touch -h -d '2000-01-01Z' in/link"
        )
        try publish()
        let last = try pull()
        #expect(files(last, "installed") == 0 && files(last, "reused") == 0, "\(last)")
        #expect(received(last).map { $0 < 10_000 } == true)
        try compare()
        try shell("chmod -R u+w in dest")
    }

    @Test("Times alone, or modes alone; the base's choice stays until --no-preserve")
    func choices() throws {
        try shell(Self.odd)
        try publish("--preserve", "times")
        #expect(try manifest().contains("mtime") && !manifest().contains("\"mode\""))
        try publish("--preserve", "modes")
        #expect(try !manifest().contains("mtime") && manifest().contains("\"mode\":\"600\""))
        #expect(try !manifest().contains("\"mode\":\"4755\""))
        try scratch.write(Data("new".utf8), to: "in/docs/c.txt")
        try publish()
        #expect(try manifest().contains("\"mode\":\"600\""))
        try publish("--no-preserve")
        #expect(try manifest().contains("manifest/1\"") && !manifest().contains("\"mode\""))
        #expect(try tool.run(["publish", "in", "--to", "site", "--preserve", "owners"]).status == 64)
        try shell("chmod -R u+w in")
    }

    @Test("What somebody changes is mended: modes and times without a byte, and verify tells them apart")
    func mended() throws {
        try shell(Self.odd)
        try publish("--preserve", "times,modes")
        try pull()
        try shell("touch dest/docs/b.txt dest/empty")
        let noted = try tool.run(["verify", "site/manifest.json", "--into", "dest"])
        #expect(noted.status == 0 && noted.output.contains("note: docs/b.txt was modified"), "\(noted.output)")
        try shell("chmod 666 dest/private/key; chmod 777 dest/private")
        let verified = try tool.run(["verify", "site/manifest.json", "--into", "dest"])
        #expect(verified.status == 2, "\(verified.output)")
        #expect(verified.output.contains("private/key: has mode 666, not 600"), "\(verified.output)")
        #expect(verified.output.contains("private: has mode 777, not 700"), "\(verified.output)")
        let last = try pull()
        #expect(files(last, "installed") == 0 && received(last) == 0, "\(last)")
        try compare()
        try shell("chmod -R u+w in dest")
    }

    @Test("A file that was changed, with its size and its restored time as before, is found and mended [F111]")
    func forged() throws {
        try shell(Self.odd)
        try publish("--preserve", "times,modes")
        try pull()
        try pull()
        for name in ["docs/b.txt", "large", "nothing"] where name != "nothing" {
            try shell("touch -r dest/\(name) stamp; chmod u+w dest/\(name)")
            try shell("printf 'X' | dd of=dest/\(name) conv=notrunc status=none; touch -r stamp dest/\(name)")
        }
        try shell("chmod 660 dest/docs/b.txt")
        let last = try pull()
        #expect((files(last, "installed") ?? 0) + (files(last, "reused") ?? 0) == 2, "\(last)")
        try compare()
        try shell("chmod -R u+w in dest")
    }

    @Test("An update reaches into a directory that is closed to its owner, and closes it again")
    func closed() throws {
        try shell(Self.odd)
        try publish("--preserve", "modes")
        try pull()
        try shell("chmod u+w in/closed; echo other > in/closed/c; echo new > in/closed/d; chmod 555 in/closed")
        try publish()
        try pull()
        try shell("diff -r --exclude=.syncagent in dest")
        #expect(try found("dest/closed")?.permissions == 0o555)
        try shell("chmod u+w in/closed; rm -r in/closed")
        try publish()
        try pull("--prune")
        #expect(try found("dest/closed") == nil)
        try shell("chmod -R u+w in dest")
    }
}
