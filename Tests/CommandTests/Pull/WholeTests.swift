import CommandTestSupport
import Foundation
import Testing

/// A set in several revisions, pulled into `tower` as a whole.
private struct WholeSet {
    let set: ServedSet
    let layout: String

    init(_ layout: String = "exchange") throws {
        self.layout = layout
        set = try ServedSet(Self.files(1))
    }

    static func files(_ number: Int) -> [String: Data] {
        ["same.txt": Data("same".utf8), "which.txt": Data("\(number)".utf8), "of/\(number).txt": Data("here".utf8)]
    }

    func publish(_ number: Int) throws {
        try FileManager.default.removeItem(atPath: set.scratch.path + "/assets")
        for (path, data) in Self.files(number) { try set.scratch.write(data, to: "assets/\(path)") }
        try set.publish()
    }

    func pull(_ arguments: String...) throws -> Tool.Outcome {
        try set.tool.run(
            ["pull", set.url, "--into", "tower", "--atomic=\(layout)", "--keep-for", "0", "--json"] + arguments)
    }

    func run(_ arguments: String...) throws -> Tool.Outcome { try set.tool.run(arguments) }

    /// Of the directory that readers see.
    var inode: Int {
        get throws {
            let found = try FileManager.default.attributesOfItem(atPath: set.scratch.path + "/tower")
            return try #require(found[.systemFileNumber] as? Int)
        }
    }

    /// What readers see: exactly the files of one revision.
    func shows(_ number: Int, _ location: SourceLocation = #_sourceLocation) throws {
        let wanted = Self.files(number)
        let isLinks = layout == "links"
        var place = "tower"
        if isLinks {
            place += "/.syncagent"
            place +=
                "/" + (try FileManager.default.destinationOfSymbolicLink(atPath: "\(set.scratch.path)/\(place)/now"))
        }
        let found = try set.scratch.contents(of: place).filter { $0 != "of" }
        #expect(found == wanted.keys.sorted(), sourceLocation: location)
        if isLinks {
            let names = try FileManager.default.contentsOfDirectory(atPath: set.scratch.path + "/tower").sorted()
            #expect(names == [".syncagent", "of", "same.txt", "which.txt"], sourceLocation: location)
        }
        for (path, data) in wanted {
            #expect(try Data(set.text("tower/\(path)").utf8) == data, "\(path)", sourceLocation: location)
        }
    }
}

@Suite("Sets that change as a whole", .timeLimit(.minutes(10)))
struct WholeTests {
    @Test("Who has edited a file that is no longer listed is told of it, also where an older tree has it as it was")
    func editedAndDropped() throws {
        let whole = try WholeSet()
        #expect(try whole.pull().status == 0)
        try whole.publish(2)
        #expect(try whole.pull().status == 0)
        let path = whole.set.scratch.path + "/tower/same.txt"
        try FileManager.default.removeItem(atPath: path)
        try Data("mine".utf8).write(to: URL(fileURLWithPath: path))
        try FileManager.default.removeItem(atPath: whole.set.scratch.path + "/assets")
        for (path, data) in WholeSet.files(3) where path != "same.txt" {
            try whole.set.scratch.write(data, to: "assets/\(path)")
        }
        try whole.set.publish()
        let outcome = try whole.run("pull", whole.set.url, "--into", "tower", "--atomic", "--keep-for", "0")
        #expect(outcome.status == 0 && outcome.error.contains("same.txt, which was edited here"), "\(outcome.error)")
        #expect(try whole.set.scratch.contents(of: ".syncagent-tower/rev").contains { $0.hasSuffix("same.txt") })
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test("A shell that is in a former revision by now cannot pull into it; no command takes it for a destination")
    func formerRevision() throws {
        let whole = try WholeSet()
        #expect(try whole.pull().status == 0)
        try whole.publish(2)
        #expect(try whole.pull().status == 0)
        let trees = "\(whole.set.scratch.path)/.syncagent-tower/rev"
        let former = try trees + "/" + #require(FileManager.default.contentsOfDirectory(atPath: trees).first)
        let before = try whole.set.scratch.contents(of: ".syncagent-tower/rev")
        for arguments in [
            ["pull", whole.set.url, "--into", "."], ["pull", whole.set.url, "--into", ".", "--atomic"],
            ["pull", whole.set.url], ["plan", whole.set.url, "--into", "x"], ["verify", whole.set.url, "--into", "."],
            ["schedule", "add", whole.set.url, "--into", ".", "--nightly", "02:00", "--backend", "cron", "--dry-run"],
        ] {
            let process = whole.set.tool.process(arguments)
            process.currentDirectoryURL = URL(fileURLWithPath: former)
            let outcome = try whole.set.tool.run(process)
            #expect(outcome.status == 73, "\(arguments): \(outcome.error)")
            #expect(outcome.error.contains("cd \(whole.set.scratch.path)/tower"), "\(arguments): \(outcome.error)")
        }
        #expect(try whole.set.scratch.contents(of: ".syncagent-tower/rev") == before)
        let kept = try whole.run("pull", whole.set.url, "--into", ".syncagent-tower/other")
        #expect(kept.status == 73 && kept.error.contains("syncagent's own files"), "\(kept.error)")
        try whole.shows(2)
    }

    @Test(
        "Pulled, updated, listed, rolled back, held, let go, and pulled again [S30]", arguments: ["exchange", "links"])
    func life(layout: String) throws {
        let whole = try WholeSet(layout)
        try whole.set.script("hook", "echo \"$SYNCAGENT_RESULT ${SYNCAGENT_ROLLBACK-no}\" >> ../hooks")
        let first = try whole.pull("--hook", "./hook")
        #expect(first.status == 0 && first.complaints == [], "\(first.error)")
        try whole.shows(1)
        try whole.publish(2)
        let second = try whole.pull("--hook", "./hook")
        #expect(second.status == 0 && second.complaints == [], "\(second.error)")
        try whole.shows(2)
        let switched = try #require(try second.events().first { $0["event"] as? String == "tree.switched" })
        #expect(switched["revision"] as? Int == 2 && switched["rollback"] == nil && switched["gap_us"] is Int)

        let listed = try whole.run("revisions", "com.example.tower", "--json").objects()
        #expect(listed.map { $0["revision"] as? Int } == [2, 1])
        #expect(listed.map { $0["state"] as? String } == ["current", "kept"])
        #expect(listed.allSatisfy { $0["files"] as? Int == 3 && $0["hooks_succeeded"] as? Bool == true })
        #expect(listed.map { ($0["own_bytes"] as? Int ?? 0) + ($0["shared_bytes"] as? Int ?? 0) } == [9, 9])
        #expect(try whole.run("revisions", "com.example.tower").output.contains("current"))

        let back = try whole.run("rollback", "com.example.tower", "--json")
        #expect(back.status == 0 && back.complaints == [], "\(back.error)")
        try whole.shows(1)
        #expect(try whole.set.text("hooks") == "ok no\nok no\nok 1\n")
        let after = try whole.run("revisions", "com.example.tower", "--json").objects()
        #expect(after.map { $0["revision"] as? Int } == [1, 2])
        #expect(after.map { $0["state"] as? String } == ["current", "held"])
        let last = try #require(try back.events().last)
        let files = try #require(last["files"] as? [String: Int])
        #expect(files["reused"] == 2 && files["unchanged"] == 1 && files["removed"] == 1)

        let held = try whole.pull()
        #expect(held.status == 77 && held.error.contains("has been held since"), "\(held.error)")
        try whole.shows(1)
        #expect(try whole.run("status", "com.example.tower").output.contains("revision 2, rolled back"))
        // Somebody asked for it: worth knowing, and no problem.
        let doctor = try whole.run("doctor", "--strict")
        #expect(doctor.status == 0, "\(doctor.output)")
        #expect(doctor.output.contains("note     session com.example.tower: revision 2 has been held since"))
        #expect(try whole.run("rollback", "com.example.tower", "--to", "7").status == 66)
        #expect(try whole.run("rollback", "com.example.tower", "--release").status == 0)
        #expect(try whole.pull().status == 0)
        try whole.shows(2)

        // A newer one ends what was held by itself.
        #expect(try whole.run("rollback", "com.example.tower", "--to", "1").status == 0)
        try whole.publish(3)
        #expect(try whole.pull().status == 0)
        try whole.shows(3)
        #expect(try whole.run("doctor", "--strict").status == 0)
    }

    @Test("After a rollback, hooks get the user data of the revision that readers see again [S67]")
    func userData() throws {
        let whole = try WholeSet()
        try whole.set.script("hook", "cat > ../report")
        #expect(try whole.pull("--hook", "./hook").status == 0)
        try whole.publish(2)
        let text = try whole.set.text("site/manifest.json")
        let end = try #require(text.lastIndex(of: "}"))
        try whole.set.scratch.write(Data("\(text[..<end]),\"x-user-data\":2}".utf8), to: "site/manifest.json")
        try FileManager.default.removeItem(atPath: whole.set.scratch.path + "/site/manifest.json.zst")
        #expect(try whole.pull("--hook", "./hook").status == 0)
        #expect(try whole.set.text("report").contains("\"user_data\":2"))
        #expect(try whole.run("rollback", "com.example.tower").status == 0)
        let report = try whole.set.text("report")
        #expect(!report.contains("\"user_data\":2"), "\(report)")
    }

    @Test(
        "A check that fails leaves readers untouched, with 5; the next pull fetches nothing and asks again",
        arguments: ["exchange", "links"])
    func check(layout: String) throws {
        let whole = try WholeSet(layout)
        #expect(try whole.pull().status == 0)
        try whole.publish(2)
        // It sees the new tree, and readers the old one.
        try whole.set.script(
            "check",
            "echo looked; cat which.txt \"$SYNCAGENT_DESTINATION/which.txt\" > \"$SYNCAGENT_DESTINATION/../seen\"; exit 3"
        )
        let before = try whole.inode
        let failed = try whole.pull("--check", "./check")
        #expect(failed.status == 5 && failed.complaints == [], "\(failed.error)")
        #expect(failed.error.contains("ended with exit 3: looked"), "\(failed.error)")
        #expect(try whole.set.text("seen") == "21")
        #expect(try failed.events().allSatisfy { $0["event"] as? String != "tree.switched" })
        try whole.shows(1)
        #expect(try whole.inode == before)
        let listed = try whole.run("revisions", "com.example.tower", "--json").objects()
        #expect(listed.map { $0["state"] as? String } == ["current", "building"])
        let missing = try whole.pull("--check", "./nowhere")
        // One that cannot be started says no, too.
        #expect(missing.status == 5 && missing.error.contains("not started"), "\(missing.error)")
        #expect(try whole.pull("--check", "https://chat.example/x").status == 64, "only a hook may be a webhook")
        try whole.shows(1)

        try whole.set.script("check", "exit 0")
        let shown = try whole.pull("--check", "./check")
        #expect(shown.status == 0 && shown.complaints == [], "\(shown.error)")
        let last = try #require(try shown.events().last)
        #expect((last["bytes"] as? [String: Int])?["received"] == 0)
        try whole.shows(2)
    }

    @Test("A set that comes from a file can be rolled back when another one is in that file, whoever named --atomic")
    func fromFile() throws {
        let whole = try WholeSet()
        func pull(_ arguments: String...) throws -> Tool.Outcome {
            try whole.set.tool.run(["pull", "site/manifest.json", "--into", "tower"] + arguments)
        }
        #expect(try pull("--atomic", "--keep-for", "0").status == 0)
        for number in 2...4 {
            try whole.publish(number)
            let pulled = try pull()
            #expect(pulled.status == 0, "\(pulled.error)")
            try whole.shows(number)
        }
        let back = try whole.run("rollback", "com.example.tower")
        #expect(back.status == 0, "\(back.error)")
        try whole.shows(3)
    }

    @Test(
        "Signed releases are shown and rolled back as a whole; what is not signed is not shown",
        arguments: ["exchange", "links"])
    func signed(layout: String) throws {
        let set = try SignedSet()
        func pull(_ arguments: String...) throws -> Tool.Outcome {
            try set.tool.run(
                ["pull", set.url, "--into", "tower", "--atomic=\(layout)", "--keep-for", "0", "--json"] + arguments)
        }
        let first = try pull("--trust", "keys/1.root")
        #expect(first.status == 0, "\(first.error)")
        try set.publish("two")
        #expect(try pull().status == 0)
        #expect(try set.text("tower/a.txt") == "two")
        let back = try set.tool.run(["rollback", "com.example.tower"])
        #expect(back.status == 0, "\(back.error)")
        #expect(try set.text("tower/a.txt") == "one")
        let held = try pull()
        #expect(held.status == 77 && held.error.contains("has been held since"), "\(held.error)")
        try set.publish("three")
        try set.scratch.write(Data(), to: "kept/directory")
        let head = ["trust", "manifest.json", "manifest.json.zst"]
        for name in head { try set.copy("site/\(name)", to: "kept/\(name)") }
        // Whoever has the server and no key cannot show anything.
        try set.scratch.write(Data("four".utf8), to: "assets/a.txt")
        for name in head { try set.remove("site/\(name)") }
        #expect(try set.tool.run(["publish", "assets", "--to", "site", "--project", "com.example.tower"]).status == 0)
        let unsigned = try pull()
        #expect(unsigned.status == 77, "\(unsigned.error)")
        #expect(try set.text("tower/a.txt") == "one")
        for name in head { try set.copy("kept/\(name)", to: "site/\(name)") }
        let third = try pull()
        #expect(third.status == 0, "\(third.error)")
        #expect(try set.text("tower/a.txt") == "three")
    }

    @Test("What does not go together is refused, and nothing is changed")
    func refused() throws {
        let whole = try WholeSet()
        #expect(try whole.run("pull", whole.set.url, "--into", "tower", "--keep", "3").status == 64)
        #expect(try whole.pull("--backup-dir", "kept").status == 64)
        let other = try whole.run("pull", whole.set.url, "--into", "tower", "--atomic=copies")
        #expect(other.status == 64 && other.error.contains("--atomic takes 'exchange', 'links'"), "\(other.error)")
        #expect(!FileManager.default.fileExists(atPath: whole.set.scratch.path + "/tower"))
        #expect(try whole.pull().status == 0)
        // A layout never changes by itself.
        let links = try whole.run("pull", whole.set.url, "--into", "tower", "--atomic=links")
        #expect(links.status == 73 && links.error.contains("it changes by exchange"), "\(links.error)")
        try whole.set.scratch.write(Data("mine".utf8), to: "tower/mine.txt")
        try whole.publish(2)
        let strange = try whole.pull()
        #expect(strange.status == 77 && strange.error.contains("mine.txt"), "\(strange.error)")
        #expect(try whole.set.text("tower/which.txt") == "1")
        // It changes as a whole without being told.
        let plain = try whole.run("pull", whole.set.url, "--into", "tower")
        #expect(plain.status == 77 && plain.error.contains("--keep-foreign"), "\(plain.error)")
        for option in ["--keep-foreign", "--force", "--keep", "--keep-for", "--check"] {
            let value = ["--keep": ["3"], "--keep-for": ["0"], "--check": ["/bin/true"]][option] ?? []
            let elsewhere = try whole.set.tool.run(["pull", whole.set.url, "--into", "elsewhere", option] + value)
            #expect(elsewhere.status == 64 && elsewhere.error.contains("\(option) needs --"), "\(elsewhere.error)")
            guard option != "--keep-foreign" else { continue }
            let strange = try whole.set.tool.run(["pull", whole.set.url, "--into", "tower", option] + value)
            #expect(strange.status == 77, "\(option): \(strange.error)")
        }
        let carried = try whole.run("pull", whole.set.url, "--into", "tower", "--keep-for", "0", "--keep-foreign")
        #expect(carried.status == 0, "\(carried.error)")
        #expect(try whole.set.text("tower/mine.txt") == "mine")
        #expect(try whole.set.text("tower/which.txt") == "2")
    }
}
