import Foundation
import Testing

/// Whoever holds the web server writes into what is published, and waits for the publisher to sign it.
@Suite("Signing beside a thief", .timeLimit(.minutes(10)))
struct ServedAttackTests {
    private static func refresh(_ set: SignedSet, _ keys: String = "keys", _ more: String...) throws
        -> Tool.Outcome
    {
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
        let json = String(text[gap.upperBound...])
            .replacing(try Regex(#""serial":[0-9]+"#), with: "\"serial\":\(serial)")
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

    @Test(
        "A release is not signed anew unseen when its key changes, whoever signs",
        .enabled(if: SSH.isHere)
    )
    func rotated() throws {
        let set = try SignedSet()
        try set.pin()
        try set.keys("rotate", "keys", "--role", "release")
        try Self.signer(set, "keys")
        let release = try set.text("site/trust/1.release")
        for more in [[], ["--signer", "./signer"]] {
            let outcome = try set.tool.run(["keys", "refresh", "site", "--sign", "keys"] + more)
            #expect(outcome.status == 77)
            #expect(outcome.error.contains("signed by a key of root 1 that no longer counts"))
            #expect(outcome.error.contains("publish the files again with --sign"))
            #expect(try set.text("site/trust/1.release") == release)
        }
        try set.publish("two")
        #expect(try Self.refresh(set).status == 0)
        #expect(try set.pull().status == 0)
        #expect(try set.text("tower/a.txt") == "two")
    }

    @Test("What a former fresh key has said is said once more, and refresh tells whose word it was")
    func formerFresh() throws {
        let set = try SignedSet()
        try set.pin()
        try set.keys("rotate", "keys", "--role", "fresh")
        let outcome = try Self.refresh(set)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(outcome.error.contains("a key of root 1 had said so before"))
        #expect(try set.pull().status == 0)
        #expect(try set.numbers().first == 2)
        #expect(try !Self.refresh(set).error.contains("had said so before"))
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
        #expect(outcome.error.contains("revision 2, channel beta, counts until"))
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
            Data(index.replacing("\"beta\":2", with: "\"beta\":3").utf8),
            to: "site/channels/index.json"
        )
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
        #expect(unsigned.error.contains("no longer counts"))
        #expect(!set.exists("site/trust/other.fresh") && !set.exists("site/channels/other.json.zst"))
    }

    @Test("A revision that is asked for once more costs one request, as long as its key counts")
    func askedRevision() throws {
        let set = try SignedSet()
        try set.publish("two")
        func pull() throws -> Tool.Outcome {
            try set.pull("--revision", "1", "--trust", "keys/1.root")
        }
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
