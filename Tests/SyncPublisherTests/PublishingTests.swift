import Foundation
import SyncContent
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit
import Testing

@Suite(.timeLimit(.minutes(10)))
struct PublishingTests {
    static let trees: [(name: String, tree: AssetTree)] = [
        ("nothing", AssetTree()), ("one empty file", AssetTree(["a": .file([], executable: false)])),
        ("many small files", .manySmall(700)), ("large files, cut into chunks", .large(3, size: 300_000)),
        ("text that compresses", .compressible(20)), ("odd names", .oddNames()),
        ("links and programs", .linksAndPrograms()), ("a little of everything", .mixed()),
    ]

    @Test("What is published comes out byte for byte, mode and link for link", arguments: trees.indices)
    func comesBack(index: Int) throws {
        let set = try PublishedSet(Self.trees[index].tree)
        // Nothing is not published by mistake.
        let report = try set.publish { $0.permits = .fewerFiles }

        #expect(try set.unpacked().nodes == Self.trees[index].tree.nodes)
        #expect(report.files + report.links == Self.trees[index].tree.nodes.count)
        #expect(report.rawBytes == UInt64(Self.trees[index].tree.byteCount))
        #expect(try set.manifest().digest == report.manifestDigest)
    }

    @Test("Any number of workers gives the same bytes", arguments: [1, 2, 3, 8])
    func workersDoNotMatter(jobs: Int) throws {
        let set = try PublishedSet(AssetTree.mixed().merged(with: .large(2, size: 500_000)))
        try set.publish { $0.jobs = 4 }
        try set.publish {
            $0.jobs = jobs
            $0.output = set.root.path("again")
        }
        let once = try set.bytes(below: "out")
        #expect(once == (try set.bytes(below: "again")))
        #expect(once.count > 3)
    }

    @Test("The order in which files were made does not matter")
    func directoryOrderDoesNotMatter() throws {
        let tree = AssetTree.mixed()
        let set = try PublishedSet(tree)
        try set.publish()
        for path in tree.paths.reversed() {
            let one = AssetTree([path: tree.nodes[path] ?? .link("")])
            try one.write(to: set.root, under: "other")
        }
        try set.publish {
            $0.directory = set.root.path("other")
            $0.output = set.root.path("again")
        }
        #expect(try set.bytes(below: "out") == set.bytes(below: "again"))
    }

    @Test("Entries stand in path order, and their blobs one behind the other")
    func pathOrder() throws {
        let tree = AssetTree([
            "a/b": .file([1, 2, 3], executable: false), "a!": .file([4], executable: false),
            "a.txt": .file([5, 6], executable: false), "a/b!c": .file([7], executable: false),
            "A": .file([8], executable: false), "a/b.d/e": .file([9], executable: false),
        ])
        let set = try PublishedSet(tree)
        try set.publish()
        let manifest = try set.manifest()
        let paths = manifest.files.indices.map { manifest.files.path($0) }
        #expect(paths == ["A", "a/b", "a/b!c", "a/b.d/e", "a!", "a.txt"])
        #expect(manifest.files.indices.map { manifest.files.blobs($0).first?.offset } == [0, 1, 4, 5, 6, 7])
    }

    @Test("Identical content is stored once, small and large")
    func identicalContent() throws {
        var tree = AssetTree()
        for name in ["x/1", "x/2", "y/3"] { tree.addFile("small/\(name)", size: 5_000, seed: 7) }
        for name in ["1", "2"] { tree.addFile("large/\(name)", size: 200_000, seed: 8) }
        let set = try PublishedSet(tree)
        let report = try set.publish()
        #expect(report.rawBytes == 415_000)
        #expect(report.uniqueBytes == 205_000)
        #expect(report.newBytes <= 205_000)
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("zstd where it pays, nothing where it does not")
    func compressionWhereItPays() throws {
        var tree = AssetTree.compressible(3)
        tree.addFile("noise/small", size: 3_000, seed: 1)
        tree.addFile("noise/large", size: 190_000, seed: 2)
        let set = try PublishedSet(tree)
        try set.publish()
        let files = try set.manifest().files
        for row in files.indices {
            let wanted: Codec = files.path(row).hasPrefix("text/") ? .zstd : .identity
            #expect(files.blobs(row).allSatisfy { $0.codec == wanted }, "\(files.path(row))")
        }
    }

    @Test("Packs end before they would grow past their size, and are named by their digest")
    func packSize() throws {
        let set = try PublishedSet(.manySmall(300))
        try set.publish { $0.packSize = 50_000 }
        let packs = try set.manifest().packs
        #expect(packs.count > 5)
        #expect(packs.allSatisfy { $0.size <= 50_000 && $0.urls == ["packs/\($0.sha256.hex).pack"] })
        #expect(packs.dropLast().allSatisfy { $0.size > 50_000 - 4_096 })
    }

    @Test("The compressed manifest is the manifest")
    func compressedManifest() throws {
        let set = try PublishedSet(.manySmall(300))
        try set.publish()
        let plain = try #require(set.root.read("out/manifest.json"))
        let frame = try #require(set.root.read("out/manifest.json.zst"))
        #expect(try decodeZstd(frame, limit: plain.count) == plain)
        #expect(frame.count < plain.count)
    }

    @Test("Progress ends at all files and all bytes")
    func progress() throws {
        let set = try PublishedSet(.mixed())
        var steps: [PublishProgress] = []
        let report = try set.options.publish(progress: { steps.append($0) })
        let last = try #require(steps.last)
        #expect(last.files == report.files && last.totalFiles == report.files)
        #expect(last.bytes == report.rawBytes && last.totalBytes == report.rawBytes)
    }

    @Test("Buffers stay bounded however large a file is")
    func boundedBuffers() throws {
        func bufferBytes(_ size: Int) throws -> Int {
            let set = try PublishedSet(.large(1, size: size))
            return try set.publish { $0.chunks = ChunkParameters() }.bufferBytes
        }
        let bound = 2 * 12 * (1 << 20) + 16 * (2 << 20)
        #expect(try bufferBytes(8 << 20) <= bound)
        #expect(try bufferBytes(64 << 20) <= bound)
    }

    @Test("Cancelled: exit 130, nothing published, nothing left over")
    func cancelled() throws {
        let set = try PublishedSet(.manySmall(700))
        var calls = 0
        let error = #expect(throws: PublishError.self) {
            try set.options.publish(isCancelled: {
                calls += 1
                return calls > 1
            })
        }
        #expect(error?.exitStatus == .interrupted)
        #expect(try set.bytes(below: "out").isEmpty)
    }
}
