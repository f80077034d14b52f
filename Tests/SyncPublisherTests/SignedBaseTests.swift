import Foundation
import SyncManifest
import SyncModel
import SyncTestKit
import SyncTrust
import Testing

@testable import SyncPublisher

/// What somebody else has written into the output is not signed.
@Suite(.timeLimit(.minutes(10)))
struct SignedBaseTests {
    /// A set that was signed once, by a machine that remembers it.
    static func signed(_ tree: AssetTree = .manySmall(5)) throws -> (set: PublishedSet, keys: KeyDirectory) {
        var set = try PublishedSet(tree)
        let keys = try SigningTests.keys(set)
        set.options.signing = try signing(set, keys, now: 1_000)
        try set.publish()
        return (set, keys)
    }

    /// Signs with a memory; another name is another machine.
    static func signing(_ set: PublishedSet, _ keys: KeyDirectory, now: Int64, _ machine: String = "state") throws
        -> Signing
    {
        var signing = try Signing(keys, [.release, .fresh], program: nil, now: now)
        signing.memory = SigningMemory(in: set.root.path(machine), for: set.root.path("out"))
        return signing
    }

    /// Puts something into the text of the published manifest.
    static func forge(_ set: PublishedSet, _ change: (String) -> String) throws {
        let text = String(decoding: try #require(set.root.read("out/manifest.json")), as: UTF8.self)
        let forged = change(text)
        try #require(forged != text)
        try set.root.write(forged, to: "out/manifest.json")
    }

    static let forgeries: [(name: String, from: String, to: String)] = [
        ("user data", "\"packs\":", "\"x-user-data\":{\"evil\":1},\"packs\":"),
        ("a revision", "\"revision\":1,", "\"revision\":9223372036854775805,"),
        ("a time", "2026-11-20T02:00:00Z", "2026-11-20T02:00:01Z"),
    ]

    @Test(
        "A base that this machine has not signed, and whose signature does not check, is refused with 77",
        arguments: forgeries, ["state", "another machine"])
    func forged(
        _ forgery: (name: String, from: String, to: String), machine: String
    ) throws {
        var (set, keys) = try Self.signed()
        try Self.forge(set) { $0.replacing(forgery.from, with: forgery.to) }
        let fresh = set.root.read("out/trust/fresh")
        set.options.signing = try Self.signing(set, keys, now: 2_000, machine)
        let error = set.failure()
        #expect(error?.exitStatus == .refused, "\(String(describing: error))")
        #expect(error?.description.contains("out/manifest.json") == true)
        #expect(error?.description.contains("--accept-base") == true, "\(String(describing: error))")
        #expect(throws: PublishError.self) { try set.options.preview() }
        #expect(set.root.read("out/trust/fresh") == fresh)
        #expect(set.root.read("out/trust/2.release") == nil)
        // Without a base nothing of it is continued, and the numbers go on.
        if machine == "state" {
            let report = try set.publish { $0.base = .none }
            #expect(report.revision == 2)
            #expect(try set.manifest().userData == nil)
        }
    }

    @Test("A base that is signed by keys of the newest root is continued by a machine that never saw it")
    func signedElsewhere() throws {
        var (set, keys) = try Self.signed()
        try set.root.write("new", to: "in/new")
        set.options.signing = try Self.signing(set, keys, now: 2_000, "another machine")
        #expect(try set.publish().revision == 2)
        // The first machine has not seen this one, and can check it as well.
        try set.root.write("newer", to: "in/new")
        set.options.signing = try Self.signing(set, keys, now: 3_000)
        #expect(try set.publish().revision == 3)
    }

    @Test("An older release that is put back is refused as the base")
    func olderBase() throws {
        var (set, keys) = try Self.signed()
        let old = try set.bytes(below: "out")
        try set.root.write("new", to: "in/new")
        set.options.signing = try Self.signing(set, keys, now: 2_000)
        try set.publish()
        try FileManager.default.removeItem(atPath: set.root.path("out"))
        for (path, bytes) in old { try set.root.write(bytes, to: "out/\(path)") }
        set.options.signing = try Self.signing(set, keys, now: 3_000)
        let error = set.failure()
        #expect(error?.exitStatus == .refused, "\(String(describing: error))")
        #expect(error?.summary.contains("revision 2") == true, "\(error?.summary ?? "")")
    }

    @Test(
        "An older release that is put back and accepted is signed under a number above all that were signed, and they stay known",
        arguments: ["state", "another machine"])
    func olderBaseAccepted(machine: String) throws {
        var (set, keys) = try Self.signed()
        let old = try set.bytes(below: "out")
        for number in 2...3 {
            try set.root.write("new \(number)", to: "in/new")
            set.options.signing = try Self.signing(set, keys, now: Int64(number) * 1_000)
            #expect(try set.publish().revision == UInt64(number))
        }
        // The source is as it was then, too. Another machine learns the numbers from the statements, which are still there.
        unlink(set.root.path("in/new"))
        if machine == "state" { try FileManager.default.removeItem(atPath: set.root.path("out")) }
        for (path, bytes) in old { try set.root.write(bytes, to: "out/\(path)") }
        set.options.signing = try Self.signing(set, keys, now: 4_000, machine)
        let report = try set.publish { $0.permits = .foreignBase }
        #expect(report.revision == 4 && report.fresh?.revision == 4 && !report.unchanged)
        try set.root.write("newer", to: "in/new")
        set.options.signing = try Self.signing(set, keys, now: 5_000, machine)
        #expect(try set.publish().revision == 5)
    }

    @Test("Over a base elsewhere nothing else is signed under a number that was signed, whoever has put it there")
    func signedOnce() throws {
        var (set, keys) = try Self.signed()
        for (path, bytes) in try set.bytes(below: "out") { try set.root.write(bytes, to: "base/\(path)") }
        (set.options.base, set.options.permits) = (.manifest(set.root.path("base/manifest.json")), .foreignBase)
        try set.root.write("second", to: "in/new")
        set.options.signing = try Self.signing(set, keys, now: 2_000)
        #expect(try set.publish().fresh?.revision == 2)
        let same = try set.publish()
        #expect(same.unchanged && same.fresh?.revision == 2)
        let statement = try #require(set.root.read("out/trust/2.release"))
        // What will be published next, under the number of what is signed.
        try set.root.write("third", to: "in/new")
        try set.publish {
            ($0.signing, $0.revision, $0.output) = (nil, 2, set.root.path("forged"))
        }
        for name in ["manifest.json", "manifest.json.zst"] {
            try set.root.write(try #require(set.root.read("forged/\(name)")), to: "out/\(name)")
        }
        set.options.signing = try Self.signing(set, keys, now: 3_000)
        let report = try set.publish()
        #expect(report.revision == 3 && report.fresh?.revision == 3)
        #expect(set.root.read("out/trust/2.release") == statement)
    }

    @Test("A machine that remembers nothing goes on above what its keys have signed there, also without a base")
    func withoutMemory() throws {
        var (set, keys) = try Self.signed()
        for number in 2...3 {
            try set.root.write("new \(number)", to: "in/new")
            set.options.signing = try Self.signing(set, keys, now: Int64(number) * 1_000)
            try set.publish()
        }
        set.options.signing = try Self.signing(set, keys, now: 4_000, "another machine")
        #expect(try set.publish { $0.base = .none }.fresh?.revision == 4)
        // Only the statements are left.
        try FileManager.default.removeItem(atPath: set.root.path("out/manifests"))
        for name in ["manifest.json", "manifest.json.zst"] { unlink(set.root.path("out/\(name)")) }
        set.options.signing = try Self.signing(set, keys, now: 5_000, "a third machine")
        #expect(try set.publish().fresh?.revision == 5)
    }

    @Test("A statement of an older revision takes nothing of what the machine remembers to have signed")
    func memoryKeepsTheHighest() throws {
        var (set, keys) = try Self.signed()
        let old = try #require(set.root.read("out/trust/fresh"))
        try set.root.write("new", to: "in/new")
        let signing = try Self.signing(set, keys, now: 2_000)
        set.options.signing = signing
        try set.publish()
        let statement = try SignedStatement(old, limit: Role.fresh.limit)
        let fresh = try FreshStatement(json: statement.json)
        try #require(fresh.revision == 1)
        signing.memory?.keep(statement, fresh, under: signing.roots, now: 3_000)
        let known = try signing.known
        #expect(known?.lastRevision == 2 && known?.newest.freshContent?.revision == 2)
        #expect(try #require(known?.newest.serial) > fresh.serial)
    }

    @Test("A pack of the base with one flipped byte is not signed again: its files are packed again, with a warning")
    func flippedByte() throws {
        let (set, keys) = try Self.signed()
        let pack = try #require(try set.manifest().packs.first)
        var bytes = try #require(set.root.read("out/\(pack.urls[0])"))
        bytes[bytes.count / 2] ^= 1
        try set.root.write(bytes, to: "out/\(pack.urls[0])")
        let report = try set.publish { $0.signing = try? Self.signing(set, keys, now: 2_000) }
        #expect(report.warnings.contains { $0.contains(pack.sha256.hex) }, "\(report.warnings)")
        #expect(try set.unpacked().nodes == AssetTree.manySmall(5).nodes)
    }

    @Test("An older statement that is put back is not renewed, though the newer release is gone")
    func olderStatement() throws {
        var (set, keys) = try Self.signed()
        let old = try #require(set.root.read("out/trust/fresh"))
        try set.root.write("new", to: "in/new")
        set.options.signing = try Self.signing(set, keys, now: 2_000)
        try set.publish()
        try set.root.write(old, to: "out/trust/fresh")
        unlink(set.root.path("out/trust/2.release"))
        let error = SigningTests.error { () throws(PublishError) in
            _ = try (try SigningTests.fresh(keys, now: 3_000, memory: set.options.signing?.memory)).refresh(
                .directory(set.root.path("out")))
        }
        #expect(error?.exitStatus == .refused, "\(String(describing: error))")
        #expect(error?.summary.contains("revision 2") == true, "\(error?.summary ?? "")")
        #expect(set.root.read("out/trust/fresh") == old)
        // Publishing goes on above what was signed.
        set.options.signing = try Self.signing(set, keys, now: 4_000)
        let report = try set.publish()
        #expect(report.fresh?.revision == 2)
        #expect(try #require(report.fresh?.serial) > 2)
    }

    @Test("A channel that was removed does not come back with its old statement")
    func removedChannel() throws {
        var (set, keys) = try Self.signed()
        set.options.signing = try Self.signing(set, keys, now: 2_000)
        (set.options.channel, set.options.keepsReleases) = ("beta", true)
        try set.root.write("new", to: "in/new")
        try set.publish()
        let memory = set.options.signing?.memory
        let old = try #require(set.root.read("out/trust/beta.fresh"))
        _ = try Channels(.directory(set.root.path("out"))).remove(
            "beta", signing: try SigningTests.fresh(keys, now: 3_000, memory: memory))
        let removed = try #require(set.root.read("out/trust/beta.fresh"))
        // Renewed, it stays removed.
        let kept = try (try SigningTests.fresh(keys, now: 4_000, memory: memory)).refresh(
            .directory(set.root.path("out")))
        #expect(kept.refused.isEmpty && kept.statements.last?.fresh.isRemoved == true)
        // The statement of the removal may be an older one: it says the same.
        try set.root.write(removed, to: "out/trust/beta.fresh")
        let same = try (try SigningTests.fresh(keys, now: 5_000, memory: memory)).refresh(
            .directory(set.root.path("out")))
        #expect(same.refused.isEmpty)
        try set.root.write(old, to: "out/trust/beta.fresh")
        let refreshed = try (try SigningTests.fresh(keys, now: 6_000, memory: memory)).refresh(
            .directory(set.root.path("out")))
        #expect(refreshed.refused.count == 1)
        #expect(refreshed.refused.first?.exitStatus == .refused)
        #expect(set.root.read("out/trust/beta.fresh") == old)
        #expect(refreshed.statements.map(\.fresh.channel) == [nil])
    }

    @Test("What is accepted all the same is told with what comes along; far too high a revision is not")
    func accepted() throws {
        var (set, keys) = try Self.signed()
        try Self.forge(set) {
            $0.replacing("\"packs\":", with: "\"x-user-data\":{\"evil\":1},\"packs\":").replacing(
                "\n]}", with: "\n],\"groups\":[{\"name\":\"g\",\"include\":[\"**\"],\"hooks\":[\"run\"]}]}")
        }
        set.options.signing = try Self.signing(set, keys, now: 2_000)
        let refused = try #require(set.failure())
        #expect(
            refused.details == ["what would be signed with it: the group g with the hooks run; x-user-data of 10 B"])
        set.options.permits = .foreignBase
        let report = try set.publish()
        #expect(report.revision == 2)
        let warning = try #require(report.warnings.first)
        #expect(warning.contains("out/manifest.json was accepted because of --accept-base"), "\(warning)")
        #expect(warning.hasSuffix("signed with it: the group g with the hooks run; x-user-data of 10 B"))
        // From now on it is this machine's.
        #expect(try set.publish { $0.permits = [] }.warnings.isEmpty)

        try Self.forge(set) { $0.replacing("\"revision\":2,", with: "\"revision\":1000003,") }
        let high = set.failure()
        #expect(high?.exitStatus == .refused)
        #expect(
            high?.summary.hasSuffix(
                "/out/manifest.json is revision 1000003, 1000001 above 2, the last one known to be signed") == true,
            "\(high?.summary ?? "")")
        #expect(try set.publish { $0.revision = 1_000_004 }.revision == 1_000_004)
        #expect(try set.publish().warnings.isEmpty)
    }

    @Test("Packs that are not here are named as unread before a base that nobody has signed is accepted")
    func unreadPacks() throws {
        var (set, keys) = try Self.signed()
        try Self.forge(set) { $0.replacing("\"packs\":", with: "\"x-user-data\":1,\"packs\":") }
        try FileManager.default.removeItem(atPath: set.root.path("out/packs"))
        set.options.signing = try Self.signing(set, keys, now: 2_000)
        let refused = try #require(
            set.failure {
                $0.base = .manifest(set.root.path("out/manifest.json"))
                $0.output = set.root.path("other")
            })
        #expect(refused.exitStatus == .refused)
        #expect(
            refused.details.first?.hasPrefix("what would be signed with it: ") == true
                && refused.details.first?.contains("not been read") == true, "\(refused.details)")
    }

    @Test("A revision that was signed, or a lower one, is not used again, whatever has become of the output")
    func numbersGoOn() throws {
        var (set, keys) = try Self.signed()
        try FileManager.default.removeItem(atPath: set.root.path("out"))
        set.options.signing = try Self.signing(set, keys, now: 2_000)
        #expect(set.failure { $0.revision = 1 }?.exitStatus == .usage)
        let report = try set.publish()
        #expect(report.revision == 2 && report.fresh?.serial == 2)
    }

    @Test("With a new release key the numbers start again, and what the old key has signed is no base")
    func newReleaseKey() throws {
        var (set, keys) = try Self.signed()
        guard let newer = try keys.rotated(.release, replacing: nil, by: nil, now: 1, until: 1_000_000).keys
        else { throw PublishedSet.Wrong("keys that are pending") }
        try set.root.write("new", to: "in/new")
        // Elsewhere nobody knows that it was good once.
        set.options.signing = try Self.signing(set, newer, now: 2_000, "another machine")
        let refused = set.failure()
        #expect(refused?.exitStatus == .refused)
        #expect(refused?.summary.contains("no release key of root 2 has signed") == true, "\(refused?.summary ?? "")")
        set.options.signing = try Self.signing(set, newer, now: 2_000)
        #expect(try set.publish().revision == 2)
    }

    @Test("Packs that were read are not read again until they change; --rehash reads all")
    func packsAreReadOnce() throws {
        var (set, keys) = try Self.signed()
        set.options.stampCache = set.root.path("stamps")
        set.options.now = Int64(Date().timeIntervalSince1970 * 1e9) + 10_000_000_000
        set.options.signing = try Self.signing(set, keys, now: 2_000)
        func bytesRead(trusting: Bool = true) throws -> UInt64 {
            var options = set.options
            options.trustsStamps = trusting
            var most: UInt64 = 0
            _ = try options.publish(progress: { step in
                if step.step == .checking { most = max(most, step.bytes) }
            })
            return most
        }
        let pack = try #require(try set.manifest().packs.first)
        #expect(try bytesRead() == pack.size)
        #expect(try bytesRead() == 0)
        #expect(try bytesRead(trusting: false) == pack.size)
        #expect(try bytesRead() == 0)
        let bytes = try #require(set.root.read("out/\(pack.urls[0])"))
        unlink(set.root.path("out/\(pack.urls[0])"))
        try set.root.write(bytes, to: "out/\(pack.urls[0])")
        #expect(try bytesRead() == pack.size)
        // A dry run writes nothing.
        unlink(set.root.path("stamps.packs"))
        _ = try set.options.preview()
        #expect(set.root.read("stamps.packs") == nil)
        // Whoever stops it is heard.
        #expect(throws: PublishError.cancelled) { try set.options.publish(isCancelled: { true }) }
    }

    @Test("A dictionary in a pack that was damaged is not used for what is signed")
    func damagedDictionary() throws {
        let tree = AssetTree.manySmall(5)
        var (set, keys) = try Self.signed(tree)
        set.options.dictionary = .always
        for index in 0..<40 {
            try set.root.write(
                String(repeating: "the same words \(index % 7) ", count: 40 + index), to: "in/texts/\(index)")
        }
        set.options.signing = try Self.signing(set, keys, now: 2_000)
        try set.publish()
        let before = try set.manifest()
        let named = try #require(before.dictionary)
        let pack = before.packs[Int(named.blob.pack)]
        var bytes = try #require(set.root.read("out/\(pack.urls[0])"))
        bytes.append(0)
        bytes.removeFirst()
        try set.root.write(bytes, to: "out/\(pack.urls[0])")
        try set.root.write("more of the same words", to: "in/texts/more")
        set.options.signing = try Self.signing(set, keys, now: 3_000)
        let report = try set.publish()
        #expect(report.warnings.contains { $0.contains(pack.sha256.hex) }, "\(report.warnings)")
        _ = try set.unpacked()
    }
}
