import Foundation
import SyncContent
import SyncEngine
import SyncModel
import SyncTestKit
import Testing

@Suite("A part of a set by patterns", .timeLimit(.minutes(10)))
struct PatternTests {
    private let scene: Scene
    private let tree: AssetTree

    init() throws {
        scene = try Scene()
        var tree = AssetTree()
        for path in ["maps/a.map", "maps/deep/b.map", "maps/c.txt", "sheets/d.txt", "e.txt"] {
            tree.addFile(path, size: 700, seed: UInt64(path.count))
        }
        self.tree = tree
        try scene.publish(tree) { $0.groups = [("maps", ["maps/**"])] }
    }

    private var here: [String] {
        (FileManager.default.subpaths(atPath: scene.destination) ?? []).filter {
            !$0.hasPrefix(".syncagent") && tree.nodes[$0] != nil
        }.sorted()
    }

    @Test("What is included and not excluded comes; the run counts that and nothing else")
    func selects() throws {
        let outcome = try scene.pull {
            $0.include = ["maps/", "e.txt"]
            $0.exclude = ["**/*.txt"]
        }
        #expect(outcome.status == .done, "\(String(describing: outcome.error))")
        #expect(here == ["maps/a.map", "maps/deep/b.map"])
        #expect(outcome.report?.files.total == 2 && outcome.report?.files.installed == 2)
        #expect(outcome.report?.bytes.total == 1_400)
        #expect(outcome.values("group", of: "group.completed") == ["all"])
        // Nothing to do the second time; another pattern is another wish.
        let again = try scene.pull {
            $0.include = ["maps/", "e.txt"]
            $0.exclude = ["**/*.txt"]
        }
        #expect(again.report?.files.unchanged == 2 && again.requests.isEmpty)
        let other = try scene.pull { $0.include = ["sheets/d.txt"] }
        #expect(other.report?.files.total == 1 && other.report?.files.installed == 1)
        #expect(here == ["maps/a.map", "maps/deep/b.map", "sheets/d.txt"])
    }

    @Test("Pruning removes what the manifest no longer names, and nothing that was merely not included")
    func prunes() throws {
        #expect(try scene.pull().status == .done)
        var less = tree
        less.nodes["maps/c.txt"] = nil
        less.nodes["sheets/d.txt"] = nil
        try scene.publish(less, revision: 2) { $0.groups = [("maps", ["maps/**"])] }
        let outcome = try scene.pull {
            $0.include = ["e.txt"]
            $0.prune = true
        }
        #expect(outcome.status == .done && outcome.report?.files.removed == 2)
        #expect(here == ["e.txt", "maps/a.map", "maps/deep/b.map"])
        // And they are still known: nothing of them is fetched again.
        let all = try scene.pull { $0.prune = true }
        #expect(all.report?.files.unchanged == 3 && all.requests.isEmpty)
    }

    @Test("Planning and verifying count the same part")
    func counts() throws {
        func recipe(_ include: [String], _ exclude: [String] = []) -> RunRecipe {
            var recipe = scene.options()
            (recipe.include, recipe.exclude) = (include, exclude)
            return recipe
        }
        #expect(try scene.engine().verify(recipe(["maps"])).files == 3)
        #expect(try scene.engine().verify(recipe([], ["maps"])).files == 2)
        #expect(try scene.pull { $0.include = ["maps"] }.status == .done)
        #expect(try scene.engine().verify(recipe(["maps"])).isWhole)
        #expect(try !scene.engine().verify(recipe(["maps", "e.txt"])).isWhole)
    }

    @Test("With a group its own patterns count too; no hook of a group waits for a part of it")
    func groups() throws {
        let outcome = try scene.pull {
            $0.groups = ["maps"]
            $0.include = ["**/*.txt"]
        }
        #expect(outcome.status == .done)
        #expect(here == ["maps/c.txt"])
        #expect(outcome.values("group", of: "group.completed") == ["all"])
        let hooked = try scene.pull {
            $0.include = ["maps"]
            $0.hooks = [RunHook(group: "maps", arguments: ["/bin/true"])]
        }
        #expect(hooked.error?.status == .usage)
    }

    @Test("Patterns that nothing matches are refused, and leave no directory", arguments: [["none/**"], ["maps/a"]])
    func nothing(include: [String]) throws {
        let outcome = try scene.pull { $0.include = include }
        #expect(outcome.error?.status == .usage && outcome.error?.message.contains(include[0]) == true)
        #expect(!FileManager.default.fileExists(atPath: scene.destination))
        let excluded = try scene.pull { $0.exclude = ["**"] }.error
        #expect(excluded?.status == .usage)
        #expect(excluded?.message.contains("no file of the manifest is left without **") == true)
    }

    @Test(
        "A path that the manifest does not name is refused, although another one is there",
        arguments: ["nosuch", "maps/a", "e.txt/"])
    func missing(path: String) throws {
        let error = try scene.pull { $0.include = ["sheets", "maps/a.map", path] }.error
        guard path != "e.txt/" else { return #expect(error == nil) }
        #expect(error?.status == .usage && error?.message.contains("no file or directory \(path);") == true)
        #expect(!FileManager.default.fileExists(atPath: scene.destination))
    }

    @Test("A schedule goes on without a path that a release has dropped; nothing in it at all is still an error")
    func dropped() throws {
        let some = try scene.pull {
            $0.origin = .schedule
            $0.include = ["sheets", "nosuch"]
        }
        #expect(some.error == nil && here == ["sheets/d.txt"])
        let none = try scene.pull {
            $0.origin = .schedule
            $0.include = ["nosuch"]
        }
        #expect(none.error?.status == .usage)
    }

    @Test("With a group, a path must be in it")
    func outside() throws {
        let error = try scene.pull {
            $0.groups = ["maps"]
            $0.include = ["maps/a.map", "e.txt"]
        }.error
        #expect(
            error?.status == .usage && error?.message.contains("the groups have no file or directory e.txt;") == true)
    }
}
