import SyncModel
import SyncPlugins
import SyncStore
import SyncTestKit
import Testing

@testable import SyncEngine

@Suite("Hooks that a run has promised and another completes", .timeLimit(.minutes(10)))
struct PromisedHookTests {
    private let scene: Scene
    private static let hook = RunHook(group: "all", arguments: ["/bin/after"])

    init() throws {
        scene = try Scene()
        try publish(revision: 1)
    }

    @discardableResult private func publish(revision: Int) throws -> PublishedSet {
        var tree = AssetTree()
        for number in 0..<revision + 1 { tree.addFile("sheets/\(number)", size: 900, seed: UInt64(number)) }
        tree.addFile("models/a", size: 900, seed: 99)
        return try scene.publish(tree, revision: revision) {
            $0.groups = [("sheets", ["sheets/**"]), ("models", ["models/**"])]
        }
    }

    /// A run that is asked for in the background and rests.
    private func rests(_ configure: (inout RunRecipe) -> Void = { _ in }) throws -> String {
        let engine = scene.engine()
        var recipe = scene.options()
        (recipe.paused, recipe.hooks) = (true, [Self.hook])
        configure(&recipe)
        return try engine.enqueue(preparing: recipe).run.identifier
    }

    @Test(
        "A hook that a paused run owes is called by the pull that finishes the set in its place, once [S19 S33]",
        arguments: [false, true])
    func called(isNewer: Bool) throws {
        let paused = try rests()
        if isNewer { try publish(revision: 2) }
        let hook = RecordingHook()
        let outcome = try scene.pull(hooks: hook)
        #expect(outcome.status == .done && hook.calls.map(\.arguments) == [["/bin/after"]])
        // The same request goes on; a newer set takes its place.
        #expect(try scene.store.run(paused).state == (isNewer ? .superseded : .finished))
        #expect(hook.calls.first?.environment["SYNCAGENT_RUN_ID"] == outcome.report?.run)
        let again = RecordingHook()
        #expect(try scene.pull(hooks: again).status == .done)
        #expect(again.calls.isEmpty)
    }

    @Test("Also where nothing is left to fetch, and over several runs that took each other's place")
    func overSeveral() throws {
        #expect(try scene.pull().status == .done)
        _ = try rests()
        // These complete a part of what it was to complete.
        #expect(try scene.pull(hooks: RecordingHook()) { $0.groups = ["models"] }.status == .done)
        #expect(try scene.pull(hooks: RecordingHook()) { $0.include = ["sheets/0"] }.status == .done)
        let hook = RecordingHook()
        let outcome = try scene.pull(hooks: hook)
        #expect(outcome.status == .done && outcome.requests.isEmpty)
        #expect(hook.calls.map(\.arguments) == [["/bin/after"]])
    }

    @Test("A hook that is asked for anew is called once, and one whose run was cancelled is not")
    func anew() throws {
        _ = try rests()
        try publish(revision: 2)
        let hook = RecordingHook()
        var slower = Self.hook
        slower.timeout = 7
        #expect(try scene.pull(hooks: hook) { $0.hooks = [slower] }.status == .done)
        #expect(hook.calls.count == 1 && hook.calls.first?.timeout == 7)

        let cancelled = try rests()
        try scene.store.apply(.cancelled, to: cancelled, reason: .userCancel, now: 1)
        let none = RecordingHook()
        #expect(try scene.pull(hooks: none).status == .done)
        #expect(none.calls.isEmpty)
    }

    @Test(
        "A hook that the manifest of a run names is called once by the pull that comes after it [S33]",
        arguments: [false, true])
    func named(isNewer: Bool) throws {
        let calls = RecordingHook()
        var environment = scene.engine(hooks: calls).environment
        environment.namedHooks = ["after": Self.hook]
        let engine = PullEngine(environment)
        func publishNaming(revision: Int) throws {
            let text = String(decoding: try publish(revision: revision).manifest, as: UTF8.self)
            let naming = text.replacing(#""name":"sheets""#, with: #""name":"sheets","hooks":["after"]"#)
            #expect(naming != text)
            scene.transport.serve(Array(naming.utf8), at: Scene.base + "manifest.json")
        }
        try publishNaming(revision: 1)
        var recipe = scene.options()
        recipe.paused = true
        let paused = try engine.enqueue(preparing: recipe).run.identifier
        if isNewer { try publishNaming(revision: 2) }
        #expect(try engine.pull(scene.options()).status == .done)
        #expect(calls.calls.map { $0.environment["SYNCAGENT_GROUP"] } == ["sheets"])
        #expect(try scene.store.run(paused).state == (isNewer ? .superseded : .finished))
    }

    @Test("A hook of a group that the newer set does not have is left out, and hooks for files come first")
    func groups() throws {
        _ = try rests {
            $0.hooks = [
                RunHook(group: "sheets", arguments: ["/bin/sheets"]), Self.hook,
                RunHook(group: "all", arguments: ["/bin/each"], batch: 10),
            ]
        }
        var tree = AssetTree()
        tree.addFile("models/a", size: 900, seed: 99)
        try scene.publish(tree, revision: 2) { $0.groups = [("models", ["models/**"])] }
        let hook = RecordingHook()
        #expect(try scene.pull(hooks: hook).status == .done)
        #expect(hook.calls.map(\.arguments) == [["/bin/each"], ["/bin/after"]])
    }
}
