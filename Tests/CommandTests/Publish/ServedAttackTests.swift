import CommandTestSupport
import Foundation
import Testing

/// Whoever holds the web server writes into what is published, and waits for the publisher to sign it.
@Suite("Signing beside a thief", .timeLimit(.minutes(10)))
struct ServedAttackTests {
    private static func refresh(_ set: SignedSet, _ keys: String = "keys", _ more: String...) throws -> Tool.Outcome {
        try set.tool.run(["keys", "refresh", "site", "--sign", keys] + more)
    }

    /// What a thief publishes with keys of his own.
    private static func evil(_ set: SignedSet) throws {
        try set.keys("new", "thief", "--project", "com.example.tower")
        try set.scratch.write(Data("evil".utf8), to: "evil-assets/a.txt")
        let outcome = try set.tool.run(["publish", "evil-assets", "--to", "evil", "--sign", "thief"])
        try #require(outcome.status == 0, "\(outcome.error)")
    }

    /// A program that signs with every key of a directory.
    private static func signer(_ set: SignedSet, _ keys: String) throws {
        let script = """
            #!/bin/sh
            exec ssh-keygen -Y sign -n "$1" -f "\(set.scratch.path)/\(keys)/${1#syncagent-}.key" 2>/dev/null
            """
        let file = try set.scratch.write(Data(script.utf8), to: "signer")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
    }

    /// Changes what `trust/fresh` says, and has a key sign it.
    private static func forge(_ set: SignedSet, serial: String, key: String) throws {
        let text = try set.text("site/trust/fresh")
        let gap = try #require(text.range(of: "\n\n"))
        let json = String(text[gap.upperBound...]).replacing(
            try Regex(#""serial":[0-9]+"#), with: "\"serial\":\(serial)")
        try set.scratch.write(Data(json.utf8), to: "json")
        let block = try SSH.sign("json", with: key, "syncagent-fresh", in: set.scratch)
        try set.scratch.write(Data((block + "\n" + json).utf8), to: "site/trust/fresh")
    }

    @Test("What a thief has put there is not said once more, with his word for it or with the publisher's")
    func unsigned() throws {
        let set = try SignedSet()
        try set.pin()
        try Self.evil(set)
        // His release, and his word.
        try set.copy("site/trust", to: "good")
        for file in ["fresh", "1.release"] { try set.copy("evil/trust/\(file)", to: "site/trust/\(file)") }
        let word = try set.text("site/trust/fresh")
        let refused = try Self.refresh(set)
        #expect(refused.status == 77)
        #expect(refused.error.contains("no fresh key of the roots at hand has signed trust/fresh"))
        #expect(try set.text("site/trust/fresh") == word)
        // His release under the publisher's word.
        try set.copy("good/fresh", to: "site/trust/fresh")
        let other = try Self.refresh(set)
        #expect(other.status == 77)
        #expect(other.error.contains("no release key of the roots at hand has signed trust/1.release"))
        try set.copy("good/1.release", to: "site/trust/1.release")
        #expect(try Self.refresh(set).status == 0)
        #expect(try set.pull().status == 0)
    }

    @Test("A release is not signed anew unseen when its key changes, whoever signs", .enabled(if: SSH.isHere))
    func rotated() throws {
        let set = try SignedSet()
        try set.pin()
        try set.keys("rotate", "keys", "--role", "release")
        try Self.signer(set, "keys")
        let release = try set.text("site/trust/1.release")
        try set.copy("keys", to: "others")
        try set.remove("others/fresh.key")
        for signer in [["--sign", "keys"], ["--sign", "others", "--signer", "./signer"]] {
            let outcome = try set.tool.run(["keys", "refresh", "site"] + signer)
            #expect(outcome.status == 77)
            #expect(outcome.error.contains("signed by a key of root 1 that is no longer valid"))
            #expect(outcome.error.contains("publish the files again with --sign"))
            #expect(try set.text("site/trust/1.release") == release)
        }
        try set.publish("two")
        #expect(try Self.refresh(set).status == 0)
        #expect(try set.pull().status == 0)
        #expect(try set.text("tower/a.txt") == "two")
    }

    /// A chain of roots that a thief has made of the project, 1 to 3: it names the publisher's own release and fresh keys.
    private static func chain(_ set: SignedSet) throws {
        try set.keys("new", "thief", "--project", "com.example.tower")
        let shown = try set.tool.run(["keys", "show", "site/trust/1.root", "--json"]).objects()
        let root = try #require(shown.first)
        for role in ["release", "fresh"] {
            let keys = try #require((root[role] as? [String: Any])?["keys"] as? [String])
            try set.scratch.write(Data((keys[0] + "\n").utf8), to: "\(role).pub")
            try set.keys("rotate", "thief", "--role", role, "--by", "\(role).pub")
        }
    }

    @Test(
        "A program alone signs under no root that somebody has put beside what is published", .enabled(if: SSH.isHere),
        arguments: ["refresh", "publish", "channel"])
    func plantedRoots(step: String) throws {
        let set = try SignedSet()
        try set.pin()
        try Self.signer(set, "keys")
        try Self.chain(set)
        // Nobody reads a key there, either.
        try set.scratch.write(Data("no key".utf8), to: "site/trust/fresh.key")
        try set.copy("site", to: "good")
        func sign(_ more: [String: String] = [:]) throws -> Tool.Outcome {
            let arguments =
                switch step {
                case "refresh": ["keys", "refresh", "site"]
                case "publish": ["publish", "assets", "--to", "site", "--rehash"]
                default: ["channel", "set", "site", "default", "1"]
                }
            return try set.tool.run(arguments + ["--signer", "./signer"], environment: more)
        }
        func plant(_ names: [String]) throws {
            // The directory itself is open in the server.
            for name in try FileManager.default.contentsOfDirectory(atPath: set.scratch.path + "/site") {
                try set.remove("site/\(name)")
            }
            for name in try FileManager.default.contentsOfDirectory(atPath: set.scratch.path + "/good") {
                try set.copy("good/\(name)", to: "site/\(name)")
            }
            for name in names { try set.copy("thief/\(name)", to: "site/trust/\(name)") }
        }
        func isRefused(_ words: String, _ more: [String: String] = [:]) throws {
            let word = try set.text("site/trust/fresh")
            let outcome = try sign(more)
            #expect(outcome.status == 77)
            #expect(outcome.error.contains(words), "\(outcome.error)")
            #expect(try set.text("site/trust/fresh") == word)
        }
        // Root 1 is known here: the set was published with it. Elsewhere it is believed at first sight, which is said.
        let elsewhere = ["XDG_STATE_HOME": set.scratch.path + "/elsewhere"]
        for more in [[:], elsewhere] {
            try plant(["2.root"])
            try isRefused("2.root: the keys of the previous root have not signed it", more)
            try plant(["3.root"])
            try isRefused("3.root: root 2, which comes before it, is missing", more)
        }
        try plant(["1.root", "2.root", "3.root"])
        try isRefused("root 1, under which this machine has signed before, is missing")
        try plant([])
        #expect(try !sign().error.contains("first use"))
        let first = try sign(elsewhere)
        #expect(first.status == 0, "\(first.error)")
        #expect(first.error.contains("site/trust is trusted on first use, up to root 1, SHA256:"))
        #expect(try !sign(elsewhere).error.contains("first use"))
        // A machine that knows nothing signs under the thief's roots; those that are pinned do not believe it.
        try plant(["1.root", "2.root", "3.root"])
        let fooled = try sign(["XDG_STATE_HOME": set.scratch.path + "/new"])
        #expect(fooled.error.contains("is trusted on first use, up to root 3"), "\(fooled.error)")
        let pull = try set.pull()
        #expect(pull.status == 77)
        #expect(pull.error.contains("trust/2.root is not signed by the root key"), "\(pull.error)")
        // A change of keys that the root keys have signed goes on, and there is no way back behind it.
        try plant([])
        try set.keys("rotate", "keys", "--role", "root")
        try set.copy("keys/2.root", to: "site/trust/2.root")
        try set.copy("site", to: "good")
        #expect(try sign().status == 0)
        let last = try set.pull()
        #expect(last.status == 0, "\(last.error)")
        #expect(try set.numbers().first == 2)
        // What was newest before would be refused for its age.
        try set.copy("site", to: "good")
        try plant([])
        try set.remove("site/trust/2.root")
        try isRefused("root 2, under which this machine has signed before, is missing")
        // A former root in the place of another decides nothing, but what is published next is not signed over it.
        try plant(["1.root"])
        let outcome = try sign()
        #expect(outcome.status == (step == "publish" ? 77 : 0), "\(outcome.error)")
    }

    @Test("What a directory was signed under is known by every name that it has", .enabled(if: SSH.isHere))
    func knownByEveryName() throws {
        let set = try SignedSet()
        try Self.signer(set, "keys")
        let files = FileManager.default
        let state = ["XDG_STATE_HOME": set.scratch.path + "/state"]
        try files.createDirectory(atPath: set.scratch.path + "/real", withIntermediateDirectories: true)
        try files.createSymbolicLink(
            atPath: set.scratch.path + "/link", withDestinationPath: set.scratch.path + "/real")
        // The first one makes it.
        let first = try set.tool.run(
            ["publish", "assets", "--to", "link/deep/out", "--sign", "keys"], environment: state)
        #expect(first.status == 0, "\(first.error)")
        for name in ["link/deep/out", "real/deep/out", "real/deep/../deep/out/"] {
            let outcome = try set.tool.run(["keys", "refresh", name, "--signer", "./signer"], environment: state)
            #expect(outcome.status == 0 && !outcome.error.contains("first use"), "\(outcome.error)")
        }
        // What cannot be read is not taken for nothing; with the roots at hand it is written anew.
        let memory = set.scratch.path + "/state/syncagent/publish"
        for name in try files.contentsOfDirectory(atPath: memory) where name.hasSuffix(".roots") {
            try Data("x".utf8).write(to: URL(fileURLWithPath: "\(memory)/\(name)"))
        }
        let damaged = try set.tool.run(
            ["keys", "refresh", "link/deep/out", "--signer", "./signer"], environment: state)
        #expect(damaged.status == 77)
        #expect(damaged.error.contains(".roots is damaged"))
        for more in [["--sign", "keys"], ["--signer", "./signer"]] {
            #expect(try set.tool.run(["keys", "refresh", "link/deep/out"] + more, environment: state).status == 0)
        }
    }

    @Test("What a former fresh key has said is said once more, and refresh tells whose word it was")
    func formerFresh() throws {
        let set = try SignedSet()
        try set.pin()
        try set.keys("rotate", "keys", "--role", "fresh")
        let outcome = try Self.refresh(set)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(outcome.error.contains("it was signed under root 1 before"))
        #expect(try set.pull().status == 0)
        #expect(try set.numbers().first == 2)
        #expect(try !Self.refresh(set).error.contains("was signed under root"))
    }

    @Test("A number that nobody who counts has set moves no serial", .enabled(if: SSH.isHere))
    func serials() throws {
        let set = try SignedSet()
        try set.pin()
        try Self.evil(set)
        try Self.forge(set, serial: "9223372036854775807", key: "thief/fresh.key")
        try set.publish("two")
        #expect(try set.pull().status == 0)
        #expect(try set.numbers()[1] < 10_000_000_000)
        // A key that is stolen: its highest number is the end of it, not of the project.
        try Self.forge(set, serial: "9223372036854775807", key: "keys/fresh.key")
        #expect(try set.pull().status == 0)
        let outcome = try Self.refresh(set)
        #expect(outcome.status == 77)
        #expect(outcome.error.contains("rotate --role fresh"))
        try set.keys("rotate", "keys", "--role", "fresh")
        #expect(try Self.refresh(set).status == 0)
        #expect(try set.pull().status == 0)
        #expect(try set.numbers()[1] < 10_000_000_000)
    }

    @Test("One channel's word does not become another's; the others are said once more")
    func channels() throws {
        let set = try SignedSet()
        try set.publish("two", "--channel", "beta")
        try set.copy("site/trust/beta.fresh", to: "site/trust/stable.fresh")
        let outcome = try Self.refresh(set)
        #expect(outcome.status == 77)
        #expect(outcome.error.contains("trust/stable.fresh is about another project or channel"))
        #expect(outcome.error.contains("revision 2, channel beta, is valid until"))
        let stable = try set.text("site/trust/stable.fresh")
        #expect(stable.contains("\"channel\":\"beta\""))
        try set.remove("site/trust/stable.fresh")
        #expect(try Self.refresh(set).status == 0)
    }

    @Test("channel set follows what is signed of a channel, not the list for people, and signs no release")
    func channelSet() throws {
        let set = try SignedSet()
        try set.publish("two", "--channel", "beta")
        try set.publish("three", "--channel", "nightly")
        let index = try set.text("site/channels/index.json")
        try set.scratch.write(
            Data(index.replacing("\"beta\":2", with: "\"beta\":3").utf8), to: "site/channels/index.json")
        let move = ["channel", "set", "site", "stable", "beta", "--sign", "keys"]
        let outcome = try set.tool.run(move)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(outcome.error.contains("stable points at revision 2"))
        // Another manifest under the number of a signed release.
        try set.copy("site/channels/2.json.zst", to: "two")
        try set.copy("site/channels/3.json.zst", to: "site/channels/2.json.zst")
        #expect(try set.tool.run(["channel", "set", "site", "other", "2", "--sign", "keys"]).status != 0)
        #expect(!set.exists("site/trust/other.fresh"))
        try set.copy("two", to: "site/channels/2.json.zst")
        try set.keys("rotate", "keys", "--role", "release")
        let unsigned = try set.tool.run(["channel", "set", "site", "other", "2", "--sign", "keys"])
        #expect(unsigned.status == 77)
        #expect(unsigned.error.contains("is no longer valid"))
        #expect(!set.exists("site/trust/other.fresh") && !set.exists("site/channels/other.json.zst"))
    }

    @Test("A revision that is asked for once more costs one request, as long as its key counts")
    func askedRevision() throws {
        let set = try SignedSet()
        try set.publish("two")
        func pull() throws -> Tool.Outcome { try set.pull("--revision", "1", "--trust", "keys/1.root") }
        let first = try pull()
        #expect(first.status == 0, "\(first.error)")
        let second = try pull()
        #expect(try SignedSet.last(second)["requests"] as? Int == 1, "\(second.error)")
        #expect(try set.text("tower/a.txt") == "one")
        try set.keys("rotate", "keys", "--role", "release")
        try set.publish("three")
        let revoked = try pull()
        #expect(revoked.status == 77)
        #expect(try SignedSet.causes(revoked) == ["signature"])
    }
}
