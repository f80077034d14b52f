import Foundation
import SyncContent
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit
import Testing

@Suite("Deltas against the base", .timeLimit(.minutes(10)))
struct DeltaTests {
    private static let size = 1_500_000

    /// Large and small files; `edits` are places where both change, `inserted` bytes come near the start.
    private static func tree(edits: [Int] = [], inserted: Int = 0) -> AssetTree {
        var tree = AssetTree()
        tree.addFile("large.bin", size: size, seed: 1)
        tree.addText("notes.txt", (0..<900).map { "line \($0) says \($0 &* 7919 % 1000)\n" }.joined())
        tree.addFile("same.bin", size: 5_000, seed: 3)
        tree.addFile("tiny", size: 40, seed: 4)
        for path in ["large.bin", "notes.txt"] {
            guard var bytes = tree.bytes(path) else { continue }
            for position in edits where position < bytes.count { bytes[position] ^= 0x15 }
            if bytes.count > 100_000 { bytes.insert(contentsOf: patternedBytes(size: inserted, seed: 9), at: 1_000) }
            tree.nodes[path] = .file(bytes, executable: false)
        }
        return tree
    }

    private static let edits = [500, 9_000, 400_000, 400_100, 1_200_000]

    private func published(_ next: AssetTree, _ change: (inout PublishOptions) -> Void = { _ in }) throws -> (
        set: PublishedSet, report: PublishReport
    ) {
        let set = try PublishedSet(Self.tree())
        try set.publish()
        try set.replace(next)
        return (set, try set.publish(change))
    }

    /// Every blob of the manifest that has a delta, made with the old tree; by path and position.
    private func applied(_ set: PublishedSet, _ old: AssetTree, output: String = "out") throws -> Int {
        let manifest = try set.manifest(output)
        var count = 0
        for row in manifest.files.indices {
            for delta in manifest.files.deltas(row) {
                let base = try #require(
                    try old.nodes.keys.compactMap(old.bytes).first { try digest($0) == delta.baseFile })
                let prefix = Array(base[Int(delta.base.lowerBound)..<Int(delta.base.upperBound)])
                #expect(try digest(prefix) == delta.baseDigest)
                let pack = try #require(set.root.read("\(output)/\(manifest.packs[Int(delta.pack)].urls[0])"))
                let frame = Array(pack[Int(delta.range.lowerBound)..<Int(delta.range.upperBound)])
                let blobs = manifest.files.blobs(row)
                let blob = blobs[blobs.startIndex + Int(delta.blob)]
                var raw = [UInt8](repeating: 0, count: Int(blob.rawLength))
                var decompressor = try ZstdDecompressor()
                try frame.withUnsafeBytes { frame in
                    try prefix.withUnsafeBytes { prefix in
                        try raw.withUnsafeMutableBytes { try decompressor.decode(frame, behind: prefix, into: $0) }
                    }
                }
                #expect(try digest(raw) == manifest.files.digest(of: blob, in: row))
                count += 1
            }
        }
        return count
    }

    @Test("Scattered small edits cost little for whoever has the base", arguments: [0, 3_000])
    func scattered(inserted: Int) throws {
        let next = Self.tree(edits: Self.edits, inserted: inserted)
        let (set, report) = try published(next)
        #expect(try set.unpacked().nodes == next.nodes)
        #expect(try applied(set, Self.tree()) == report.deltas && report.deltas >= 4)
        #expect(report.deltaBytes > 0 && report.deltaBytes < UInt64(2_000 + inserted * 3 / 2))
        #expect(report.newBytes > 20_000)
    }

    @Test("Where all of a large file changed and moved, deltas are made of what it was before")
    func moved() throws {
        let old = patternedBytes(size: 4_000_000, seed: 31)
        var new = Array(old[1_500_000...] + old[..<1_500_000])
        for position in stride(from: 400, to: new.count, by: 900) { new[position] ^= 0x15 }
        var before = AssetTree()
        before.nodes["library.so"] = .file(old, executable: true)
        var after = before
        after.nodes["library.so"] = .file(new, executable: true)
        let set = try PublishedSet(before)
        try set.publish()
        try set.replace(after)
        let report = try set.publish()
        #expect(report.newBytes > 3_900_000 && report.deltas > 100)
        #expect(report.deltaBytes < report.newBytes / 8, "\(report.deltaBytes)")
        #expect(try applied(set, before) == report.deltas)
        #expect(try set.unpacked().nodes == after.nodes)
        // A client reads and hashes all bases: they are not much longer than what is made of them.
        let files = try set.manifest("out").files
        let bases = files.deltas(0).map { $0.base.upperBound - $0.base.lowerBound }
        #expect(try #require(bases.max()) <= 160 << 10)
    }

    @Test("Files that have another name in every release are made of what they were")
    func renamed() throws {
        var old = AssetTree()
        var new = AssetTree()
        let names = [
            ("tool-1.2.dist-info/RECORD", "tool-1.3.dist-info/RECORD"),
            ("tool.libs/libblas-6cdc3b4a.so", "tool.libs/libblas-f01d77e9.so"),
            ("v1/share/maps/north.map", "v2/share/maps/north.map"),
            ("v1/share/maps/south.map", "v2/share/maps/south.map"),
        ]
        for (place, (before, after)) in names.enumerated() {
            old.addFile(before, size: 60_000, seed: UInt64(place))
            var bytes = try #require(old.bytes(before))
            for position in [7, 30_000, 59_999] { bytes[position] ^= 0x15 }
            new.nodes[after] = .file(bytes, executable: false)
        }
        // Its name says nothing of what it was, and what still has its path is nothing's former version.
        new.addFile("unheard-of.bin", size: 60_000, seed: 50)
        old.addFile("stays.bin", size: 60_000, seed: 60)
        new.addFile("stays.bin", size: 60_000, seed: 60)
        let set = try PublishedSet(old)
        try set.publish()
        try set.replace(new)
        let report = try set.publish()
        #expect(report.deltas == names.count && report.deltaBytes < 2_000)
        #expect(try applied(set, old) == names.count)
        #expect(try set.unpacked().nodes == new.nodes)
        let again = try set.publish()
        #expect(again.unchanged && again.deltas == names.count)
    }

    @Test(
        "Some names alike by chance do not hide those that are not; after many of them no name is tried",
        arguments: [1, 300])
    func alikeByChance(strangers: Int) throws {
        var old = AssetTree()
        var new = AssetTree()
        for number in 0..<strangers {
            old.addFile("frames/old-\(number).raw", size: 2_000, seed: UInt64(number))
            new.addFile("frames/new-\(number).raw", size: 2_000, seed: UInt64(number + 10_000))
        }
        // One large stranger has more blobs than are tried, and is one file.
        old.addFile("frames/zz-old-large.raw", size: 4_000_000, seed: 90)
        new.addFile("frames/zz-new-large.raw", size: 4_000_000, seed: 91)
        old.addFile("zzz-1.0/notes", size: 60_000, seed: 70)
        new.addFile("zzz-1.1/notes", size: 60_000, seed: 70)
        var notes = try #require(new.bytes("zzz-1.1/notes"))
        notes[40_000] ^= 1
        new.nodes["zzz-1.1/notes"] = .file(notes, executable: false)
        let set = try PublishedSet(old)
        try set.publish()
        try set.replace(new)
        // After 64 strangers nobody looks any more: the price of not compressing everything twice.
        #expect(try set.publish().deltas == (strangers < 64 ? 1 : 0))
        #expect(try set.unpacked().nodes == new.nodes)
    }

    @Test("Without deltas, without a base and without its packs there are none")
    func none() throws {
        let next = Self.tree(edits: Self.edits)
        let plain = try published(next) { $0.deltas = false }
        #expect(plain.report.deltas == 0 && plain.report.deltaBytes == 0)
        #expect(try published(next) { $0.base = .none }.report.deltas == 0)
        let (set, _) = try published(next) { $0.deltas = false }
        let text = String(decoding: try #require(set.root.read("out/manifest.json")), as: UTF8.self)
        #expect(!text.contains("x-deltas"))
        // The base is elsewhere, with the packs on some server only.
        let manifest = set.root.path("base.json")
        try FileManager.default.copyItem(atPath: set.root.path("out/manifest.json"), toPath: manifest)
        try set.replace(Self.tree(edits: [77, 600_000]))
        let far = try set.publish {
            $0.output = set.root.path("elsewhere")
            $0.base = .manifest(manifest)
        }
        #expect(far.deltas == 0 && far.packsWritten > 0)
    }

    @Test("Publishing the same again keeps the deltas and changes nothing; the next change makes others")
    func again() throws {
        let next = Self.tree(edits: Self.edits)
        let (set, report) = try published(next)
        let before = try set.bytes(below: "out")
        let same = try set.publish()
        #expect(same.unchanged && same.deltas == report.deltas && same.packsDropped == 0)
        #expect(try set.bytes(below: "out") == before)
        #expect(try set.publish { $0.repack = true }.deltas == report.deltas)
        let last = Self.tree(edits: Self.edits + [900_000])
        try set.replace(last)
        let third = try set.publish()
        #expect(third.deltas == 1 && !third.unchanged)
        #expect(try applied(set, next) == 1)
        #expect(try set.unpacked().nodes == last.nodes)
    }

    @Test("Equal input gives equal deltas, whatever the number of workers")
    func deterministic() throws {
        let next = Self.tree(edits: Self.edits, inserted: 700)
        let outputs = try [1, 2, 7].map { jobs in
            try published(next) { $0.jobs = jobs }.set.bytes(below: "out").filter { $0.key != "manifests/unnamed.json" }
        }
        #expect(outputs[0] == outputs[1] && outputs[1] == outputs[2])
    }

    @Test("A damaged pack of the base gives no delta that is wrong")
    func damaged() throws {
        let set = try PublishedSet(Self.tree())
        try set.publish()
        for (name, bytes) in try set.bytes(below: "out/packs") {
            var bytes = bytes
            for position in stride(from: 0, to: bytes.count, by: 700) { bytes[position] ^= 1 }
            try set.root.write(bytes, to: "out/packs/\(name)")
        }
        try set.replace(Self.tree(edits: Self.edits))
        #expect(try set.publish().deltas == 0)
    }

    @Test("Files that become links, empty, small, large or executable")
    func shapes() throws {
        var next = Self.tree(edits: Self.edits)
        next.nodes["notes.txt"] = .link("tiny")
        next.nodes["same.bin"] = .file([], executable: false)
        next.addFile("tiny", size: 200_000, seed: 4, executable: true)
        let (set, _) = try published(next)
        #expect(try set.unpacked().nodes == next.nodes)
        #expect(try applied(set, Self.tree()) >= 2)
        try set.replace(Self.tree())
        try set.publish()
        #expect(try set.unpacked().nodes == Self.tree().nodes)
        _ = try applied(set, next)
    }

    @Test("A former version that is longer than a base can be is looked at around the place")
    func longRegion() throws {
        var old = AssetTree()
        old.addFile("one.bin", size: 6_000_000, seed: 11)
        // Nothing is shared: every byte of every chunk is kept but one in 4,000.
        var bytes = try #require(old.bytes("one.bin"))
        for position in stride(from: 1, to: bytes.count, by: 4_000) { bytes[position] ^= 0xFF }
        let next = AssetTree(["one.bin": .file(bytes, executable: false)])
        let set = try PublishedSet(old)
        try set.publish()
        try set.replace(next)
        let report = try set.publish()
        #expect(try applied(set, old) == report.deltas && report.deltas > 300)
        #expect(report.deltaBytes < 600_000)
        #expect(try set.unpacked().nodes == next.nodes)
    }
}
