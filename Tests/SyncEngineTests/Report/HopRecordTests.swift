import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncEngine

@Suite("Hops on record before the next request", .timeLimit(.minutes(10)))
struct HopRecordTests {
    private static let session = "com.example.tower"

    private static func hop(_ number: Int) -> TransferEvent {
        .moved(
            TransferID(rawValue: 1),
            Hop(
                .redirect(status: 302), from: "https://a.example/\(number)", to: "https://b.example/\(number)",
                number: 1))
    }

    /// A recorder of a run in a store whose file another process can hold.
    private func recorder(_ scene: Scene) throws -> EventRecorder {
        #expect(try scene.pull().status == .done)
        let run = try #require(try scene.store.runs().first?.identifier)
        let recorder = EventRecorder()
        // It waits for whoever writes, for as long as that takes.
        let store = try SyncStore.open(directory: scene.root.path("state"), now: 1, wait: 600_000)
        recorder.open(session: Self.session, run: run, in: store)
        return recorder
    }

    private func scene() throws -> Scene {
        let scene = try Scene(isDurable: true)
        var tree = AssetTree()
        tree.addFile("a", size: 9, seed: 1)
        try scene.publish(tree)
        return scene
    }

    private func hops(_ scene: Scene) throws -> Int {
        try scene.store.events(of: Self.session, after: 0, limit: .max).events.count {
            $0.text.contains("task.redirected")
        }
    }

    @Test("Whoever tells does not wait for the store, and is called when the hop is on record [S76]")
    func recorded() throws {
        let scene = try scene()
        let recorder = try recorder(scene)
        let seen = Monitor<[Int]>([])
        try SQLFile(scene.root.path("state") + "/syncagent.sqlite").whileWriting {
            // Whoever waited for the store here would wait for the end of this.
            for number in 1...3 {
                recorder.emit(transfer: Self.hop(number), time: 1)
                let waits = recorder.record {
                    let count = (try? hops(scene)) ?? -1
                    seen.change { $0.append(count) }
                }
                #expect(waits)
            }
        }
        let counts = seen.wait { $0.count == 3 ? $0 : nil }
        #expect(counts.allSatisfy { $0 >= 1 } && counts.last == 3, "\(counts)")
        // The thread has ended, or not: the next one is recorded, too.
        recorder.emit(transfer: Self.hop(4), time: 1)
        let waits = recorder.record { seen.change { $0.append(0) } }
        #expect(waits)
        seen.wait { $0.count == 4 ? true : nil }
        #expect(try hops(scene) == 4)
        try recorder.close()
        let waitsForNothing = recorder.record(then: {})
        #expect(!waitsForNothing, "of no run")
    }

    @Test("Beyond a thousand hops nobody waits; they are recorded all the same")
    func many() throws {
        let scene = try scene()
        let recorder = try recorder(scene)
        for number in 1...1_001 { recorder.emit(transfer: Self.hop(number), time: 1) }
        let waits = recorder.record(then: {})
        #expect(!waits)
        try recorder.close()
        #expect(try hops(scene) == 1_001)
    }
}
