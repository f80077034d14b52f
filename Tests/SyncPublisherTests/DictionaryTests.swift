import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit
import Testing

@Suite("Dictionaries", .timeLimit(.minutes(10)))
struct DictionaryTests {
    /// Words without any likeness, which records share: 12 letters each.
    private static let words = (0..<2_000).map { (word: UInt64) in
        var state = word &* 0x9E37_79B9_7F4A_7C15
        let letters = (0..<12).map { _ in
            state = (state ^ (state >> 29)) &* 0xBF58_476D_1CE4_E5B9
            return UInt8(97 + (state >> 40) % 26)
        }
        return String(decoding: letters, as: UTF8.self)
    }

    private static func words(of record: Int, _ count: Int) -> String {
        (0..<count).map { words[(record &* 7919 &+ $0 &* 104_729 &+ record &* $0) % words.count] }.joined(
            separator: " ")
    }

    /// Records of one kind, each with other words, and a file that does not shrink; 4 KiB a record.
    private static func tree(_ count: Int = 600, edited: Set<Int> = []) -> AssetTree {
        var tree = AssetTree()
        for number in 0..<count {
            let name = edited.contains(number) ? "corrected" : "record"
            tree.addText(
                "records/\(number / 50)/\(number).json",
                "{\"name\": \"\(name) \(number)\", \"words\": \"\(words(of: number, 300))\"}\n")
        }
        tree.addFile("random.bin", size: 300_000, seed: 7)
        tree.addText("short", words(of: 3, 8))
        return tree
    }

    private static func published(_ tree: AssetTree = tree()) throws -> PublishedSet {
        var set = try PublishedSet(tree)
        set.options.dictionary = .always
        return set
    }

    private func codecs(_ set: PublishedSet) throws -> [Codec: Int] {
        let files = try set.manifest().files
        return files.indices.reduce(into: [:]) { counts, row in
            for blob in files.blobs(row) { counts[blob.codec, default: 0] += 1 }
        }
    }

    private func storedBytes(_ manifest: Manifest) -> UInt64 {
        manifest.files.rows(below: Array("records".utf8)).reduce(0) { sum, row in
            manifest.files.blobs(row).reduce(sum) { $0 + $1.storedLength }
        }
    }

    @Test("Small files of one kind take a fraction of the bytes, and come out as they were")
    func smaller() throws {
        let plain = try PublishedSet(Self.tree())
        try plain.publish { $0.dictionary = .never }
        let set = try Self.published()
        let report = try set.publish()
        let manifest = try set.manifest()
        let named = try #require(manifest.dictionary)
        #expect(storedBytes(manifest) < storedBytes(try plain.manifest()) / 2)
        #expect(report.dictionaryBytes == named.blob.storedLength && report.savedBytes > 10_000)
        #expect(try set.unpacked().nodes == Self.tree().nodes)
        // What does not shrink stays as it is; what shrinks only with a dictionary has it.
        #expect(try codecs(set)[.identity] ?? 0 > 0)
        let row = try #require(manifest.files.indices.first { manifest.files.path($0) == "short" })
        #expect(manifest.files.blobs(row).first?.codec == .zstdDictionary)
        #expect(try plain.manifest().dictionary == nil && codecs(plain)[.zstdDictionary] == nil)
        // A pack of its own, so that it can stay when others are rewritten.
        #expect(manifest.packs[Int(named.blob.pack)].size == named.blob.storedLength)
    }

    @Test("Who asks for a dictionary gets one, also for files so short that none of them shrinks without it")
    func short() throws {
        var tree = AssetTree()
        for number in 0..<800 {
            tree.addText(
                "roads/\(number).json",
                "{\"kind\":\"map feature\",\"layer\":\"roads\",\"number\":\(number * 7_919 % 10_007),"
                    + "\"name\":\"road \(number)\",\"oneway\":false}\n")
        }
        let set = try Self.published(tree)
        try set.publish()
        #expect(try set.manifest().dictionary != nil && codecs(set)[.zstdDictionary] ?? 0 > 700)
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("Nobody gets a dictionary who did not ask for one, below 8 MiB")
    func automatic() throws {
        let set = try PublishedSet(Self.tree())
        let report = try set.publish()
        #expect(report.dictionaryBytes == 0 && report.savedBytes == 0)
        #expect(set.root.read("out/manifest.json")?.starts(with: "{\"format\":\"syncagent-manifest/1\"".utf8) == true)
    }

    @Test("Above that it is made where it pays, and not where nothing can be compressed")
    func paying() throws {
        let set = try PublishedSet(Self.tree(4_000))
        let report = try set.publish()
        #expect(report.dictionaryBytes > 0, "\(report)")
        #expect(report.savedBytes > 4 << 20 && report.savedBytes * 25 > report.storedBytes)
        #expect(try set.unpacked().nodes == Self.tree(4_000).nodes)
        var noise = AssetTree()
        for number in 0..<40 { noise.addFile("\(number)", size: 300_000, seed: UInt64(number)) }
        let other = try PublishedSet(noise)
        #expect(try other.publish().dictionaryBytes == 0)
        #expect(try other.manifest().dictionary == nil)
    }

    /// Pictures that shrink a little and have nothing in common: noise in half of the letters.
    private static func pictures(_ count: Int, size: Int) -> AssetTree {
        var tree = AssetTree()
        for number in 0..<count {
            var state = UInt64(number) &* 0x9E37_79B9_7F4A_7C15 &+ 1
            let bytes = (0..<size).map { _ in
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return UInt8(truncatingIfNeeded: state >> 60) | 0x40
            }
            tree.nodes["pictures/\(number / 100)/\(number)"] = .file(bytes, executable: false)
        }
        return tree
    }

    @Test("Where a dictionary does not pay, to find that out takes a fraction of what packing gives to zstd")
    func cheapNo() throws {
        let set = try PublishedSet(Self.pictures(1_200, size: 8_000))
        let never = try set.publish { $0.dictionary = .never }
        #expect(never.trialBytes == 0)
        var steps: [PublishProgress] = []
        var options = set.options
        (options.base, options.output) = (.none, set.root.path("other"))
        let report = try options.publish(progress: { steps.append($0) })
        #expect(report.dictionaryBytes == 0 && report.storedBytes == never.storedBytes)
        // It was looked at: these files can be compressed.
        #expect(report.storedBytes * 10 < report.rawBytes * 9)
        #expect(report.trialBytes > 0 && report.trialBytes * 4 <= report.rawBytes, "\(report.trialBytes)")
        let sampled = steps.filter { $0.step == .sampling }
        #expect(sampled.count > 10 && sampled.last?.bytes ?? 0 > sampled.first?.bytes ?? 0)
        #expect(sampled.allSatisfy { $0.bytes <= $0.totalBytes + 64 << 10 })
        #expect(steps.contains { $0.step == .training && $0.bytes == $0.totalBytes && $0.bytes > 0 })
    }

    @Test("Equal files give equal bytes, however many work on them")
    func deterministic() throws {
        var all: [[String: [UInt8]]] = []
        for jobs in [1, 4] {
            let set = try Self.published()
            try set.publish { $0.jobs = jobs }
            all.append(try set.bytes(below: "out"))
        }
        #expect(all[0] == all[1] && all[0].count > 3)
    }

    @Test("An update keeps the dictionary, makes what is new with it, and deltas of what was made with it")
    func update() throws {
        let set = try Self.published()
        try set.publish()
        let first = try set.manifest()
        #expect(try set.publish().unchanged)
        let next = Self.tree(620, edited: [3, 300])
        try set.replace(next)
        // The base decides: what a first publish was asked for holds for all after it.
        let report = try set.publish { $0.dictionary = .automatic }
        let manifest = try set.manifest()
        #expect(report.dictionaryBytes == 0 && report.savedBytes > 0)
        #expect(manifest.dictionary?.digest == first.dictionary?.digest)
        #expect(manifest.packs.contains { $0.sha256 == first.packs[Int(first.dictionary?.blob.pack ?? 0)].sha256 })
        #expect(report.deltas == 2)
        #expect(try set.unpacked().nodes == next.nodes)
        try set.publish {
            $0.repack = true
            $0.revision = 9
        }
        #expect(try set.manifest().dictionary?.digest == first.dictionary?.digest)
        #expect(try set.unpacked().nodes == next.nodes)
    }

    @Test("When nothing needs it any more, it is no longer named, and the manifest is one that everybody reads")
    func dropped() throws {
        let set = try Self.published()
        try set.publish()
        var noise = AssetTree()
        noise.addFile("random.bin", size: 300_000, seed: 7)
        try set.replace(noise)
        try set.publish { $0.permits = .fewerFiles }
        #expect(try set.manifest().dictionary == nil)
        #expect(set.root.read("out/manifest.json")?.starts(with: "{\"format\":\"syncagent-manifest/1\"".utf8) == true)
        #expect(try set.unpacked().nodes == noise.nodes)
    }

    @Test(
        "A dictionary that is gone or damaged is told, and the set comes out right all the same [V47]",
        arguments: ["gone", "cut", "damaged"])
    func lost(_ how: String) throws {
        let set = try Self.published()
        try set.publish()
        let first = try set.manifest()
        let named = try #require(first.dictionary)
        let name = "out/" + first.packs[Int(named.blob.pack)].urls[0]
        let bytes = try #require(set.root.read(name))
        try FileManager.default.removeItem(atPath: set.root.path(name))
        if how == "cut" { try set.root.write(Array(bytes.dropLast(9)), to: name) }
        if how == "damaged" { try set.root.write(bytes.map { $0 ^ 1 }, to: name) }
        let next = Self.tree(620, edited: [3])
        try set.replace(next)
        let report = try set.publish()
        #expect(report.warnings.contains { $0.contains("dictionary of the base is missing or damaged") })
        #expect(report.savedBytes == 0)
        if how == "damaged" {
            // Blobs that were made with it are named still, as those of any damaged pack are.
            #expect(try set.manifest().dictionary == named || set.manifest().dictionary?.digest == named.digest)
        } else {
            #expect(try set.manifest().dictionary == nil)
            #expect(try set.unpacked().nodes == next.nodes)
        }
    }

    @Test("In parts, the entries name blobs of the dictionary, and the root names it")
    func parts() throws {
        let set = try Self.published()
        try set.publish { $0.isInParts = true }
        let manifest = try set.manifest()
        #expect(manifest.dictionary != nil && !manifest.parts.isEmpty)
        #expect(try set.unpacked().nodes == Self.tree().nodes)
    }
}
