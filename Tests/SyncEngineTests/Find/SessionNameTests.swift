import Foundation
import SyncEngine
import SyncModel
import SyncStore
import SyncTestKit
import Testing

@Suite("A session is one project in one destination", .timeLimit(.minutes(10)))
struct SessionNameTests {
    private let scene: Scene
    private let project: String

    init() throws {
        scene = try Scene()
        var tree = AssetTree()
        tree.addText("a", "a")
        try scene.publish(tree)
        project = try scene.pull().report?.session ?? ""
    }

    private func pull(into path: String, session: String? = nil) throws -> PullReport {
        var options = scene.options()
        options.destination = scene.root.path(path)
        options.session = session
        return try scene.engine().pull(options)
    }

    @Test("The first has the project's name, another PROJECT:NAME, and each keeps its own [S1 S3]")
    func names() throws {
        #expect(project == "com.example.tower")
        #expect(try pull(into: "x/second").session == project + ":second")
        #expect(try pull(into: "y/second").session == project + ":second2")
        #expect(try pull(into: "third").session == project + ":third")
        // Again, in another order.
        #expect(try pull(into: "y/second").session == project + ":second2")
        #expect(try scene.engine().pull(scene.options()).session == project)
        #expect(try pull(into: "x/second").session == project + ":second")
        #expect(try scene.store.sessions().count == 4)
    }

    @Test("A directory that was renamed keeps its session")
    func renamed() throws {
        #expect(try pull(into: "second").session == project + ":second")
        try FileManager.default.moveItem(atPath: scene.root.path("second"), toPath: scene.root.path("moved"))
        #expect(try pull(into: "moved", session: project + ":second").session == project + ":second")
    }

    @Test("A named session keeps its destination; with another it is refused, and nothing is made there")
    func named() throws {
        #expect(try pull(into: "second", session: "nightly").session == "nightly")
        #expect(try pull(into: "second", session: "nightly").session == "nightly")
        let error = #expect(throws: EngineError.self) { try pull(into: "third", session: "nightly") }
        #expect(error?.status == .usage && error?.message.contains(scene.root.path("second")) == true)
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("third")))
        // Whoever only looks is told the same.
        var options = scene.options()
        (options.destination, options.session) = (scene.root.path("third"), "nightly")
        let planned = #expect(throws: EngineError.self) { try scene.engine().plan(options) }
        let verified = #expect(throws: EngineError.self) { try scene.engine().verify(options) }
        #expect(planned?.status == .usage && verified == planned)
        options.destination = scene.root.path("second")
        #expect(try scene.engine().verify(options).isWhole)
    }
}
