import Foundation
import SyncContent
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit
import Testing

@Suite("Manifests in parts", .timeLimit(.minutes(10)))
struct PartTests {
    /// Mostly links: they are quick to publish, and entries like others.
    private static func tree(_ count: Int = 4_000) -> AssetTree {
        var tree = AssetTree()
        for number in 0..<count { tree.nodes["d\(number / 100)/\(number)"] = .link("\(number % 97)") }
        for number in stride(from: 0, to: count, by: 10) {
            tree.addText("d\(number / 100)/\(number)", "content of \(number % 97)")
        }
        return tree
    }

    private static func published(_ tree: AssetTree) throws -> PublishedSet {
        var set = try PublishedSet(tree)
        set.options.isInParts = true
        try set.publish()
        return set
    }

    private func partPacks(_ set: PublishedSet) throws -> Set<UInt32> {
        Set(try set.manifest().parts.flatMap(\.chain).map(\.blob.pack))
    }

    @Test("Parts name every file, each once, in packs of their own")
    func whole() throws {
        let set = try Self.published(Self.tree())
        let manifest = try set.manifest()
        #expect(manifest.parts.count >= 3)
        #expect(manifest.parts.reduce(0) { $0 + $1.files } == 4_000)
        #expect(try set.unpacked().nodes == Self.tree().nodes)
        let parts = try partPacks(set)
        #expect(
            manifest.files.indices.allSatisfy { row in manifest.files.blobs(row).allSatisfy { !parts.contains($0.pack) }
            })
        #expect((set.root.read("out/manifest.json")?.count ?? .max) < 4_000)
    }

    @Test("Nobody gets parts who did not ask for them, below 50,000 entries")
    func automatic() throws {
        let set = try PublishedSet(Self.tree(500))
        let report = try set.publish()
        #expect(report.parts == 0)
        #expect(try set.manifest().parts.isEmpty)
        #expect(set.root.read("out/manifest.json")?.starts(with: "{\"format\":\"syncagent-manifest/1\"".utf8) == true)
        #expect(PublishOptions.mostEntriesOfOneText == 50_000)
    }

    @Test("Equal input gives equal bytes, whatever the number of jobs")
    func deterministic() throws {
        let set = try Self.published(Self.tree())
        try set.publish {
            $0.output = set.root.path("again")
            $0.jobs = 5
        }
        #expect(try set.bytes(below: "out") == set.bytes(below: "again"))
    }

    @Test("Publishing what is published changes nothing")
    func unchanged() throws {
        let set = try Self.published(Self.tree())
        let before = try set.bytes(below: "out")
        let report = try set.publish()
        #expect(report.unchanged)
        #expect(report.parts > 0 && report.partsWritten == 0)
        #expect(try set.bytes(below: "out") == before)
    }

    @Test(
        "A new file changes its part, or two; the others stay where they are", arguments: ["d0/1a", "d30/3000a", "z"])
    func insertion(_ path: String) throws {
        let set = try Self.published(Self.tree())
        let before = try set.manifest()
        var tree = Self.tree()
        tree.addText(path, "new")
        try set.replace(tree)
        let report = try set.publish()
        let after = try set.manifest()
        #expect((1...2).contains(report.partsWritten))
        let old = Set(before.parts.map(\.text.digest))
        let kept = after.parts.filter { old.contains($0.text.digest) }
        #expect(kept.count == after.parts.count - report.partsWritten)
        for part in kept {
            let place = try #require(before.parts.first { $0.text.digest == part.text.digest })
            #expect(place.text.blob.range == part.text.blob.range)
            #expect(before.packs[Int(place.text.blob.pack)] == after.packs[Int(part.text.blob.pack)])
        }
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    /// Gives other targets to one link in a hundred.
    private static func change(_ tree: inout AssetTree, _ target: String) {
        for number in stride(from: 5, to: 4_000, by: 100) where tree.nodes["d\(number / 100)/\(number)"] != nil {
            tree.nodes["d\(number / 100)/\(number)"] = .link(target)
        }
    }

    @Test("A part that changed is stored as its difference to the former one, which stays where it is")
    func differences() throws {
        let set = try Self.published(Self.tree())
        let before = try set.manifest()
        var tree = Self.tree()
        Self.change(&tree, "other")
        try set.replace(tree)
        let report = try set.publish()
        #expect(report.partsWritten == report.parts)
        let after = try set.manifest()
        for part in after.parts {
            let former = try #require(before.parts.first { $0.text.digest == part.from.first?.digest })
            #expect(part.from.count == 1 && part.from[0].blob.range == former.text.blob.range)
            #expect(before.packs[Int(former.text.blob.pack)] == after.packs[Int(part.from[0].blob.pack)])
        }
        #expect(report.partBytes < before.parts.reduce(0) { $0 + $1.text.blob.storedLength } / 4)
        #expect(try set.unpacked().nodes == tree.nodes)

        let again = try set.publish()
        #expect(again.unchanged && again.partsWritten == 0)
        for (output, isWithBase) in [("plain", false), ("no-deltas", true)] {
            try set.publish {
                $0.output = set.root.path(output)
                if isWithBase { $0.deltas = false } else { $0.base = .none }
                if isWithBase { $0.base = .manifest(set.root.path("out/manifest.json")) }
            }
        }
        #expect(try set.manifest("plain").parts.allSatisfy { $0.from.isEmpty })
        #expect(
            try set.manifest("no-deltas").parts.map(\.from.count) == after.parts.map(\.from.count), "they are the same")
        Self.change(&tree, "third")
        try set.replace(tree)
        try set.publish { $0.deltas = false }
        #expect(try set.manifest().parts.allSatisfy { $0.from.isEmpty })
    }

    @Test("A chain of differences ends: after eight, or when they have half as many bytes, a part is stored whole")
    func chainEnds() throws {
        let set = try Self.published(Self.tree(1_200))
        var tree = Self.tree(1_200)
        var lengths: [Int] = []
        for night in 0..<12 {
            Self.change(&tree, "night \(night)")
            try set.replace(tree)
            try set.publish()
            let manifest = try set.manifest()
            lengths.append(manifest.parts.map(\.from.count).max() ?? 0)
            for part in manifest.parts where !part.from.isEmpty {
                let whole = part.chain[0].blob.storedLength
                #expect(part.chain.dropFirst().reduce(0) { $0 + $1.blob.storedLength } <= whole / 2)
            }
            #expect(manifest.packs.allSatisfy { set.root.read("out/\($0.urls[0])") != nil })
            #expect(try set.unpacked().nodes == tree.nodes)
        }
        #expect(
            lengths.max() == Manifest.Part.mostFormer && lengths.last ?? .max < Manifest.Part.mostFormer, "\(lengths)")
        // Half of the entries: as long as the part itself.
        for number in stride(from: 0, to: 1_200, by: 2) {
            tree.nodes["d\(number / 100)/\(number)"] = .link("n\(number &* 7_919)")
        }
        try set.replace(tree)
        try set.publish()
        #expect(try set.manifest().parts.allSatisfy { $0.from.isEmpty })
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("Parts stay the same when packs elsewhere go and come")
    func packsMove() throws {
        let set = try Self.published(Self.tree())
        var tree = Self.tree()
        tree.addFile("a", size: 300_000, seed: 9)
        try set.replace(tree)
        try set.publish()
        let parts = try set.manifest().parts.map(\.text.digest)
        // The pack of "a", which stood before others, is gone.
        try set.replace(Self.tree())
        let report = try set.publish()
        #expect(report.packsDropped > 0)
        #expect(try set.manifest().parts.map(\.text.digest).dropFirst() == parts.dropFirst())
        #expect(try set.unpacked().nodes == Self.tree().nodes)
    }

    @Test("Repacking joins all texts of parts in one pack")
    func repacks() throws {
        let set = try Self.published(Self.tree(1_200))
        var tree = Self.tree(1_200)
        for round in 0..<5 {
            tree.addText("d\(2 * round)/new", "new in round \(round)")
            try set.replace(tree)
            try set.publish()
        }
        #expect(try partPacks(set).count > 2)
        let report = try set.publish { $0.repack = true }
        #expect(!report.repackPays)
        #expect(try partPacks(set).count == 1)
        #expect(try set.manifest().parts.allSatisfy { $0.from.isEmpty })
        #expect(try set.unpacked().nodes == tree.nodes)
        #expect(try set.publish { $0.repack = true }.unchanged)
    }

    @Test("Whatever changes night after night, who has nothing reads texts from at most seventeen packs")
    func fewPacks() throws {
        let set = try Self.published(Self.tree())
        var tree = Self.tree()
        var most = 0
        for night in 0..<24 {
            let number = (night * 797) % 4_000 / 100 * 100 + 5
            let path = "d\(number / 100)/\(number)"
            tree.nodes[path] = .link("night \(night)")
            try FileManager.default.removeItem(atPath: set.root.path("in/\(path)"))
            try set.root.link("in/\(path)", to: "night \(night)")
            try set.publish()
            most = max(most, try partPacks(set).count)
        }
        #expect((10...17).contains(most), "\(most)")
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("A part that is again what it was is the same text in the same place")
    func returns() throws {
        let set = try Self.published(Self.tree())
        let before = try set.manifest().parts
        var tree = Self.tree()
        tree.nodes["d3/305"] = .link("elsewhere")
        try set.replace(tree)
        try set.publish()
        try set.replace(Self.tree())
        let report = try set.publish()
        #expect(report.partsWritten == 0 && !report.unchanged)
        let after = try set.manifest()
        #expect(
            after.parts.map(\.text.digest) == before.map(\.text.digest) && after.parts.allSatisfy { $0.from.isEmpty })
        #expect(after.packs.count == 2)
        #expect(try set.unpacked().nodes == Self.tree().nodes)
    }

    @Test("A part that has lost most of its entries is stored whole, and so is one that most has come to")
    func differentSizes() throws {
        let set = try Self.published(Self.tree(1_200))
        var tree = Self.tree(1_200)
        for number in 100..<1_200 { tree.nodes["d\(number / 100)/\(number)"] = nil }
        try set.replace(tree)
        try set.publish { $0.permits = .fewerFiles }
        #expect(try set.manifest().parts.allSatisfy { $0.from.isEmpty })
        #expect(try set.unpacked().nodes == tree.nodes)
        try set.replace(Self.tree(4_000))
        try set.publish()
        #expect(try set.unpacked().nodes == Self.tree(4_000).nodes)
    }

    @Test("A set changes its form in both directions, and its files are not packed again")
    func changesForm() throws {
        var set = try Self.published(Self.tree())
        set.options.isInParts = false
        let whole = try set.publish()
        #expect(!whole.unchanged && whole.newBytes == 0 && whole.packsDropped == 1)
        #expect(try set.manifest().parts.isEmpty)
        set.options.isInParts = true
        let parts = try set.publish()
        #expect(parts.newBytes == 0 && parts.partsWritten == parts.parts)
        #expect(try set.unpacked().nodes == Self.tree().nodes)
    }

    @Test("A base elsewhere, with its packs beside it, gives its parts")
    func baseElsewhere() throws {
        let set = try Self.published(Self.tree())
        let report = try set.publish {
            $0.output = set.root.path("next")
            $0.base = .manifest(set.root.path("out/manifest.json.zst"))
        }
        #expect(report.revision == 1 && report.partsWritten == 0)
        #expect(try set.unpacked("next").nodes == Self.tree().nodes)
    }

    @Test("A base whose parts are not here, or not what it says, is refused and named", arguments: [false, true])
    func brokenBase(isThere: Bool) throws {
        let set = try Self.published(Self.tree())
        let manifest = try set.manifest()
        let pack = manifest.packs[Int(manifest.parts[0].text.blob.pack)]
        if isThere {
            try set.root.write([UInt8](repeating: 1, count: Int(pack.size)), to: "out/\(pack.urls[0])")
        } else {
            try FileManager.default.removeItem(atPath: set.root.path("out/\(pack.urls[0])"))
        }
        let error = try #require(set.failure())
        #expect(error.exitStatus == .dataInvalid)
        #expect(error.description.contains("part 0") && error.description.contains(pack.sha256.hex))
    }
}
