import CommandTestSupport
import Foundation
import Testing

/// Signed releases, with an origin that does what a thief would: every server here is a real one.
@Suite("Signed releases", .timeLimit(.minutes(10)))
struct TrustTests {
    @Test("A pin by file, by digest and at first sight; then nothing new is one request", arguments: 0..<3)
    func pins(kind: Int) throws {
        let set = try SignedSet()
        let digest = try #require(
            try set.tool.run(["keys", "show", "keys", "--json"]).objects().first?["sha256"] as? String)
        let first = try set.pull("--trust", ["keys/1.root", "SHA256:\(digest)", "first"][kind])
        #expect(first.status == 0, "\(first.error)")
        #expect(try set.text("tower/a.txt") == "one")
        #expect(try set.pinned()["origin"] as? String == ["file", "fingerprint", "first"][kind])
        let second = try set.pull()
        #expect(second.status == 0)
        #expect(try SignedSet.last(second)["requests"] as? Int == 1)
        // The option may stay in the command.
        let third = try set.pull("--trust", ["keys/1.root", "SHA256:\(digest)", "first"][kind])
        #expect(third.status == 0, "\(third.error)")
        try set.publish("three")
        #expect(try set.pull().status == 0)
        #expect(try set.text("tower/a.txt") == "three")
        #expect(try set.numbers().last == 2)
    }

    @Test("Publishing works without root.key, refreshing with fresh.key and the root alone")
    func offlineKeys() throws {
        let set = try SignedSet()
        try set.remove("keys/root.key")
        try set.publish("two")
        try set.pin()
        try set.copy("keys/fresh.key", to: "online-fresh.key")
        try set.copy("keys/1.root", to: "online-1.root")
        try set.scratch.write(Data(), to: "online/x")
        try set.copy("online-fresh.key", to: "online/fresh.key")
        try set.copy("online-1.root", to: "online/1.root")
        let before = try set.text("site/trust/fresh")
        try set.keys("refresh", "site", "--sign", "online", "--until", "60d")
        #expect(try set.text("site/trust/fresh") != before)
        let pulled = try set.pull()
        #expect(pulled.status == 0, "\(pulled.error)")
        #expect(try SignedSet.last(pulled)["requests"] as? Int == 1)
        // It cannot name a release.
        let outcome = try set.tool.run(["publish", "assets", "--to", "site", "--sign", "online"])
        #expect(outcome.status == 77)
        #expect(outcome.error.contains("release.key"))
    }

    @Test("Key files are for their owner alone; new ones never take the place of others")
    func keyFiles() throws {
        let set = try SignedSet()
        for name in ["root.key", "release.key", "fresh.key"] {
            let path = set.scratch.url.appendingPathComponent("keys/\(name)").path
            #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
        }
        #expect(try set.tool.run(["keys", "new", "keys", "--project", "com.example.tower"]).status == 73)
        try set.keys("rotate", "keys", "--role", "release")
        #expect(set.exists("keys/release.key.1") && set.exists("keys/2.root"))
        try set.keys("rotate", "keys", "--role", "release")
        #expect(set.exists("keys/release.key.2") && set.exists("keys/3.root"))
    }

    // MARK: Attacks

    /// What an origin does, and how it is told from a good one.
    struct Attack: Sendable, CustomTestStringConvertible {
        let name: String
        let cause: String
        let act: @Sendable (SignedSet) throws -> Void
        var testDescription: String { name }
    }

    private static let attacks = [
        Attack(name: "nothing signed", cause: "unsigned") { try $0.remove("site/trust") },
        Attack(name: "an older fresh", cause: "older") { try $0.copy("before/trust/fresh", to: "site/trust/fresh") },
        Attack(name: "the whole older site", cause: "older") { try $0.copy("before", to: "site-old") },
        Attack(name: "an older release under the new name", cause: "mixed") {
            try $0.publish("four")
            try $0.copy("site/trust/2.release", to: "site/trust/3.release")
        },
        Attack(name: "no release", cause: "mixed") {
            try $0.publish("four")
            try $0.remove("site/trust/3.release")
        },
        Attack(name: "an older manifest for the new release", cause: "mixed") { set in
            let old = try set.scratch.contents(of: "site/manifests")
            try set.publish("four")
            let new = try set.scratch.contents(of: "site/manifests").filter { !old.contains($0) }
            try set.copy("site/manifests/\(old[0])", to: "site/manifests/\(new[0])")
        },
        Attack(name: "an endless manifest under its digest", cause: "mixed") { set in
            let old = try set.scratch.contents(of: "site/manifests")
            try set.publish("four")
            let new = try set.scratch.contents(of: "site/manifests").filter { !old.contains($0) }
            try set.scratch.write(Data(repeating: 0x41, count: 64 << 20), to: "site/manifests/\(new[0])")
        },
        Attack(name: "an endless statement", cause: "malformed") {
            try $0.scratch.write(Data(repeating: 0x41, count: 64 << 20), to: "site/trust/fresh")
        },
        Attack(name: "another project with keys of its own", cause: "signature") { set in
            try set.keys("new", "bridge", "--project", "com.example.bridge")
            let outcome = try set.tool.run(["publish", "assets", "--to", "other", "--sign", "bridge"])
            try #require(outcome.status == 0, "\(outcome.error)")
            try set.remove("site/trust")
            try set.copy("other/trust", to: "site/trust")
        },
        Attack(name: "a revoked fresh key", cause: "signature") { set in
            try set.copy("keys", to: "stolen")
            try set.copy("site/trust/fresh", to: "last")
            try set.keys("rotate", "keys", "--role", "fresh")
            try set.keys("refresh", "site", "--sign", "keys")
            #expect(try set.pull().status == 0)
            // A thief says it of what his key had said.
            try set.copy("last", to: "site/trust/fresh")
            try set.keys("refresh", "site", "--sign", "stolen")
        },
        Attack(name: "a root that too few have signed", cause: "signature") { set in
            try set.keys("rotate", "keys", "--role", "root")
            try set.keys("refresh", "site", "--sign", "keys")
            // Without the first of its two signatures, that of the old key.
            let text = try set.text("site/trust/2.root")
            let end = try #require(text.range(of: "-----END SSH SIGNATURE-----\n"))
            try set.scratch.write(Data(text[end.upperBound...].utf8), to: "site/trust/2.root")
        },
    ]

    @Test("An origin that does this is refused with 77; files, floors and hooks stay as they were", arguments: attacks)
    func attacked(_ attack: Attack) throws {
        let set = try SignedSet()
        try set.copy("site", to: "before")
        // So that serials differ, which grow by the second.
        try set.publish("two")
        try set.pin()
        try attack.act(set)
        if set.exists("site-old") {
            try set.remove("site/trust")
            try set.copy("before/trust", to: "site/trust")
        }
        let before = try set.numbers()
        let outcome = try set.pull("--hook", "/bin/false")
        #expect(outcome.status == 77, "\(outcome.error)")
        #expect(outcome.error.contains("nothing was changed"))
        #expect(try SignedSet.causes(outcome) == [attack.cause])
        #expect(try set.text("tower/a.txt") == "two")
        #expect(try !outcome.objects().contains { ($0["event"] as? String)?.hasPrefix("hook.") == true })
        let after = try set.numbers()
        #expect(after.dropFirst() == before.dropFirst(), "serial and revision")
        let received = (try SignedSet.last(outcome)["bytes"] as? [String: Int])?["received"] ?? 0
        #expect(received < 1 << 20, "no more is read than a statement may have: \(received)")
    }

    @Test("A release that the key of another role has signed is refused", .enabled(if: SSH.isHere))
    func otherRole() throws {
        let set = try SignedSet()
        try set.pin()
        try set.publish("two")
        let text = try set.text("site/trust/2.release")
        let json = String(text[try #require(text.range(of: "\n\n")).upperBound...])
        for (key, namespace) in [("fresh", "release"), ("root", "release"), ("release", "fresh")] {
            try set.scratch.write(Data(json.utf8), to: "json")
            let signature = try SSH.sign("json", with: "keys/\(key).key", "syncagent-\(namespace)", in: set.scratch)
            try set.scratch.write(Data((signature + "\n" + json).utf8), to: "site/trust/2.release")
            let outcome = try set.pull()
            #expect(outcome.status == 77)
            #expect(try SignedSet.causes(outcome) == ["signature"])
        }
        let signature = try SSH.sign("json", with: "keys/release.key", "syncagent-release", in: set.scratch)
        try set.scratch.write(Data((signature + "\n" + json).utf8), to: "site/trust/2.release")
        #expect(try set.pull().status == 0)
    }

    @Test("Three rotations at once are gone through, and the old keys count no more")
    func rotations() throws {
        let set = try SignedSet()
        try set.pin()
        for role in ["release", "fresh", "root"] { try set.keys("rotate", "keys", "--role", role) }
        try set.publish("two")
        let outcome = try set.pull()
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try set.pinned()["root"] as? Int == 4)
        #expect(try set.text("tower/a.txt") == "two")
        // The root that the machine began with still names the project.
        #expect(try set.pull("--trust", "keys/1.root").status == 0)
        #expect(try set.pull("--trust", "keys/4.root").status == 0)
    }

    @Test("Out of a fast-forward: numbers that a thief has put too high go with his keys")
    func fastForward() throws {
        let set = try SignedSet()
        try set.pin()
        try set.publish("stolen", "--revision", "1000000")
        #expect(try set.pull().status == 0)
        #expect(try set.numbers().last == 1_000_000)
        for role in ["release", "fresh"] { try set.keys("rotate", "keys", "--role", role) }
        for name in ["manifest.json", "manifest.json.zst", "trust"] { try set.remove("site/\(name)") }
        try set.publish("clean", "--revision", "2")
        let outcome = try set.pull()
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try set.numbers().last == 2)
        #expect(try set.text("tower/a.txt") == "clean")
        try set.publish("clean again")
        #expect(try set.pull().status == 0)
        #expect(try set.text("tower/a.txt") == "clean again")
    }

    @Test(
        "What nobody has signed anew is stale; grace is on record; a clock gone back is told",
        .enabled(if: FakeTime.library != nil))
    func expiry() throws {
        let set = try SignedSet()
        try set.pin()
        func pull(_ shift: String, _ arguments: String...) throws -> Tool.Outcome {
            try set.tool.run(
                ["pull", set.url, "--into", "tower", "--json"] + arguments, environment: FakeTime.environment(shift))
        }
        #expect(try pull("+29d").status == 0)
        let stale = try pull("+31d")
        #expect(stale.status == 77)
        #expect(try SignedSet.causes(stale) == ["stale"])
        #expect(stale.error.contains("keys refresh"))
        let graced = try pull("+31d", "--stale", "7d")
        #expect(graced.status == 0, "\(graced.error)")
        #expect((try set.pinned()["graces"] as? [Any])?.count == 1)
        let late = try pull("+38d", "--stale", "7d")
        #expect(late.status == 77 && late.error.contains("longer ago than --stale accepts"), "\(late.error)")
        let early = try pull("-10d")
        #expect(early.status == 77)
        #expect(try SignedSet.causes(early) == ["clock"])
        #expect(early.error.contains("set the clock"))
        let doctor = try set.tool.run(["doctor"], environment: FakeTime.environment("+25d"))
        #expect(doctor.output.contains("problem  trust com.example.tower"))
        let report = try set.tool.run(["report"], environment: FakeTime.environment("+25d"))
        #expect(report.error.contains("warning: com.example.tower: the statement that revision"), "\(report.error)")
        let json = try set.tool.run(["report", "--json"], environment: FakeTime.environment("+25d"))
        let warnings = try #require(try json.objects().first?["warnings"] as? [String])
        #expect(warnings.count == 1 && warnings[0].contains("'syncagent keys refresh'"), "\(warnings)")
        let page = try set.tool.run(["report", "--html"], environment: FakeTime.environment("+25d"))
        #expect(page.output.contains("<p class=\"sum warn\">com.example.tower: the statement"), "\(page.error)")
        let soon = try set.tool.run(["report", "--json"], environment: FakeTime.environment("+23d"))
        #expect(try soon.objects().first?["warnings"] == nil)
        let quiet = try set.tool.run(["doctor"], environment: FakeTime.environment("+23d"))
        #expect(!quiet.output.contains("problem  trust"))
        try set.keys("refresh", "site", "--sign", "keys", "--until", "60d")
        #expect(try pull("+31d").status == 0)
    }

    // MARK: Around it

    @Test("refresh says that a newer release lies there which nothing points at")
    func ahead() throws {
        let set = try SignedSet()
        try set.copy("site/trust/fresh", to: "before")
        try set.publish("two")
        let fine = try set.tool.run(["keys", "refresh", "site", "--sign", "keys"])
        #expect(fine.status == 0 && !fine.error.contains("nothing points at it"), "\(fine.error)")
        try set.copy("before", to: "site/trust/fresh")
        // This machine knows that it has signed the newer one; another only sees it.
        let refused = try set.tool.run(["keys", "refresh", "site", "--sign", "keys"])
        #expect(refused.status == 77)
        #expect(refused.error.contains("this machine has signed revision 2: an older statement was put back"))
        let outcome = try set.tool.run(
            ["keys", "refresh", "site", "--sign", "keys"],
            environment: ["XDG_STATE_HOME": set.scratch.path + "/another"])
        #expect(outcome.status == 0)
        #expect(outcome.error.contains("revision 2 was signed as well, but nothing points at it"))
        #expect(outcome.error.contains("publish again with --sign"))
        // One that nobody has signed says nothing.
        try set.scratch.write(Data("x".utf8), to: "site/trust/3.release")
        #expect(try set.tool.run(["publish", "assets", "--to", "site", "--sign", "keys"]).status == 0)
        let after = try set.tool.run(["keys", "refresh", "site", "--sign", "keys"])
        #expect(!after.error.contains("nothing points at it"), "\(after.error)")
        try set.pin()
        #expect(try set.text("tower/a.txt") == "two")
    }

    @Test("refresh says nothing of the release of a channel that was removed")
    func aheadOfRemoved() throws {
        let set = try SignedSet()
        try set.scratch.write(Data("two".utf8), to: "assets/a.txt")
        let commands = [
            ["publish", "assets", "--to", "site", "--channel", "beta"], ["channel", "remove", "site", "beta"],
            ["keys", "refresh", "site"],
        ]
        for command in commands {
            let outcome = try set.tool.run(command + ["--sign", "keys"])
            #expect(outcome.status == 0 && !outcome.error.contains("nothing points at it"), "\(outcome.error)")
        }
    }

    @Test("diff looks back at a release that was signed by keys that counted then, and at no other")
    func lookingBack() throws {
        let set = try SignedSet()
        try set.copy("site", to: "old")
        try set.pin()
        for role in ["release", "fresh", "root"] { try set.keys("rotate", "keys", "--role", role) }
        try set.publish("two")
        #expect(try set.pull().status == 0)
        func diff(_ old: String, _ new: String) throws -> Tool.Outcome { try set.tool.run(["diff", old, new]) }
        let outcome = try diff("old", set.url)
        #expect(outcome.status == 1 && outcome.output.contains("changed  a.txt"), "\(outcome.error)")
        // NEW has to be what is believed now.
        #expect(try diff(set.url, "old").status == 77)
        // A year later it is what it was, and NEW is stale.
        if FakeTime.library != nil {
            let late = FakeTime.environment("+400d")
            #expect(try set.tool.run(["diff", "old", "site"], environment: late).status == 77)
            try set.keys("refresh", "site", "--sign", "keys", "--until", "500d")
            #expect(try set.tool.run(["diff", "old", "site"], environment: late).status == 1)
        }
        // Of a root that was never believed here, or without signatures, nothing is shown.
        try set.copy("old", to: "other")
        try set.copy("site/trust/2.root", to: "other/trust/1.root")
        #expect(try diff("other", set.url).status == 77)
        try set.remove("other/trust")
        #expect(try diff("other", set.url).status == 77)
    }

    @Test("diff looks back at a release that is named by its file in manifests/, if it was signed")
    func lookingBackAtKept() throws {
        let set = try SignedSet()
        try set.pin()
        func kept() throws -> Set<String> {
            let names = try FileManager.default.contentsOfDirectory(atPath: "\(set.scratch.path)/site/manifests")
            return Set(names.filter { $0.hasSuffix(".zst") })
        }
        func diff(_ name: String) throws -> Tool.Outcome {
            try set.tool.run(["diff", "site/manifests/\(name)", "site"])
        }
        let former = try #require(try kept().first)
        try set.publish("two")
        let first = try diff(former)
        #expect(first.status == 1 && first.output.contains("changed  a.txt"), "\(first.error)")
        let url = try set.tool.run(["diff", set.url.replacing("manifest.json", with: "manifests/\(former)"), set.url])
        #expect(url.status == 1, "\(url.error)")
        // A key that is no longer valid does not count: whoever has it could have put the release there since.
        try set.keys("rotate", "keys", "--role", "release")
        try set.publish("three")
        let late = try diff(former)
        #expect(late.status == 77 && late.error.contains("1.release is not signed"), "\(late.error)")
        let signed = try kept()
        try set.scratch.write(Data("four".utf8), to: "assets/a.txt")
        #expect(try set.tool.run(["publish", "assets", "--to", "site", "--allow-unsigned"]).status == 0)
        let other = try diff(try #require(try kept().subtracting(signed).first))
        #expect(other.status == 77 && other.error.contains("is not a manifest that was signed"), "\(other.error)")
    }

    @Test("An offline copy is held to its signatures, too")
    func offlineCopy() throws {
        let set = try SignedSet()
        let path = set.scratch.path + "/site/manifest.json"
        func pull() throws -> Tool.Outcome { try set.tool.run(["pull", path, "--into", "tower", "--json"]) }
        let first = try set.tool.run(["pull", path, "--into", "tower", "--json", "--trust", "first"])
        #expect(first.status == 0, "\(first.error)")
        try set.publish("two")
        #expect(try pull().status == 0)
        #expect(try set.text("tower/a.txt") == "two")
        try set.scratch.write(Data("three".utf8), to: "assets/a.txt")
        #expect(try set.tool.run(["publish", "assets", "--to", "site", "--allow-unsigned"]).status == 0)
        // Its signatures still name what was signed.
        #expect(try pull().status == 0)
        #expect(try set.text("tower/a.txt") == "two")
        try set.remove("site/trust")
        #expect(try pull().status == 77)
    }

    @Test(
        "A manifest in parts, and one with a dictionary, is signed as a whole",
        arguments: [["--manifest-parts"], ["--dictionary", "always"]])
    func whole(_ arguments: [String]) throws {
        let set = try SignedSet()
        // Enough alike to be worth a dictionary.
        for number in 0..<64 {
            let text = String(repeating: "a light of \(number) candelas, ", count: 40)
            try set.scratch.write(Data(text.utf8), to: "assets/lights/\(number).txt")
        }
        try set.publish("two", arguments)
        try set.pin()
        #expect(try set.text("tower/a.txt") == "two")
        #expect(try SignedSet.last(try set.pull())["requests"] as? Int == 1)
    }

    @Test("Another place that says it is the project has to be signed, whatever it calls itself")
    func otherPlace() throws {
        let set = try SignedSet()
        try set.pin()
        #expect(try set.tool.run(["publish", "assets", "--to", "else", "--project", "com.example.tower"]).status == 0)
        let other = try RunningServer(set.scratch, directory: "else")
        #expect(try set.tool.run(["pull", other.firstLine, "--into", "tower"]).status == 77)
        // At the place that was pinned another project is no way around it.
        #expect(
            try set.tool.run(["publish", "assets", "--to", "site2", "--project", "com.example.bridge"]).status == 0)
        for name in ["trust", "manifest.json", "manifest.json.zst"] { try set.remove("site/\(name)") }
        for name in ["manifest.json", "manifest.json.zst"] { try set.copy("site2/\(name)", to: "site/\(name)") }
        #expect(try set.tool.run(["pull", set.url]).status == 77)
        #expect(!set.exists("com.example.bridge"))
    }

    @Test("verify says who has signed; plan and verify keep nothing")
    func looking() throws {
        let set = try SignedSet()
        let plan = try set.tool.run(["plan", set.url, "--into", "tower", "--trust", "first"])
        #expect(plan.status == 0, "\(plan.error)")
        #expect(try set.tool.run(["trust", "list"]).error.contains("No project is pinned"))
        try set.pin()
        let verify = try set.tool.run(["verify", set.url, "--into", "tower"])
        #expect(verify.status == 0)
        #expect(verify.output.contains("revision 1 is signed by SHA256:"))
        let json = try set.tool.run(["verify", set.url, "--into", "tower", "--json"]).objects().last
        #expect((json?["signed"] as? [String: Any])?["revision"] as? Int == 1)
        try set.remove("site/trust/fresh")
        #expect(try set.tool.run(["verify", set.url, "--into", "tower"]).status == 77)
        #expect(try set.tool.run(["plan", set.url, "--into", "tower"]).status == 77)
    }

    @Test("Another root is refused until the pin is forgotten")
    func forget() throws {
        let set = try SignedSet()
        try set.pin()
        try set.copy("keys", to: "lost")
        try set.remove("keys")
        try set.keys("new", "keys", "--project", "com.example.tower")
        try set.remove("site/trust")
        try set.publish("two")
        #expect(try set.pull().status == 77)
        let other = try set.pull("--trust", "keys/1.root")
        #expect(other.status == 77)
        #expect(other.error.contains("trust forget com.example.tower"))
        #expect(try set.tool.run(["trust", "forget", "com.example.tower"]).status == 0)
        #expect(try set.pull("--trust", "keys/1.root").status == 0)
        #expect(try set.text("tower/a.txt") == "two")
        #expect(try set.tool.run(["trust", "forget", "nobody"]).status == 66)
    }

    @Test("A program signs in place of key files", .enabled(if: SSH.isHere))
    func signer() throws {
        let set = try SignedSet()
        try set.pin()
        let script = """
            #!/bin/sh
            # A safe for keys that is asked by the role in the namespace.
            exec ssh-keygen -Y sign -n "$1" -f "\(set.scratch.path)/safe/${1#syncagent-}.key" 2>/dev/null
            """
        let file = try set.scratch.write(Data(script.utf8), to: "signer")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
        try set.copy("keys", to: "safe")
        for role in ["root", "release", "fresh"] { try set.remove("keys/\(role).key") }
        try set.scratch.write(Data("two".utf8), to: "assets/a.txt")
        for arguments in [["--sign", "keys"], []] {
            let outcome = try set.tool.run(["publish", "assets", "--to", "site", "--signer", "./signer"] + arguments)
            #expect(outcome.status == 0, "\(outcome.error)")
        }
        let outcome = try set.pull()
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try set.text("tower/a.txt") == "two")
        try set.scratch.write(Data("#!/bin/sh\necho no\n".utf8), to: "signer")
        #expect(try set.tool.run(["keys", "refresh", "site", "--signer", "./signer"]).status == 77)
        // What cannot be run is noticed before anything is published.
        try set.scratch.write(Data("three".utf8), to: "assets/a.txt")
        for program in ["./none", "./assets"] {
            let refused = try set.tool.run(["publish", "assets", "--to", "site", "--sign", "keys", "--signer", program])
            #expect(refused.status == 77 && refused.error.contains("--signer: "), "\(refused.error)")
            #expect(!refused.error.contains("is published"), "\(refused.error)")
        }
    }

    @Test("ssh-keygen verifies what is published", .enabled(if: SSH.isHere))
    func oracle() throws {
        let set = try SignedSet()
        for (file, role) in [("1.root", "root"), ("1.release", "release"), ("fresh", "fresh")] {
            let text = try set.text("site/trust/\(file)")
            let gap = try #require(text.range(of: "\n\n"))
            try set.scratch.write(Data((text[..<gap.lowerBound] + "\n").utf8), to: "sig")
            try set.scratch.write(Data(text[gap.upperBound...].utf8), to: "json")
            #expect(try SSH.verifies("json", "sig", by: "keys/\(role).key", "syncagent-\(role)", in: set.scratch))
            #expect(try !SSH.verifies("json", "sig", by: "keys/\(role).key", "syncagent-other", in: set.scratch))
        }
    }
}
