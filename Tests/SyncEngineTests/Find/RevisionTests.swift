import Foundation
import SyncEngine
import SyncModel
import SyncStore
import SyncTestKit
import Testing

@Suite("An older revision does not come unasked", .timeLimit(.minutes(10)))
struct RevisionTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private static func tree(_ text: String) -> AssetTree {
        var tree = AssetTree()
        tree.addText("file", text)
        tree.addText("other", "other")
        return tree
    }

    private func publish(_ revision: Int, _ text: String? = nil) throws {
        try scene.publish(Self.tree(text ?? "of \(revision)"), revision: revision)
    }

    private var file: String { scene.root.read("dest/file").map { String(decoding: $0, as: UTF8.self) } ?? "" }

    @Test("It is refused before anything is fetched, with both revisions and what to do [V35]")
    func refused() throws {
        try publish(5)
        #expect(try scene.pull().status == .done)
        try publish(3)
        let outcome = try scene.pull()
        #expect(outcome.error?.status == .refused && outcome.requests.isEmpty)
        let message = outcome.error?.message ?? ""
        #expect(message.contains("revision 3") && message.contains("revision 5") && message.contains("--allow-older"))
        #expect(file == "of 5")
        // A plan and a run for the agent follow the same rule.
        #expect(throws: EngineError.self) { try scene.engine().plan(scene.options()) }
        let error = #expect(throws: EngineError.self) { try scene.engine().prepare(scene.options()) }
        #expect(error?.status == .refused)
        try publish(6)
        #expect(try scene.pull().status == .done && file == "of 6")
    }

    @Test("Allowed, it is installed and on record, and counts from then on")
    func allowed() throws {
        try publish(5)
        #expect(try scene.pull().status == .done)
        try publish(3)
        var options = scene.options()
        options.allowOlder = true
        _ = try scene.engine().plan(options)
        let outcome = try scene.pull { $0.allowOlder = true }
        #expect(outcome.status == .done && file == "of 3")
        #expect(outcome.values("reason", of: "manifest.revision") == ["older"])
        let run = try #require(try scene.store.runs().first)
        #expect(run.recipe.allowOlder && run.facts.revision == 3)
        #expect(try scene.pull().count("manifest.revision") == 0)
        try publish(2)
        #expect(try scene.pull().error?.status == .refused)
        try publish(4)
        #expect(try scene.pull().status == .done && file == "of 4")
    }

    @Test("The session knows, too, where the destination's state is lost")
    func session() throws {
        try publish(5)
        #expect(try scene.pull().status == .done)
        try FileManager.default.removeItem(atPath: scene.root.path("dest/.syncagent"))
        try publish(3)
        #expect(try scene.pull().error?.status == .refused)
        // And the destination knows where the session's is.
        try publish(5)
        #expect(try scene.pull().status == .done)
        try publish(3)
        #expect(try scene.pull { $0.session = "another" }.error?.status == .refused)
    }

    @Test("A refused run changes nothing of what is known; neither does one that is stopped and taken up")
    func refusedRunDoesNotCount() throws {
        try publish(5)
        #expect(try scene.pull().status == .done)
        try publish(3)
        for _ in 0..<2 { #expect(try scene.pull().error?.status == .refused) }
        #expect(try scene.store.runs(limit: 1).first?.result == .failed)
        try publish(5)
        #expect(try scene.pull().report?.files.unchanged == 2)
    }

    @Test("A manifest without a revision is older than one with; where none has one, nothing is compared")
    func without() throws {
        try publish(0, "a")
        #expect(try scene.pull().status == .done)
        try publish(0, "b")
        let outcome = try scene.pull()
        #expect(outcome.status == .done && outcome.count("manifest.revision") == 0 && file == "b")
        try publish(1)
        #expect(try scene.pull().status == .done)
        try publish(0, "c")
        let refused = try scene.pull()
        #expect(refused.error?.message.contains("has no revision, and is older than revision 1") == true)
        #expect(try scene.pull { $0.allowOlder = true }.status == .done)
        #expect(file == "c")
        try publish(0, "d")
        #expect(try scene.pull().status == .done)
    }

    @Test("Another manifest under the same number is installed, and told of")
    func repeated() throws {
        try publish(5, "a")
        #expect(try scene.pull().status == .done)
        try publish(5, "b")
        let outcome = try scene.pull()
        #expect(outcome.status == .done && file == "b")
        #expect(outcome.values("reason", of: "manifest.revision") == ["repeated"])
        try scene.root.write("edited", to: "dest/file")
        #expect(try scene.pull().count("manifest.revision") == 0)
    }
}
