import SyncManifest
import SyncModel
import Testing

@Suite("Outlines of parts")
struct OutlineTests {
    private static func digest(_ number: UInt8) -> SHA256Digest {
        let bytes = (1...32).map { UInt8($0) &* number }
        return bytes.withUnsafeBytes { SHA256Digest(bytes: $0) } ?? .zero
    }

    /// A text with one blob behind the other, a gap, several blobs, a link, and a path that looks like a digest.
    private static func text(isOutline: Bool) -> [UInt8] {
        var writer = ManifestWriter(partWithPacks: [digest(99), digest(98)], isOutline: isOutline)
        func blob(_ pack: UInt32, _ offset: UInt64, _ length: UInt64, _ codec: Codec = .identity) -> Blob {
            Blob(pack: pack, codec: codec, offset: offset, storedLength: length, rawLength: length)
        }
        func file(_ path: String, _ number: UInt8, _ blobs: [Blob], deltas: [Delta] = []) {
            let all = blobs.enumerated().map { (blob: $1, digest: digest(number &+ UInt8($0))) }
            let size = blobs.reduce(0) { $0 + $1.rawLength }
            Array(path.utf8).withUnsafeBufferPointer {
                writer.file(
                    path: $0, size: size, digest: size == 0 ? .ofNothing : digest(number), executable: false,
                    blobs: all, deltas: deltas)
            }
        }
        file("a", 1, [blob(0, 0, 100)])
        file("b", 3, [blob(0, 100, 7), blob(0, 107, 50, .zstd), blob(1, 157, 9), blob(1, 0, 1 << 40)])
        let delta = Delta(
            blob: 0, pack: 1, offset: 5, storedLength: 6, baseFile: digest(50), base: 0..<9, baseDigest: digest(51))
        file(digest(60).hex, 61, [blob(1, 1 << 40, 12)], deltas: [delta])
        file("empty \u{E9} \u{1F600}", 0, [])
        Array("l".utf8).withUnsafeBufferPointer { writer.link(path: $0, target: $0) }
        writer.finish()
        var text: [UInt8] = []
        writer.drain { text += $0 }
        return text
    }

    private static let whole = text(isOutline: false)
    private static let outline = text(isOutline: true)

    /// All digests of the text: 1 and 3 to 6 of files and blobs, 61, and that of nothing.
    private static let known = Dictionary(
        uniqueKeysWithValues: ([1, 3, 4, 5, 6, 61].map(digest) + [.ofNothing]).map { ($0.head, $0) })

    @Test("With all digests the text comes back as it was, and the outline is shorter")
    func whole() throws {
        var places: [Int] = []
        let length = UInt64(Self.whole.count)
        let made = PartOutline.text(of: Self.outline, length: length, unknown: PartOutline.noText) {
            places.append($1)
            return Self.known[$0]
        }
        #expect(made?.bytes == Self.whole && made?.isWhole == true)
        #expect(Self.outline.count < Self.whole.count - places.count * 48)
        for place in places {
            let hex = Self.whole[place..<(place + 64)]
            #expect(SHA256Digest(hex: hex).map { Self.known[$0.head] == $0 } == true)
        }
    }

    @Test("What is unknown is zeros, which can be read, or bytes that no text has")
    func unknown() throws {
        let four = Self.digest(4)
        func made(_ unknown: UInt8) throws -> [UInt8] {
            let made = PartOutline.text(of: Self.outline, length: UInt64(Self.whole.count), unknown: unknown) {
                head, _ in
                head == four.head ? nil : Self.known[head]
            }
            #expect(made?.isWhole == false)
            return try #require(made).bytes
        }
        let zeros = String(decoding: try made(PartOutline.zero), as: UTF8.self)
        #expect(zeros == String(decoding: Self.whole, as: UTF8.self).replacing(four.hex, with: four.head.hex))
        let marked = try made(PartOutline.noText)
        #expect(marked.count { $0 == 0xFF } == 32 && !Self.whole.contains(0xFF))
        #expect(zip(marked, Self.whole).allSatisfy { $0 == $1 || $0 == 0xFF })
    }

    @Test("What is no outline, or not of a text of this length, gives none")
    func broken() {
        func isText(_ outline: [UInt8], _ length: Int = Self.whole.count) -> Bool {
            let text = PartOutline.text(of: outline, length: UInt64(length), unknown: PartOutline.zero) { head, _ in
                Self.known[head]
            }
            return text != nil
        }
        #expect(isText(Self.outline))
        for length in [0, 1, Self.whole.count - 1, Self.whole.count + 1, .max] {
            #expect(!isText(Self.outline, length))
        }
        for count in Self.outline.indices { #expect(!isText(Array(Self.outline.prefix(count)))) }
        #expect(!isText(Self.outline + [0]))
        for (text, length) in [
            ([0xFE, 0x2C, 0], 3), ([0xFD, 0x2C, 0x31, 0], 3), ([0xFE, 0x31, 0], 3), ([0xFE, 0x2C, 0x78, 0], 3),
            ([0xFD] + Array("99999999999999999999,1\0".utf8), 22), ([0xFF, 0], 66), ([], 0),
        ] as [([UInt8], Int)] { #expect(!isText(text, length), "\(text)") }
        // The end of a blob above 2⁶⁴ is no trap.
        let last = "\(UInt64.max)"
        #expect(isText([0xFD] + Array("\(last),2".utf8) + [0xFE] + Array(",1\0".utf8), last.count + 2 + 3))
    }

    private static let twos = String(repeating: "2", count: 64)

    private static func root(_ outline: String) -> [UInt8] {
        Array(
            """
            {"format":"syncagent-manifest/1","project":"com.example.test",\
            "packs":[{"url":"a","size":1000,"sha256":"\(twos)"}],\
            "parts":[{"blob":[0,0,100,300,"zstd","\(twos)"],"files":1,"outline":\(outline)}]}
            """.utf8)
    }

    @Test("A part's outline is read and written again as it was")
    func member() throws {
        let text = "[[0,100,90,200,\"zstd\",\"\(Self.twos)\"],[0,190,9,210,\"zstd\",\"\(Self.twos)\"]]"
        let part = try ManifestAssembly(Self.root(text), digest: .zero).parts[0]
        #expect(part.outline.map(\.blob.range) == [100..<190, 190..<199] && part.chain.count == 1)
        #expect(part.all.count == 3)
        var writer = ManifestWriter(project: "a", revision: 1, created: nil, isInParts: true)
        writer.part(part)
        writer.finish()
        var written = ""
        writer.drain { written += String(decoding: $0, as: UTF8.self) }
        #expect(written.contains("\"files\":1,\"outline\":\(text)}"), "\(written)")
    }

    @Test(
        "An outline that cannot be one is refused, with the place",
        arguments: [
            ("[]", "$.parts[0].outline"), ("1", "$.parts[0].outline"), ("[[0,0,9]]", "$.parts[0].outline[0]"),
            ("[[0,901,100,100,\"none\",\"\(twos)\"]]", "$.parts[0].outline[0]"),
            ("[[1,0,9,9,\"none\",\"\(twos)\"]]", "$.parts[0].outline[0]"),
            ("[[0,0,9,9,\"zstd-dictionary\",\"\(twos)\"]]", "$.parts[0].outline[0][4]"),
            ("[[0,0,9,9,\"none\",\"\(twos)\"],[0,9,9,9,\"none\",\"\(twos)\"]]", "$.parts[0].outline[0]"),
            ("[[0,0,70000,67108865,\"zstd\",\"\(twos)\"]]", "$.parts[0].outline[0]"),
            (
                "[\(Array(repeating: "[0,0,9,9,\"zstd\",\"\(twos)\"]", count: 3).joined(separator: ","))]",
                "$.parts[0].outline[2]"
            ),
            ("[[0,0,9,9,\"none\",\"\(twos)\"]],\"outline\":[]", "$.parts[0].outline"),
        ])
    func refused(_ value: String, _ place: String) {
        let error = #expect(throws: ManifestError.self) { try ManifestAssembly(Self.root(value), digest: .zero) }
        #expect(error?.path == place, "\(error.map { "\($0)" } ?? "")")
    }
}
