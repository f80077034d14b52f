import Foundation
import SyncManifest
import SyncModel
import Testing

@Suite("Deltas in a manifest", .timeLimit(.minutes(10)))
struct DeltaTests {
    private static let one = String(repeating: "1a", count: 32)
    private static let two = String(repeating: "2b", count: 32)
    private static let good = "[0,0,10,20,30,40,\"\(two)\"]"

    private static func manifest(_ value: String, key: String = "x-deltas") throws -> Manifest {
        let files = """
            {"path":"z","size":100,"sha256":"\(one)","blobs":[[0,0,100]]},\
            {"path":"b","size":100,"\(key)":\(value),"sha256":"\(one)","blobs":[[0,0,100]]},\
            {"path":"a","link":"b","\(key)":\(value)}
            """
        let text = """
            {"format":"syncagent-manifest/1","project":"com.example.delta","files":[\(files)],\
            "packs":[{"url":"p","size":100,"sha256":"\(one)"}]}
            """
        return try ManifestAssembly(Array(text.utf8), digest: .zero).finish()
    }

    private static func deltas(_ value: String) throws -> [Delta] {
        let files = try manifest(value).files
        #expect(files.path(0) == "a" && files.deltas(0).isEmpty && files.deltas(2).isEmpty)
        return Array(files.deltas(1))
    }

    @Test("A delta is read, also when files stand out of order and packs behind them")
    func read() throws {
        let found = try Self.deltas("{\"blobs\":[\(Self.good)],\"base\":\"\(Self.one)\",\"later\":[1.5]}")
        let expected = Delta(
            blob: 0, pack: 0, offset: 10, storedLength: 20, baseFile: try #require(SHA256Digest(hex: Self.one)),
            base: 30..<70, baseDigest: try #require(SHA256Digest(hex: Self.two)))
        #expect(found == [expected])
    }

    @Test(
        "A value of another shape, or that cannot be used, is ignored",
        arguments: [
            "1", "null", "[]", "{}", "\"x\"", "{\"base\":7}", "{\"blobs\":[GOOD]}", "{\"base\":\"B\",\"blobs\":7}",
            "{\"base\":\"B\",\"blobs\":[[0,0,10,20,30,40]]}", "{\"base\":\"B\",\"blobs\":[[0,0,10,20,30,40,\"B\",1]]}",
            "{\"base\":\"B\",\"blobs\":[[0,0,10,20,9223372036854775807,9223372036854775807,\"B\"]]}",
            "{\"base\":\"B\",\"blobs\":[[1,0,10,20,30,40,\"B\"]]}",
            "{\"base\":\"B\",\"blobs\":[[0,1,10,20,30,40,\"B\"]]}",
            "{\"base\":\"B\",\"blobs\":[[0,0,90,20,30,40,\"B\"]]}",
            "{\"base\":\"B\",\"blobs\":[[0,0,9223372036854775807,20,30,40,\"B\"]]}",
            "{\"base\":\"B\",\"blobs\":[[0,0,10,0,30,40,\"B\"]]}",
            "{\"base\":\"B\",\"blobs\":[[0,0,10,20,30,0,\"B\"]]}",
            "{\"base\":\"B\",\"blobs\":[[0,0,10,20,30,2097153,\"B\"]]}",
            "{\"base\":\"B\",\"blobs\":[[4294967296,0,10,20,30,40,\"B\"]]}",
            "{\"base\":\"B\",\"blobs\":[[-1,0,10,20,30,40,\"B\"]]}",
        ])
    func ignored(value: String) throws {
        let text = value.replacing("GOOD", with: Self.good).replacing("\"B\"", with: "\"\(Self.one)\"")
        #expect(try Self.deltas(text).isEmpty)
    }

    @Test("The sample manifest with a delta is read")
    func sample() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..")
        let text = try Data(contentsOf: root.appendingPathComponent("Manifests/samples/deltas.json"))
        let manifest = try ManifestAssembly(Array(text), digest: .zero).finish()
        #expect(manifest.files.deltas(0).map(\.base) == [0..<3100])
    }

    @Test("The second delta of a blob is ignored")
    func twice() throws {
        let found = try Self.deltas("{\"base\":\"\(Self.one)\",\"blobs\":[\(Self.good),\(Self.good)]}")
        #expect(found.count == 1)
    }

    @Test(
        "What is not JSON, and a key that appears twice, are refused as anywhere",
        arguments: ["{", "{\"base\":1,\"base\":2}", "[1", "{\"blobs\":[[0,]]}"])
    func refused(value: String) { #expect(throws: ManifestError.self) { try Self.manifest(value) } }

    @Test("What is written can be read, and a reader that does not know it reads the rest")
    func written() throws {
        let text = try Self.manifest("{\"base\":\"\(Self.one)\",\"blobs\":[\(Self.good)]}")
        var writer = ManifestWriter(project: "com.example.delta", revision: 0, created: nil)
        for pack in text.packs { writer.pack(pack) }
        for row in text.files.indices where text.files.kind(row) != .link {
            text.files.withPath(row) { path in
                writer.file(
                    path: path, size: text.files.size(row), digest: text.files.digest(row), executable: false,
                    blobs: text.files.blobs(row).map { ($0, text.files.digest(row)) }, deltas: text.files.deltas(row))
            }
        }
        writer.finish(groups: [])
        var bytes: [UInt8] = []
        writer.drain { bytes += $0 }
        let again = try ManifestAssembly(bytes, digest: .zero).finish()
        #expect(again.files.deltas(0).first == text.files.deltas(1).first && again.files.deltas(1).isEmpty)
        let unknown = String(decoding: bytes, as: UTF8.self).replacing("x-deltas", with: "x-others")
        #expect(try ManifestAssembly(Array(unknown.utf8), digest: .zero).finish().files.count == 2)
    }
}
