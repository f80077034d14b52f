import CommandTestSupport
import Foundation
import Testing

/// What somebody is told who signs, or configures whom to believe: what is wrong, and what to do.
@Suite("What whoever signs is told", .timeLimit(.minutes(5)))
struct SigningAdviceTests {
    @Test(
        "A release that nobody signs after one that was signed is refused; with an option it is published with a warning"
    )
    func unsignedAfterSigned() throws {
        let set = try SignedSet()
        try set.pin()
        let refused = try set.tool.run(["publish", "assets", "--to", "site"])
        #expect(refused.status == 77 && refused.error.contains("--allow-unsigned"), "\(refused.error)")
        let restored = try set.tool.run(["releases", "restore", "site", "1"])
        #expect(restored.status == 77 && restored.error.contains("add --sign, or --signer"), "\(restored.error)")
        #expect(!restored.error.contains("--allow"), "it has no such option: \(restored.error)")
        let planned = try set.tool.run(["publish", "assets", "--to", "site", "--dry-run"])
        #expect(planned.status == 0 && planned.error.contains("would refuse this"), "\(planned.error)")
        let same = try set.tool.run(["publish", "assets", "--to", "site", "--allow-unsigned"])
        #expect(same.status == 0 && !same.error.contains("warning"), "\(same.error)")
        try set.scratch.write(Data("two".utf8), to: "assets/a.txt")
        let other = try set.tool.run(["publish", "assets", "--to", "site", "--allow-unsigned"])
        #expect(other.status == 0)
        #expect(
            other.error.contains(
                "revision 1 was signed, and revision 2 is not: machines that are pinned do not get it; publish again with --sign"
            ), "\(other.error)")
        #expect(try set.pull().status == 0)
        #expect(try set.text("tower/a.txt") == "one")
        // Nobody has signed what is there now; somebody else may have put it there.
        let sign = ["publish", "assets", "--to", "site", "--sign", "keys"]
        let foreign = try set.tool.run(sign)
        #expect(foreign.status == 77)
        #expect(foreign.error.contains("site/manifest.json is not signed again: "), "\(foreign.error)")
        #expect(foreign.error.contains("there is no trust/2.release"), "\(foreign.error)")
        let signed = try set.tool.run(sign + ["--accept-base"])
        #expect(signed.status == 0)
        #expect(signed.error.contains("site/manifest.json was accepted because of --accept-base"), "\(signed.error)")
        // Once is enough, and the option says nothing where it is not needed.
        let again = try set.tool.run(sign + ["--accept-base"])
        #expect(again.status == 0 && !again.error.contains("warning"), "\(again.error)")
        #expect(try set.pull().status == 0)
        #expect(try set.text("tower/a.txt") == "two")
    }

    @Test("A pin of the configuration that cannot be read stops its own project alone, with 78")
    func unreadablePin() throws {
        let set = try SignedSet()
        let path = set.scratch.path + "/gone.root"
        try set.scratch.write(
            Data(#"{"trust": {"pins": {"com.example.tower": "\#(path)"}}}"#.utf8), to: "config/syncagent/config.json")
        let environment = ["XDG_CONFIG_HOME": set.scratch.path + "/config"]
        let refused = try set.pull(environment: environment)
        #expect(refused.status == 78)
        #expect(
            refused.error.contains("trust.pins of the configuration, com.example.tower: cannot open \(path)"),
            "\(refused.error)")
        #expect(!set.exists("tower"))
        #expect(
            try set.tool.run(["publish", "assets", "--to", "bridge", "--project", "com.example.bridge"]).status == 0)
        let other = try set.tool.run(["pull", "bridge/manifest.json", "--into", "bridged"], environment: environment)
        #expect(other.status == 0, "\(other.error)")
        // Once it is pinned, the file may go.
        try set.copy("keys/1.root", to: "gone.root")
        #expect(try set.pull(environment: environment).status == 0)
        try set.remove("gone.root")
        #expect(try set.pull(environment: environment).status == 0)
    }

    @Test(
        "Whoever signs is told that the root ends before what is signed, and whoever pulls who can renew it",
        .enabled(if: FakeTime.library != nil))
    func rootIsOver() throws {
        let set = try SignedSet(["--until", "20d"])
        try set.pin()
        let soon = try set.tool.run(["keys", "refresh", "site", "--sign", "keys", "--until", "40d"])
        #expect(soon.status == 0)
        #expect(soon.error.contains("warning: root 1 expires at "), "\(soon.error)")
        #expect(soon.error.contains("run: syncagent keys rotate"))
        let short = try set.tool.run(["keys", "refresh", "site", "--sign", "keys", "--until", "10d"])
        #expect(short.status == 0 && !short.error.contains("warning"), "\(short.error)")
        let later = FakeTime.environment("+21d")
        let over = try set.tool.run(["keys", "refresh", "site", "--sign", "keys"], environment: later)
        #expect(over.status == 0)
        #expect(over.error.contains("warning: root 1 expired at "), "\(over.error)")
        let pull = try set.pull(environment: later)
        #expect(pull.status == 77)
        #expect(pull.error.contains("root 1 expired at "))
        #expect(pull.error.contains("its publisher has to run 'syncagent keys rotate'"), "\(pull.error)")
        #expect(try set.tool.run(["keys", "rotate", "keys", "--role", "root"], environment: later).status == 0)
        let anew = try set.tool.run(["keys", "refresh", "site", "--sign", "keys"], environment: later)
        #expect(anew.status == 0 && !anew.error.contains("warning"), "\(anew.error)")
        #expect(try set.pull(environment: later).status == 0)
    }

    @Test(
        "Whoever signs while the clock is behind what was signed before is told so",
        .enabled(if: FakeTime.library != nil))
    func clockIsBehind() throws {
        let set = try SignedSet()
        let refresh = ["keys", "refresh", "site", "--sign", "keys"]
        let words = "if the clock is behind, what is signed now expires too early"
        let later = FakeTime.environment("+50d")
        let first = try set.tool.run(refresh, environment: later)
        #expect(first.status == 0 && !first.error.contains("warning"), "\(first.error)")
        let behind = try set.tool.run(refresh, environment: FakeTime.environment("+1d"))
        #expect(behind.status == 0 && behind.error.contains(words), "\(behind.error)")
        let again = try set.tool.run(refresh, environment: later)
        #expect(again.status == 0 && !again.error.contains("warning"), "\(again.error)")
        let rotate = ["keys", "rotate", "keys", "--role", "fresh"]
        let rotated = try set.tool.run(rotate, environment: FakeTime.environment("-1d"))
        #expect(rotated.status == 0 && rotated.error.contains(words), "\(rotated.error)")
    }

    @Test("rotate says where the old key is, publish what to do without one, and a file that is no root is named")
    func keys() throws {
        let set = try SignedSet()
        let rotated = try set.tool.run(["keys", "rotate", "keys", "--role", "release"])
        #expect(rotated.error.contains("new release key, root 2; the old key is kept as keys/release.key.1"))
        let again = try set.tool.run(["keys", "rotate", "keys", "--role", "release"])
        #expect(again.error.contains("kept as keys/release.key.2"), "\(again.error)")
        try set.remove("keys/release.key")
        let publish = try set.tool.run(["publish", "assets", "--to", "site", "--sign", "keys"])
        #expect(publish.status == 77)
        #expect(publish.error.contains("if it is lost: syncagent keys rotate keys --role release"), "\(publish.error)")
        let lost = try set.tool.run(["keys", "rotate", "keys", "--role", "release"])
        #expect(lost.status == 0)
        #expect(lost.error.contains("root 4\n") && !lost.error.contains("kept"), "\(lost.error)")
        let pull = try set.pull("--trust", "assets/a.txt")
        #expect(pull.status == 77)
        #expect(pull.error.contains("a.txt: not a root that can be trusted: "), "\(pull.error)")
    }

    @Test(
        "A schedule keeps the root it was added with: when the pin is lost, nothing is installed that others or nobody signed",
        arguments: ["first", "keys/1.root"])
    func scheduledTrust(anchor: String) throws {
        let set = try SignedSet()
        defer { _ = try? set.tool.run(["agent", "stop"]) }
        let shown = try set.tool.run(["keys", "show", "keys/1.root", "--json"]).objects().first
        let root = "SHA256:\(try #require(shown?["sha256"] as? String))"
        let added = try set.tool.run([
            "schedule", "add", set.url, "--into", "tower", "--nightly", "02:00", "--backend", "agent", "--interactive",
            "--trust", anchor,
        ])
        #expect(added.status == 0, "\(added.error)")
        #expect(try set.tool.run(["schedule", "show", "tower"]).output.contains(root))

        // Somebody else's machine knows nothing of these keys.
        let elsewhere = ["HOME": set.scratch.path + "/elsewhere"]
        try set.scratch.write(Data(), to: "elsewhere/.keep")
        try set.keys("new", "thief", "--project", "com.example.tower")
        let named = ["publish", "assets", "--project", "com.example.tower", "--to"]
        for arguments in [named + ["foreign", "--sign", "thief"], named + ["unsigned"]] {
            let published = try set.tool.run(arguments, environment: elsewhere)
            #expect(published.status == 0, "\(published.error)")
        }
        // The server keeps its directory open: what is in it changes.
        func serve(_ directory: String) throws {
            func names(_ path: String) throws -> [String] {
                try FileManager.default.contentsOfDirectory(atPath: "\(set.scratch.path)/\(path)")
            }
            for name in try names("site") { try set.remove("site/\(name)") }
            for name in try names(directory) { try set.copy("\(directory)/\(name)", to: "site/\(name)") }
        }
        try set.copy("site", to: "right")
        #expect(try set.tool.run(["trust", "forget", "com.example.tower"]).status == 0)
        for wrong in ["foreign", "unsigned"] {
            try serve(wrong)
            let refused = try set.tool.run(["schedule", "run", "tower", "--now"])
            #expect(refused.status == 77, "\(refused.error)")
            #expect(!set.exists("tower/a.txt"))
        }
        try serve("right")
        let run = try set.tool.run(["schedule", "run", "tower", "--now"])
        #expect(run.status == 0, "\(run.error)")
        #expect(try set.text("tower/a.txt") == "one")
        #expect(try set.numbers().first == 1, "and it is pinned again")
    }

    @Test("A schedule that is not set up pins nobody; one that is does [S132]")
    func scheduling() throws {
        let set = try SignedSet()
        func unpinned() throws -> Bool { try set.tool.run(["trust", "list"]).error.contains("No project is pinned") }
        let add = ["schedule", "add", set.url, "--into", "tower", "--nightly", "02:00", "--backend", "agent"]
        let dry = try set.tool.run(add + ["--trust", "keys/1.root", "--dry-run"])
        #expect(dry.status == 0, "\(dry.error)")
        #expect(try unpinned())
        func file(_ more: String) throws {
            let schedule = """
                {"name": "tower", "manifest": "\(set.url)", "into": "\(set.scratch.path)/tower", \
                "nightly": "02:00", "backend": "agent", "paused": true, "trust": "\(set.scratch.path)/keys/1.root"}
                """
            let text = #"{"format": "syncagent-schedules/1", "schedules": [\#(schedule)\#(more)]}"#
            try set.scratch.write(Data(text.utf8), to: "schedules.json")
        }
        try file(#", {"name": "other", "manifest": "https://a.example/", "into": "/b", "nightly": "25:00"}"#)
        #expect(try set.tool.run(["schedule", "apply", "schedules.json"]).status == 65)
        #expect(try unpinned())
        try file("")
        let wish = try set.tool.run(["schedule", "apply", "schedules.json", "--dry-run"])
        #expect(wish.status == 0 && wish.output.contains("would be added"), "\(wish.output)\(wish.error)")
        #expect(try unpinned())
        let applied = try set.tool.run(["schedule", "apply", "schedules.json"])
        #expect(applied.status == 0, "\(applied.error)")
        #expect(try set.numbers().first == 1)
    }
}
