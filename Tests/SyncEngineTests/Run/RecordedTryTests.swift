import Foundation
import SyncModel
import SyncPlugins
import SyncReport
import SyncStore
import SyncTestKit
import Testing

@testable import SyncEngine

@Suite("Tries that came to no run", .timeLimit(.minutes(10)))
struct RecordedTryTests {
    private let scene: Scene
    private static let project = "com.example.tower"
    private static let now: Int64 = 1_780_000_000_000

    init() throws {
        scene = try Scene()
        var tree = AssetTree()
        for name in ["a", "b"] { tree.addFile(name, size: 900, seed: UInt64(name.count)) }
        try scene.publish(tree)
    }

    private func fails(_ configure: (inout RunRecipe) -> Void = { _ in }) throws -> Scene.Outcome {
        let outcome = try scene.pull(manifest: Scene.base + "nope.json", configure)
        #expect(outcome.error != nil)
        return outcome
    }

    @Test(
        "A pull of a known destination or session that has no manifest is a run with a result, and every view says so")
    func recorded() throws {
        #expect(try scene.pull().status == .done)
        let good = try #require(try scene.store.runs().first)
        for (number, name) in [nil, Self.project].enumerated() {
            let outcome = try fails {
                $0.session = name
                // Another manifest: the destination tells the session.
                $0.groups = name == nil ? [] : ["all"]
            }
            let last = try #require(try scene.store.runs(session: Self.project, limit: 1).first)
            #expect(last.state == .finished && last.result == .failed && last.isTry)
            #expect(last.exitStatus == outcome.status?.rawValue && last.cause == outcome.error?.cause)
            #expect(last.error == outcome.error?.message && last.finished == Self.now)
            #expect(last.manifest == good.manifest, "what the session stands at")
            #expect(outcome.values("run", of: "pull.finished") == [last.identifier])
            let stored = try scene.store.events(of: Self.project, after: 0, limit: .max).events.map(\.text)
            #expect(stored.count { $0.contains(last.identifier) && $0.contains("pull.finished") } == 1)
            // Within the hour it is the same try.
            #expect(try scene.store.runs().count == 2, "\(number)")
        }
        #expect(try scene.store.session(Self.project)?.totals.failed == 1)
        let clock = ReportClock(now: Self.now + 60_000) { _ in 0 }
        let report = try ReportReader(store: scene.store, clock: clock, version: "1").report(
            since: Self.now - 1, hasNights: false)
        #expect(report.sessions.map(\.verdict) == [.failed])
        #expect(report.sessions.first?.problems.count == 1)
        let metrics = try metricsText(scene.store, version: "1")
        #expect(metrics.contains("syncagent_last_run_result{result=\"failed\",session=\"\(Self.project)\"} 1"))

        #expect(try scene.pull().status == .done)
        #expect(try scene.store.runs(limit: 1).first?.result == .ok, "it goes on as if nothing had been")
    }

    @Test(
        "What nobody has pulled before leaves nothing, whatever session it names; a busy session and a stop are no tries"
    )
    func nothing() throws {
        _ = try fails()
        #expect(try scene.store.sessions().isEmpty)
        #expect(try scene.pull().status == .done)
        _ = try fails { $0.destination = ($0.destination ?? "") + "-other" }
        _ = try fails { ($0.session, $0.destination) = (Self.project, ($0.destination ?? "") + "-other") }
        let busy = try scene.whileLocked { try scene.pull().status }
        #expect(busy == .busy)
        let stop = StopRequest()
        stop.stop(.user)
        _ = try scene.pull(stop: stop)
        #expect(try scene.store.runs().filter(\.isTry).isEmpty)
    }

    @Test("An open run goes on, and has the error that was met meanwhile")
    func openRun() throws {
        #expect(try scene.pull().status == .done)
        let engine = scene.engine()
        var recipe = scene.options()
        recipe.paused = true
        let run = try engine.enqueue(preparing: recipe).run.identifier
        let outcome = try fails()
        let found = try scene.store.run(run)
        #expect(found.state == .paused && found.error == outcome.error?.message)
        #expect(try scene.store.runs().filter(\.isTry).isEmpty)
    }
}
