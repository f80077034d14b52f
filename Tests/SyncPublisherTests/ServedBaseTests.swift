import Foundation
import SyncManifest
import SyncModel
import SyncTestKit
import SyncTrust
import Synchronization
import Testing

@testable import SyncPublisher

/// A base on a server: its packs stay there, and only what is needed of them is read.
@Suite(.timeLimit(.minutes(10)))
struct ServedBaseTests {
    /// A server in memory of what is in `out`.
    final class Server: Sendable {
        private let root: TemporaryRoot
        private let isSilent: Bool
        /// A pack of which wrong bytes come.
        private let lying: SHA256Digest?
        private let asked = Mutex<[Range<UInt64>]>([])

        init(_ set: PublishedSet, isSilent: Bool = false, lying: SHA256Digest? = nil) {
            (root, self.isSilent, self.lying) = (set.root, isSilent, lying)
        }

        var requests: [Range<UInt64>] { asked.withLock { $0 } }

        func note(_ range: Range<UInt64>) { asked.withLock { $0.append(range) } }

        func base(_ manifest: Manifest, release: [UInt8]? = nil) -> ServedBase {
            ServedBase(
                manifest, shown: "https://cdn.example.com/manifest.json",
                location: "https://cdn.example.com/manifest.json", release: release
            ) { pack, range in
                self.note(range)
                guard !self.isSilent, let bytes = self.root.read("out/packs/\(pack.sha256.hex).pack") else {
                    throw PublishedSet.Wrong("the server is silent")
                }
                let asked = Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)])
                return pack.sha256 == self.lying ? asked.map { $0 ^ 0x15 } : asked
            }
        }
    }

    /// A large file with changes in some places, and many that stay.
    static func tree(edits: [Int] = []) throws -> AssetTree {
        var tree = AssetTree.manySmall(100)
        tree.addFile("large.bin", size: 1_500_000, seed: 1)
        var bytes = try #require(tree.bytes("large.bin"))
        for place in edits { bytes[place] ^= 0x15 }
        tree.nodes["large.bin"] = .file(bytes, executable: false)
        return tree
    }

    static func published() throws -> PublishedSet {
        let set = try PublishedSet(tree())
        try set.publish()
        try set.replace(tree(edits: [500, 9_000, 400_000, 400_100, 1_200_000]))
        return set
    }

    @Test("Only what is new is written; deltas are made from a few ranges, the same with any number of jobs")
    func deltas() throws {
        let set = try Self.published()
        let manifest = try set.manifest()
        let near = try set.publish {
            $0.output = set.root.path("near")
            $0.base = .manifest(set.root.path("out/manifest.json"))
        }
        try #require(near.deltas > 2)
        for jobs in [1, 4] {
            let server = Server(set)
            let far = try set.publish {
                $0.output = set.root.path("far-\(jobs)")
                $0.base = .served(server.base(manifest))
                $0.jobs = jobs
            }
            #expect(far.deltas == near.deltas && far.deltaBytes == near.deltaBytes && far.newBytes == near.newBytes)
            #expect(far.revision == 2 && far.packsReused == near.packsReused)
            #expect(set.root.read("far-\(jobs)/manifest.json") == set.root.read("near/manifest.json"))
            #expect((1...near.deltas).contains(server.requests.count), "\(server.requests)")
            let told = far.warnings.filter { $0.contains("must stay where the base is served") }
            #expect(told.count == 1 && told.first?.contains("\(manifest.packs.count) packs") == true, "\(far.warnings)")
            let names = try FileManager.default.contentsOfDirectory(atPath: set.root.path("far-\(jobs)/packs"))
            #expect(names.count == far.packsWritten)
        }
    }

    @Test("A server that falls silent costs the deltas and not the release; it is asked once")
    func silent() throws {
        let set = try Self.published()
        let (server, manifest) = (Server(set, isSilent: true), try set.manifest())
        let report = try set.publish {
            $0.output = set.root.path("far")
            $0.base = .served(server.base(manifest))
        }
        #expect(report.deltas == 0 && report.packsWritten > 0 && server.requests.count == 1)
        #expect(
            report.warnings.contains { $0.contains("the server is silent") && $0.contains("fewer deltas") },
            "\(report.warnings)")
    }

    @Test("Nothing changed: the manifest is the served one, byte for byte, and no pack is asked for")
    func unchanged() throws {
        let set = try PublishedSet(Self.tree())
        try set.publish()
        let (server, manifest) = (Server(set), try set.manifest())
        func publish() throws -> PublishReport {
            try set.publish {
                $0.output = set.root.path("far")
                $0.base = .served(server.base(manifest))
            }
        }
        let report = try publish()
        #expect(!report.unchanged, "there was nothing in the output")
        #expect(report.revision == 1 && server.requests.isEmpty)
        #expect(try publish().unchanged)
        #expect(set.root.read("far/manifest.json") == set.root.read("out/manifest.json"))
    }

    @Test("The parts of a manifest and its dictionary are read from the server as well")
    func partsAndDictionary() throws {
        var tree = AssetTree()
        for index in 0..<400 {
            tree.addText("notes/\(index).json", "{\"kind\":\"note\",\"number\":\(index),\"author\":\"somebody\"}\n")
        }
        var set = try PublishedSet(tree)
        (set.options.isInParts, set.options.dictionary) = (true, .always)
        try set.publish()
        let manifest = try set.manifest()
        tree.addText("notes/new.json", "{\"kind\":\"note\",\"number\":1000,\"author\":\"somebody\"}\n")
        try set.replace(tree)
        try set.publish {
            $0.output = set.root.path("near")
            $0.base = .manifest(set.root.path("out/manifest.json"))
        }
        let server = Server(set)
        try set.publish {
            $0.output = set.root.path("far")
            $0.base = .served(server.base(manifest))
        }
        #expect(set.root.read("far/manifest.json") == set.root.read("near/manifest.json"))
        #expect((1...2).contains(server.requests.count), "\(server.requests)")
    }

    /// A set in parts, and what one entry in a hundred of it has become.
    private static func inParts() throws -> PublishedSet {
        func tree(_ content: String) -> AssetTree {
            var tree = AssetTree()
            for number in 0..<4_000 { tree.nodes["d\(number / 100)/\(number)"] = .link("\(number % 97)") }
            for number in stride(from: 5, to: 4_000, by: 100) {
                tree.addText("d\(number / 100)/\(number)", "\(content) \(number)")
            }
            return tree
        }
        var set = try PublishedSet(tree("first"))
        set.options.isInParts = true
        try set.publish()
        try set.replace(tree("second"))
        return set
    }

    @Test("A changed part becomes its difference to the served one, and is read back behind that")
    func differences() throws {
        let set = try Self.inParts()
        let (server, before) = (Server(set), try set.manifest())
        let report = try set.publish {
            $0.output = set.root.path("far")
            $0.base = .served(server.base(before))
        }
        #expect(report.partsWritten == report.parts && !server.requests.isEmpty)
        // Copied over what is served, as whoever has only the files does.
        for (path, bytes) in try set.bytes(below: "far") { try set.root.write(bytes, to: "out/\(path)") }
        let after = try set.manifest()
        #expect(after.parts.count == report.parts && after.parts.count >= 2)
        for part in after.parts {
            let former = try #require(before.parts.first { $0.text.digest == part.from.first?.digest })
            #expect(part.from.count == 1 && part.from[0].blob.range == former.text.blob.range)
            #expect(before.packs[Int(former.text.blob.pack)].sha256 == after.packs[Int(part.from[0].blob.pack)].sha256)
        }
        #expect(try set.unpacked().nodes == AssetTree.read(set.root.path("in")).nodes)
    }

    @Test("Wrong bytes for a former text are not taken for it: its part is stored whole")
    func wrongText() throws {
        let set = try Self.inParts()
        let before = try set.manifest()
        let texts = before.packs[Int(before.parts[0].text.blob.pack)].sha256
        let server = Server(set, lying: texts)
        try set.publish {
            $0.output = set.root.path("far")
            $0.base = .served(server.base(before))
        }
        #expect(!server.requests.isEmpty)
        for (path, bytes) in try set.bytes(below: "far") { try set.root.write(bytes, to: "out/\(path)") }
        #expect(try set.manifest().parts.allSatisfy { $0.from.isEmpty })
        #expect(try set.unpacked().nodes == AssetTree.read(set.root.path("in")).nodes)
    }

    @Test("Signed again is only a base that this machine has made, or that its keys have signed; else 77")
    func signed() throws {
        var (set, keys) = try SignedBaseTests.signed()
        try set.replace(.manySmall(6))
        let (manifest, release) = (try set.manifest(), set.root.read("out/trust/1.release"))
        func published(
            _ machine: String, _ name: String, release: [UInt8]?, _ permits: PublishOptions.Permits = .unreadPacks
        ) throws -> PublishError? {
            set.options.signing = try SignedBaseTests.signing(set, keys, now: 2_000, machine)
            return set.failure {
                $0.output = set.root.path(name)
                $0.base = .served(Server(set).base(manifest, release: release))
                $0.permits = permits
            }
        }
        // Its packs are not here, so that nobody would have read what is signed.
        let unread = try published("another", "a", release: release, [])
        #expect(unread?.exitStatus == .refused && unread?.remedy.contains("--allow-unread") == true)
        #expect(
            unread?.summary.contains("https://cdn.example.com/manifest.json") == true, "\(String(describing: unread))")
        #expect(set.root.read("a/manifest.json") == nil)
        #expect(try published("another", "a", release: release) == nil)
        for wrong in [nil, [], Array("{}".utf8)] as [[UInt8]?] {
            let error = try published("a third", "b", release: wrong)
            #expect(error?.exitStatus == .refused, "\(String(describing: error))")
            #expect(error?.description.contains("--accept-base") == true, "\(String(describing: error))")
            #expect(error?.description.contains("https://cdn.example.com/manifest.json") == true)
        }
        #expect(set.root.read("b/manifest.json") == nil)
        #expect(try published("state", "c", release: nil) == nil)
    }

    @Test("What one publish reads of a server has a limit, and what is close is read at once")
    func limits() throws {
        let size: UInt64 = 1 << 40
        let pack = Manifest.Pack(urls: ["p"], size: size, sha256: try digest([1]))
        let set = try PublishedSet(Self.tree())
        try set.publish()
        let server = Server(set)
        let base = ServedBase(try set.manifest(), shown: "base", location: "base", release: nil) { _, range in
            server.note(range)
            return [UInt8](repeating: 7, count: Int(range.upperBound - range.lowerBound))
        }
        func piece(_ start: UInt64, _ count: UInt64) -> PackRanges.Piece {
            (pack, start..<(start + count))
        }
        try base.ranges.hold([piece(2_000, 10), piece(0, 10), piece(5, 10)]) { false }
        #expect(server.requests == [0..<2_010])
        #expect(
            base.ranges.held(pack.sha256, 3..<2_000)?.count == 1_997 && base.ranges.held(pack.sha256, 0..<2_011) == nil)
        // One inside another hides nothing of what the other has, and nothing is fetched twice.
        try base.ranges.hold([piece(9_000, 10)]) { false }
        try base.ranges.hold([piece(8_000, 10), piece(9_000, 10), piece(10_000, 10)]) { false }
        for start: UInt64 in [8_000, 9_000, 10_000] {
            #expect(base.ranges.held(pack.sha256, start..<(start + 10))?.count == 10)
        }
        try base.ranges.hold([piece(9_000, 10), piece(8_500, 10)]) { false }
        #expect(server.requests == [0..<2_010, 9_000..<9_010, 8_000..<10_010])
        #expect(base.ranges.warning == nil)
        #expect(throws: PublishError.cancelled) { try base.ranges.hold([piece(1 << 20, 1)]) { true } }
        try base.ranges.hold((1...300).map { piece($0 << 20, 1) }) { false }
        #expect(server.requests.count == PackRanges.mostRequests)
        #expect(base.ranges.warning?.contains("256 requests") == true)
        #expect(base.ranges.bytes(piece(0, 1)) == nil)
    }
}
