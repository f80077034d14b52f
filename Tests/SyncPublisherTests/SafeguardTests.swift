import Foundation
import SyncManifest
import SyncModel
import SyncTestKit
import SyncTrust
import Testing

@testable import SyncPublisher

/// What is probably a mistake is refused before anything is in place, and done for whoever asks for it.
@Suite(.timeLimit(.minutes(10)))
struct SafeguardTests {
    static let body = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"
    static let keys = [
        "-----BEGIN OPENSSH PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\r\n", "-----BEGIN RSA PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\n", "\u{FEFF}\n  -----BEGIN DSA PRIVATE KEY-----\n",
        "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n-----BEGIN EC PRIVATE KEY-----\n",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n",
        "Bag Attributes\n    friendlyName: x\n-----BEGIN PRIVATE KEY-----\n",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n",
        "PuTTY-User-Key-File-3: ssh-ed25519\n",
    ]

    @Test("A private key is refused by its path, whatever its form and size; nothing of it is left", arguments: keys)
    func privateKeys(header: String) throws {
        let set = try PublishedSet(.manySmall(20))
        try set.root.write(header + Self.body, to: "in/deep/er/small")
        try set.root.write(header + String(repeating: Self.body, count: 2_000), to: "in/large")
        for change: (inout PublishOptions) -> Void in [{ _ in }, { $0.isLoose = true }] {
            let error = set.failure(change)
            #expect(error?.exitStatus == .refused)
            #expect(error?.details == ["deep/er/small", "large"])
            #expect(error?.remedy.contains("--allow-private-keys") == true)
            let left = try set.bytes(below: "out")
            #expect(left.isEmpty, "\(left.keys)")
        }
        #expect(throws: PublishError.self) { try set.options.preview() }
        try set.publish { $0.permits = .privateKeys }
        #expect(try set.unpacked().bytes("deep/er/small") == Array((header + Self.body).utf8))
    }

    @Test(
        "A key that was published once because somebody asked for it is found again, though nothing has touched it",
        arguments: [false, true])
    func permittedOnce(isLoose: Bool) throws {
        var set = try PublishedSet(.manySmall(20))
        try set.root.write("-----BEGIN PRIVATE KEY-----\n" + Self.body, to: "in/deep/key")
        set.options.isLoose = isLoose
        set.options.stampCache = set.root.path("stamps")
        set.options.now = .max
        try set.publish { $0.permits = .privateKeys }
        #expect(
            try set.publish { $0.permits = .privateKeys }.unreadFiles == 21, "the cache holds for who asks for keys")
        #expect(set.failure()?.details == ["deep/key"])
        try set.publish { $0.exclude = ["deep/key"] }
        #expect(try set.publish { $0.exclude = ["deep/key"] }.unreadFiles == 20)
        #expect(set.failure()?.details == ["deep/key"])
    }

    @Test(
        "Files that only speak of private keys are published",
        arguments: [
            "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n",
            "-----BEGIN CERTIFICATE-----\nPRIVATE KEY\n-----END CERTIFICATE-----\n",
            "begin with -----BEGIN PRIVATE KEY-----\n", "", "\n\n",
        ])
    func publicFiles(text: String) throws {
        let set = try PublishedSet(.manySmall(3))
        try set.root.write(text, to: "in/a")
        try set.publish()
    }

    @Test("A source that has lost more than half of its files is refused, half of them is not; a dry run says so")
    func fewer() throws {
        let set = try PublishedSet(AssetTree())
        let empty = set.failure()
        #expect(empty?.exitStatus == .refused && empty?.summary.hasSuffix("in has no files or links") == true)
        #expect(try set.bytes(below: "out").isEmpty)
        func write(_ count: Int) throws {
            try set.replace(
                AssetTree(
                    Dictionary(
                        uniqueKeysWithValues: (0..<count).map { ("f\($0)", .file([UInt8($0)], executable: false)) })))
        }
        try write(6)
        try set.publish()
        let before = try set.bytes(below: "out")
        for count in [0, 2] {
            try write(count)
            let error = set.failure()
            #expect(error?.exitStatus == .refused && error?.remedy.contains("--allow-fewer") == true)
            #expect(
                error?.summary.hasSuffix("less than half of the 6 of revision 1") == true, "\(error?.summary ?? "")")
            #expect(set.failure { $0.base = .none }?.summary == error?.summary)
            #expect(try set.bytes(below: "out") == before)
            let warnings = try set.options.preview().warnings
            #expect(warnings.contains { $0.hasPrefix("publish would refuse this: ") })
        }
        try write(3)
        #expect(try set.publish().revision == 2)
        try write(0)
        #expect(try set.publish { $0.permits = .fewerFiles }.revision == 3)
    }

    @Test("Over signed releases an unsigned one is refused, and so are keys that the roots do not lead to")
    func signed() throws {
        var set = try PublishedSet(.manySmall(3))
        let first = try SigningTests.keys(set)
        set.options.signing = try SigningTests.signing(first)
        try set.publish()
        try set.root.write("new", to: "in/new")
        let before = try set.bytes(below: "out")
        let unsigned = set.failure { $0.signing = nil }
        #expect(unsigned?.exitStatus == .refused && unsigned?.remedy.contains("--allow-unsigned") == true)
        let others = try SigningTests.keys(set, "others")
        let other = set.failure { $0.signing = try? SigningTests.signing(others) }
        #expect(other?.exitStatus == .refused && other?.remedy.contains("--allow-other-keys") == true)
        #expect(other?.summary.contains("out/trust/1.root") == true)
        #expect(try set.bytes(below: "out") == before)

        // Roots that the keys continue from need not be at hand.
        let outcome = try first.rotated(.fresh, replacing: nil, by: nil, now: 0, until: 1_000_000)
        guard let rotated = outcome.keys else { throw PublishedSet.Wrong("keys that are pending") }
        try FileManager.default.removeItem(atPath: set.root.path("keys/1.root"))
        let newest = try KeyDirectory(set.root.path("keys"))
        #expect(rotated.newest.content.number == 2 && newest.roots.count == 1)
        set.options.signing = try SigningTests.signing(newest)
        try set.publish()
        #expect(set.root.read("out/trust/2.root") != nil)

        let replaced = try set.publish {
            // These keys have signed nothing here.
            $0.permits = [.otherKeys, .foreignBase]
            $0.signing = try? SigningTests.signing(others)
        }
        #expect(replaced.fresh?.root == 1)
        #expect(set.root.read("out/trust/1.root") == others.newest.statement.bytes)
        #expect(set.root.read("out/trust/2.root") == nil, "every pull would refuse it")
        try set.root.write("newer", to: "in/new")
        let plain = try set.publish {
            $0.permits = .unsigned
            $0.signing = nil
        }
        #expect(plain.fresh == nil && plain.warnings.contains { $0.contains("is not: machines that are") })
    }

    @Test("Keys inside the source or the output are refused; roots alone are not", arguments: ["in", "out"])
    func placeOfKeys(place: String) throws {
        let set = try PublishedSet(.manySmall(3))
        try set.publish()
        let keys = try SigningTests.keys(set, "\(place)/deep/keys")
        let places = [set.root.path("in"), set.root.path("out")]
        let error = SigningTests.error { () throws(PublishError) in try keys.requireApart(from: places) }
        #expect(error?.exitStatus == .refused && error?.summary.contains("/\(place)/deep/keys") == true)
        for name in ["root", "release", "fresh"] {
            try FileManager.default.removeItem(atPath: set.root.path("\(place)/deep/keys/\(name).key"))
        }
        try keys.requireApart(from: places)
        let apart = try SigningTests.keys(set, "apart")
        try apart.requireApart(from: places + [set.root.path("none")])
        // Nobody can tell what is in it.
        try set.root.link("loop", to: "loop")
        #expect(throws: PublishError.self) { try apart.requireApart(from: [set.root.path("loop")]) }
    }

    @Test(
        "Version control and the state of pulls are left out, by name at any depth; a pattern or an option keeps the first"
    )
    func leftOut() throws {
        let set = try PublishedSet()
        for path in [
            ".git/config", "sub/.git", ".hg/a", "x/.svn/b", ".syncagent/index", "sub/.syncagent/part", "f",
            ".gitmodules",
        ] { try set.root.write("x", to: "in/\(path)") }
        let report = try set.publish()
        #expect(report.usuallyLeftOut == [".git", ".hg", ".svn", ".syncagent"] && report.excluded == 6)
        #expect(try set.unpacked().paths == [".gitmodules", "f"])
        try set.publish { $0.permits = .versionControl }
        #expect(try set.unpacked().paths == [".git/config", ".gitmodules", ".hg/a", "f", "sub/.git", "x/.svn/b"])
        try set.root.write("!.git\n", to: "in/.syncignore")
        #expect(try set.publish().usuallyLeftOut == [".hg", ".svn", ".syncagent"])
        #expect(try set.unpacked().paths == [".git/config", ".gitmodules", "f", "sub/.git"])
    }

    @Test(
        "Files of which the file system says that they are empty are read, and never taken to be unchanged",
        .enabled(if: readToEnd("/proc/sys/kernel/random/boot_id") != nil))
    func unstatedSizes() throws {
        var set = try PublishedSet()
        try set.root.write("/*\n!/boot_id\n", to: "few")
        set.options.directory = "/proc/sys/kernel/random"
        set.options.excludeFrom = [set.root.path("few")]
        set.options.stampCache = set.root.path("stamps")
        set.options.now = .max
        try set.publish()
        let identity = readToEnd("/proc/sys/kernel/random/boot_id")
        #expect(try set.unpacked().bytes("boot_id") == identity && identity?.isEmpty == false)
        #expect(try set.manifest().files.size(0) == UInt64(identity?.count ?? 0))
        let again = try set.publish()
        #expect(again.unchanged && again.unreadFiles == 0)

        // Larger than a chunk.
        guard let long = readToEnd("/proc/kallsyms"), long.count > set.options.chunkThreshold else { return }
        try set.root.write("/*\n!/kallsyms\n", to: "few")
        try set.publish {
            $0.directory = "/proc"
            $0.output = set.root.path("long")
        }
        #expect(try set.unpacked("long").bytes("kallsyms") == long)
    }

    @Test(
        "Another project's name is refused, and --rename means it: packs stay, revisions are counted on, and the output says so"
    )
    func rename() throws {
        let set = try PublishedSet(.manySmall(5))
        try set.publish()
        let refused = set.failure { $0.project = "com.example.spire" }
        #expect(refused?.exitStatus == .usage && refused?.description.contains("--rename") == true)
        let report = try set.publish {
            $0.project = "com.example.spire"
            $0.permits = .otherProject
        }
        #expect(report.revision == 2 && report.newBytes == 0 && report.packsReused > 0)
        #expect(report.warnings.contains { $0.contains("com.example.spire from now on") }, "\(report.warnings)")
        #expect(try set.manifest().project == "com.example.spire")
        #expect(try set.unpacked().nodes == AssetTree.manySmall(5).nodes)
        let next = try set.publish { $0.project = nil }
        #expect(next.unchanged && next.warnings.isEmpty)
    }

    @Test("A set with channels, and a signed one, keep their name")
    func noRename() throws {
        let set = try PublishedSet(.manySmall(5))
        try set.publish { $0.keepsReleases = true }
        func change(_ options: inout PublishOptions) {
            options.project = "com.example.spire"
            options.permits = .otherProject
        }
        #expect(set.failure(change)?.description.contains("has channels") == true)
        let (signed, _) = try SignedBaseTests.signed()
        #expect(signed.failure(change)?.description.contains("keys of the new project") == true)
        let unsigned = signed.failure {
            change(&$0)
            ($0.signing, $0.permits) = (nil, [.otherProject, .unsigned])
        }
        #expect(unsigned?.description.contains("keeps its name") == true, "\(String(describing: unsigned))")
        #expect(try signed.manifest().project == "com.example.tower")
    }
}

/// FileManager believes the size.
private func readToEnd(_ path: String) -> [UInt8]? {
    guard let file = FileHandle(forReadingAtPath: path), let data = try? file.readToEnd() else { return nil }
    return Array(data)
}
