import Foundation
import SyncContent
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncEngine
@testable import SyncFiles

/// What a pull does file by file it does with trees, too, in whatever layout they are.
@Suite("A destination that changes as a whole, in either layout", .timeLimit(.minutes(10)))
struct EitherLayoutTests {
    typealias Layout = AtomicSwitch.Layout

    @Test(
        "What the oldest tree has of the new revision already stays, and readers are told of it",
        arguments: Layout.allCases)
    func ahead(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        for number in 1...2 {
            try trees.expect(number, trees.pull(number))
        }
        // As the first one was: the oldest tree has it.
        try trees.publish(3, Revisions.tree(1))
        let hook = RecordingHook()
        let outcome = try trees.again(hooks: hook)
        try trees.expect(3, outcome, Revisions.tree(1))
        #expect(outcome.requests.isEmpty)
        let changed = Revisions.tree(1).nodes.filter { Revisions.tree(2).nodes[$0] != $1 }.count
        let report = try #require(outcome.report)
        #expect(report.files.reused == changed && report.files.installed == 0)
        #expect(outcome.count("task.installed") == changed)
        #expect(hook.calls.last?.environment["SYNCAGENT_CHANGED"] == "\(report.changed)")
        #expect(try scene.store.findings() == [])
    }

    @Test("A file that no night changes stays the very same one, its status included", arguments: Layout.allCases)
    func unchanged(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        for number in 1...2 {
            try trees.expect(number, trees.pull(number))
        }
        // Whatever becomes of its status: it is right in the oldest tree.
        let path = trees.place + "/common/d0/1"
        let before = try #require(status(following: path))
        try trees.publish(3)
        let outcome = try trees.again()
        try trees.expect(3, outcome)
        #expect(outcome.received < 400_000)
        let after = try #require(status(following: path))
        if try trees.ledger().sharing == .link {
            #expect(after.inode == before.inode && after.changed == before.changed)
        }
        // What was known of it still is: nothing is to be done, or read.
        #expect(try scene.engine().plan(scene.options()).wanted == 0)
        #expect(try trees.again().count("tree.switched") == 0)
    }

    @Test(
        "After a rollback the tree that was being built is made like what readers see then, and nothing stays in it",
        arguments: Layout.allCases)
    func rolledBackMeanwhile(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        for number in 1...3 {
            try trees.expect(number, trees.pull(number, keep: 2))
        }
        try trees.publish(4)
        let no = RecordingHook(.exited(3))
        let checked = try trees.again(keep: 2, hooks: no) { $0.atomic?.check = ["/check"] }
        #expect(checked.status == .hookFailed)
        try trees.expect(3)
        #expect(try trees.ledger().building != nil)
        #expect(try scene.engine(hooks: RecordingHook()).rollback("com.example.tower", to: "2").status == .done)
        try trees.expect(2)
        let outcome = try trees.again(keep: 2)
        try trees.expect(4, outcome)
        #expect(outcome.requests.isEmpty)
        try trees.expect(5, trees.pull(5, keep: 2))
    }

    @Test(
        "A run that was stopped while its tree was checked goes on there, and counts each file once [S127]",
        arguments: Layout.allCases)
    func stopped(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        try trees.expect(1, trees.pull(1))
        try trees.publish(2)
        let stop = StopRequest()
        let stopped = try trees.again(hooks: StopAtCheck(stop), stop: stop) { $0.atomic?.check = ["/check"] }
        #expect(stopped.status == .interrupted)
        try trees.expect(1)
        let before = try #require(try scene.store.runs(session: "com.example.tower", limit: 1).first).counts.files
        let hook = RecordingHook()
        let outcome = try trees.again(hooks: hook) { $0.atomic?.check = ["/check"] }
        try trees.expect(2, outcome)
        #expect(outcome.requests.isEmpty && outcome.count("task.installed") == 0)
        let report = try #require(outcome.report)
        #expect(report.files.installed == before.installed && report.files.reused == before.reused)
        #expect(hook.calls.map(\.arguments) == [["/check"], ["/hook"]])
    }

    @Test(
        "A stranger's file is found wherever it is, though the time of its directory is set back; without it no directory is read",
        arguments: Layout.allCases)
    func stranger(layout: Layout) throws {
        let trees = try TreeScene(layout)
        for number in 1...3 { try trees.expect(number, trees.pull(number)) }
        var last = 3
        // None is made where a directory was changed at the very time at which the index was written.
        while try trees.ledger().shownTree?.seal == nil, last < 40 {
            last += 1
            try trees.expect(last, trees.pull(last))
        }
        let seal = try #require(try trees.ledger().shownTree?.seal)
        let shown = try #require(try trees.home.shown())
        let directories = StatIndex.read(from: shown).directories
        #expect(shown.seal(of: directories) == seal)
        let place = trees.place + "/common/d3"
        let before = try #require(status(following: place))
        try Data("mine".utf8).write(to: URL(fileURLWithPath: place + "/mine"))
        #expect(setModified(place, in: AT_FDCWD, before.modified) == nil)
        #expect(shown.seal(of: directories) != seal)
        let refused = try trees.pull(last + 1)
        #expect(refused.status == .refused && refused.error?.message.contains("common/d3/mine") == true)
        #expect(refused.requests.isEmpty)
        // Carried over, it is in the new tree, too, which is not sealed then.
        let carried = try trees.again { $0.atomic?.keepForeign = true }
        #expect(carried.status == .done)
        #expect(FileManager.default.fileExists(atPath: place + "/mine"))
        let again = try #require(try trees.home.shown())
        let now = try trees.ledger().shownTree?.seal
        #expect(now == nil || again.seal(of: StatIndex.read(from: again).directories) != now)
        #expect(try trees.pull(last + 2).status == .refused)
        try FileManager.default.removeItem(atPath: place + "/mine")
        try trees.expect(last + 2, trees.again())
        try trees.expect(last + 3, trees.pull(last + 3))
    }

    @Test("A stranger's file that a revision has replaced is there again after a rollback", arguments: Layout.allCases)
    func replacedStranger(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        let path = trees.place + "/each/theirs"
        try Data("mine".utf8).write(to: URL(fileURLWithPath: path))
        var next = Revisions.tree(2)
        next.addFile("each/theirs", size: 40, seed: 1)
        try trees.expect(2, trees.pull(2, next), next)
        #expect(try trees.scene.engine().rollback("com.example.tower", to: nil).status == .done)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data("mine".utf8))
        // It is a stranger's as before.
        let refused = try trees.pull(3)
        #expect(refused.status == .refused && refused.error?.message.contains("each/theirs") == true)
    }

    @Test(
        "A file of the set that is not selected stays as it is, whoever has touched, edited or replaced it",
        arguments: Layout.allCases)
    func leftAlone(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        var tree = Revisions.tree(1)
        func edit(_ path: String) throws {
            try FileManager.default.removeItem(atPath: "\(trees.place)/\(path)")
            try Data("mine".utf8).write(to: URL(fileURLWithPath: "\(trees.place)/\(path)"))
            tree.nodes[path] = .file(Array("mine".utf8), executable: false)
        }
        func pullOthers(_ number: Int) throws {
            #expect(try trees.pull(number) { $0.include = ["each"] }.status == .done)
            for path in ["each/now", "each/deep/er/\(number - 1)", "each/deep/er/\(number)"] {
                tree.nodes[path] = Revisions.tree(UInt64(number)).nodes[path]
            }
            #expect(tree.problems(in: trees.place) == [], "\(number)")
        }
        #expect(setModified("\(trees.place)/common/d0/1", in: AT_FDCWD, 1_000_000_000) == nil)
        try edit("common/d0/2")
        try FileManager.default.removeItem(atPath: "\(trees.place)/latest")
        try FileManager.default.createSymbolicLink(
            atPath: "\(trees.place)/latest", withDestinationPath: "program")
        tree.nodes["latest"] = .link("program")
        // Two names of one file.
        try FileManager.default.removeItem(atPath: "\(trees.place)/common/d0/6")
        try FileManager.default.linkItem(
            atPath: "\(trees.place)/common/d0/5", toPath: "\(trees.place)/common/d0/6")
        tree.nodes["common/d0/6"] = tree.nodes["common/d0/5"]
        try pullOthers(2)
        // The next trees are made of some that have these files as they were before.
        try edit("common/d0/3")
        try FileManager.default.removeItem(atPath: "\(trees.place)/common/d0/4")
        tree.nodes["common/d0/4"] = nil
        try pullOthers(3)
        try pullOthers(4)
        let kept = tree
        try pullOthers(5)
        // A kept revision has what readers saw.
        #expect(try trees.scene.engine().rollback("com.example.tower", to: nil).status == .done)
        #expect(kept.problems(in: trees.place) == [])
    }

    @Test(
        "A file that no pull has put in the place of one that is not selected is a stranger's",
        arguments: Layout.allCases)
    func unselectedStranger(layout: Layout) throws {
        let trees = try TreeScene(layout)
        #expect(try trees.pull(1) { $0.include = ["each"] }.status == .done)
        let path = trees.place + "/program"
        try Data("mine".utf8).write(to: URL(fileURLWithPath: path))
        let refused = try trees.pull(2) { $0.include = ["each"] }
        #expect(refused.status == .refused && refused.error?.message.contains("program") == true)
        let carried = try trees.again {
            $0.include = ["each"]
            $0.atomic?.keepForeign = true
        }
        #expect(carried.status == .done)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data("mine".utf8))
        // Where it is selected, it is replaced.
        try trees.expect(2, trees.again())
    }

    @Test(
        "A file that was touched and is no longer listed is removed like any other; too many are refused",
        arguments: Layout.allCases)
    func touchedAndDropped(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        for path in Revisions.tree(1).paths {
            #expect(setModified("\(trees.place)/\(path)", in: AT_FDCWD, 1_000_000_000) == nil)
        }
        let edited = "common/d0/2"
        try FileManager.default.removeItem(atPath: "\(trees.place)/\(edited)")
        try Data("mine".utf8).write(to: URL(fileURLWithPath: "\(trees.place)/\(edited)"))
        var few = AssetTree()
        few.addFile("program", size: 90, seed: 1, executable: true)
        let refused = try trees.pull(2, few)
        #expect(refused.status == .refused && refused.error?.message.contains("more than half") == true)
        #expect(try trees.scene.engine().plan(trees.scene.options()).refusal == refused.error)
        var next = Revisions.tree(3)
        for path in ["common/d0/1", edited] { next.nodes[path] = nil }
        let outcome = try trees.pull(3, next)
        try trees.expect(3, outcome, next)
        let removed: Set = ["common/d0/1", edited, "each/deep/er/1"]
        #expect(Set(outcome.values("path", of: "task.removed")) == removed)
        #expect(outcome.report?.files.removed == removed.count)
        let former = try #require(try trees.ledger().former.first)
        let kept = try Data(contentsOf: URL(fileURLWithPath: "\(trees.home.treePath(former.number))/\(edited)"))
        #expect(kept == Data("mine".utf8))
        let older = try trees.pull(2, few)
        #expect(older.error?.cause == .olderRevision)
    }

    @Test("A directory of the set that somebody has closed stays closed in every tree", arguments: Layout.allCases)
    func closedDirectory(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        for number in 2...5 {
            // None but its owner, then its group, too: what is shown decides, and not what a former tree has.
            let mode: FileMode = number < 4 ? 0o700 : 0o750
            #expect(setMode(trees.place + "/common", mode) == nil)
            try trees.expect(number, trees.pull(number))
            #expect(status(following: trees.place + "/common")?.permissions == UInt16(mode))
        }
        #expect(try trees.scene.engine().rollback("com.example.tower", to: nil).status == .done)
        #expect(status(following: trees.place + "/common")?.permissions == 0o750)
    }

    @Test("A file or a link gives way to directories in each other, and they to it", arguments: Layout.allCases)
    func fileAndDirectories(layout: Layout) throws {
        let trees = try TreeScene(layout)
        for number in 1...4 {
            var tree = Revisions.tree(UInt64(number))
            if number % 2 == 0 {
                for name in ["file", "link"] { tree.addFile("\(name)/in/deep", size: 100, seed: 1) }
            } else {
                tree.addFile("file", size: 100, seed: 2)
                tree.nodes["link"] = .link("program")
            }
            try trees.expect(number, trees.pull(number, tree), tree)
        }
    }

    @Test(
        "Of a large file whose time was set, or which somebody has changed, only what is new is fetched",
        arguments: Layout.allCases, [false, true])
    func changedSince(layout: Layout, isEdited: Bool) throws {
        let trees = try TreeScene(layout)
        var tree = Revisions.tree(1)
        try trees.expect(1, trees.pull(1))
        let large = trees.place + "/large"
        var bytes = try #require(tree.bytes("large"))
        if isEdited {
            #expect(setMode(large, 0o644) == nil)
            try Data([bytes[0] ^ 1] + bytes.dropFirst()).write(to: URL(fileURLWithPath: large), options: [])
        } else {
            #expect(setModified(large, in: AT_FDCWD, 1_000_000_000) == nil)
        }
        // Another chunk than the one that was changed here.
        bytes[120_000] ^= 1
        tree.nodes["large"] = .file(bytes, executable: false)
        let outcome = try trees.pull(2, tree)
        try trees.expect(2, outcome, tree)
        #expect(outcome.received < 200_000, "\(outcome.received)")
        #expect(outcome.report?.replaced == 0)
    }

    @Test(
        "A first pull that is refused for a stranger's file leaves the destination as it was",
        arguments: Layout.allCases)
    func refusedAtFirst(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        try scene.root.write("mine", to: "dest/own/notes.txt")
        let refused = try trees.pull(1)
        #expect(refused.status == .refused && refused.error?.message.contains("own/notes.txt") == true)
        #expect(refused.requests.isEmpty)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scene.destination) == ["own"])
        #expect(
            try FileManager.default.attributesOfItem(atPath: scene.destination + "/own")[.type] as? FileAttributeType
                == .typeDirectory)
        #expect(try TreeHome.find(scene.destination) == nil)
        #expect(!FileManager.default.fileExists(atPath: scene.root.path(".syncagent-dest")))
        // It is pulled file by file as before, and what that has put there changes nothing about it.
        #expect(try scene.pull().status == .done)
        #expect(try trees.again().status == .refused)
        #expect(try TreeHome.find(scene.destination) == nil)
        try trees.publish(2)
        #expect(try scene.pull().status == .done)
        #expect(scene.root.read("dest/own/notes.txt") == Array("mine".utf8))
        #expect(try trees.again { $0.atomic?.keepForeign = true }.status == .done)
        #expect(scene.root.read("dest/own/notes.txt") == Array("mine".utf8))
        #expect(try trees.ledger().layout == layout)
    }

    @Test(
        "A first pull of an older revision, or one that would remove too much, leaves the destination as it was",
        arguments: Layout.allCases)
    func olderAtFirst(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        try trees.publish(2)
        #expect(try scene.pull().status == .done)
        let older = try trees.pull(1)
        #expect(older.status == .refused && older.error?.cause == .olderRevision)
        #expect(try TreeHome.find(scene.destination) == nil)
        var few = AssetTree()
        few.addFile("program", size: 90, seed: 3_001, executable: true)
        let emptied = try trees.pull(3, few)
        #expect(emptied.status == .refused && emptied.error?.cause == .pruneRefused)
        #expect(try TreeHome.find(scene.destination) == nil)
        #expect(scene.problems(Revisions.tree(2)) == [])
        try trees.expect(4, trees.pull(4))
    }

    @Test("A plan ends as the pull would where that is refused for what is there", arguments: Layout.allCases)
    func planned(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        func plan(first: Bool = false) throws -> PlanReport {
            var recipe = scene.options()
            if first {
                var wishes = AtomicSwitch()
                wishes.layout = layout
                recipe.atomic = wishes
            }
            return try scene.engine().plan(recipe)
        }
        // Before the first pull.
        try trees.publish(1)
        try scene.root.write("mine", to: "dest/each/own.txt")
        #expect(try plan().status == .done)
        #expect(try plan(first: true).refusal == trees.again().error)
        try FileManager.default.removeItem(atPath: scene.destination + "/each/own.txt")
        #expect(try plan(first: true).status == .done)
        try trees.expect(1, trees.again())
        // A stranger's file, where there is anything to be done.
        try scene.root.write("mine", to: "dest/each/own.txt")
        #expect(try plan().status == .done)
        #expect(try trees.again().status == .done)
        try trees.publish(2)
        let strange = try trees.again().error
        #expect(strange?.status == .refused)
        #expect(try plan().refusal == strange)
        try FileManager.default.removeItem(atPath: trees.place + "/each/own.txt")
        try trees.expect(2, trees.again())
        // What was rolled back.
        #expect(try scene.engine().rollback("com.example.tower", to: nil).status == .done)
        let held = try trees.again().error
        #expect(held?.cause == .held)
        #expect(try plan().refusal == held)
    }

    @Test(
        "A revision of which less was selected than of the next one can be shown again, with what it had",
        arguments: Layout.allCases, [false, true])
    func widened(layout: Layout, byGroup: Bool) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        func publish(_ number: Int) throws {
            try scene.publish(Revisions.tree(UInt64(number)), revision: number) { builder in
                builder.chunkSize = 50_000
                builder.groups = [(name: "some", include: ["each/**"])]
            }
        }
        try publish(1)
        let some = try trees.again { recipe in
            if byGroup { recipe.groups = ["some"] } else { recipe.include = ["each"] }
        }
        #expect(some.status == .done)
        try publish(2)
        try trees.expect(2, trees.again())
        let report = try scene.engine().rollback("com.example.tower", to: nil)
        #expect(report.status == .done && report.files.total == 2)
        var tree = AssetTree()
        for path in ["each/now", "each/deep/er/1"] { tree.nodes[path] = Revisions.tree(1).nodes[path] }
        try trees.expect(1, nil, tree)
        // One of the two is at the same path in both.
        #expect(report.files.removed == Revisions.tree(2).nodes.count - 1)
        #expect(try trees.ledger().shownTree?.content?.files == 2)
        #expect(try scene.disorder(in: scene.store) == [])
        _ = try scene.engine().release("com.example.tower")
        try trees.expect(2, trees.again())
    }

    @Test(
        "Going back from a revision of which less was selected tells of what is gone, and of nothing that is still there",
        arguments: Layout.allCases)
    func narrowed(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        try trees.expect(1, trees.pull(1))
        #expect(try trees.pull(2) { $0.include = ["each"] }.status == .done)
        let report = try scene.engine().rollback("com.example.tower", to: nil)
        try trees.expect(1)
        #expect(report.files.total == Revisions.tree(1).nodes.count)
        #expect(report.files.removed == 1)
        let told = try scene.store.events(of: "com.example.tower", after: 0, limit: .max).events.map(\.text)
        let removed = told.filter { $0.contains(report.run) && $0.contains("\"event\":\"task.removed\"") }
        #expect(removed.count == 1 && removed.allSatisfy { $0.contains("each/deep/er/2") })
        #expect(try trees.ledger().shownTree?.content?.files == UInt64(Revisions.tree(1).nodes.count))
    }

    @Test(
        "A kept revision with a damaged file from before its selection is not shown; undamaged it is",
        arguments: Layout.allCases)
    func damagedOther(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        try trees.expect(1, trees.pull(1))
        #expect(try trees.pull(2) { $0.include = ["each"] }.status == .done)
        try trees.expect(3, trees.pull(3))
        let path = try trees.home.treePath(try #require(try trees.ledger().former.first).number) + "/program"
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        try FileManager.default.removeItem(atPath: path)
        try Data("damaged".utf8).write(to: URL(fileURLWithPath: path))
        let damaged = #expect(throws: EngineError.self) { try scene.engine().rollback("com.example.tower", to: nil) }
        #expect(damaged?.status == .ioError && damaged?.message.contains("program") == true)
        try trees.expect(3)
        try bytes.write(to: URL(fileURLWithPath: path))
        #expect(try scene.engine().rollback("com.example.tower", to: nil).status == .done)
        #expect(try trees.ledger().shownTree?.revision == 2)
    }

    @Test(
        "A kept revision whose index is lost or damaged is read, and shown with all its files and those of former selections",
        arguments: Layout.allCases, [false, true])
    func lostIndex(layout: Layout, damaged: Bool) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        try trees.expect(1, trees.pull(1))
        #expect(try trees.pull(2) { $0.include = ["each"] }.status == .done)
        try trees.expect(3, trees.pull(3))
        let kept = try trees.home.destination(
            try #require(try trees.ledger().former.first).number, umask: CurrentProcess.umask)
        try FileManager.default.removeItem(atPath: kept.statePath + "/index")
        if damaged { try Data("damaged".utf8).write(to: URL(fileURLWithPath: kept.statePath + "/index")) }
        let report = try scene.engine().rollback("com.example.tower", to: nil)
        #expect(report.status == .done && report.files.total == 2)
        #expect(report.files.removed == 1, "each/deep/er/3: the rest is still there")
        var tree = Revisions.tree(1)
        tree.nodes["each/deep/er/1"] = nil
        for path in ["each/now", "each/deep/er/2"] { tree.nodes[path] = Revisions.tree(2).nodes[path] }
        try trees.expect(2, nil, tree)
        let shown = try #require(try trees.home.shown())
        #expect(StatIndex.read(from: shown).revision?.number == 2)
        #expect(try scene.disorder(in: scene.store) == [])
        _ = try scene.engine().release("com.example.tower")
        // Of those of former selections nobody knows any more that pulls have put them there.
        try trees.expect(3, trees.again { $0.atomic?.keepForeign = true })
    }

    @Test(
        "A kept revision whose index is lost has all its files also when the first try to show it fails",
        arguments: Layout.allCases)
    func lostIndexTwice(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        try trees.expect(1, trees.pull(1))
        #expect(try trees.pull(2) { $0.include = ["each"] }.status == .done)
        try trees.expect(3, trees.pull(3))
        let kept = try trees.home.destination(
            try #require(try trees.ledger().former.first).number, umask: CurrentProcess.umask)
        try FileManager.default.removeItem(atPath: kept.statePath + "/index")
        // By then it has an index again.
        let failed = #expect(throws: EngineError.self) {
            try scene.engine(disk: .failing(at: 1)).rollback("com.example.tower", to: nil)
        }
        #expect(failed?.status == .ioError && failed?.message.contains("Input/output error") == true)
        #expect(StatIndex.read(from: kept).count == 2)
        try trees.expect(3)
        #expect(try scene.engine().rollback("com.example.tower", to: nil).status == .done)
        var tree = Revisions.tree(1)
        tree.nodes["each/deep/er/1"] = nil
        for path in ["each/now", "each/deep/er/2"] { tree.nodes[path] = Revisions.tree(2).nodes[path] }
        try trees.expect(2, nil, tree)
        #expect(try trees.ledger().shownTree?.isUnlisted == false)
    }

    @Test("The files of another project stay when a session of one that was there goes", arguments: Layout.allCases)
    func clearedByOther(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        let (engine, place) = (trees.scene.engine(), trees.scene.destination)
        let error = #expect(throws: EngineError.self) {
            try engine.clear(place, of: "com.example.other", files: true)
        }
        #expect(error?.status == .cannotCreate)
        try trees.expect(1)
        #expect(try engine.clear(place, of: "com.example.tower", files: true) == Revisions.tree(1).nodes.count)
    }

    @Test("Another project is told how to go on where the trees are, without removing them", arguments: Layout.allCases)
    func otherProject(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        try trees.scene.publish(Revisions.tree(2)) { $0.project = "com.example.other" }
        let refused = try trees.again()
        let remedy = layout == .links ? "/.syncagent/now leads to" : "/.syncagent-dest away"
        #expect(refused.status == .cannotCreate && refused.error?.message.contains(remedy) == true)
    }

    @Test(
        "A rollback to all files calls the hooks of their groups, also after one to a part of them",
        arguments: Layout.allCases)
    func hooksOfGroups(layout: Layout) throws {
        let trees = try TreeScene(layout)
        for (number, groups) in [(1, []), (2, ["some"]), (3, [])] as [(Int, [String])] {
            try trees.scene.publish(Revisions.tree(UInt64(number)), revision: number) { builder in
                builder.chunkSize = 50_000
                builder.groups = [(name: "each", include: ["each/**"]), (name: "some", include: ["common/**"])]
            }
            let outcome = try trees.again(keep: 3, hooks: RecordingHook()) { recipe in
                recipe.groups = groups
                recipe.hooks = groups.isEmpty ? [RunHook(group: "each", arguments: ["/each"])] : []
            }
            #expect(outcome.status == .done)
        }
        let hook = RecordingHook()
        let engine = trees.scene.engine(hooks: hook)
        #expect(try engine.rollback("com.example.tower", to: "2").status == .done)
        #expect(hook.calls.isEmpty)
        #expect(try engine.rollback("com.example.tower", to: "1").status == .done)
        #expect(hook.calls.map(\.arguments) == [["/each"]])
    }

    @Test(
        "A kept revision for which nothing was selected has the files of former selections, also when its index is lost",
        arguments: Layout.allCases, [false, true])
    func lostIndexOfNothing(layout: Layout, lost: Bool) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        try trees.expect(1, trees.pull(1))
        try scene.publish(Revisions.tree(2), revision: 2) { builder in
            builder.chunkSize = 50_000
            builder.groups = [(name: "none", include: ["none/**"])]
        }
        var tree = Revisions.tree(1)
        tree.nodes["each/deep/er/1"] = nil
        try trees.expect(2, trees.again { $0.groups = ["none"] }, tree)
        try trees.expect(3, trees.pull(3))
        let kept = try trees.home.destination(
            try #require(try trees.ledger().former.first).number, umask: CurrentProcess.umask)
        if lost { try FileManager.default.removeItem(atPath: kept.statePath + "/index") }
        #expect(try scene.engine().rollback("com.example.tower", to: nil).status == .done)
        try trees.expect(2, nil, tree)
        #expect(try scene.disorder(in: scene.store) == [])
    }

    @Test(
        "Somebody else's file is carried over as it is now to a revision whose index is lost",
        arguments: Layout.allCases)
    func lostIndexForeign(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        let mine = trees.place + "/common/d3/mine"
        #expect(try trees.pull(1).status == .done)
        try Data("before".utf8).write(to: URL(fileURLWithPath: mine))
        #expect(try trees.pull(2) { $0.atomic?.keepForeign = true }.status == .done)
        try FileManager.default.removeItem(atPath: mine)
        try Data("now".utf8).write(to: URL(fileURLWithPath: mine))
        #expect(try trees.pull(3) { $0.atomic?.keepForeign = true }.status == .done)
        let kept = try trees.home.destination(
            try #require(try trees.ledger().former.first).number, umask: CurrentProcess.umask)
        try FileManager.default.removeItem(atPath: kept.statePath + "/index")
        #expect(try scene.engine().rollback("com.example.tower", to: nil, keepForeign: true).status == .done)
        #expect(try trees.ledger().shownTree?.revision == 2)
        #expect(try String(contentsOfFile: mine, encoding: .utf8) == "now")
    }

    @Test(
        "An empty directory of somebody else is in no later tree, also when its own tree is updated",
        arguments: Layout.allCases)
    func emptyDirectory(layout: Layout) throws {
        let trees = try TreeScene(layout)
        #expect(try trees.pull(1).status == .done)
        let mine = trees.place + "/common/d3/mine"
        try FileManager.default.createDirectory(atPath: mine + "/deep", withIntermediateDirectories: true)
        for number in 2...4 {
            try trees.expect(number, trees.pull(number))
            #expect(!FileManager.default.fileExists(atPath: mine))
        }
    }

    @Test(
        "What a first pull has begun, and readers have not seen, goes when it is given up, with its files or without",
        arguments: Layout.allCases, [false, true])
    func givenUp(layout: Layout, files: Bool) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        try trees.publish(1)
        let checked = try trees.again(hooks: RecordingHook(.exited(3))) { $0.atomic?.check = ["/check"] }
        #expect(checked.status == .hookFailed)
        #expect(try trees.ledger().building != nil)
        #expect(try scene.engine().clear(scene.destination, files: files) == 0)
        #expect(try TreeHome.find(scene.destination) == nil)
        #expect(!FileManager.default.fileExists(atPath: scene.root.path(".syncagent-dest")))
        #expect(!FileManager.default.fileExists(atPath: scene.destination + "/.syncagent"))
        // Once more there is nothing to be removed, and nothing is missing.
        #expect(try scene.engine().clear(scene.destination, files: files) == 0)
        try trees.expect(1, trees.again(hooks: RecordingHook()))
    }

    @Test(
        "What is cleared after a switch that a kill has cut short is not what readers see", arguments: Layout.allCases)
    func clearedAfterKill(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        try trees.publish(2)
        let checked = try trees.again(hooks: RecordingHook(.exited(3))) { $0.atomic?.check = ["/check"] }
        #expect(checked.status == .hookFailed)
        let home = try trees.home
        let number = try #require(home.ledger.building?.number)
        let path = home.treePath(number)
        let tree = try #require(status(following: path))
        try home.record {
            $0[number]?.inode = tree.inode
            $0[number]?.mark = tree.modified
            $0.begin(number, isRollback: false, now: 5)
        }
        // Readers see it, and that is not on record.
        if layout == .links {
            #expect(unlink(trees.place) == 0 && symlink("rev/\(number)", trees.place) == 0)
        } else {
            #expect(exchangeEntries(path, in: AT_FDCWD, with: trees.place, in: AT_FDCWD) == nil)
        }
        try home.remove([number])
        #expect(Revisions.tree(2).problems(in: trees.place) == [])
        #expect(try trees.scene.engine().clear(trees.scene.destination, files: false) == 0)
        try trees.expect(2)
        #expect(try trees.ledger().step == nil)
        try trees.expect(3, trees.pull(3, hooks: RecordingHook()))
    }

    @Test(
        "Where a link leads to a path that is not UTF-8 a destination changes file by file only",
        arguments: Layout.allCases)
    func notText(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        let real = Array(scene.root.path("real").utf8CString.dropLast()) + [CChar(bitPattern: 0xFF), 0]
        #expect(mkdir(real, 0o755) == 0 && symlink(real, scene.destination) == 0)
        // Goes with the rest.
        defer { rename(real, scene.root.path("real")) }
        try trees.publish(1)
        let outcome = try trees.again()
        #expect(outcome.status == .cannotCreate && outcome.error?.message.contains("not UTF-8") == true)
        #expect(!FileManager.default.fileExists(atPath: scene.root.path(".syncagent-real\u{FFFD}")))
        #expect(try scene.pull().status == .done)
        #expect(Revisions.tree(1).problems(in: scene.destination) == [])
        #expect(try trees.again().status == .cannotCreate)
    }

    @Test(
        "What may have changed in the moment in which the index was written is read, and brought again",
        arguments: Layout.allCases)
    func changedMeanwhile(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        let shown = try #require(try trees.home.shown())
        let path = trees.place + "/common/d0/1"
        try FileManager.default.removeItem(atPath: path)
        // As long as before.
        try Data(count: 501).write(to: URL(fileURLWithPath: path))
        let now = try #require(status(following: path))
        // Its status is the one on record, and the index is no later than that.
        let index = StatIndex.read(from: shown)
        let made = index.replacingRecords { append in
            for position in 0..<index.count {
                guard var record = index.record(position) else { continue }
                if index.text(position) == "common/d0/1" { record.status = IndexRecord.Status(now) }
                index.withPath(position) { append(record, $0) }
            }
        }
        var bytes = try #require(made).bytes
        bytes.replaceSubrange(8..<16, with: repeatElement(0, count: 8))
        let sum = try sha256(Array(bytes.dropLast(32)))
        bytes.withUnsafeMutableBytes { all in
            if let end = all.baseAddress?.advanced(by: all.count - 32) { sum.store(to: end) }
        }
        try Data(bytes).write(to: URL(fileURLWithPath: shown.statePath + "/index"))
        #expect(StatIndex.read(from: shown).count == index.count)
        try trees.expect(2, trees.pull(2))
    }

    @Test(
        "What a check leaves in the tree is not shown, and the next pull is not kept from its work by it",
        arguments: Layout.allCases)
    func litter(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        try trees.publish(2)
        let check = WritingCheck(["each/__cache__/x", "test.log"])
        try trees.expect(2, trees.again(hooks: check) { $0.atomic?.check = ["/check"] })
        #expect(!FileManager.default.fileExists(atPath: trees.place + "/test.log"))
        try trees.expect(3, trees.pull(3, hooks: RecordingHook()))
    }

    @Test(
        "What somebody has put in the destination's place during the run does not change places with the new tree",
        arguments: Layout.allCases)
    func replacedMeanwhile(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        try trees.publish(2)
        let (place, aside) = (trees.scene.destination, trees.scene.root.path("aside"))
        let hook = MovingCheck(from: place, to: aside)
        let outcome = try trees.again(hooks: hook) { $0.atomic?.check = ["/check"] }
        #expect(outcome.status == .cannotCreate && outcome.count("tree.switched") == 0)
        #expect(outcome.error?.message.contains("moved away or replaced") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: place) == ["mine"])
        try FileManager.default.removeItem(atPath: place)
        try FileManager.default.moveItem(atPath: aside, toPath: place)
        try trees.expect(2, trees.again(hooks: RecordingHook()))
    }

    @Test(
        "A tree in which the check has changed a file of the set is not shown, with exit 5", arguments: Layout.allCases)
    func changedByCheck(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        try trees.publish(2)
        let outcome = try trees.again(hooks: WritingCheck(["each/now"])) { $0.atomic?.check = ["/check"] }
        #expect(outcome.status == .hookFailed && outcome.error?.message.contains("each/now") == true)
        try trees.expect(1)
        try trees.expect(2, trees.again(hooks: RecordingHook()))
    }

    @Test("A file that a verifier refuses keeps the new tree from being shown", arguments: Layout.allCases)
    func refused(layout: Layout) throws {
        let trees = try TreeScene(layout)
        try trees.expect(1, trees.pull(1))
        try trees.publish(2)
        let hook = RecordingHook()
        let verification = FileVerification(name: "no", verifier: Refusing(path: "each/now"))
        let outcome = try trees.again(hooks: hook, verifications: [verification])
        #expect(outcome.status != .done && outcome.count("tree.switched") == 0)
        #expect(outcome.values("result", of: "group.completed").allSatisfy { $0 == "failed" })
        try trees.expect(1)
        let second = try trees.again(hooks: hook)
        try trees.expect(2, second)
        // The others are there already.
        #expect(second.requests.count <= 2)
    }

    @Test(
        "Night after night only deltas are fetched: the former version is the one that readers see",
        arguments: Layout.allCases)
    func deltas(layout: Layout) throws {
        let trees = try TreeScene(layout)
        let scene = trees.scene
        func tree(_ night: Int) -> AssetTree {
            var tree = AssetTree()
            tree.addFile("big", size: 2_000_000, seed: 4)
            tree.addFile("same", size: 40_000, seed: 5)
            guard var bytes = tree.bytes("big") else { return tree }
            for number in 0..<night { bytes[number * 350_000 + 100] ^= 0x55 }
            tree.nodes["big"] = .file(bytes, executable: false)
            return tree
        }
        for night in 1...4 {
            let set = try scene.publish(tree(night), revision: night) {
                ($0.packSize, $0.chunkSize) = (64 << 20, 100_000)
                $0.former = night > 1 ? tree(night - 1) : nil
            }
            let outcome = try trees.again()
            try trees.expect(night, outcome, tree(night))
            if night > 1 { #expect(outcome.received < UInt64(set.manifest.count) + 2_000, "night \(night)") }
        }
    }
}

/// A check that is content, and puts another directory in the destination's place.
private struct MovingCheck: GroupHook {
    let from, to: String

    func run(_ invocation: HookInvocation) -> HookOutcome {
        if invocation.arguments == ["/check"] {
            try? FileManager.default.moveItem(atPath: from, toPath: to)
            try? FileManager.default.createDirectory(atPath: "\(from)/mine", withIntermediateDirectories: true)
        }
        return HookOutcome(end: .exited(0), output: "", milliseconds: 1)
    }
}

/// A check that is content, and writes files into the tree.
private struct WritingCheck: GroupHook {
    let paths: [String]

    init(_ paths: [String]) { self.paths = paths }

    func run(_ invocation: HookInvocation) -> HookOutcome {
        for path in paths where invocation.arguments == ["/check"] {
            let file = URL(fileURLWithPath: "\(invocation.directory)/\(path)")
            try? FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            // Nobody may write to a file that another tree has, too.
            try? FileManager.default.removeItem(at: file)
            try? Data("of the check".utf8).write(to: file)
        }
        return HookOutcome(end: .exited(0), output: "", milliseconds: 1)
    }
}

/// Has something against one file.
private struct Refusing: FileVerifier {
    let path: String

    func verify(_ files: [StagedFile]) -> [FileVerdict] {
        files.map { $0.path == path ? .refused(reason: "not this one") : .accepted }
    }
}
