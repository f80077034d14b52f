import Foundation
import SyncEngine
import SyncModel
import SyncTestKit
import Testing

@Suite("What is syncagent's own is never brought by a manifest", .timeLimit(.minutes(10)))
struct OwnPlacesTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    @Test(
        "A file that would be, replace or redirect state of this program is refused: exit 77 [V62]",
        arguments: ["state/trust/x.pin", "state/syncagent.sqlite", "state/manifests/a.json", "state/trust", "link"])
    func refused(path: String) throws {
        var tree = AssetTree()
        tree.addFile("a", size: 100, seed: 1)
        if path == "link" { tree.nodes["state"] = .link("elsewhere") } else { tree.addFile(path, size: 100, seed: 2) }
        try scene.publish(tree)
        let outcome = try scene.pull { $0.destination = scene.root.path }
        #expect(outcome.status == .refused, "\(String(describing: outcome.error))")
        #expect(outcome.error?.message.contains("belongs to syncagent itself") == true)
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("a")))
    }

    @Test("A destination inside them is refused, one beside them is not [V62]")
    func inside() throws {
        var tree = AssetTree()
        tree.addFile("a", size: 100, seed: 1)
        tree.addFile("state/other", size: 100, seed: 2)
        try scene.publish(tree)
        let trust = scene.root.path("state/trust")
        #expect(try scene.pull { $0.destination = trust }.status == .refused)
        #expect(try scene.pull { $0.destination = scene.root.path("state/assets") }.status == .done)
        #expect(try scene.pull { $0.destination = scene.root.path }.status == .done)
    }

    @Test(
        "A directory that has the state in it does not change as a whole, whatever is carried over: exit 64",
        arguments: AtomicSwitch.Layout.allCases)
    func aroundState(layout: AtomicSwitch.Layout) throws {
        var tree = AssetTree()
        tree.addFile("a", size: 100, seed: 1)
        try scene.publish(tree)
        let outcome = try scene.pull { recipe in
            var wishes = AtomicSwitch()
            (wishes.layout, wishes.keepForeign) = (layout, true)
            (recipe.destination, recipe.atomic) = (scene.root.path, wishes)
        }
        #expect(outcome.status == .usage && outcome.requests.isEmpty, "\(String(describing: outcome.error))")
        #expect(outcome.error?.message.contains("syncagent's own state") == true)
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("a")))
    }

    @Test("A destination in .syncagent of another one is refused, by whatever way it is named")
    func insideState() throws {
        var tree = AssetTree()
        tree.addFile("a", size: 100, seed: 1)
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        try scene.root.link("short", to: "dest/.syncagent")
        let named = ["dest/.syncagent", "dest/.syncagent/staging/x", "short", "short/x", "dest/b/../.syncagent/x"]
        for name in named {
            let outcome = try scene.pull { $0.destination = scene.root.path(name) }
            #expect(outcome.status == .cannotCreate && outcome.requests.isEmpty, "\(name)")
            #expect(outcome.error?.message.contains("syncagent's own files") == true, "\(name)")
        }
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("dest/.syncagent/x")))
        // Nothing of ours is there yet, and a pull into the directory above would take it for its own.
        let early = try scene.pull { $0.destination = scene.root.path("new/.syncagent") }
        #expect(early.status == .cannotCreate && !FileManager.default.fileExists(atPath: scene.root.path("new")))
        // In somebody else's directory of that name anybody may have destinations.
        for _ in 0..<2 {
            #expect(try scene.pull { $0.destination = scene.root.path("theirs/.syncagent/b") }.status == .done)
        }
        // What only begins like that is anybody's.
        #expect(try scene.pull { $0.destination = scene.root.path(".syncagent-mine/b") }.status == .done)
    }
}
