import SyncManifest
import SyncModel
import Testing

/// Manifests with a dictionary.
@Suite("Dictionaries", .timeLimit(.minutes(10)))
struct DictionaryTests {
    private static let digest = ManifestFixture.digest
    private static let ones = String(repeating: "1", count: 64)

    /// A manifest whose only pack has 1,000 bytes.
    private static func document(
        _ dictionary: String?, codec: String = "zstd-dictionary", more: String = ""
    ) -> String {
        let member = dictionary.map { "\"dictionary\":\($0)," } ?? ""
        return """
            {"format":"syncagent-manifest/1","project":"com.example.test",\(member)\
            "packs":[{"url":"p","size":1000,"sha256":"\(ones)"}],\
            "files":[{"path":"a","size":40,"sha256":"\(digest)","blobs":[[0,500,20,40,"\(codec)"]]}]\(more)}
            """
    }

    private static let whole = "[0,100,300,4096,\"zstd\",\"\(digest)\"]"

    @Test("A dictionary is a blob, and blobs that are made with it say so [F105]")
    func read() throws {
        let manifest = try ManifestFixture.load(Self.document(Self.whole))
        let dictionary = try #require(manifest.dictionary)
        #expect(dictionary.blob.range == 100..<400 && dictionary.blob.rawLength == 4096)
        #expect(dictionary.blob.codec == .zstd && dictionary.digest.hex == Self.digest)
        #expect(manifest.files.blobs(0).first?.codec == .zstdDictionary)
        #expect(manifest.parts.isEmpty)
        // Other blobs need none.
        #expect(try ManifestFixture.load(Self.document(Self.whole, codec: "zstd")).files.blobs(0).first?.codec == .zstd)
    }

    @Test(
        "What is no dictionary is refused, and the place is named [F109, V46, V47]",
        arguments: [
            Rejection(document(nil), "$.files[0].blobs[0][4]", "there is no “dictionary”"),
            Rejection(document("[0,100,300]"), "$.dictionary", "no SHA-256"),
            Rejection(document("[1,0,9,9,\"none\",\"\(digest)\"]"), "$.dictionary", "pack 1 does not exist"),
            Rejection(document("[0,900,101,101,\"none\",\"\(digest)\"]"), "$.dictionary", "ends at byte 1001"),
            Rejection(document("[0,0,9,9,\"zstd-dictionary\",\"\(digest)\"]"), "$.dictionary[4]", "needs itself"),
            Rejection(
                document("[0,0,900,8388609,\"zstd\",\"\(digest)\"]"), "$.dictionary[3]",
                "8388609 bytes, above the limit"),
            Rejection(document("[0,0,0,9,\"zstd\",\"\(digest)\"]"), "$.dictionary[2]", "empty"),
            Rejection(document(whole, more: ",\"parts\":[]"), "$.files", "are in “parts” as well"),
            Rejection(document(whole, more: ",\"dictionary\":\(whole)"), "$.dictionary", "twice"),
        ])
    func refused(_ row: Rejection) { row.check() }

    @Test("In parts, blobs may use the root's dictionary; a part itself cannot")
    func inParts() throws {
        func root(_ dictionary: String?, codec: String = "zstd") -> String {
            """
            {"format":"syncagent-manifest/1","project":"p",\
            \(dictionary.map { "\"dictionary\":\($0)," } ?? "")\
            "packs":[{"url":"p","size":1000,"sha256":"\(Self.ones)"}],\
            "parts":[{"blob":[0,0,100,300,"\(codec)","\(Self.digest)"],"files":1}]}
            """
        }
        let part = """
            {"packs":["\(Self.ones)"],"files":[{"path":"a","size":40,"sha256":"\(Self.digest)",\
            "blobs":[[0,500,20,40,"zstd-dictionary"]]}]}
            """
        let manifest = try Self.assemble(root(Self.whole), part)
        #expect(manifest.dictionary?.blob.offset == 100 && manifest.parts.count == 1)
        let missing = #expect(throws: ManifestError.self) { try Self.assemble(root(nil), part) }
        #expect(missing?.path == "$.parts[0].files[0].blobs[0][4]")
        let own = #expect(throws: ManifestError.self) {
            try Self.assemble(root(Self.whole, codec: "zstd-dictionary"), part)
        }
        #expect(own?.path == "$.parts[0].blob[4]")
    }

    private static func assemble(_ root: String, _ part: String) throws -> Manifest {
        var assembly = try Array(root.utf8).withUnsafeBytes { try ManifestAssembly($0, digest: .zero) }
        try Array(part.utf8).withUnsafeBytes { try assembly.add($0) }
        return try assembly.finish()
    }

    @Test("What the writer writes is read again as it was")
    func roundTrip() throws {
        let dictionary = try #require(try ManifestFixture.load(Self.document(Self.whole)).dictionary)
        var writer = ManifestWriter(project: "p", revision: 3, created: nil, dictionary: dictionary)
        writer.pack(Manifest.Pack(urls: ["p"], size: 1000, sha256: .zero))
        writer.finish()
        var text: [UInt8] = []
        writer.drain { text += $0 }
        let manifest = try ManifestAssembly(text, digest: .zero).finish()
        #expect(manifest.dictionary == dictionary && manifest.revision == 3)
        #expect(String(decoding: text, as: UTF8.self).hasPrefix("{\"format\":\"syncagent-manifest/1\""))
    }
}
