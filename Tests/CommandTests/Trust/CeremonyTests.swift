import CommandTestSupport
import Foundation
import Testing

/// What a person who holds a root key is shown before it signs, and what that is compared with.
@Suite("Ceremonies with root keys", .timeLimit(.minutes(5)))
struct CeremonyTests {
    private let scratch: Scratch
    private let tool: Tool
    private static let project = "com.example.tower"

    init() throws {
        scratch = try Scratch()
        tool = Tool(scratch)
    }

    /// Runs `keys …`, which has to end with a status.
    @discardableResult private func keys(_ arguments: String..., ends status: Int32 = 0) throws -> String {
        let outcome = try tool.run(["keys"] + arguments)
        try #require(outcome.status == status, "\(arguments): \(outcome.status) \(outcome.error)")
        return outcome.error
    }

    private func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: "\(scratch.path)/\(path)") }

    private func copy(_ from: String, to: String) throws {
        try scratch.write(Data(contentsOf: scratch.url.appendingPathComponent(from)), to: to)
    }

    private func move(_ from: String, to: String) throws {
        try copy(from, to: to)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: "\(scratch.path)/\(to)")
        try FileManager.default.removeItem(atPath: "\(scratch.path)/\(from)")
    }

    /// The keys that a root names for a role, as texts.
    private func named(_ role: String, by path: String) throws -> [String] {
        let shown = try tool.run(["keys", "show", path, "--json"]).objects().first
        return try #require((shown?[role] as? [String: Any])?["keys"] as? [String])
    }

    /// The fingerprints that `keys show` prints, in order of appearance.
    private func fingerprints(_ path: String) throws -> [String] {
        try tool.run(["keys", "show", path]).output.split(whereSeparator: \.isWhitespace).map(String.init).filter {
            $0.hasPrefix("SHA256:") && $0.count == 50
        }
    }

    /// A thief's first root, and one after it that names the true root key and the thief's own release key: both as they
    /// come by mail.
    private func mail() throws {
        try keys("new", "keys", "--project", Self.project)
        try keys("new", "thief", "--project", Self.project)
        let mine = try #require(try named("root", by: "keys/1.root").first)
        try scratch.write(Data("\(mine)\n".utf8), to: "mine.pub")
        try keys("rotate", "thief", "--role", "root", "--by", "mine.pub")
        try copy("thief/1.root", to: "mail/1.root")
        try copy("thief/2.root.pending", to: "mail/2.root.pending")
    }

    @Test("A root key that is named twice, or too many mirrors, make no keys: nobody could read or sign their root")
    func twice() throws {
        try mail()
        let refused = try keys(
            "new", "ada", "--project", Self.project, "--root-public", "mine.pub", "--root-public", "mine.pub",
            "--root-threshold", "2", ends: 64)
        #expect(refused.contains("--root-public") && !exists("ada"), "\(refused)")
        let new = ["keys", "new", "ada", "--project", Self.project]
        for (count, length) in [(17, 1), (16, 5_000)] {
            let url = "https://m.example.com/\(String(repeating: "x", count: length))/"
            let outcome = try tool.run(new + (0..<count).flatMap { _ in ["--mirror", url] })
            #expect(outcome.status == 64 && outcome.error.contains("mirrors") && !exists("ada"), "\(outcome.error)")
        }
    }

    @Test("A root that comes along with a pending one is none to compare it with")
    func stranger() throws {
        try mail()
        let refused = try keys("sign", "mail/2.root.pending", "--with", "keys", "--yes", ends: 77)
        #expect(refused.contains("mail/1.root is not keys/1.root"), "\(refused)")
        #expect(!exists("mail/2.root"))
        // Without it the true root is what the change is shown against.
        try FileManager.default.removeItem(atPath: scratch.path + "/mail/1.root")
        let shown = try keys("sign", "mail/2.root.pending", "--with", "keys", ends: 64)
        for role in ["release", "fresh"] {
            for (path, word) in [("keys", "is no longer valid"), ("thief", "is new")] {
                let key = try #require(try fingerprints("\(path)/1.root").dropFirst(role == "release" ? 1 : 2).first)
                #expect(shown.contains("\(role): \(key) \(word)"), "\(shown)")
            }
        }
        #expect(shown.contains("keys/1.root"), "\(shown)")
        #expect(shown.contains("--yes"), "\(shown)")
        #expect(!exists("mail/2.root"))
    }

    @Test("Where the key directory holds no root, --from names it, and nothing is signed without")
    func from() throws {
        try mail()
        try copy("keys/1.root", to: "pinned.root")
        try move("keys/root.key", to: "drawer/root.key")
        let missing = try keys("sign", "mail/2.root.pending", "--with", "drawer", "--yes", ends: 66)
        #expect(missing.contains("--from"), "\(missing)")
        let compared = try keys(
            "sign", "mail/2.root.pending", "--with", "drawer/root.key", "--from", "pinned.root", "--yes", ends: 77)
        #expect(compared.contains("mail/1.root is not pinned.root"), "\(compared)")
        #expect(!exists("mail/2.root"))
    }

    @Test("All that is signed is shown: every key, how many of them, the time, mirrors, and what changes")
    func shown() throws {
        let mirror = "https://mirror.example.com/tower/"
        let made = try keys(
            "new", "keys", "--project", Self.project, "--root-keys", "2", "--root-threshold", "2", "--mirror", mirror,
            "--until", "2y")
        #expect(made.contains("root 1"))
        try move("keys/root-2.key", to: "ben/root.key")
        try copy("keys/1.root", to: "ben/1.root")
        try keys("rotate", "keys", "--role", "release", "--until", "3y")
        try copy("keys/2.root.pending", to: "mail/2.root.pending")
        let shown = try keys("sign", "mail/2.root.pending", "--with", "ben", ends: 64)
        for key in try fingerprints("keys/2.root.pending") { #expect(shown.contains(key), "\(key) \(shown)") }
        #expect(shown.contains("2 of 2") && shown.contains("1 of 1"), "\(shown)")
        #expect(shown.contains("mirror     \(mirror)"), "\(shown)")
        for name in ["keys/1.root", "keys/2.root.pending"] {
            let until = try #require(
                try tool.run(["keys", "show", name]).output.split(separator: "\n").first { $0.hasPrefix("until") }?
                    .split(separator: " ").last)
            #expect(shown.contains("until") && shown.contains(until), "\(until): \(shown)")
        }
        #expect(shown.contains("release: \(try fingerprints("ben/1.root")[2]) is no longer valid"), "\(shown)")
        #expect(!exists("mail/2.root"))
        let signed = try keys("sign", "mail/2.root.pending", "--with", "ben", "--yes")
        #expect(signed.contains("2.root has enough signatures"), "\(signed)")
        #expect(exists("mail/2.root") && !exists("mail/2.root.pending"))
    }

    @Test("A first root is shown with every key")
    func first() throws {
        try keys("new", "ben", "--project", "com.example.bridge")
        let ben = try #require(try named("root", by: "ben/1.root").first)
        try scratch.write(Data("\(ben)\n".utf8), to: "ben.pub")
        try move("ben/root.key", to: "drawer/root.key")
        let told = try keys(
            "new", "ada", "--project", Self.project, "--root-public", "ben.pub", "--root-threshold", "2")
        let all = try fingerprints("ada/1.root.pending")
        for key in all { #expect(told.contains(key), "\(told)") }
        let shown = try keys("sign", "ada/1.root.pending", "--with", "drawer", ends: 64)
        for key in all { #expect(shown.contains(key), "\(shown)") }
        #expect(!exists("ada/1.root"))
        try keys("sign", "ada/1.root.pending", "--with", "drawer", "--yes")
        #expect(exists("ada/1.root"))
    }

    @Test("A second root of a number that the key directory has passed is not signed")
    func fork() throws {
        try keys("new", "keys", "--project", Self.project)
        try copy("keys/1.root", to: "other/1.root")
        try copy("keys/release.key", to: "other/release.key")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600], ofItemAtPath: scratch.path + "/other/release.key")
        try keys("rotate", "other", "--role", "release")
        try keys("rotate", "keys", "--role", "fresh")
        let refused = try keys("sign", "other/2.root.pending", "--with", "keys", "--yes", ends: 77)
        #expect(refused.contains("keys holds root 2 already"), "\(refused)")
        #expect(!exists("other/2.root"))
    }

    @Test("Whoever has missed a change signs the next one: the roots between have to follow the one that is held")
    func missed() throws {
        try keys("new", "keys", "--project", Self.project)
        try copy("keys/1.root", to: "ben/1.root")
        try keys("rotate", "keys", "--role", "fresh")
        try copy("keys/root.key", to: "ben/root.key")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: scratch.path + "/ben/root.key")
        try FileManager.default.removeItem(atPath: scratch.path + "/keys/root.key")
        try keys("rotate", "keys", "--role", "release")
        try copy("keys/3.root.pending", to: "mail/3.root.pending")
        let gap = try keys("sign", "mail/3.root.pending", "--with", "ben", "--yes", ends: 66)
        #expect(gap.contains("2.root"), "\(gap)")
        try keys("new", "thief", "--project", Self.project)
        try keys("rotate", "thief", "--role", "fresh")
        try copy("thief/2.root", to: "mail/2.root")
        try keys("sign", "mail/3.root.pending", "--with", "ben", "--yes", ends: 77)
        try copy("keys/2.root", to: "mail/2.root")
        try keys("sign", "mail/3.root.pending", "--with", "ben", "--yes")
        #expect(exists("mail/3.root"))
    }

    @Test(
        "On a terminal a person is asked, and nothing but yes signs",
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/script")), arguments: ["yes", "no", ""])
    func asked(answer: String) throws {
        try keys("new", "keys", "--project", Self.project)
        try move("keys/root.key", to: "drawer/root.key")
        try copy("keys/1.root", to: "drawer/1.root")
        try keys("rotate", "keys", "--role", "release")
        let process = tool.process([])
        process.executableURL = URL(fileURLWithPath: "/usr/bin/script")
        process.arguments = ["-qec", "\(Tool.url.path) keys sign keys/2.root.pending --with drawer", "/dev/null"]
        process.standardInput = try FileHandle(forReadingFrom: scratch.write(Data("\(answer)\n".utf8), to: "answer"))
        let outcome = try tool.run(process)
        #expect(outcome.status == (answer == "yes" ? 0 : 77), "\(outcome.output)")
        #expect(outcome.output.contains("release: SHA256:"), "\(outcome.output)")
        #expect(exists("keys/2.root") == (answer == "yes"))
        #expect(exists("keys/2.root.pending") == (answer != "yes"))
    }

    @Test("A key is changed without the root key at hand: the pending root is made, and signed where that key is")
    func withoutRootKey() throws {
        try keys("new", "keys", "--project", Self.project)
        try move("keys/root.key", to: "stick/root.key")
        let told = try keys("rotate", "keys", "--role", "release")
        #expect(told.contains("root 1 has 0 of the 1 signatures"), "\(told)")
        #expect(exists("keys/2.root.pending") && exists("keys/release-2.key"))
        try keys("sign", "keys/2.root.pending", "--with", "stick", "--from", "keys/1.root", "--yes")
        try scratch.write(Data("one".utf8), to: "assets/a.txt")
        let published = try tool.run(["publish", "assets", "--to", "site", "--sign", "keys"])
        #expect(published.status == 0, "\(published.error)")
    }

    @Test("A key with a passphrase is left to ssh-keygen and its agent, and the message says how")
    func passphrase() throws {
        try #require(FileManager.default.isExecutableFile(atPath: "/usr/bin/ssh-keygen"))
        try keys("new", "keys", "--project", Self.project)
        try scratch.write(Data("one".utf8), to: "assets/a.txt")
        let lock = tool.process([])
        lock.executableURL = URL(fileURLWithPath: "/usr/bin/ssh-keygen")
        lock.arguments = ["-q", "-p", "-P", "", "-N", "correct horse", "-f", "keys/release.key"]
        try #require(try tool.run(lock).status == 0)
        let publish = ["publish", "assets", "--to", "site", "--sign", "keys"]
        let refused = try tool.run(publish)
        #expect(refused.status == 77, "\(refused.error)")
        #expect(refused.error.contains("keys/release.key: it has a passphrase"), "\(refused.error)")
        #expect(refused.error.contains("ssh-add") && refused.error.contains("--signer"), "\(refused.error)")
        #expect(!exists("site/manifest.json"))
        // A signer that has the key elsewhere, without a passphrase.
        let open = tool.process([])
        open.executableURL = URL(fileURLWithPath: "/bin/sh")
        open.arguments = [
            "-c",
            "mkdir agent && cp keys/release.key agent/ && ssh-keygen -q -p -P 'correct horse' -N '' -f agent/release.key",
        ]
        try #require(try tool.run(open).status == 0)
        let script = "exec ssh-keygen -Y sign -n \"$1\" -f \"\(scratch.path)/agent/${1#syncagent-}.key\"\n"
        let signer = try scratch.write(Data("#!/bin/sh\n\(script)".utf8), to: "signer")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: signer.path)
        let signed = try tool.run(publish + ["--signer", "./signer"])
        #expect(signed.status == 0, "\(signed.error)")
    }

    @Test("All root keys are lost after a change of keys: new ones go on from its number, and machines pin anew")
    func recovery() throws {
        let set = try SignedSet()
        try set.pin()
        try set.keys("rotate", "keys", "--role", "release")
        try set.publish("two")
        #expect(try set.pull().status == 0)
        try set.remove("keys")
        try set.keys("new", "keys", "--project", "com.example.tower", "--after", "site")
        #expect(set.exists("keys/3.root") && !set.exists("keys/1.root"))
        try set.publish("three", "--allow-other-keys")
        let held = try set.pull()
        #expect(held.status == 77, "\(held.error)")
        #expect(held.error.contains("trust forget com.example.tower"), "\(held.error)")
        #expect(try set.text("tower/a.txt") == "two")
        let digest = try #require(
            try set.tool.run(["keys", "show", "keys", "--json"]).objects().first?["sha256"] as? String)
        for anchor in ["keys/3.root", "SHA256:\(digest)", "first"] {
            _ = try set.tool.run(["trust", "forget", "com.example.tower"])
            let outcome = try set.pull("--trust", anchor)
            #expect(outcome.status == 0, "\(anchor): \(outcome.error)")
            #expect(try set.numbers().first == 3)
        }
        #expect(try set.text("tower/a.txt") == "three")
        // The former roots are of no use any more, and may go.
        for name in ["site/trust/1.root", "site/trust/2.root"] where set.exists(name) { try set.remove(name) }
        for anchor in ["SHA256:\(digest)", "first"] {
            _ = try set.tool.run(["trust", "forget", "com.example.tower"])
            let outcome = try set.pull("--trust", anchor)
            #expect(outcome.status == 0, "\(anchor): \(outcome.error)")
        }
        // And so on, as ever.
        try set.keys("rotate", "keys", "--role", "fresh")
        try set.publish("four")
        #expect(try set.pull().status == 0)
        #expect(try set.numbers().first == 4)
    }

    @Test("New keys of several people after a loss: each says that there is nothing to compare them with")
    func recoveryOfSeveral() throws {
        try keys("new", "keys", "--project", Self.project)
        try keys("rotate", "keys", "--role", "fresh")
        try keys("new", "ben", "--project", "com.example.bridge")
        let ben = try #require(try named("root", by: "ben/1.root").first)
        try scratch.write(Data("\(ben)\n".utf8), to: "ben.pub")
        try move("ben/root.key", to: "drawer/root.key")
        let new = ["--root-public", "ben.pub", "--root-threshold", "2"]
        for place in ["ben", "ben/1.root"] {
            let other = try tool.run(["keys", "new", "no", "--project", Self.project, "--after", place] + new)
            #expect(other.status == 77 && other.error.contains("a root of com.example.bridge"), "\(other.error)")
        }
        #expect(!exists("no"))
        let made = try tool.run(["keys", "new", "ada", "--project", Self.project, "--after", "keys/2.root"] + new)
        #expect(made.error.contains("new keys of \(Self.project) begin with root 3"), "\(made.error)")
        #expect(made.error.contains("--first"), "\(made.error)")
        let alone = try keys("sign", "ada/3.root.pending", "--with", "drawer", "--yes", ends: 66)
        #expect(alone.contains("--from") && alone.contains("--first"), "\(alone)")
        // Where there are roots, it is no beginning.
        try copy("ben/1.root", to: "other/1.root")
        try copy("drawer/root.key", to: "other/root.key")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600], ofItemAtPath: scratch.path + "/other/root.key")
        try keys("sign", "ada/3.root.pending", "--with", "other", "--first", "--yes", ends: 77)
        try copy("keys/1.root", to: "other/1.root")
        let held = try keys("sign", "ada/3.root.pending", "--with", "other", "--first", "--yes", ends: 77)
        #expect(held.contains("other/1.root is there"), "\(held)")
        #expect(!exists("ada/3.root"))
        try keys("sign", "ada/3.root.pending", "--with", "drawer", "--first", "--yes")
        #expect(exists("ada/3.root"))
    }
}
