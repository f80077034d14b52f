import Foundation
import SyncEngine
import SyncModel
import SyncPlugins
import SyncStore
import SyncTestKit
import Testing

@Suite("Manifests in parts", .timeLimit(.minutes(10)))
struct ManifestPartTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private func partRequests(_ outcome: Scene.Outcome) -> [MemoryTransport.Asked] {
        outcome.requests.filter { $0.url == Scene.partPack }
    }

    @Test("A pull reads every part with one request; the next one reads none")
    func first() throws {
        let tree = AssetTree.manySmall(50)
        try scene.publishInParts(tree, of: 7)
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(partRequests(outcome).map(\.range) == [nil])
        #expect(outcome.report?.manifest.parts == 8)
        #expect(outcome.report?.manifest.partsFetched == 8)
        #expect(scene.cachedParts.count == 8)

        let again = try scene.pull()
        #expect(again.requests.isEmpty && again.manifestRequests == 1)
        #expect(again.report?.manifest.parts == 0)
    }

    @Test(
        "Of a manifest with six million entries, a shard reads its own parts; the whole and a join are refused, with what to do"
    )
    func sixMillion() throws {
        var tree = AssetTree()
        for number in 1_000..<1_400 { tree.addText("d/\(number)", "content of \(number)") }
        try scene.publishInParts(
            tree, of: 100,
            amend: { parts in
                var others = parts[0]
                let blob = others["blob"] as? [Any] ?? []
                // Nobody reads these.
                others["blob"] = Array(blob.dropLast()) + [String(repeating: "1", count: 64)]
                others["files"] = 3_000_000
                parts = [others] + parts + [others]
            })
        let join = try scene.pull { $0.join = 10_000 }
        #expect(join.error?.status == .dataInvalid)
        #expect(join.error?.message.contains("a join reads the whole manifest") == true)
        let outcome = try scene.pull { $0.shard = "4999/10000" }
        #expect(outcome.status == .done)
        #expect(outcome.report?.manifest.parts == 2)
        #expect(outcome.report?.files.installed == 200)
        var own = AssetTree()
        for number in 1_000..<1_200 { own.nodes["d/\(number)"] = tree.nodes["d/\(number)"] }
        #expect(scene.problems(own) == [])
        let whole = try scene.pull()
        #expect(whole.error?.status == .dataInvalid)
        #expect(whole.error?.message.contains("more than 5000000 entries in all parts") == true)
        #expect(whole.error?.message.contains("--shard") == true)
        let few = try scene.pull { $0.shard = "0/1" }
        #expect(few.error?.message.contains("more than 5000000 entries in the parts of one shard") == true)
    }

    @Test("An update fetches the part that changed, and forgets the one that it replaces")
    func update() throws {
        let tree = AssetTree.manySmall(50)
        try scene.publishInParts(tree, of: 7)
        #expect(try scene.pull().status == .done)
        let before = scene.cachedParts
        let places = try scene.publishInParts(tree, of: 7) { $0[3] += " " }
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(outcome.requests.map(\.range) == [places[3]])
        #expect(outcome.report?.manifest.parts == 8)
        #expect(outcome.report?.manifest.partsFetched == 1)
        #expect(scene.cachedParts.count == 8)
        #expect(Set(scene.cachedParts).intersection(before).count == 7)
    }

    @Test("Where the list of another manifest's parts cannot be read, no part is forgotten")
    func unreadList() throws {
        let tree = AssetTree.manySmall(50)
        try scene.publishInParts(tree, of: 7)
        #expect(try scene.pull().status == .done)
        let list = "state/manifests/\(String(repeating: "0", count: 64)).parts"
        try scene.root.write("", to: list)
        #expect(truncate(scene.root.path(list), 1 << 40) == 0)
        try scene.publishInParts(tree, of: 7) { $0[3] += " " }
        #expect(try scene.pull().status == .done)
        #expect(scene.cachedParts.count == 9)
    }

    /// Publishes a set of which the third part is made from two former texts, and gives where the three are.
    private func publishMade(_ tree: AssetTree) throws -> ArraySlice<Range<UInt64>> {
        var text = ""
        try scene.publishInParts(tree, of: 7) { text = $0[3] }
        let former = [text + "  ", text + " "]
        return try scene.publishInParts(tree, of: 7, from: [3: former])[3...5]
    }

    @Test("A part that is made from former texts is read with those, by one request; the next time it is there")
    func made() throws {
        let tree = AssetTree.manySmall(50)
        let places = try publishMade(tree)
        let outcome = try scene.pull()
        #expect(outcome.status == .done, "\(outcome.error?.message ?? "")")
        #expect(partRequests(outcome).map(\.range) == [nil])
        #expect(scene.problems(tree) == [])
        #expect(scene.cachedParts.count == 8)
        #expect(places[4].count < 64 && places[5].count < 64)
        let again = try scene.pull { $0.destination = scene.root.path("other") }
        #expect(partRequests(again).isEmpty && again.status == .done)
    }

    @Test("Who has the last of the former texts, or an earlier one, fetches what comes after it", arguments: [0, 1])
    func madeFromKept(_ position: Int) throws {
        let tree = AssetTree.manySmall(50)
        try scene.publishInParts(tree, of: 7) { $0[3] += position == 0 ? "  " : " " }
        #expect(try scene.pull().status == .done)
        let places = Array(try publishMade(tree))
        let outcome = try scene.pull()
        #expect(outcome.status == .done, "\(outcome.error?.message ?? "")")
        #expect(outcome.requests.map(\.range) == [places[position + 1].lowerBound..<places[2].upperBound])
        #expect(outcome.report?.manifest.partsFetched == 1)
        #expect(scene.cachedParts.count == 8)
    }

    @Test("Where a kept former text is damaged, all texts are fetched")
    func madeFromDamaged() throws {
        let tree = AssetTree.manySmall(50)
        var text = ""
        try scene.publishInParts(tree, of: 7) {
            $0[3] += " "
            text = $0[3]
        }
        #expect(try scene.pull().status == .done)
        let former = "\(try Scene.digest(Array(text.utf8)))"
        try scene.root.write(Array("{}".utf8), to: "state/manifests/\(former).part")
        let places = Array(try publishMade(tree))
        let outcome = try scene.pull()
        #expect(outcome.status == .done, "\(outcome.error?.message ?? "")")
        #expect(outcome.requests.map(\.range) == [places[0].lowerBound..<places[2].upperBound])
        #expect(scene.problems(tree) == [])
    }

    @Test("A part that is not made from what it names is refused with 65; nothing is made")
    func wronglyMade() throws {
        let tree = AssetTree.manySmall(50)
        var text = ""
        try scene.publishInParts(tree, of: 7) { text = $0[3] }
        try scene.publishInParts(
            tree, of: 7, from: [3: [text + " "]],
            amend: {
                // The frame's digest is that of another text.
                guard var blob = $0[3]["blob"] as? [Any] else { return }
                blob[5] = String(repeating: "0", count: 64)
                $0[3]["blob"] = blob
            })
        let outcome = try scene.pull()
        #expect(outcome.status == .dataInvalid)
        #expect(outcome.error?.message.contains("part 3 of the manifest") == true, "\(outcome.error?.message ?? "")")
        #expect(!FileManager.default.fileExists(atPath: scene.destination))
    }

    @Test(
        "A part that is damaged in the cache is fetched again",
        arguments: [[UInt8](), Array("{}".utf8), [0x28, 0xB5, 0x2F, 0xFD, 0]])
    func damagedCache(_ bytes: [UInt8])
        throws
    {
        let tree = AssetTree.manySmall(20)
        try scene.publishInParts(tree, of: 7)
        #expect(try scene.pull().status == .done)
        let name = try #require(scene.cachedParts.first)
        try scene.root.write(bytes, to: "state/manifests/\(name)")
        let outcome = try scene.pull { $0.destination = scene.root.path("other") }
        #expect(outcome.status == .done)
        #expect(outcome.report?.manifest.partsFetched == 1)
        #expect(partRequests(outcome).count == 1)
        #expect(tree.problems(in: scene.root.path("other")) == [])
    }

    @Test("Wrong bytes of a part are refused, the server is blamed, and it is asked past caches")
    func wrongBytes() throws {
        let tree = AssetTree.manySmall(20)
        let places = try scene.publishInParts(tree, of: 7)
        let size = Int(places.last?.upperBound ?? 0)
        scene.transport.script(Scene.partPack, .bytes([UInt8](repeating: 0x20, count: size)))
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(scene.transport.faulty.contains(Scene.partPack))
        let again = partRequests(outcome).dropFirst().map(\.reload)
        #expect(!again.isEmpty && !again.contains(false))
    }

    @Test("Parts that a short answer leaves out are fetched one by one")
    func shortAnswer() throws {
        let tree = AssetTree.manySmall(20)
        let places = try scene.publishInParts(tree, of: 7)
        let half = Int(places.last?.upperBound ?? 0) / 2
        scene.transport.script(Scene.partPack, .bytes([UInt8](repeating: 0x20, count: half)))
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(partRequests(outcome).count == 1 + places.count)
        #expect(scene.problems(tree) == [])
    }

    @Test("A part that is always wrong ends the pull with 65; nothing is made")
    func alwaysWrong() throws {
        let places = try scene.publishInParts(AssetTree.manySmall(20), of: 7)
        scene.transport.serve([UInt8](repeating: 0x20, count: Int(places.last?.upperBound ?? 0)), at: Scene.partPack)
        let outcome = try scene.pull()
        #expect(outcome.status == .dataInvalid)
        #expect(partRequests(outcome).count == 2, "the same bytes twice will come a third time, too")
        #expect(outcome.error?.message.contains("part 0 of the manifest") == true, "\(outcome.error?.message ?? "")")
        #expect(!FileManager.default.fileExists(atPath: scene.destination))
    }

    struct Lie: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var damage: @Sendable (inout [String]) -> Void
        var message: String
    }

    @Test(
        "A part that says what its root does not say is refused with 65, by its number; nothing is made",
        arguments: [
            Lie(testDescription: "no JSON", damage: { $0[1] = "{" }, message: "$.parts[1]"),
            Lie(testDescription: "two parts exchanged", damage: { $0.swapAt(0, 1) }, message: "sorts before"),
            Lie(testDescription: "the same twice", damage: { $0[1] = $0[0] }, message: "$.parts[1].files[0]"),
            Lie(
                testDescription: "a pack that the root does not have",
                damage: { $0[2] = $0[2].replacing(#/"packs":\["....../#) { _ in "\"packs\":[\"000000" } },
                message: "has no such pack"),
            Lie(
                testDescription: "fewer entries", damage: { $0[1] = "{\"packs\":[],\"files\":[]}" },
                message: "has 0 of the 7 entries"),
            Lie(testDescription: "more than an object", damage: { $0[2] += "{}" }, message: "$.parts[2]"),
        ])
    func lies(_ lie: Lie) throws {
        try scene.publishInParts(AssetTree.manySmall(20), of: 7, damage: lie.damage)
        let outcome = try scene.pull()
        #expect(outcome.status == .dataInvalid)
        #expect(outcome.error?.message.contains(lie.message) == true, "\(outcome.error?.message ?? "")")
        #expect(!FileManager.default.fileExists(atPath: scene.destination))
    }

    @Test(
        "A part that cannot be had is 69, as a manifest is; nothing is made",
        arguments: [TransferError.Code.unreachable, .timedOut, .badStatus(404)])
    func unreachable(
        _ code: TransferError.Code
    ) throws {
        try scene.publishInParts(AssetTree.manySmall(20), of: 7)
        scene.transport.script(Scene.partPack, .fail(code))
        let outcome = try scene.pull()
        #expect(outcome.status == .unavailable)
        #expect(outcome.error?.message.contains("part 0 of the manifest") == true)
        #expect(!FileManager.default.fileExists(atPath: scene.destination))
        #expect(try scene.pull().status == .done)
    }

    @Test("Parts that came before a stop are not fetched again")
    func resumed() throws {
        // Each part is longer than what is fetched together, but for two.
        var tree = AssetTree()
        for number in 0..<12 { tree.addText("\(number)".count == 1 ? "0\(number)" : "\(number)", "\(number)") }
        let filler = String(repeating: " ", count: 1 << 20)
        let places = try scene.publishInParts(tree, of: 1) { texts in texts = texts.map { $0 + filler } }
        scene.transport.script(Scene.partPack, .bytes([]))
        scene.transport.script(Scene.partPack)
        let stop = StopRequest()
        scene.transport.onBytes { if $0 > 5 << 20 { stop.stop() } }
        #expect(try scene.pull(stop: stop).status == .interrupted)
        scene.transport.onBytes { _ in }
        let kept = scene.cachedParts.count
        #expect(kept > 0)
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        // The reader that was abandoned at the stop may have kept one more after they were counted.
        let fetched = try #require(outcome.report?.manifest.partsFetched)
        #expect([kept, kept + 1].contains(places.count - fetched))
    }

    @Test("plan and verify read parts, from the cache where they are, and create nothing")
    func planAndVerify() throws {
        let tree = AssetTree.manySmall(30)
        try scene.publishInParts(tree, of: 7)
        let engine = scene.engine()
        let plan = try engine.plan(scene.options())
        #expect(plan.wanted == 30)
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("state/manifests")))
        #expect(try scene.pull().status == .done)
        scene.transport.forget()
        #expect(try engine.verify(scene.options()).isWhole)
        #expect(try engine.plan(scene.options()).wanted == 0)
        #expect(!scene.transport.asked.contains { $0.url == Scene.partPack })
    }

    @Test("A run on record is taken up with its manifest's parts, though the server has another by now")
    func recorded() throws {
        let tree = AssetTree.manySmall(30)
        try scene.publishInParts(tree, of: 7)
        let engine = scene.engine()
        let started = try engine.enqueue(preparing: scene.options())
        scene.transport.serve(Array("{}".utf8), at: Scene.base + "manifest.json")
        let report = try engine.work(on: started.run)
        #expect(report.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(report.manifest.partsFetched == 0)
    }
}
