import CommandTestSupport
import Foundation
import Testing

/// `publish --base URL`: from a machine that has only the files.
@Suite(.timeLimit(.minutes(10)))
struct BaseURLTests {
    /// Publishes to `next`, continuing what is served.
    private static func publish(_ tool: Tool, _ base: String, _ arguments: String...) throws -> Tool.Outcome {
        try tool.run(["publish", "assets", "--to", "next", "--base", base] + arguments)
    }

    /// Copies what `publish` has written over what is served, as rsync(1) would.
    private static func upload(_ scratch: Scratch) throws {
        let files = FileManager.default
        for path in try scratch.contents(of: "next") {
            let (from, to) = (scratch.path + "/next/" + path, scratch.path + "/site/" + path)
            var isDirectory: ObjCBool = false
            guard files.fileExists(atPath: from, isDirectory: &isDirectory) else { continue }
            if isDirectory.boolValue {
                try files.createDirectory(atPath: to, withIntermediateDirectories: true)
            } else {
                try Data(contentsOf: URL(fileURLWithPath: from)).write(to: URL(fileURLWithPath: to))
            }
        }
    }

    @Test(
        "publish --base URL continues what is served: packs stay there, and a copy of the output over it is the next release"
    )
    func continues() throws {
        let set = try ServedSet()
        try set.scratch.write(Data("other".utf8), to: "assets/a.txt")
        let preview = try Self.publish(set.tool, set.url, "--dry-run")
        #expect(preview.status == 0 && preview.error.contains("1 changed"), "\(preview.error)")
        let outcome = try Self.publish(set.tool, set.url)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(outcome.error.contains("com.example.tower revision 2: 2 files"), "\(outcome.error)")
        #expect(outcome.error.contains("must stay where the base is served"), "\(outcome.error)")
        let packs = try set.scratch.contents(of: "next/packs")
        #expect(packs.count == 1, "\(packs)")
        #expect(try set.text("next/manifest.json").contains("\"name\":\"sheets\""), "groups carry over")
        try Self.upload(set.scratch)
        let pulled = try set.pull()
        #expect(pulled.status == 0, "\(pulled.error)")
        #expect(try set.text("tower/a.txt") == "other" && set.text("tower/sheets/b.txt") == "two")
        // A directory is meant as its manifest is.
        let again = try Self.publish(set.tool, set.url.replacing("manifest.json", with: ""), "--json")
        #expect(again.status == 0, "\(again.error)")
        #expect(try #require(try again.events().last)["unchanged"] as? Bool == true)
    }

    @Test(
        "A release in channels/ or manifests/ is a base, here and by URL, with the packs beside those folders; so is a directory"
    )
    func kept() throws {
        let set = try ServedSet()
        try set.scratch.write(Data("other".utf8), to: "assets/a.txt")
        let beta = try set.tool.run(["publish", "assets", "--to", "site", "--channel", "beta", "--manifest-parts"])
        #expect(beta.status == 0, "\(beta.error)")
        let manifests = try set.scratch.contents(of: "site/manifests").map { "site/manifests/\($0)" }
        #expect(manifests.count == 2)
        let bases = ["site/channels/beta.json.zst", "site/channels/2.json.zst", "site"] + manifests
        for (number, base) in bases.enumerated() {
            let outcome = try set.tool.run(["publish", "assets", "--to", "near\(number)", "--base", base])
            #expect(outcome.status == 0 && !outcome.error.contains("must stay"), "\(base): \(outcome.error)")
            let pull = try set.tool.run(["pull", "near\(number)/manifest.json", "--into", "pulled\(number)"])
            #expect(pull.status == 0, "\(base): \(pull.error)")
            #expect(try set.text("pulled\(number)/a.txt") == "other")
            guard base != "site" else { continue }
            let url = set.url.replacing("manifest.json", with: base.dropFirst("site/".count))
            // Its parts are in packs.
            let far = try set.tool.run(["publish", "assets", "--to", "far\(number)", "--base", url, "--dry-run"])
            #expect(far.status == 0, "\(url): \(far.error)")
            let served = try set.tool.run(["pull", url, "--into", "served\(number)"])
            #expect(served.status == 0, "\(url): \(served.error)")
        }
    }

    @Test("A base that is not there, silent, no manifest or of an unknown scheme ends as for ls, and writes nothing")
    func failures() throws {
        let set = try ServedSet()
        try set.scratch.write(Data("<html>".utf8), to: "site/page/manifest.json")
        for (base, status) in [
            (set.url.replacing("manifest.json", with: "none/manifest.json?token=canary"), 66 as Int32),
            (set.url.replacing("manifest.json", with: "page/manifest.json"), 65), ("ftp://127.0.0.1/manifest.json", 64),
            ("https:///manifest.json", 64),
        ] {
            let outcome = try Self.publish(set.tool, base)
            #expect(outcome.status == status, "\(base): \(outcome)")
            #expect(!outcome.error.contains("canary"))
        }
        let named = try Self.publish(set.tool, "http://user:canary@127.0.0.1/manifest.json")
        #expect(named.status == 64 && named.error.contains("credentials_file"), "\(named.error)")
        #expect(!named.error.contains("--credentials") && !named.error.contains("canary"), "\(named.error)")
        _ = try set.server.stop()
        let silent = try Self.publish(set.tool, set.url, "--json")
        #expect(silent.status == 69, "\(silent.error)")
        #expect(try #require(try silent.events().last)["result"] as? String != "ok")
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/next/manifest.json"))
    }

    @Test(
        "With --sign, a served base must be signed by the keys: another machine's is taken, and an unsigned one refused"
    )
    func signed() throws {
        let set = try SignedSet()
        try set.scratch.write(Data("other".utf8), to: "assets/a.txt")
        let unread = try Self.publish(set.tool, set.url, "--sign", "keys")
        #expect(unread.status == 77 && unread.error.contains("--allow-unread"), "\(unread.error)")
        #expect(!set.exists("next/manifest.json"))
        let outcome = try Self.publish(set.tool, set.url, "--sign", "keys", "--allow-unread")
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(outcome.error.contains("revision 2"), "\(outcome.error)")
        #expect(outcome.error.contains("signed unread"), "\(outcome.error)")
        try set.remove("next")
        try set.remove("site/trust/1.release")
        let refused = try Self.publish(set.tool, set.url, "--sign", "keys")
        #expect(refused.status == 77 && refused.error.contains("--accept-base"), "\(refused.error)")
        #expect(!set.exists("next/manifest.json"))
        let accepted = try Self.publish(set.tool, set.url, "--sign", "keys", "--accept-base")
        #expect(accepted.status == 0 && accepted.error.contains("was accepted"), "\(accepted.error)")
    }
}
