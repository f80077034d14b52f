import Foundation
import SyncContent
import SyncManifest
import SyncModel
import SyncTestKit
import Testing

@testable import SyncPublisher

/// Whoever can write to the published directory, or to the base, does not get at the publisher's files.
@Suite(.timeLimit(.minutes(10)))
struct ForeignOutputTests {
    static let folders = ["packs", "manifests", "channels", "trust"]

    /// How many names a file has.
    static func names(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.referenceCount] as? Int, "\(path)")
    }

    static func inode(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.systemFileNumber] as? Int)
    }

    /// A base in `old` whose only pack is the whole content of the only file.
    static func setWithBase() throws -> (set: PublishedSet, pack: Manifest.Pack, bytes: [UInt8]) {
        var tree = AssetTree()
        tree.addFile("a", size: 3_000, seed: 7)
        let set = try PublishedSet(tree)
        try set.publish { $0.output = set.root.path("old") }
        let pack = try #require(try set.manifest("old").packs.first)
        return (set, pack, try #require(tree.bytes("a")))
    }

    @Test(
        "A pack of the base is packs/SHA256.pack below it; no other file gets a name in the output, whatever the base says",
        arguments: ["../keys/release.key", "packs/../../keys/release.key", "release.key", "through a link"])
    func foreignPack(url: String) throws {
        let (set, pack, bytes) = try Self.setWithBase()
        let key = set.root.path("keys/release.key")
        try set.root.write(bytes, to: "keys/release.key")
        unlink(set.root.path("old/\(pack.urls[0])"))
        if url == "through a link" {
            try set.root.link("old/\(pack.urls[0])", to: key)
        } else {
            if url == "release.key" {
                try FileManager.default.removeItem(atPath: set.root.path("old/packs"))
                try set.root.link("old/release.key", to: key)
            }
            let text = String(decoding: try #require(set.root.read("old/manifest.json")), as: UTF8.self)
            try set.root.write(text.replacing(pack.urls[0], with: url), to: "old/manifest.json")
        }
        let report = try set.publish {
            $0.output = set.root.path("next")
            $0.base = .manifest(set.root.path("old/manifest.json"))
        }
        #expect(report.warnings.contains { $0.contains("is not here") }, "\(report.warnings)")
        #expect(try set.bytes(below: "next/packs").isEmpty)
        #expect(try Self.names(key) == 1)
        // A dry run looks at the same files.
        let preview = try set.options.preview()
        #expect(preview.files == 1)
    }

    @Test("A pack of the base that is damaged is made again, and nothing names it", arguments: [false, true])
    func damagedElsewhere(isShort: Bool) throws {
        let (set, pack, bytes) = try Self.setWithBase()
        var wrong = bytes
        if isShort { wrong.removeLast() } else { wrong[0] ^= 1 }
        try set.root.write(wrong, to: "old/\(pack.urls[0])")
        let report = try set.publish {
            $0.output = set.root.path("next")
            $0.base = .manifest(set.root.path("old/manifest.json"))
        }
        #expect(
            report.warnings.contains { $0.contains("of the base does not have the content") }, "\(report.warnings)")
        let packs = try set.bytes(below: "next/packs")
        #expect(packs.count == 1)
        for (name, bytes) in packs { #expect(try "\(sha256(bytes)).pack" == name) }
    }

    @Test("A pack of the base gets a second name only if it is ours alone to write; otherwise it is copied")
    func copiesWhatOthersMayWrite() throws {
        for (mode, isLinked) in [(mode_t(0o644), true), (0o666, false)] {
            let (set, pack, bytes) = try Self.setWithBase()
            let old = set.root.path("old/\(pack.urls[0])")
            #expect(chmod(old, mode) == 0)
            let report = try set.publish {
                $0.output = set.root.path("next")
                $0.base = .manifest(set.root.path("old/manifest.json"))
            }
            #expect(report.packsReused == 1 && report.warnings.isEmpty)
            let new = set.root.path("next/\(pack.urls[0])")
            #expect(set.root.read("next/\(pack.urls[0])") == bytes)
            #expect(try (Self.inode(new) == Self.inode(old)) == isLinked, "mode \(mode)")
        }
    }

    @Test("Parts and dictionaries of a base are read from packs/SHA256.pack alone")
    func foreignParts() throws {
        let set = try PublishedSet(.manySmall(20))
        try set.publish {
            $0.output = set.root.path("old")
            $0.isInParts = true
        }
        let text = String(decoding: try #require(set.root.read("old/manifest.json")), as: UTF8.self)
        try set.root.write(text.replacing("\"packs/", with: "\"../away/"), to: "old/manifest.json")
        try FileManager.default.moveItem(atPath: set.root.path("old/packs"), toPath: set.root.path("away"))
        let error = set.failure {
            $0.output = set.root.path("next")
            $0.base = .manifest(set.root.path("old/manifest.json"))
        }
        #expect(error?.exitStatus == .dataInvalid)
        #expect(error?.summary.contains("which is not here") == true, "\(error?.summary ?? "")")
    }

    @Test(
        "A folder of the output that is a symbolic link is refused with 77, and nothing is written there",
        arguments: folders)
    func linkedFolder(folder: String) throws {
        var set = try PublishedSet(.manySmall(3))
        let keys = try SigningTests.keys(set)
        set.options.signing = try SigningTests.signing(keys)
        set.options.keepsReleases = true
        try set.publish()
        try set.root.write("x", to: "elsewhere/.publish-0.tmp")
        for name in try FileManager.default.contentsOfDirectory(atPath: set.root.path("out/\(folder)")) {
            try FileManager.default.moveItem(
                atPath: set.root.path("out/\(folder)/\(name)"), toPath: set.root.path("elsewhere/\(name)"))
        }
        try FileManager.default.removeItem(atPath: set.root.path("out/\(folder)"))
        try set.root.link("out/\(folder)", to: set.root.path("elsewhere"))
        let before = try set.bytes(below: "elsewhere")
        let manifest = set.root.read("out/manifest.json")
        try set.root.write("new", to: "in/new")
        let error = set.failure()
        #expect(error?.exitStatus == .refused)
        #expect(error?.summary.contains("out/\(folder) is a symbolic link") == true, "\(error?.summary ?? "")")
        #expect(throws: PublishError.self) { try set.options.preview() }
        if folder == "trust" {
            let refreshed = SigningTests.error { () throws(PublishError) in
                _ = try (try SigningTests.fresh(keys, now: 9_000)).refresh(.directory(set.root.path("out")))
            }
            #expect(refreshed?.exitStatus == .refused)
            #expect(throws: PublishError.self) {
                try KeyDirectory(published: .directory(set.root.path("out")), after: nil)
            }
        }
        if folder == "channels" {
            let pointed = SigningTests.error { () throws(PublishError) in
                let channels = try Channels(.directory(set.root.path("out")))
                _ = try channels.point("beta", at: "1", signing: try SigningTests.fresh(keys, now: 9_000))
            }
            #expect(pointed?.exitStatus == .refused)
        }
        #expect(try set.bytes(below: "elsewhere") == before)
        #expect(set.root.read("out/manifest.json") == manifest)
    }

    @Test("A manifest of the output that is a symbolic link is not read")
    func linkedManifest() throws {
        let set = try PublishedSet(.manySmall(3))
        try set.publish()
        try FileManager.default.moveItem(atPath: set.root.path("out/manifest.json"), toPath: set.root.path("elsewhere"))
        try set.root.link("out/manifest.json", to: set.root.path("elsewhere"))
        let error = set.failure()
        #expect(error?.summary.contains("symbolic link") == true, "\(String(describing: error))")
    }

    @Test("A manifest of a newer format is not replaced by one with a lower revision, not even without a base")
    func newerFormat() throws {
        let set = try PublishedSet(.manySmall(3))
        try set.publish()
        let text = String(decoding: try #require(set.root.read("out/manifest.json")), as: UTF8.self)
        let newer = text.replacing("syncagent-manifest/1", with: "syncagent-manifest/12")
        try set.root.write(newer, to: "out/manifest.json")
        let before = try set.bytes(below: "out")
        #expect(set.failure()?.remedy.contains("use a newer syncagent") == true)
        let error = set.failure { $0.base = .none }
        #expect(error?.exitStatus == .dataInvalid && error?.remedy.contains("use a newer syncagent") == true)
        let restored = SigningTests.error { () throws(PublishError) in
            _ = try Restore(.directory(set.root.path("out")), signing: nil).run(
                "1", created: "2026-11-20T02:00:00Z", now: 1_000)
        }
        #expect(restored?.summary == error?.summary)
        let pruned = SigningTests.error { () throws(PublishError) in
            _ = try Prune(keep: 1, now: 1_000).run(.directory(set.root.path("out")))
        }
        #expect(pruned?.remedy == "use a newer syncagent; nothing was removed")
        #expect(try set.bytes(below: "out") == before)
        // One that is only damaged is.
        try set.root.write(String(text.prefix(60)), to: "out/manifest.json")
        #expect(try set.publish { $0.base = .none }.revision == 2)
    }

    @Test("Whoever may only read the output cannot keep others from publishing")
    func lockOfReader() throws {
        let set = try PublishedSet(.manySmall(3))
        try set.publish()
        let reader = open(set.root.path("out"), O_RDONLY | O_DIRECTORY)
        defer { close(reader) }
        #expect(flock(reader, LOCK_EX | LOCK_NB) == 0)
        try set.root.write("new", to: "in/new")
        try set.publish()
        #expect(try set.manifest().revision == 2)
    }

    @Test("The lock is a file for its owner alone, which is gone afterwards; one left by a killed run is taken over")
    func lockFile() throws {
        let set = try PublishedSet(.manySmall(3))
        try set.root.write("", to: "out/.publish.lock")
        #expect(chmod(set.root.path("out/.publish.lock"), 0o600) == 0)
        var modes: Set<Int> = []
        _ = try set.options.publish(progress: { _ in
            let found = try? FileManager.default.attributesOfItem(atPath: set.root.path("out/.publish.lock"))
            modes.insert(found?[.posixPermissions] as? Int ?? -1)
        })
        #expect(modes == [0o600])
        #expect(set.root.read("out/.publish.lock") == nil)
    }
}
