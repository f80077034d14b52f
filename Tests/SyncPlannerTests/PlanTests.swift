import SyncManifest
import SyncModel
import Testing

@Suite("Plans", .timeLimit(.minutes(10)))
struct PlanTests {
    private static let digests = ["11", "22", "33", "44"].map { String(repeating: $0, count: 32) }
    private static let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    private static func file(_ path: String, _ size: Int, _ digest: String, _ rest: String) -> String {
        "{\"path\":\"\(path)\",\"size\":\(size),\"sha256\":\"\(digest)\"\(rest)}"
    }

    private static func manifest(_ files: [String]) throws -> Manifest {
        let packs = ["a", "b"].enumerated().map { index, name in
            "{\"url\":\"packs/\(name).pack\",\"size\":100000,\"sha256\":\"\(digests[index])\"}"
        }
        let text = """
            {"format":"syncagent-manifest/1","project":"com.example.plan",\
            "packs":[\(packs.joined(separator: ","))],"files":[\(files.joined(separator: ","))]}
            """
        return try ManifestAssembly(Array(text.utf8), digest: .zero).finish()
    }

    private static func mixed() throws -> Manifest {
        try manifest([
            file("a.bin", 100, digests[0], ",\"blobs\":[[0,0,100]]"),
            file("b.bin", 100, digests[0], ",\"blobs\":[[0,0,100]]"),
            file(
                "big.bin", 300, digests[1],
                """
                ,"blobs":[[0,100,100,100,"none","\(digests[0])"],[1,0,200,200,"none","\(digests[2])"]]
                """), file("empty", 0, nothing, ""), "{\"path\":\"link\",\"link\":\"a.bin\"}",
            file("loose1", 50, digests[2], ",\"urls\":[\"files/loose1\"]"),
            file("loose2", 70, digests[3], ",\"urls\":[\"files/loose2\"]"),
        ])
    }

    private static func row(_ path: String, of manifest: Manifest) throws -> Int {
        try #require(manifest.files.indices.first { manifest.files.path($0) == path })
    }

    @Test("A blob that two files share is fetched once and goes to both")
    func shared() throws {
        let manifest = try Self.mixed()
        let rows = try ["a.bin", "b.bin"].map { try Self.row($0, of: manifest) }
        let plan = makePlan(manifest, wanted: rows, rule: CoalescingRule())
        #expect(plan.slots.count == 1)
        #expect(plan.targets.map(\.row) == rows)
        #expect(plan.targets.allSatisfy { $0.isStandalone })
        #expect(plan.packBytes == 100)
        #expect(plan.requestCount == 1)
        #expect(plan.requestsAvoided == 1)
    }

    @Test("Packs come first, loose files after them, largest first; links and empty files need no request")
    func order() throws {
        let manifest = try Self.mixed()
        let plan = makePlan(manifest, wanted: Array(manifest.files.indices), rule: CoalescingRule())
        let loose = try ["loose2", "loose1"].map { try Self.row($0, of: manifest) }
        #expect(plan.spans.map(\.source) == [.pack(0), .pack(1)] + loose.map { .loose(row: $0) })
        #expect(plan.spans.map(\.range) == [0..<200, 0..<200, 0..<70, 0..<50])
        #expect(plan.empty == [try Self.row("empty", of: manifest)])
        #expect(plan.files == 6)
        #expect(plan.packBytes == 400)
        #expect(plan.looseBytes == 120)
        #expect(plan.fetchBytes == 520)
    }

    @Test("Blobs that are here are left out, and every other keeps its place in the file")
    func skipping() throws {
        let manifest = try Self.mixed()
        let row = try Self.row("big.bin", of: manifest)
        let plan = makePlan(manifest, wanted: [row], rule: CoalescingRule(), skipping: { $0 == row && $1 == 0 })
        #expect(plan.spans.map(\.source) == [.pack(1)])
        let target = try #require(plan.targets.first)
        #expect(plan.targets.count == 1 && target.row == row && target.blob == 1)
        #expect(target.fileOffset == 100 && !target.isWhole)
        #expect(plan.packBytes == 200)
    }

    @Test("What is missing of a loose file is asked for gap by gap")
    func gaps() throws {
        let manifest = try Self.mixed()
        let row = try Self.row("loose1", of: manifest)
        let plan = makePlan(manifest, wanted: [row], rule: CoalescingRule(), gaps: { _ in [0..<5, 20..<50] })
        #expect(plan.spans.map(\.range) == [0..<5, 20..<50])
        #expect(plan.spans.allSatisfy { $0.source == .loose(row: row) })
        #expect(plan.looseBytes == 35 && plan.loose == [row] && plan.requestCount == 2)
        #expect(plan.targets.map(\.fileOffset) == [0, 20])
        #expect(plan.targets.allSatisfy { $0.isGap && !$0.isStandalone })
        let whole = makePlan(manifest, wanted: [row], rule: CoalescingRule())
        #expect(whole.spans.map(\.range) == [0..<50] && whole.targets.allSatisfy(\.isStandalone))
    }

    @Test("A row that packs brought wrong can be asked for by its own URLs")
    func looseOnly() throws {
        let manifest = try Self.manifest([
            Self.file("a", 10, Self.digests[0], ",\"blobs\":[[0,5,10]],\"urls\":[\"files/a\"]")
        ])
        let plan = makePlan(manifest, wanted: [0], rule: CoalescingRule(), looseOnly: [0])
        #expect(plan.spans.map(\.source) == [.loose(row: 0)])
        #expect(plan.targets.map(\.isWhole) == [true])
    }

    @Test("Equal input gives an equal plan [S130]")
    func deterministic() throws {
        let manifest = try Self.mixed()
        let rows = Array(manifest.files.indices)
        let first = makePlan(manifest, wanted: rows, rule: CoalescingRule())
        let second = makePlan(manifest, wanted: rows.reversed(), rule: CoalescingRule())
        #expect(first.spans == second.spans)
        #expect(first.slots == second.slots)
        #expect(first.targets == second.targets)
    }

    @Test("Nothing wanted is an empty plan")
    func nothing() throws {
        let plan = makePlan(try Self.mixed(), wanted: [], rule: CoalescingRule())
        #expect(plan.spans.isEmpty && plan.requestCount == 0 && plan.fetchBytes == 0)
    }

    @Test("A delta is chosen when it can be used and is shorter, and shared by files that share it")
    func deltas() throws {
        let deltas = """
            ,"x-deltas":{"base":"\(Self.digests[3])","blobs":[[0,1,500,40,0,90,"\(Self.digests[2])"]]}
            """
        let manifest = try Self.manifest([
            Self.file("a", 100, Self.digests[0], ",\"blobs\":[[0,0,100]]" + deltas),
            Self.file("b", 100, Self.digests[0], ",\"blobs\":[[0,0,100]]" + deltas),
            Self.file("c", 30, Self.digests[1], ",\"blobs\":[[0,100,30]]" + deltas),
        ])
        let rows = Array(manifest.files.indices)
        func plan(_ usable: [Int]) throws -> Plan {
            makePlan(
                manifest, wanted: rows, rule: CoalescingRule(),
                delta: { row, _ in usable.contains(row) ? manifest.files.deltas(row).indices.first : nil })
        }
        let all = try plan(rows)
        #expect(all.slots.map(\.range) == [100..<130, 500..<540])
        #expect(all.slots.map { $0.delta != nil } == [false, true])
        #expect(
            all.slots[1].codec == .zstd && all.slots[1].rawLength == 100
                && all.digest(of: all.slots[1], in: manifest.files) == manifest.files.digest(0))
        #expect(all.targets.map(\.row) == [2, 0, 1])
        #expect(all.packBytes == 70 && all.deltaBytes == 40)
        let none = try plan([])
        #expect(none.slots.allSatisfy { $0.delta == nil } && none.packBytes == 130 && none.deltaBytes == 0)
        let one = try plan([1])
        #expect(one.packBytes == 170 && one.targets.count == 3)
    }

    @Test("A million files fit in memory: a slot has 40 bytes, a target 16")
    func strides() {
        #expect(MemoryLayout<Plan.Slot>.stride == 40)
        #expect(MemoryLayout<Plan.Target>.stride == 16)
    }

    @Test("Numbers of a slot and a target come back as they went in")
    func roundTrip() {
        let target = Plan.Target(row: 4_999_999, blob: 19_999_999, fileOffset: 1 << 62, isWhole: true)
        #expect(target.row == 4_999_999 && target.blob == 19_999_999 && target.isWhole)
        #expect(target.fileOffset == 1 << 62 && target.isStandalone && !target.isGap)
        let gap = Plan.Target(row: 1, blob: 0, fileOffset: 0, isWhole: true, isGap: true)
        #expect(gap.blob == 0 && gap.isWhole && gap.isGap && !gap.isStandalone)
        #expect(Plan.Target(row: 0, blob: 0, fileOffset: 0, isWhole: true).isStandalone)
        var slot = Plan.Slot(
            pack: 999_999, range: (1 << 40)..<(3 << 40), rawLength: 1 << 41, codec: .zstdDictionary, targets: 7..<9,
            delta: 0)
        #expect(slot.range == (1 << 40)..<(3 << 40) && slot.targets == 7..<9 && slot.delta == 0)
        #expect(slot.pack == 999_999 && slot.codec == .zstdDictionary)
        let loose = Plan.Slot(range: 0..<1, rawLength: 1, codec: .identity, targets: 0..<1)
        #expect(loose.pack == nil && loose.codec == .identity && loose.delta == nil)
        slot.targets = 20_000_000..<20_000_001
        #expect(slot.targets == 20_000_000..<20_000_001)
    }
}
