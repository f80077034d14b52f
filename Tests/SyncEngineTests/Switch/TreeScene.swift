import Foundation
import SyncModel
import SyncPlugins
import SyncTestKit
import Testing

@testable import SyncEngine
@testable import SyncFiles

/// A set whose revisions differ in some files.
struct Revisions {
    static func tree(_ number: UInt64, files: Int = 60) -> AssetTree {
        var tree = AssetTree()
        for file in 0..<files { tree.addFile("common/d\(file / 10)/\(file)", size: 500 + file, seed: UInt64(file + 1)) }
        tree.addFile("each/now", size: 700, seed: 1_000 + number)
        tree.addFile("each/deep/er/\(number)", size: 300, seed: 2_000 + number)
        tree.addFile("program", size: 90, seed: 3_000 + number / 2, executable: true)
        tree.addFile("large", size: 300_000, seed: 4_000 + number / 3)
        tree.nodes["latest"] = .link("each/deep/er/\(number)")
        return tree
    }
}

/// A destination that is pulled as a whole, revision after revision, and what must be seen of it.
protocol ChangesAsAWhole {
    var scene: Scene { get }
    /// What is asked for.
    var layout: AtomicSwitch.Layout? { get }
}

struct TreeScene: ChangesAsAWhole {
    let scene: Scene
    let layout: AtomicSwitch.Layout?

    init(_ layout: AtomicSwitch.Layout) throws { (scene, self.layout) = (try Scene(isDurable: true), layout) }
}

extension ChangesAsAWhole {
    var home: TreeHome { get throws { try #require(try TreeHome.find(scene.destination)) } }

    func ledger() throws -> TreeLedger { try home.ledger }

    /// What readers see.
    var place: String { layout == .links ? scene.destination + "/.syncagent/now" : scene.destination }

    func publish(_ number: Int, _ tree: AssetTree? = nil) throws {
        try scene.publish(tree ?? Revisions.tree(UInt64(number)), revision: number) { $0.chunkSize = 50_000 }
    }

    /// Publishes a revision and pulls it.
    func pull(
        _ number: Int, _ tree: AssetTree? = nil, keep: Int = 1, hooks: (any GroupHook)? = nil,
        stop: StopRequest = StopRequest(), verifications: [FileVerification] = [],
        location: SourceLocation = #_sourceLocation, _ configure: (inout RunRecipe) -> Void = { _ in }
    ) throws -> Scene.Outcome {
        try publish(number, tree)
        return try again(
            keep: keep, hooks: hooks, stop: stop, verifications: verifications, location: location, configure)
    }

    /// Pulls what is published.
    func again(
        keep: Int = 1, hooks: (any GroupHook)? = nil, stop: StopRequest = StopRequest(),
        verifications: [FileVerification] = [], location: SourceLocation = #_sourceLocation,
        _ configure: (inout RunRecipe) -> Void = { _ in }
    ) throws -> Scene.Outcome {
        try scene.pull(hooks: hooks, stop: stop, verifications: verifications, location: location) { recipe in
            var wishes = AtomicSwitch()
            (wishes.keep, wishes.keepSeconds, wishes.layout) = (keep, 0, layout)
            recipe.atomic = wishes
            if hooks != nil { recipe.hooks = [RunHook(arguments: ["/hook"])] }
            configure(&recipe)
        }
    }

    /// Readers see one revision, and nothing else is at the destination.
    ///
    /// - Parameters:
    ///   - outcome: Of the pull that was to bring it, which has succeeded.
    ///   - tree: Where it is not ``Revisions/tree(_:files:)``.
    ///   - foreign: Names at the top that are somebody else's.
    func expect(
        _ number: Int, _ outcome: Scene.Outcome? = nil, _ tree: AssetTree? = nil, besides foreign: Set<String> = [],
        location: SourceLocation = #_sourceLocation
    ) throws {
        if let outcome {
            #expect(outcome.status == .done, "\(outcome.error?.message ?? "")", sourceLocation: location)
        }
        let tree = tree ?? Revisions.tree(UInt64(number))
        #expect(tree.problems(in: place) == [], sourceLocation: location)
        let ledger = try ledger()
        #expect(ledger.shownTree?.revision == UInt64(number), sourceLocation: location)
        #expect(ledger.layout == layout ?? .exchange, sourceLocation: location)
        let names = Set(try FileManager.default.contentsOfDirectory(atPath: scene.destination))
        guard ledger.layout == .links else {
            return #expect(!names.contains(".syncagent"), sourceLocation: location)
        }
        let tops = Set(tree.paths.map { String($0.prefix { $0 != "/" }) })
        #expect(names == tops.union(foreign).union([".syncagent"]), sourceLocation: location)
        for name in tops {
            let target = try FileManager.default.destinationOfSymbolicLink(atPath: "\(scene.destination)/\(name)")
            #expect(target == ".syncagent/now/\(name)", sourceLocation: location)
        }
    }
}
