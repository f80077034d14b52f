import Foundation
import SyncContent
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ManifestWriterTests {
    static let one = SHA256Digest(hex: String(repeating: "1", count: 64))
    static let two = SHA256Digest(hex: String(repeating: "2", count: 64))

    static func text(_ fill: (inout ManifestWriter) -> Void) -> String {
        var writer = ManifestWriter(project: "p", revision: 42, created: "2026-11-20T02:00:00Z")
        fill(&writer)
        var text = ""
        writer.drain { text = String(decoding: $0, as: UTF8.self) }
        return text
    }

    static func withBytes(_ text: String, _ body: (UnsafeBufferPointer<UInt8>) -> Void) {
        Array(text.utf8).withUnsafeBufferPointer(body)
    }

    @Test("A manifest is written as the format says, one entry a line")
    func wholeText() throws {
        let one = try #require(Self.one)
        let two = try #require(Self.two)
        func blob(_ offset: UInt64, _ stored: UInt64, _ raw: UInt64, _ codec: Codec) -> Blob {
            Blob(pack: 0, codec: codec, digestIndex: nil, offset: offset, storedLength: stored, rawLength: raw)
        }
        let text = Self.text { writer in
            writer.pack(Manifest.Pack(urls: ["packs/x.pack"], size: 100, sha256: two))
            Self.withBytes("a \"b\"\\c") {
                writer.file(
                    path: $0, size: 10, digest: one, executable: true, blobs: [(blob(0, 10, 10, .identity), one)])
            }
            Self.withBytes("b") {
                writer.file(path: $0, size: 9, digest: one, executable: false, blobs: [(blob(10, 5, 9, .zstd), one)])
            }
            Self.withBytes("c") {
                writer.file(
                    path: $0, size: 12, digest: one, executable: false,
                    blobs: [(blob(15, 5, 9, .zstd), two), (blob(20, 3, 3, .identity), one)],
                    urls: ["https://example.org/c"], group: "g")
            }
            Self.withBytes("l") { path in Self.withBytes("a") { writer.link(path: path, target: $0) } }
            writer.finish(groups: [Manifest.Group(name: "g", include: ["a/**"], hooks: ["reindex"])])
        }
        let ones = one.hex
        let twos = two.hex
        #expect(
            text == """
                {"format":"syncagent-manifest/1","project":"p","revision":42,"created":"2026-11-20T02:00:00Z",
                "packs":[
                {"url":"packs/x.pack","size":100,"sha256":"\(twos)"}
                ],
                "files":[
                {"path":"a \\"b\\"\\\\c","size":10,"sha256":"\(ones)","executable":true,"blobs":[[0,0,10]]},
                {"path":"b","size":9,"sha256":"\(ones)","blobs":[[0,10,5,9,"zstd"]]},
                {"path":"c","size":12,"sha256":"\(ones)","blobs":[[0,15,5,9,"zstd","\(twos)"],\
                [0,20,3,3,"none","\(ones)"]],"urls":["https://example.org/c"],"group":"g"},
                {"path":"l","link":"a"}
                ],
                "groups":[
                {"name":"g","include":["a/**"],"hooks":["reindex"]}
                ]}

                """)
        let manifest = try ManifestAssembly(Array(text.utf8), digest: try sha256(text)).finish()
        #expect(manifest.files.count == 4)
        #expect(manifest.groups.count == 1)
    }

    @Test("An empty manifest is a manifest")
    func empty() throws {
        let text = Self.text { $0.finish(groups: []) }
        #expect(text.hasSuffix("\"packs\":[],\n\"files\":[]}\n"))
        #expect(try ManifestAssembly(Array(text.utf8), digest: try sha256(text)).finish().files.count == 0)
    }

    @Test("Groups are checked before anything is written", arguments: ["all", "", "-x", "a b"])
    func badGroups(name: String) throws {
        let set = try PublishedSet()
        let error = set.failure { $0.groups = [Manifest.Group(name: name, include: ["**"], hooks: [])] }
        #expect(error?.exitStatus == .usage)
    }

    @Test("Groups and hooks come out as they went in")
    func groups() throws {
        let set = try PublishedSet(.manySmall(3))
        let groups = [Manifest.Group(name: "sheets", include: ["sheets/**", "a b/*"], hooks: ["reindex"])]
        try set.publish { $0.groups = groups }
        #expect(try set.manifest().groups == groups)
    }

    @Test("A group without files, and one that is no longer declared, are worth a word")
    func groupWarnings() throws {
        let set = try PublishedSet(.manySmall(3))
        let groups = ["sheets", "video"].map { Manifest.Group(name: $0, include: ["\($0)/**"], hooks: []) }
        #expect(try set.publish { $0.groups = groups }.warnings == ["group video has no files"])
        #expect(
            try set.publish { $0.groups = [groups[0]] }.warnings == [
                "the base declares groups that this manifest does not: video"
            ])
    }
}
