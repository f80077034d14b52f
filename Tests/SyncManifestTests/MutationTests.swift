import SyncManifest
import SyncModel
import Testing

/// Small and seeded, so that a failure can be had again. Steele, Lea, Flood, "SplitMix", OOPSLA 2014.
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}

@Suite(.timeLimit(.minutes(10)))
struct MutationTests {
    private static let pieces: [String] = [
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud83d", "\\ude00", "0", "-1", "9223372036854775807",
        "18446744073709551616", "1e9", "null", "true", "\"x-a\":", "\"path\":\"", "\"blobs\":[[", "../", "/",
        "\u{FEFF}", "é", "e\u{301}", "\u{0}", "\n", ".syncagent", "\"size\":0,", "zstd", "%00", "http://", "**", "all",
    ]

    private static let seeds: [String] = [
        ManifestFixture.document(
            files: """
                {"path":"a/é","size":7,"sha256":"\(ManifestFixture.digest)","blobs":[[0,0,7]],"urls":["u","https://h/u"]},
                {"path":"a/b/c","size":20,"sha256":"\(ManifestFixture.digest)","executable":true,"group":"g",
                "blobs":[[1,5,9,10,"zstd","\(ManifestFixture.digest)"],[0,1,10,10,"none","\(ManifestFixture.digest)"]]},
                {"path":"a/l","link":"../a/b/c"},{"path":"z","link":"a/b/../x"},
                \(ManifestFixture.entry("A/B"))
                """,
            extra: """
                ,"revision":7,"created":"2026-11-20T02:00:00Z","x-o":{"a":[1,-2.5e3,{"b":null}],"c":"\\ud83d\\ude00"},
                "groups":[{"name":"g","include":["a/**","*/?"],"hooks":["h"]}]
                """), ManifestFixture.document(files: ""),
    ]

    @Test(
        "No mutation of a manifest traps; what is accepted keeps every promise [V49, V65]",
        arguments: 0..<8 as Range<UInt64>)
    func mutations(_ seed: UInt64) throws {
        var random = SplitMix(state: seed)
        var accepted = 0
        for _ in 0..<1_000 {
            var text = Array(Self.seeds[Int.random(in: 0..<2, using: &random)].utf8)
            for _ in 0..<Int.random(in: 1...4, using: &random) { mutate(&text, &random) }
            do throws(ManifestError) {
                check(try ManifestAssembly(text, digest: .zero).finish())
                accepted += 1
            } catch {
                #expect(error.path.hasPrefix("$"))
                #expect(!error.reason.isEmpty)
                #expect((error.offset ?? 0) <= text.count)
            }
        }
        #expect(accepted > 0)
    }

    @Test("No run of random bytes traps [V49]", arguments: 0..<4 as Range<UInt64>)
    func noise(_ seed: UInt64) {
        var random = SplitMix(state: ~seed)
        for _ in 0..<1_000 {
            let bytes = (0..<Int.random(in: 0...64, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            #expect(throws: ManifestError.self) { try ManifestAssembly(bytes, digest: .zero).finish() }
        }
    }

    @Test("Every cut of a manifest is refused, and none traps [V41, V49]")
    func cuts() {
        let text = Array(Self.seeds[0].utf8)
        for end in 0..<text.count {
            #expect(throws: ManifestError.self) { try ManifestAssembly(Array(text[..<end]), digest: .zero).finish() }
        }
    }

    private func mutate(_ text: inout [UInt8], _ random: inout SplitMix) {
        guard !text.isEmpty else { return }
        let position = Int.random(in: 0..<text.count, using: &random)
        let end = min(text.count, position + Int.random(in: 0...20, using: &random))
        switch Int.random(in: 0..<6, using: &random) {
        case 0: text[position] = UInt8.random(in: 0...255, using: &random)
        case 1: text.remove(at: position)
        case 2: text.removeSubrange(position..<end)
        case 3: text.insert(contentsOf: Array(text[position..<end]), at: Int.random(in: 0...text.count, using: &random))
        case 4: text[position] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        default: text.insert(contentsOf: Array((Self.pieces.randomElement(using: &random) ?? "").utf8), at: position)
        }
    }

    /// What whoever gets a `Manifest` relies on.
    private func check(_ manifest: Manifest) {
        let files = manifest.files
        for row in files.indices {
            let path = files.path(row)
            #expect(!path.hasPrefix("/") && !path.split(separator: "/").contains(".."))
            if row > 0 {
                #expect(files.withPath(row - 1) { before in files.withPath(row) { PathOrder.precedes(before, $0) } })
            }
            let blobs = files.blobs(row)
            #expect(blobs.allSatisfy { $0.range.upperBound <= manifest.packs[Int($0.pack)].size })
            let sum = blobs.reduce(into: UInt64(0)) { $0 += $1.rawLength }
            #expect(blobs.isEmpty || sum == files.size(row))
            #expect(blobs.count < 2 || blobs.allSatisfy { $0.digestIndex != nil })
            #expect(files.kind(row) == .link || files.size(row) == 0 || !blobs.isEmpty || !files.urls(row).isEmpty)
            for blob in blobs { _ = files.digest(of: blob, in: row) }
        }
        #expect(files.totalSize != nil)
        #expect(manifest.groups.allSatisfy { manifest.files.rows(of: $0).count <= files.count })
        #expect(manifest.caseCollisions().count <= files.count)
    }
}
