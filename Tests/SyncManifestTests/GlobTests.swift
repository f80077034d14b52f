import SyncManifest
import Testing

@Suite("Patterns")
struct GlobTests {
    /// Numbers that are the same at every run; SplitMix64.
    private struct Dice {
        var state: UInt64
        mutating func roll(_ sides: Int) -> Int {
            state &+= 0x9E37_79B9_7F4A_7C15
            var value = state
            value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
            value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
            return Int((value ^ (value >> 31)) % UInt64(sides))
        }

        mutating func text(_ letters: [String], components: Int) -> String {
            (0...roll(components)).map { _ in (0...roll(4)).map { _ in letters[roll(letters.count)] }.joined() }.joined(
                separator: "/")
        }
    }

    /// What the format says, word by word, however long it takes.
    private func isMeant(_ path: ArraySlice<Substring>, by pattern: ArraySlice<Substring>) -> Bool {
        guard let first = pattern.first else { return path.isEmpty }
        if first == "**" {
            if pattern.count == 1 { return !path.isEmpty }
            return (path.startIndex...path.endIndex).contains { isMeant(path[$0...], by: pattern.dropFirst()) }
        }
        guard let name = path.first, isMeant(Array(name)[...], by: Array(first)[...]) else { return false }
        return isMeant(path.dropFirst(), by: pattern.dropFirst())
    }

    private func isMeant(_ name: ArraySlice<Character>, by pattern: ArraySlice<Character>) -> Bool {
        guard let first = pattern.first else { return name.isEmpty }
        if first == "*" {
            return (name.startIndex...name.endIndex).contains { isMeant(name[$0...], by: pattern.dropFirst()) }
        }
        guard let letter = name.first, first == "?" || first == letter else { return false }
        return isMeant(name.dropFirst(), by: pattern.dropFirst())
    }

    private func matches(_ path: String, _ pattern: String) -> Bool {
        Array(path.utf8).withUnsafeBufferPointer { Glob(pattern).matches($0) }
    }

    @Test("A pattern selects what the format says, whatever it looks like")
    func meaning() {
        var dice = Dice(state: 20)
        var hits = 0
        for _ in 0..<20_000 {
            var pattern = dice.text(["a", "b", "é", "*", "*", "?"], components: 3)
            if dice.roll(3) == 0 { pattern = "**/" + pattern }
            if dice.roll(3) == 0 { pattern += "/**" }
            if dice.roll(3) == 0 { pattern = pattern.replacing("/", with: "/**/") }
            // Longer than one word has bits.
            let long = String(repeating: "b", count: 70)
            let isLong = dice.roll(4) == 0
            if isLong { pattern = "*\(long)/" + pattern }
            let path = (isLong ? "a\(long)/" : "") + dice.text(["a", "b", "é"], components: 4)
            let wanted = isMeant(path.split(separator: "/")[...], by: pattern.split(separator: "/")[...])
            hits += wanted ? 1 : 0
            #expect(matches(path, pattern) == wanted, "\(pattern) on \(path)")
        }
        #expect(hits > 1_000)
    }

    @Test("A path is read once: patterns that would be tried again and again take no longer [V49, V53]")
    func linear() {
        let name = String(repeating: "a", count: 255)
        let path = Array(repeating: name, count: 15).joined(separator: "/")
        let component = String(repeating: "*a", count: 120) + "b"
        let pattern = "**/" + Array(repeating: component, count: 15).joined(separator: "/")
        let glob = Glob(String(pattern.prefix(4_095)))
        let bytes = Array(path.utf8)
        let duration = ContinuousClock().measure {
            for _ in 0..<20 { #expect(!bytes.withUnsafeBufferPointer { glob.matches($0) }) }
        }
        // Trying again takes some 60 s here; this, unoptimised, well below one.
        #expect(duration < .seconds(20))
    }

    @Test("Long patterns on long paths are refused for the work they make, not for their number [V53]")
    func budget() throws {
        let deep = Array(repeating: "a", count: 1_000).joined(separator: "/")
        let files = (0..<50).map { ManifestFixture.entry("\($0)/\(deep)") }.joined(separator: ",")
        let pattern = "**/" + String(repeating: "*a", count: 100)
        let text = ManifestFixture.document(
            files: files, extra: ",\"groups\":[{\"name\":\"g\",\"include\":[\"0/*\",\"\(pattern)\"]}]")
        var limits = ManifestLimits.standard
        limits.patternBytes = 100_000
        let error = try #require(ManifestFixture.refusal(text, limits: limits))
        #expect(error.path == "$.groups[0].include[1]")
        #expect(error.reason.contains("tried on more than 100000 bytes of paths"))
        limits.patternBytes = 1_000_000
        #expect(ManifestFixture.refusal(text, limits: limits) == nil)
    }

    @Test("Looking for the rows of a group ends when somebody asks to stop")
    func stop() throws {
        let files = (0..<2_000).map { ManifestFixture.entry("f\($0)") }.joined(separator: ",")
        let manifest = try ManifestFixture.load(
            ManifestFixture.document(files: files, extra: ",\"groups\":[{\"name\":\"g\",\"include\":[\"*\"]}]"))
        var asked = 0
        let rows = manifest.rows(of: manifest.groups[0]) {
            asked += 1
            return asked == 3
        }
        #expect(rows == nil)
        #expect(asked == 3)
        #expect(try manifest.selection(groups: ["g"]) { true } == nil)
        #expect(try manifest.selection(groups: ["g"])?.count == 2_000)
    }

    @Test("Ten thousand groups of a hundred thousand files do not look at every file each")
    func manyGroups() throws {
        var text = "{\"format\":\"syncagent-manifest/1\",\"project\":\"p\",\"files\":["
        text += (0..<100_000).map { "{\"path\":\"\(1_000_000 + $0)\",\"link\":\"a\",\"group\":\"g\($0 / 10)\"}" }
            .joined(separator: ",")
        let manifest = try ManifestFixture.load(text + "]}")
        var count = 0
        let duration = ContinuousClock().measure {
            for group in manifest.groups { count += manifest.files.rows(of: group).count }
        }
        #expect(count == 100_000)
        // A look at every file for every group takes minutes here.
        #expect(duration < .seconds(20))
    }
}
