import CommandTestSupport
import Foundation
import Testing

/// What says whom to trust is read only where nobody else can write another answer: as programs of hooks are.
@Suite("Files that decide whom to trust", .timeLimit(.minutes(5)))
struct ChangeableTrustTests {
    /// What makes others able to change a file.
    enum Harm: CaseIterable, Sendable {
        case group, others, directory, above, owner, link

        /// - Parameter path: `…/a/b/file`.
        func happen(to path: String) throws {
            let (files, folder) = (FileManager.default, (path as NSString).deletingLastPathComponent)
            switch self {
            case .group: #expect(chmod(path, 0o664) == 0)
            case .others: #expect(chmod(path, 0o646) == 0)
            case .directory: #expect(chmod(folder, 0o777) == 0)
            case .above: #expect(chmod((folder as NSString).deletingLastPathComponent, 0o777) == 0)
            case .owner: #expect(chown(path, 4242, 4242) == 0)
            case .link:
                // A link that is sound itself, to a file in a directory that is not.
                try files.createDirectory(atPath: folder + "/open", withIntermediateDirectories: false)
                try files.moveItem(atPath: path, toPath: folder + "/open/file")
                #expect(chmod(folder + "/open", 0o777) == 0)
                try files.createSymbolicLink(atPath: path, withDestinationPath: "open/file")
            }
        }

        static var possible: [Harm] { allCases.filter { $0 != .owner || geteuid() == 0 } }
    }

    private static func refused(_ outcome: Tool.Outcome, _ status: Int32, _ name: String) {
        #expect(outcome.status == status, "\(outcome.status) \(outcome.error)")
        #expect(outcome.error.contains(name), "\(outcome.error)")
        #expect(
            outcome.error.contains("others may write to it") || outcome.error.contains("belongs to another user"),
            "\(outcome.error)")
    }

    @Test("A root that is pinned: by --trust 77, by the configuration 78", arguments: Harm.possible)
    func pins(_ harm: Harm) throws {
        let set = try SignedSet()
        try set.scratch.write(Data(), to: "a/b/x")
        try set.copy("keys/1.root", to: "a/b/tower.root")
        let path = "\(set.scratch.path)/a/b/tower.root"
        try harm.happen(to: path)
        Self.refused(try set.pull("--trust", "a/b/tower.root"), 77, "tower.root")
        try set.scratch.write(
            Data(#"{"trust": {"pins": {"com.example.tower": "\#(path)"}}}"#.utf8), to: ".config/syncagent/config.json")
        Self.refused(try set.pull(), 78, "tower.root")
        #expect(!set.exists("tower"))
    }

    @Test("A root in a directory of keys, and one that --from names", arguments: Harm.possible)
    func roots(_ harm: Harm) throws {
        let set = try SignedSet()
        try set.scratch.write(Data(), to: "a/b/x")
        for name in ["1.root", "release.key", "fresh.key"] { try set.copy("keys/\(name)", to: "a/b/\(name)") }
        try set.scratch.write(Data(), to: "other/x")
        for name in ["1.root", "release.key"] { try set.copy("keys/\(name)", to: "other/\(name)") }
        try harm.happen(to: set.scratch.path + "/a/b/1.root")
        Self.refused(try set.tool.run(["publish", "assets", "--to", "site", "--sign", "a/b"]), 77, "1.root")
        Self.refused(try set.tool.run(["keys", "refresh", "site", "--sign", "a/b"]), 77, "1.root")
        Self.refused(try set.tool.run(["keys", "rotate", "a/b", "--role", "fresh"]), 77, "1.root")
        try set.keys("rotate", "other", "--role", "release")
        try set.remove("other/1.root")
        let sign = ["keys", "sign", "other/2.root.pending", "--with", "keys/root.key", "--yes"]
        Self.refused(try set.tool.run(sign + ["--from", "a/b/1.root"]), 77, "1.root")
        #expect(!set.exists("other/2.root"))
    }

    @Test("A public key that is to become a root key", arguments: Harm.possible)
    func publicKeys(_ harm: Harm) throws {
        let set = try SignedSet()
        let shown = try set.tool.run(["keys", "show", "keys", "--json"]).objects().first
        let key = try #require(((shown?["root"] as? [String: Any])?["keys"] as? [String])?.first)
        try set.scratch.write(Data("\(key)\n".utf8), to: "a/b/ben.pub")
        try harm.happen(to: set.scratch.path + "/a/b/ben.pub")
        let new = ["keys", "new", "ada", "--project", "p", "--root-public", "a/b/ben.pub"]
        Self.refused(try set.tool.run(new), 77, "ben.pub")
        Self.refused(
            try set.tool.run(["keys", "rotate", "keys", "--role", "root", "--by", "a/b/ben.pub"]), 77, "ben.pub")
        #expect(!set.exists("ada"))
    }

    @Test("Authorities of TLS, by the option, the configuration and the environment [F057]", arguments: Harm.possible)
    func authorities(_ harm: Harm) throws {
        let set = try SignedSet()
        try set.scratch.write(Data(), to: "a/b/x")
        let path = "\(set.scratch.path)/a/b/ca.pem"
        try set.scratch.write(
            Data(contentsOf: URL(fileURLWithPath: "/etc/ssl/certs/ca-certificates.crt")), to: "a/b/ca.pem")
        #expect(try set.tool.run(["plan", set.url, "--cacert", "a/b/ca.pem"]).status == 0)
        try harm.happen(to: path)
        for command in ["pull", "plan"] {
            Self.refused(try set.tool.run([command, set.url, "--cacert", "a/b/ca.pem"]), 78, "ca.pem")
        }
        Self.refused(try set.tool.run(["pull", set.url], environment: ["SSL_CERT_FILE": path]), 78, "ca.pem")
        try set.scratch.write(Data(#"{"tls": {"ca_file": "\#(path)"}}"#.utf8), to: ".config/syncagent/config.json")
        Self.refused(try set.tool.run(["pull", set.url]), 78, "ca.pem")
    }

    @Test("A program that signs", arguments: Harm.possible)
    func signer(_ harm: Harm) throws {
        let set = try SignedSet()
        try set.scratch.write(Data("#!/bin/sh\ntouch ran\nexit 1\n".utf8), to: "a/b/signer")
        let path = "\(set.scratch.path)/a/b/signer"
        #expect(chmod(path, 0o755) == 0)
        try set.remove("keys/release.key")
        try harm.happen(to: path)
        // Whatever may be written may not have lost its right to be run.
        if harm == .group || harm == .others { #expect(chmod(path, harm == .group ? 0o775 : 0o757) == 0) }
        let publish = ["publish", "assets", "--to", "site", "--sign", "keys", "--signer", "a/b/signer"]
        Self.refused(try set.tool.run(publish), 77, "signer")
        #expect(!set.exists("ran"))
    }

    @Test("A key that others can read")
    func readable() throws {
        let set = try SignedSet()
        let path = "\(set.scratch.path)/keys/fresh.key"
        #expect(chmod(path, 0o644) == 0)
        let outcome = try set.tool.run(["keys", "refresh", "site", "--sign", "keys"])
        #expect(outcome.status == 77 && outcome.error.contains("run: chmod 600"), "\(outcome.status) \(outcome.error)")
    }
}
