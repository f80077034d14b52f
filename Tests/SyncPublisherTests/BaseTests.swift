import Foundation
import SyncManifest
import SyncModel
import SyncTestKit
import Testing

@testable import SyncPublisher

@Suite(.timeLimit(.minutes(10)))
struct BaseTests {
    /// Six packs of about 50 KiB.
    static let before = AssetTree.manySmall(150)

    /// Three files changed, one gone, one new.
    static var after: AssetTree {
        var tree = before
        for path in before.paths.prefix(3) { tree.addFile(path, size: 2_000, seed: 99) }
        tree.nodes[before.paths[100]] = nil
        tree.addFile("sheets/new", size: 3_000, seed: 100)
        return tree
    }

    static func published(_ tree: AssetTree = before) throws -> PublishedSet {
        var set = try PublishedSet(tree)
        set.options.packSize = 50_000
        set.options.base = .none
        try set.publish()
        set.options.base = .inOutput
        return set
    }

    @Test("Only what is new is written; old packs stay as they are")
    func writesWhatIsNew() throws {
        let set = try Self.published()
        let packs = try set.manifest().packs
        try set.replace(Self.after)
        let report = try set.publish()

        // Three changed files of one content, and one new one.
        #expect(report.newBytes == 5_000)
        #expect(report.packsWritten == 1)
        #expect(report.packsReused == packs.count)
        #expect(report.revision == 2)
        #expect(report.deadBytes > 0)
        #expect(try set.manifest().packs.prefix(packs.count) == packs[...])
        #expect(try set.unpacked().nodes == Self.after.nodes)
    }

    @Test("Nothing changed: the manifest stays as it is, byte for byte, whatever the clock says")
    func unchanged() throws {
        let set = try Self.published()
        let before = try set.bytes(below: "out")
        let report = try set.publish { $0.created = "2030-01-01T00:00:00Z" }
        #expect(report.unchanged)
        #expect(report.revision == 1)
        #expect(report.packsWritten == 0)
        #expect(try set.bytes(below: "out") == before)
    }

    @Test(
        "What a channel has had is new for the default one, and for an output that has nothing: that is not called unchanged"
    )
    func newElsewhere() throws {
        let set = try Self.published()
        try set.root.write("new", to: "in/new")
        func beta(_ options: inout PublishOptions) { (options.channel, options.keepsReleases) = ("beta", true) }
        #expect(try !set.publish(beta).unchanged)
        let before = try #require(set.root.read("out/manifest.json"))
        let again = try set.publish(beta)
        #expect(again.unchanged && again.revision == 2)
        let report = try set.publish()
        #expect(!report.unchanged && report.revision == 2)
        #expect(set.root.read("out/manifest.json") != before)
        #expect(try set.publish().unchanged)
        let other = try set.publish { ($0.channel, $0.keepsReleases) = ("stable", true) }
        #expect(!other.unchanged && other.revision == 2)
        func next(_ options: inout PublishOptions) {
            options.base = .manifest(set.root.path("out/manifest.json"))
            options.output = set.root.path("next")
        }
        let moved = try set.publish(next)
        #expect(!moved.unchanged && moved.revision == 2)
        #expect(try set.publish(next).unchanged)
    }

    @Test("Over a base elsewhere the same files make no new revision, in a channel or not; nothing is written again")
    func sameOverBaseElsewhere() throws {
        let set = try Self.published()
        try set.replace(Self.after)
        func publish(second: Int, _ channel: String? = nil) throws(PublishError) -> PublishReport {
            try set.publish {
                $0.base = .manifest(set.root.path("out/manifest.json"))
                $0.output = set.root.path("next")
                $0.created = "2026-11-21T02:00:0\(second)Z"
                ($0.channel, $0.keepsReleases) = (channel, channel != nil)
            }
        }
        let beta = try publish(second: 1, "beta")
        #expect(!beta.unchanged && beta.revision == 2)
        let again = try publish(second: 2, "beta")
        #expect(again.unchanged && again.revision == 2 && again.manifestDigest == beta.manifestDigest)
        let moved = try publish(second: 3)
        #expect(!moved.unchanged && moved.revision == 2 && moved.manifestDigest == beta.manifestDigest)
        let before = try set.bytes(below: "next")
        let file = try ForeignOutputTests.inode(set.root.path("next/manifest.json"))
        let last = try publish(second: 4)
        #expect(last.unchanged && last.revision == 2 && last.manifestBytes == moved.manifestBytes)
        #expect(try set.bytes(below: "next") == before)
        #expect(try ForeignOutputTests.inode(set.root.path("next/manifest.json")) == file)
        try set.root.write("other", to: "in/other")
        #expect(try publish(second: 5).revision == 3)
    }

    @Test("A set that goes back to what it was names its old packs again")
    func backAndForth() throws {
        let set = try Self.published()
        let first = try set.manifest()
        try set.replace(Self.after)
        try set.publish()
        try set.replace(Self.before)
        let report = try set.publish { $0.base = .manifest(set.root.path("out/manifest.json.zst")) }
        #expect(report.newBytes <= 12_000)
        #expect(try set.unpacked().nodes == Self.before.nodes)
        #expect(try set.manifest().revision == 3)
        #expect(try set.manifest().packs.prefix(first.packs.count) == first.packs[...])
    }

    @Test("A pack that no file needs is no longer named")
    func dropsDeadPacks() throws {
        let set = try Self.published()
        let count = try set.manifest().packs.count
        var tree = AssetTree()
        for path in Self.before.paths.suffix(40) { tree.nodes[path] = Self.before.nodes[path] }
        try set.replace(tree)
        let report = try set.publish { $0.permits = .fewerFiles }
        #expect(report.packsWritten == 0)
        #expect(report.packsDropped > 0)
        #expect(report.packsReused == count - report.packsDropped)
        #expect(try set.manifest().packs.count == report.packsReused)
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("Repacking leaves no pack that is mostly dead, and says before when it pays")
    func repacks() throws {
        let set = try Self.published()
        var tree = AssetTree()
        for (index, path) in Self.before.paths.enumerated() where index % 3 == 0 {
            tree.nodes[path] = Self.before.nodes[path]
        }
        try set.replace(tree)
        let kept = try set.publish { $0.permits = .fewerFiles }
        #expect(kept.repackPays)
        #expect(kept.deadBytes > kept.storedBytes)
        #expect(kept.packsWritten == 0)

        let report = try set.publish { $0.repack = true }
        #expect(!report.repackPays)
        #expect(report.deadBytes == 0)
        #expect(report.storedBytes == kept.storedBytes)
        #expect(report.newBytes == report.storedBytes)
        #expect(report.packsReused == 0)
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("Repacking opens old packs when it needs them, few at once")
    func repacksFewAtOnce() throws {
        // A pack for each file.
        var set = try PublishedSet(AssetTree.manySmall(3 * Repacker.mostOpen))
        set.options.packSize = 1
        try set.publish()
        set.options.packSize = 256 << 10
        let packs = try set.manifest().packs
        try #require(packs.count > 2 * Repacker.mostOpen)
        do {
            let output = try OutputDirectory(set.root.path("out"))
            var old = Repacker(worthRepacking: Set(packs.indices), packs: packs, output: output)
            for index in packs.indices {
                #expect(try old.open(UInt32(index)) != nil)
                #expect(old.files.count == index % Repacker.mostOpen + 1)
            }
            #expect(try old.open(0) != nil && old.files.count <= Repacker.mostOpen)
            try set.root.write([UInt8](repeating: 1, count: Int(packs[1].size)), to: "out/\(packs[1].urls[0])")
            var damaged = Repacker(worthRepacking: Set(packs.indices), packs: packs, output: output)
            #expect(try damaged.open(1) == nil && damaged.open(2) != nil && damaged.open(1) == nil)
        }
        let report = try set.publish { $0.repack = true }
        #expect(report.packsReused == 1, "a damaged pack stays as it is")
        #expect(report.warnings.contains { $0.contains(packs[1].sha256.packName) })
        let joined = try set.manifest().packs
        #expect(joined.count < packs.count / 10)
    }

    @Test("Readers of the base share the limit of open packs, however many jobs there are")
    func readersShareTheLimit() throws {
        let set = try PublishedSet(AssetTree.manySmall(30))
        try set.publish { $0.packSize = 1 }
        let manifest = try set.manifest()
        try #require(manifest.packs.count > 10)
        let output = try OutputDirectory(set.root.path("out"), isReadOnly: true)
        for (readers, most) in [(1, 256), (4, 64), (256, 1), (1_000, 1)] {
            let reader = try DeltaEncoder(manifest, dictionary: nil, output, readers: readers)
            #expect(reader.mostPacks == most)
            for row in manifest.files.indices {
                #expect(reader.read(row: row, 0..<manifest.files.size(row)) != nil)
                #expect(reader.packs.count <= most)
            }
        }
    }

    @Test("--no-base makes a pack again that has its length and other bytes")
    func repairsDamagedPack() throws {
        let set = try Self.published()
        let pack = try set.manifest().packs[1]
        try set.root.write([UInt8](repeating: 1, count: Int(pack.size)), to: "out/\(pack.urls[0])")
        let report = try set.publish {
            $0.base = .none
            $0.revision = 2
        }
        #expect(report.packsWritten == 1)
        #expect(try set.unpacked().nodes == Self.before.nodes)
    }

    @Test("A base may name packs of any size")
    func hugePacks() throws {
        let set = try Self.published()
        let text = String(decoding: set.root.read("out/manifest.json") ?? [], as: UTF8.self)
        let changed = text.replacing(#/(\.pack","size":)\d+/#) { "\($0.1)\(Int64.max)" }
        try set.root.write(changed, to: "elsewhere/manifest.json")
        let report = try set.publish {
            $0.output = set.root.path("next")
            $0.base = .manifest(set.root.path("elsewhere/manifest.json"))
        }
        #expect(report.packsReused >= 4)
        #expect(report.deadBytes == .max)
    }

    @Test("A manifest.json.zst of another revision, left by a killed run, is made again")
    func halfPlacedManifest() throws {
        let set = try Self.published()
        let (text, frame) = (set.root.read("out/manifest.json"), set.root.read("out/manifest.json.zst"))
        try set.replace(Self.after)
        try set.publish()
        // The first rename had happened, and the second had not.
        try set.root.write(try #require(text), to: "out/manifest.json")
        try set.replace(Self.before)
        #expect(try set.publish().unchanged)
        #expect(set.root.read("out/manifest.json") == text)
        #expect(set.root.read("out/manifest.json.zst") == frame)
    }

    @Test("Small packs of many updates are joined by repacking")
    func joinsSmallPacks() throws {
        let set = try Self.published(AssetTree.manySmall(10))
        var tree = AssetTree.manySmall(10)
        for round in 0..<5 {
            tree.addFile("new/\(round)", size: 3_000, seed: UInt64(50 + round))
            try set.replace(tree)
            try set.publish()
        }
        #expect(try set.manifest().packs.count == 6)
        try set.publish { $0.repack = true }
        #expect(try set.manifest().packs.count <= 2)
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("A base elsewhere: its packs come along", arguments: [false, true])
    func baseElsewhere(compressed: Bool) throws {
        let set = try Self.published()
        try set.replace(Self.after)
        let report = try set.publish {
            $0.output = set.root.path("next")
            $0.base = .manifest(set.root.path(compressed ? "out/manifest.json.zst" : "out/manifest.json"))
        }
        #expect(report.newBytes == 5_000)
        #expect(report.warnings.isEmpty)
        #expect(try set.unpacked("next").nodes == Self.after.nodes)
    }

    @Test("A base whose packs are on the server only: they are named, with a warning")
    func packsElsewhere() throws {
        let set = try Self.published()
        let packs = try set.manifest().packs
        try FileManager.default.removeItem(atPath: set.root.path("out/packs"))
        try set.replace(Self.after)
        let report = try set.publish { $0.base = .manifest(set.root.path("out/manifest.json")) }
        #expect(report.newBytes == 5_000)
        #expect(report.warnings == ["\(packs.count) packs are not here; they must stay where the base is served"])
        #expect(try set.manifest().packs.prefix(packs.count) == packs[...])
    }

    @Test("A pack that is missing or cut short in the output is made again", arguments: [false, true])
    func repairs(cut: Bool) throws {
        let set = try Self.published()
        let path = set.root.path("out/\(try set.manifest().packs[1].urls[0])")
        if cut { truncate(path, 100) } else { try FileManager.default.removeItem(atPath: path) }
        let report = try set.publish()
        #expect(report.warnings.count == 1)
        #expect(report.packsWritten == 1)
        #expect(try set.unpacked().nodes == Self.before.nodes)
    }

    @Test("A file that only claims to be a pack of the base is not taken over; the pack is made again")
    func forgedPack() throws {
        let set = try Self.published()
        let pack = try set.manifest().packs[0]
        let bytes = set.root.read("out/\(pack.urls[0])")
        try set.root.write([UInt8](repeating: 1, count: Int(pack.size)), to: "out/\(pack.urls[0])")
        let report = try set.publish {
            $0.output = set.root.path("next")
            $0.base = .manifest(set.root.path("out/manifest.json"))
        }
        #expect(report.warnings.count == 1)
        let isMade = set.root.read("next/\(pack.urls[0])") == bytes
        #expect(isMade)
    }

    @Test("A base that breaks the format: exit 65; one that is not there: exit 66")
    func badBase() throws {
        let set = try Self.published()
        try set.root.write("{}", to: "bad.json")
        #expect(set.failure { $0.base = .manifest(set.root.path("bad.json")) }?.exitStatus == .dataInvalid)
        #expect(set.failure { $0.base = .manifest(set.root.path("none")) }?.exitStatus == .noInput)
        try set.root.write("{}", to: "out/manifest.json")
        #expect(set.failure()?.exitStatus == .dataInvalid)
        #expect(set.root.read("out/manifest.json") == Array("{}".utf8), "a failed publish changes nothing")
        try set.publish { $0.base = .none }
        #expect(try set.unpacked().nodes == Self.before.nodes)
    }

    @Test("A revision must be above the base's; the project must be the output's")
    func revisionAndProject() throws {
        let set = try Self.published()
        try set.publish { $0.revision = 7 }
        #expect(try set.manifest().revision == 7)
        #expect(set.failure { $0.revision = 7 }?.exitStatus == .usage)
        #expect(set.failure { $0.project = "other" }?.exitStatus == .usage)
        let report = try set.publish { $0.project = nil }
        #expect(report.project == "com.example.tower")
    }
}
