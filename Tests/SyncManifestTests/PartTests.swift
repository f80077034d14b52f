import Foundation
import SyncManifest
import SyncModel
import Testing

private let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Manifests/samples/invalid-parts")

private let samples = ((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []).filter {
    $0.hasSuffix(".json")
}.sorted()

@Suite(.timeLimit(.minutes(10)))
struct PartTests {
    private static let ones = String(repeating: "1", count: 64)
    private static let twos = String(repeating: "2", count: 64)

    /// A root whose packs have 1,000 and 2,000 bytes, with parts of so many entries.
    private static func root(_ counts: [Int], extra: String = "") -> String {
        let digest = ManifestFixture.digest
        let parts = counts.enumerated().map {
            "{\"blob\":[1,\($0 * 100),100,300,\"zstd\",\"\(digest)\"],\"files\":\($1)}"
        }
        return """
            {"format":"syncagent-manifest/1","project":"com.example.test","revision":7,\
            "packs":[{"url":"a","size":1000,"sha256":"\(ones)"},{"url":"b","size":2000,"sha256":"\(twos)"}],\
            "parts":[\(parts.joined(separator: ","))]\(extra)}
            """
    }

    private static func part(_ entries: [String], packs: [String] = []) -> String {
        let list = packs.map { "\"\($0)\"" }.joined(separator: ",")
        return "{\"packs\":[\(list)],\"files\":[\(entries.joined(separator: ","))]}"
    }

    private static func load(_ root: String, _ parts: [String], limits: ManifestLimits = .standard)
        throws(ManifestError) -> Manifest
    {
        var assembly = try with(root) { bytes throws(ManifestError) in
            try ManifestAssembly(bytes, digest: .zero, limits: limits)
        }
        for part in parts { try with(part) { bytes throws(ManifestError) in try assembly.add(bytes) } }
        return try assembly.finish()
    }

    private static func with<R>(_ text: String, _ body: (UnsafeRawBufferPointer) throws(ManifestError) -> R)
        throws(ManifestError) -> R
    {
        try Array(text.utf8).withUnsafeBufferPointer { bytes throws(ManifestError) in
            try body(UnsafeRawBufferPointer(bytes))
        }
    }

    @Test("Parts give one table; blobs and deltas are found through each part's own packs [F105]")
    func assembly() throws {
        let digest = ManifestFixture.digest
        func file(_ path: String, pack: Int) -> String {
            """
            {"path":"\(path)","size":10,"sha256":"\(digest)","blobs":[[\(pack),5,10]],\
            "x-deltas":{"base":"\(digest)","blobs":[[0,\(pack),700,9,0,100,"\(digest)"]]}}
            """
        }
        let manifest = try Self.load(
            Self.root([2, 2], extra: ",\"groups\":[{\"name\":\"g\",\"include\":[\"b/**\"]}]"),
            [
                Self.part([file("a", pack: 0), file("b/c", pack: 1)], packs: [Self.twos, Self.ones]),
                Self.part(["{\"path\":\"b/l\",\"link\":\"c\"}", file("d", pack: 0)], packs: [Self.ones]),
            ])
        #expect(manifest.revision == 7)
        #expect(manifest.files.indices.map(manifest.files.path) == ["a", "b/c", "b/l", "d"])
        #expect([0, 1, 3].map { manifest.files.blobs($0).first?.pack } == [1, 0, 0])
        #expect([0, 1, 3].map { manifest.files.deltas($0).first?.pack } == [1, 0, 0])
        #expect(manifest.files.rows(of: manifest.groups[0]).rows == [1, 2])
        #expect(manifest.parts.map(\.files) == [2, 2])
        #expect(manifest.parts[1].text.blob.range == 100..<200)
        #expect(manifest.digest == .zero)
    }

    private static func from(_ value: String) -> String {
        root([1]).replacing("\"files\":1}", with: "\"files\":1,\"from\":\(value)}")
    }

    @Test("The texts that a part is made from are found in their packs, the oldest first")
    func formerTexts() throws {
        let manifest = try Self.load(
            Self.from("[[0,50,100,100,\"none\",\"\(Self.ones)\"],[1,900,20,300,\"zstd\",\"\(Self.twos)\"]]"),
            [Self.part([ManifestFixture.entry("a")])])
        let part = manifest.parts[0]
        #expect(part.chain.map { "\($0.digest)" } == [Self.ones, Self.twos, "\(ManifestFixture.digest)"])
        #expect(part.chain.map(\.blob.range) == [50..<150, 900..<920, 0..<100])
        #expect(part.files == 1)
    }

    @Test(
        "A part that cannot be made from what it names is refused, with the place",
        arguments: [
            ("[]", "$.parts[0].from"), ("1", "$.parts[0].from"),
            ("[[0,901,100,100,\"none\",\"\(twos)\"]]", "$.parts[0].from[0]"),
            ("[[2,0,9,9,\"none\",\"\(twos)\"]]", "$.parts[0].from[0]"), ("[[0,0,9]]", "$.parts[0].from[0]"),
            ("[[0,0,9,9,\"none\",\"\(twos)\"],[0,9,9,9,\"none\",\"\(twos)\"]]", "$.parts[0].from[0]"),
            ("[[0,0,9,9,\"zstd-dictionary\",\"\(twos)\"]]", "$.parts[0].from[0][4]"),
            ("[[0,0,300,8388400,\"zstd\",\"\(twos)\"]]", "$.parts[0].from[0]"),
            (
                "[\(Array(repeating: "[0,0,9,9,\"zstd\",\"\(twos)\"]", count: 9).joined(separator: ","))]",
                "$.parts[0].from[8]"
            ),
            ("[[0,0,9,9,\"none\",\"\(twos)\"]],\"from\":[]", "$.parts[0].from"),
        ])
    func wrongFormerTexts(_ value: String, _ place: String) {
        let error = #expect(throws: ManifestError.self) {
            try Self.load(Self.from(value), [Self.part([ManifestFixture.entry("a")])])
        }
        #expect(error?.path == place, "\(error.map { "\($0)" } ?? "")")
    }

    @Test("Former texts are bounded, each of them and all together")
    func manyFormerTexts() throws {
        let large = Self.from("[[0,0,9000000,100,\"zstd\",\"\(Self.twos)\"]]").replacing(
            "\"size\":1000", with: "\"size\":10000000")
        let part = Self.part([ManifestFixture.entry("a")])
        #expect(
            #expect(throws: ManifestError.self) { try Self.load(large, [part]) }?.reason.contains("9000000") == true)
        var limits = ManifestLimits.standard
        limits.manifestBytes = 4_000
        let fits = Self.from("[[0,0,100,32000,\"zstd\",\"\(Self.twos)\"]]")
        #expect(try Self.load(fits, [part], limits: limits).parts.count == 1)
        let tooMuch = fits.replacing("32000", with: "32008")
        let error = #expect(throws: ManifestError.self) { try Self.load(tooMuch, [part], limits: limits) }
        #expect(error?.path == "$.parts[0].from")
    }

    @Test("A manifest of no parts is one of no files")
    func none() throws {
        #expect(try Self.load(Self.root([]), []).files.count == 0)
        #expect(try ManifestFixture.load(Self.root([])).files.count == 0)
    }

    @Test("Every wrong part is refused with the message that stands beside it [F105, F106, F107]", arguments: samples)
    func invalid(_ name: String) throws {
        let text = String(decoding: try Data(contentsOf: folder.appending(path: name)), as: UTF8.self)
        let message = try String(
            decoding: Data(contentsOf: folder.appending(path: name.dropLast(5) + ".txt")), as: UTF8.self)
        let error = #expect(throws: ManifestError.self) { try Self.load(Self.root([2]), [text]) }
        #expect(error.map { "\($0)\n" } == message)
    }

    @Test("The samples of wrong parts are where they are looked for")
    func present() { #expect(samples.count >= 15) }

    struct Row: Sendable, CustomTestStringConvertible {
        var parts: [String]
        var path: String
        var reason: String
        var testDescription: String { reason }
    }

    @Test(
        "Rules hold across the borders of parts, and the message names both places [F106, F107, V13]",
        arguments: [
            Row(
                parts: [part([ManifestFixture.entry("b")]), part([ManifestFixture.entry("a")])],
                path: "$.parts[1].files[0].path", reason: "the path sorts before that of the previous entry"),
            Row(
                parts: [part([ManifestFixture.entry("a")]), part([ManifestFixture.entry("a")])],
                path: "$.parts[1].files[0].path", reason: "“a” is the same as $.parts[0].files[0].path"),
            Row(
                parts: [part([ManifestFixture.entry("a")]), part([ManifestFixture.entry("a/b")])],
                path: "$.parts[0].files[0].path",
                reason: "“a” is a file, and $.parts[1].files[0].path needs a directory there"),
            Row(
                parts: [part([ManifestFixture.entry("e\u{301}")]), part([ManifestFixture.entry("é")])],
                path: "$.parts[1].files[0].path",
                reason: "“é” is, after Unicode normalisation, the same as $.parts[0].files[0].path"),
            Row(
                parts: [part([ManifestFixture.link("a", to: "b/../c")]), part([ManifestFixture.entry("b")])],
                path: "$.parts[0].files[0].link",
                reason: "the target goes up from “b”, which is not a directory of this manifest"),
            Row(
                parts: [part([ManifestFixture.entry("a")])], path: "$.parts[1]",
                reason: "the manifest is in parts, and this one is not here"),
        ]) func borders(_ row: Row)
    {
        let error = #expect(throws: ManifestError.self) { try Self.load(Self.root([1, 1]), row.parts) }
        #expect(error?.path == row.path)
        #expect(error?.reason == row.reason)
    }

    @Test("Limits hold for all parts together [V46, V53]")
    func limits() throws {
        var limits = ManifestLimits.standard
        limits.parts = 1
        #expect(throws: ManifestError.self) { try Self.load(Self.root([1, 1]), [], limits: limits) }
        limits = .standard
        limits.manifestBytes = Self.root([1, 1]).utf8.count + 600
        let entry = [Self.part([ManifestFixture.entry("a")]), Self.part([ManifestFixture.entry("b")])]
        #expect(try Self.load(Self.root([1, 1]), entry, limits: limits).files.count == 2)
        limits.manifestBytes -= 1
        #expect(throws: ManifestError.self) { try Self.load(Self.root([1, 1]), entry, limits: limits) }
        limits = .standard
        limits.entries = 2
        #expect(try Self.load(Self.root([1, 1]), entry, limits: limits).files.count == 2)
        limits.entries = 1
        #expect(throws: ManifestError.self) { try Self.load(Self.root([1, 1]), entry, limits: limits) }
    }

    @Test("Of a manifest that has more than may be read, some parts are read: limits hold for those")
    func narrowed() throws {
        var limits = ManifestLimits.standard
        limits.entries = 2
        let root = Self.root([1, 2, 2])
        let assembly = try Self.with(root) { bytes throws(ManifestError) in
            try ManifestAssembly(bytes, digest: .zero, limits: limits)
        }
        let text = Self.part([ManifestFixture.entry("a"), ManifestFixture.entry("b")])
        var whole = assembly
        let error = #expect(throws: ManifestError.self) {
            try Self.with(Self.part([ManifestFixture.entry("a")])) { bytes throws(ManifestError) in try whole.add(bytes)
            }
        }
        #expect(error?.path == "$.parts[1]" && error?.reason == "more than 2 entries in all parts")
        #expect(error?.remedy.contains("--shard") == true)
        var some = assembly
        try some.narrow(to: 1..<2)
        try some.checkTotals()
        try Self.with(text) { bytes throws(ManifestError) in try some.add(bytes) }
        let manifest = try some.finish()
        #expect(manifest.isNarrowed && manifest.files.count == 2)
        var many = assembly
        try many.narrow(to: 1..<3)
        let refusal = #expect(throws: ManifestError.self) { try many.checkTotals() }
        #expect(refusal?.reason == "more than 2 entries in the parts of one shard")
    }

    @Test("A part whose stored form is longer than all texts may be is refused before it is fetched [V46]")
    func storedLength() {
        let root = Self.root([1]).replacing("0,100,300", with: "0,1900,300")
        var limits = ManifestLimits.standard
        limits.manifestBytes = root.utf8.count + 1_899
        let error = #expect(throws: ManifestError.self) { try Self.load(root, [], limits: limits) }
        #expect(error?.reason == "the texts together have more than \(limits.manifestBytes) bytes")
        limits.manifestBytes += 1
        let other = #expect(throws: ManifestError.self) { try Self.load(root, [], limits: limits) }
        #expect(other?.reason == "the manifest is in parts, and this one is not here")
    }

    @Test("No cut of a root or a part traps or is accepted [V41, V49]")
    func cuts() {
        let root = Self.root([1])
        let text = Self.part([ManifestFixture.entry("a")], packs: [Self.ones])
        for end in 0..<text.utf8.count {
            #expect(throws: ManifestError.self) {
                try Self.load(root, [String(decoding: text.utf8.prefix(end), as: UTF8.self)])
            }
        }
        for end in 0..<root.utf8.count {
            #expect(throws: ManifestError.self) {
                try Self.load(String(decoding: root.utf8.prefix(end), as: UTF8.self), [text])
            }
        }
    }
}
