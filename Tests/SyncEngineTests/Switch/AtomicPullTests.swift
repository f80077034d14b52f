import Foundation
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncEngine
@testable import SyncFiles

@Suite("A destination that changes as a whole", .timeLimit(.minutes(10)))
struct AtomicPullTests: ChangesAsAWhole {
    let scene: Scene
    /// The first that the place allows.
    let layout: AtomicSwitch.Layout? = nil

    init() throws { scene = try Scene(isDurable: true) }

    @Test("Revision after revision is built beside the one that readers see, and only what is new is fetched [S114]")
    func revisions() throws {
        try expect(1, pull(1))
        var inodes: Set<UInt64> = []
        for number in 2...9 {
            let outcome = try pull(number)
            try expect(number, outcome)
            let changed = Revisions.tree(UInt64(number)).nodes.filter {
                Revisions.tree(UInt64(number - 1)).nodes[$0] != $1
            }
            let report = try #require(outcome.report)
            #expect(report.files.installed + report.files.reused == changed.count)
            #expect(report.files.unchanged == Revisions.tree(UInt64(number)).nodes.count - changed.count)
            #expect(report.files.removed == 1)
            #expect(outcome.received < 400_000)
            #expect(outcome.count("tree.switched") == 1)
            inodes.insert(try #require(status(following: scene.destination)).inode)
        }
        // Two trees take turns.
        #expect(inodes.count == 2)
        #expect(try ledger().trees.count == 2)
        let home = scene.root.path(".syncagent-dest")
        #expect(try FileManager.default.contentsOfDirectory(atPath: home + "/rev").count == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: home + "/state").count == 2)
    }

    @Test("A pull with nothing to do asks once and writes nothing [S154]")
    func noOp() throws {
        try expect(1, pull(1))
        try expect(2, pull(2))
        let ledger = scene.root.path(".syncagent-dest/ledger")
        let before = try #require(status(following: ledger))
        let outcome = try again()
        try expect(2, outcome)
        #expect(outcome.requests.isEmpty && outcome.count("tree.switched") == 0)
        #expect(outcome.report?.files.unchanged == Revisions.tree(2).nodes.count)
        #expect(try #require(status(following: ledger)).modified == before.modified)
    }

    @Test("A revision whose hook has failed, and has succeeded when it was replayed, is one to go back to")
    func replayed() throws {
        #expect(try pull(1, hooks: RecordingHook(.exited(3))).status == .hookFailed)
        #expect(try ledger().shownTree?.isProven == false)
        let hook = try #require(try scene.store.hooks().first)
        try scene.store.replay(hook: hook.identifier)
        try scene.engine(hooks: RecordingHook()).finishEarlierRuns(of: hook.session)
        #expect(try ledger().shownTree?.isProven == true)
    }

    @Test("Without --atomic, what is on record of the destination decides")
    func recorded() throws {
        try expect(1, pull(1))
        try publish(2)
        let outcome = try scene.pull()
        try expect(2, outcome)
        #expect(outcome.count("tree.switched") == 1)
        // Not told to prune, and yet what is not listed is not there.
        #expect(outcome.report?.files.removed == 1)
        #expect(try scene.engine().plan(scene.options()).wanted == 0)
        let report = try scene.engine().verify(scene.options())
        #expect(report.isWhole && report.extra == 0)
    }

    @Test(
        "A destination that was changed file by file becomes one that changes as a whole, and nothing is fetched again")
    func converts() throws {
        try publish(1)
        #expect(try scene.pull().status == .done)
        let outcome = try again()
        try expect(1, outcome)
        #expect(outcome.requests.isEmpty && outcome.count("tree.switched") == 0)
        let second = try pull(2)
        try expect(2, second)
        #expect(second.count("tree.switched") == 1)
        #expect(second.received < 400_000)
        #expect(try scene.engine().rollback("com.example.tower", to: nil).status == .done)
        try expect(1)
    }

    @Test("What was pulled file by file can be shown again after the first switch")
    func convertsAtOnce() throws {
        try publish(1)
        #expect(try scene.pull().status == .done)
        let second = try pull(2)
        try expect(2, second)
        #expect(second.count("tree.switched") == 1)
        #expect(try scene.engine().revisions("com.example.tower").map(\.tree.revision) == [2, 1])
        #expect(try scene.engine().rollback("com.example.tower", to: "1").status == .done)
        try expect(1)
    }

    @Test("What was kept in the destination is moved by the next pull where a kill came first, whoever names --atomic")
    func movesState() throws {
        try publish(1)
        #expect(try scene.pull().status == .done)
        // The first record is there, and nothing else.
        let home = scene.root.path(".syncagent-dest")
        #expect(mkdir(home, 0o700) == 0)
        var ledger = TreeLedger(layout: .exchange, sharing: .link)
        let root = try #require(status(following: scene.destination))
        ledger.adopt(inode: root.inode, mark: root.modified, now: 1)
        ledger.isGathering = true
        try Data(ledger.text).write(to: URL(fileURLWithPath: home + "/ledger"))
        try publish(2)
        let outcome = try scene.pull()
        try expect(2, outcome)
        #expect(outcome.received < 400_000)
        #expect(outcome.report?.files.removed == 1)
    }

    @Test("Files that were there before any pull are used, and are not fetched")
    func adopts() throws {
        try Revisions.tree(1).write(to: scene.root, under: "dest")
        let outcome = try pull(1)
        try expect(1, outcome)
        #expect(outcome.requests.isEmpty)
    }

    @Test("A file that no pull has put there keeps the new tree from being shown, unless it is carried over")
    func strangers() throws {
        try expect(1, pull(1))
        try scene.root.write("mine", to: "dest/own/notes.txt")
        let refused = try pull(2)
        #expect(refused.status == .refused)
        #expect(refused.error?.message.contains("own/notes.txt") == true)
        #expect(refused.requests.isEmpty)
        #expect(scene.root.read("dest/own/notes.txt") == Array("mine".utf8))
        // Whom its directory keeps out is kept out of the new one.
        #expect(setMode(scene.root.path("dest/own"), 0o2700) == nil)
        for number in 2...4 {
            let outcome = try pull(number) { $0.atomic?.keepForeign = true }
            #expect(outcome.status == .done)
            #expect(scene.root.read("dest/own/notes.txt") == Array("mine".utf8))
            #expect(status(following: scene.root.path("dest/own"))?.permissions == 0o2700)
        }
        // As a kill leaves it that came just after the directory was made.
        let checked = try pull(5, hooks: RecordingHook(.exited(3))) {
            $0.atomic?.keepForeign = true
            $0.atomic?.check = ["/check"]
        }
        #expect(checked.status == .hookFailed)
        let home = try home
        let begun = home.treePath(try #require(home.ledger.building?.number)) + "/own"
        try FileManager.default.removeItem(atPath: begun + "/notes.txt")
        #expect(setMode(begun, 0o700) == nil)
        let carried = try again { $0.atomic?.keepForeign = true }
        #expect(carried.status == .done)
        #expect(status(following: scene.root.path("dest/own"))?.permissions == 0o2700)
        try FileManager.default.removeItem(atPath: scene.root.path("dest/own"))
        try expect(6, pull(6))
    }

    @Test("A directory with files where a pull has put a file is as strange as they are")
    func strangeDirectory() throws {
        try expect(1, pull(1))
        let place = scene.root.path("dest/common/d1/12")
        try FileManager.default.removeItem(atPath: place)
        try scene.root.write("mine", to: "dest/common/d1/12/notes.txt")
        let refused = try pull(2)
        #expect(refused.status == .refused)
        #expect(refused.error?.message.contains("common/d1/12/notes.txt") == true)
        #expect(scene.root.read("dest/common/d1/12/notes.txt") == Array("mine".utf8))
        // It cannot be carried over, either.
        let carried = try again { $0.atomic?.keepForeign = true }
        #expect(carried.status == .cannotCreate)
        #expect(
            carried.error?.message.contains("cannot carry over common/d1/12/notes.txt: the new tree has a file") == true
        )
        try FileManager.default.removeItem(atPath: place)
        try expect(2, again())
    }

    @Test("A stranger's file where the new tree has a directory is not lost when strangers are carried over")
    func strangeFile() throws {
        try expect(1, pull(1))
        try scene.root.write("mine", to: "dest/fresh")
        var tree = Revisions.tree(2)
        tree.addFile("fresh/one", size: 10, seed: 1)
        let refused = try pull(2, tree) { $0.atomic?.keepForeign = true }
        #expect(refused.status == .cannotCreate)
        #expect(refused.error?.message.contains("cannot carry over fresh: the new tree has a directory") == true)
        #expect(scene.root.read("dest/fresh") == Array("mine".utf8))
        try FileManager.default.removeItem(atPath: scene.root.path("dest/fresh"))
        try expect(2, again(), tree)
    }

    @Test("A check that fails leaves readers where they are, with exit 5, and its success shows the tree")
    func check() throws {
        try expect(1, pull(1))
        let no = RecordingHook(.exited(3))
        let outcome = try pull(2, hooks: no) { $0.atomic?.check = ["/check"] }
        #expect(outcome.status == .hookFailed)
        #expect(no.calls.map(\.arguments) == [["/check"]])
        let call = try #require(no.calls.first)
        #expect(call.environment["SYNCAGENT_TREE"] == call.directory)
        #expect(call.environment["SYNCAGENT_DESTINATION"] == scene.destination)
        try expect(1)
        let yes = RecordingHook()
        let second = try again(hooks: yes) { $0.atomic?.check = ["/check"] }
        #expect(second.requests.isEmpty)
        try expect(2, second)
        #expect(yes.calls.map(\.arguments) == [["/check"], ["/hook"]])
        // The first pull has fetched them, and none of its hooks was called: this one shows them.
        let report = try #require(second.report)
        #expect(report.files.installed == 0 && report.files.reused > 0)
        #expect(second.count("task.installed") == report.files.reused)
        #expect(second.values("source", of: "task.installed").allSatisfy { $0 == "reused" })
        #expect(yes.calls.last?.environment["SYNCAGENT_CHANGED"] == "\(report.changed)")
        #expect(try tasks().filter { $0.reason == "from what was here" }.count == report.files.reused)
    }

    /// What status says of each file of the latest run.
    private func tasks() throws -> [TaskStatus] {
        let run = try #require(try scene.store.runs(session: "com.example.tower", limit: 1).first)
        let listing = try TaskListing(
            run, store: scene.store, stateDirectory: scene.root.path("state"), requests: [:])
        var entries: [TaskStatus] = []
        while let entry = listing.next() { entries.append(entry) }
        return entries
    }

    @Test("A run that was stopped while its tree was checked goes on there, and counts each file once [S127]")
    func stoppedAtCheck() throws {
        try expect(1, pull(1))
        let stop = StopRequest()
        let slow = StopAtCheck(stop)
        let stopped = try pull(2, hooks: slow, stop: stop) { $0.atomic?.check = ["/check"] }
        #expect(slow.count.take() == 1)
        #expect(stopped.status == .interrupted)
        let before = try #require(try scene.store.runs(session: "com.example.tower", limit: 1).first)
        let placed = before.counts.files
        #expect(placed.installed > 0)
        try expect(1)
        let hook = RecordingHook()
        let outcome = try again(hooks: hook) { $0.atomic?.check = ["/check"] }
        try expect(2, outcome)
        #expect(outcome.requests.isEmpty)
        let report = try #require(outcome.report)
        // It is the same run: what it has told stays told.
        #expect(report.run == before.identifier)
        #expect(outcome.count("task.installed") == 0)
        #expect(report.files.installed == placed.installed && report.files.reused == placed.reused)
        #expect(hook.calls.last?.environment["SYNCAGENT_CHANGED"] == "\(report.changed)")
    }

    @Test("What another project has left beside the destination is no revision to go back to")
    func otherProject() throws {
        for number in 1...2 { try expect(number, pull(number)) }
        try FileManager.default.removeItem(atPath: scene.destination)
        try scene.publish(Revisions.tree(5), revision: 5) { $0.project = "com.example.other" }
        let outcome = try again()
        try expect(5, outcome)
        for session in ["com.example.tower", try #require(outcome.report?.session)] {
            let error = #expect(throws: EngineError.self) { try scene.engine().rollback(session, to: nil) }
            #expect(error?.status == .cannotCreate && error?.message.contains("by now") == true, "\(session)")
        }
        try expect(5)
    }

    @Test("What trees show is verified although their directory cannot be used, as that of another user")
    func verifiedByOthers() throws {
        try expect(1, pull(1))
        let home = scene.root.path(".syncagent-dest")
        #expect(setMode(home, 0o777) == nil)
        let report = try scene.engine().verify(scene.options())
        #expect(report.isWhole && report.files == Revisions.tree(1).nodes.count && report.extra == 0)
        #expect(try again().status == .cannotCreate)
        #expect(setMode(home, 0o700) == nil)
    }

    @Test("A set that is not whole is not shown, and its groups have failed")
    func incomplete() throws {
        try expect(1, pull(1))
        try publish(2)
        let manifest = Scene.base + "manifest.json"
        let packs = scene.transport.asked.map(\.url).filter { $0.contains("packs/") }
        #expect(!packs.isEmpty)
        let set = try scene.publish(Revisions.tree(2), revision: 2) { $0.chunkSize = 50_000 }
        for pack in set.packs { scene.transport.remove(Scene.base + percentEncoded(pack.name)) }
        let outcome = try again(hooks: RecordingHook())
        #expect(outcome.status != .done)
        #expect(scene.problems(Revisions.tree(1)) == [])
        #expect(outcome.values("result", of: "group.completed").allSatisfy { $0 == "failed" })
        #expect(scene.transport.object(at: manifest) != nil)
        try expect(2, pull(2))
    }

    @Test("Nobody can write to a file that two trees have, and an edit in one tree reaches no other")
    func shared() throws {
        try expect(1, pull(1))
        try expect(2, pull(2))
        guard try ledger().sharing == .link else { return }
        var found = stat()
        #expect(lstat(scene.root.path("dest/common/d0/1"), &found) == 0)
        #expect(found.st_nlink == 2 && found.st_mode & 0o222 == 0)
        #expect(lstat(scene.root.path("dest/program"), &found) == 0)
        #expect(found.st_mode & 0o777 == 0o555)
        // What gets another mode is a file of its own from then on.
        var tree = Revisions.tree(3)
        if let bytes = tree.bytes("common/d0/1") { tree.nodes["common/d0/1"] = .file(bytes, executable: true) }
        tree.nodes["each/now"] = Revisions.tree(2).nodes["each/now"]
        tree.nodes["large"] = Revisions.tree(2).nodes["large"]
        tree.nodes["program"] = Revisions.tree(2).nodes["program"]
        tree.nodes["each/deep/er/3"] = nil
        tree.nodes["each/deep/er/2"] = Revisions.tree(2).nodes["each/deep/er/2"]
        tree.nodes["latest"] = Revisions.tree(2).nodes["latest"]
        try publish(3, tree)
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.wanted == 1 && plan.requests.isEmpty)
        let outcome = try again()
        #expect(outcome.status == .done && scene.problems(tree) == [])
        // Nothing but its mode is new, and nothing is fetched for that.
        #expect(outcome.requests.isEmpty)
        #expect(outcome.report?.files.reused == 1 && outcome.report?.files.installed == 0)
        let former = scene.root.path(".syncagent-dest/rev/\(try #require(try ledger().former.first).number)")
        #expect(lstat(former + "/common/d0/1", &found) == 0)
        #expect(found.st_mode & 0o111 == 0)
        // And back.
        try publish(4, Revisions.tree(2))
        #expect(try again().status == .done && scene.problems(Revisions.tree(2)) == [])
    }

    @Test("A file that was there without the bit that the manifest names is brought with it, from what is here")
    func adoptsWrongBit() throws {
        try Revisions.tree(1).write(to: scene.root, under: "dest")
        #expect(chmod(scene.root.path("dest/program"), 0o644) == 0)
        #expect(chmod(scene.root.path("dest/common/d0/1"), 0o755) == 0)
        try expect(1, pull(1))
    }

    @Test("A file that somebody has changed is brought again, whole, with the next tree")
    func repairs() throws {
        try expect(1, pull(1))
        try FileManager.default.removeItem(atPath: scene.root.path("dest/common/d1/12"))
        try scene.root.write("other", to: "dest/common/d1/12")
        let outcome = try again()
        try expect(1, outcome)
        #expect(outcome.count("tree.switched") == 1)
    }

    @Test("A run that is stopped goes on at the same tree, and fetches nothing again [S127]")
    func resumes() throws {
        try expect(1, pull(1))
        try publish(2)
        let stop = StopRequest()
        stop.stop(.user)
        let stopped = try again(stop: stop)
        #expect(stopped.report?.result != .ok)
        try expect(1)
        let outcome = try again()
        try expect(2, outcome)
        #expect(try ledger().trees.count == 2)
    }

    @Test(
        "A rollback cut short in its hooks is finished when it is asked for again, and goes no further back",
        arguments: [false, true])
    func repeatedRollback(isKilled: Bool) throws {
        for number in 1...3 { try expect(number, pull(number, keep: 2, hooks: RecordingHook())) }
        let stop = StopRequest()
        _ = try? scene.engine(hooks: StoppedHook(stop), stop: stop).rollback("com.example.tower", to: nil)
        try expect(2)
        if isKilled { try forgetAnnouncement() }
        let hook = RecordingHook()
        #expect(try scene.engine(hooks: hook).rollback("com.example.tower", to: nil).status == .done)
        #expect(hook.calls.map { $0.environment["SYNCAGENT_ROLLBACK"] } == ["1"])
        try expect(2)
        #expect(try scene.engine(hooks: RecordingHook()).rollback("com.example.tower", to: nil).status == .done)
        try expect(1)
    }

    @Test("A pull that ends a rollback cut short has status 5 if that one's hook fails")
    func failedHookOfRollback() throws {
        for number in 1...2 { try expect(number, pull(number, hooks: RecordingHook())) }
        let stop = StopRequest()
        _ = try? scene.engine(hooks: StoppedHook(stop), stop: stop).rollback("com.example.tower", to: nil)
        let hook = RecordingHook(.exited(3))
        #expect(try pull(3, hooks: hook).status == .hookFailed)
        #expect(hook.calls.map { $0.environment["SYNCAGENT_ROLLBACK"] } == ["1", nil])
    }

    /// As if the process of a rollback had been killed before it said that its groups are complete.
    private func forgetAnnouncement() throws {
        let home = try home
        let number = try #require(home.ledger.current)
        try home.record { $0[number]?.isAnnounced = false }
    }

    @Test("Rolled back at once, held until a newer one comes; hooks are told")
    func rollback() throws {
        try expect(1, pull(1, hooks: RecordingHook()))
        try expect(2, pull(2, hooks: RecordingHook()))
        let hook = RecordingHook()
        let report = try scene.engine(hooks: hook).rollback("com.example.tower", to: nil)
        #expect(report.status == .done)
        try expect(1)
        #expect(hook.calls.map { $0.environment["SYNCAGENT_ROLLBACK"] } == ["1"])
        #expect(hook.calls.first?.environment["SYNCAGENT_CHANGED"] == "\(report.changed)")
        #expect(report.changed > 0)
        #expect(report.files.removed == 1)
        let told = try scene.store.events(of: "com.example.tower", after: 0, limit: .max).events.map(\.text).filter {
            $0.contains(report.run)
        }
        #expect(told.count { $0.contains("\"event\":\"task.installed\"") } == report.files.reused)
        #expect(told.count { $0.contains("\"event\":\"task.removed\"") } == report.files.removed)
        #expect(try tasks().filter { $0.reason == "from what was here" }.count == report.files.reused)
        #expect(try scene.disorder(in: scene.store) == [])
        let revisions = try scene.engine().revisions("com.example.tower")
        #expect(revisions.map(\.tree.revision) == [1, 2])
        #expect(revisions.map(\.state) == [.current, .held])
        let held = try again()
        #expect(held.status == .refused && held.error?.cause == .held)
        try expect(1)
        #expect(try scene.engine().release("com.example.tower") == 1)
        try expect(2, again())
        _ = try scene.engine(hooks: RecordingHook()).rollback("com.example.tower", to: "1")
        try expect(1)
        let newer = RecordingHook()
        try expect(3, pull(3, hooks: newer))
        #expect(newer.calls.map { $0.environment["SYNCAGENT_ROLLBACK"] } == [nil])
        #expect(try ledger().held == [])
    }

    @Test("Whoever goes back is told what is shown already, how many digits are needed, and what was installed last")
    func words() throws {
        for number in 1...3 { try expect(number, pull(number, keep: 2)) }
        let engine = scene.engine()
        func refusal(_ wish: String) -> EngineError? {
            #expect(throws: EngineError.self) { try engine.rollback("com.example.tower", to: wish) }
        }
        let shown = refusal("3")
        #expect(shown?.status == .noInput && shown?.message.contains("revision 3 is the current one") == true)
        #expect(refusal("abc")?.message.contains("give at least 4 digits") == true)
        #expect(refusal("7")?.message.contains("revision 7 is not kept") == true)
        let manifest = try #require(try ledger().former.last?.manifest)
        #expect(try engine.rollback("com.example.tower", to: String(manifest.hex.prefix(6))).status == .done)
        try expect(1)
        let older = try pull(2, Revisions.tree(7), keep: 2)
        #expect(older.error?.cause == .olderRevision)
        #expect(older.error?.message.contains("older than revision 3, which was installed last") == true)
    }

    @Test("A former revision whose manifest nobody has any more cannot be shown again, and the error says so")
    func lostManifest() throws {
        for number in 1...2 { try expect(number, pull(number)) }
        let kept = scene.root.path("state/manifests")
        for name in try FileManager.default.contentsOfDirectory(atPath: kept) where name.contains(".json") {
            try FileManager.default.removeItem(atPath: "\(kept)/\(name)")
        }
        let error = #expect(throws: EngineError.self) { try scene.engine().rollback("com.example.tower", to: nil) }
        #expect(error?.status == .noInput && error?.message.contains("no longer kept here") == true)
        try expect(2)
    }

    @Test("What is not kept cannot be shown again, and neither can what is no longer what it was")
    func noRollback() throws {
        try expect(1, pull(1))
        #expect(throws: EngineError.self) { try scene.engine().rollback("com.example.tower", to: nil) }
        try expect(2, pull(2))
        let missing = #expect(throws: EngineError.self) { try scene.engine().rollback("com.example.tower", to: "7") }
        #expect(missing?.status == .noInput)
        let former = scene.root.path(".syncagent-dest/rev/\(try #require(try ledger().former.first).number)/each/now")
        try FileManager.default.removeItem(atPath: former)
        try Data("damaged".utf8).write(to: URL(fileURLWithPath: former))
        let damaged = #expect(throws: EngineError.self) { try scene.engine().rollback("com.example.tower", to: nil) }
        #expect(damaged?.status == .ioError)
        #expect(damaged?.message.contains("such as each/now, was changed or removed") == true)
        try FileManager.default.removeItem(atPath: former)
        let removed = #expect(throws: EngineError.self) { try scene.engine().rollback("com.example.tower", to: nil) }
        #expect(removed?.message.contains("such as each/now, was changed or removed") == true)
        try expect(2)
    }

    @Test("Where the index of what readers see was lost, the revision before it stays and can be shown again")
    func lostIndexOfShown() throws {
        for number in 1...2 { try expect(number, pull(number)) }
        for _ in 0..<2 {
            let shown = try #require(try ledger().current)
            try FileManager.default.removeItem(atPath: scene.root.path(".syncagent-dest/state/\(shown)/index"))
            try expect(2, again())
        }
        #expect(try ledger().former.map(\.revision) == [1])
        #expect(try scene.engine().rollback("com.example.tower", to: nil).status == .done)
        try expect(1)
    }

    @Test("Where the ledger was lost, what is kept of a former tree is not taken for that of the shown one")
    func lostLedger() throws {
        for number in 1...3 { try expect(number, pull(number, keep: 2)) }
        try FileManager.default.removeItem(atPath: scene.root.path(".syncagent-dest/ledger"))
        let outcome = try again(keep: 2)
        try expect(3, outcome)
        #expect(outcome.requests.isEmpty)
        #expect(try ledger().former.allSatisfy { $0.manifest == nil })
    }

    @Test("A destination that cannot be asked what it keeps keeps every manifest")
    func unreadLedger() throws {
        try expect(1, pull(1))
        try scene.root.write("{", to: ".syncagent-dest/ledger")
        #expect(throws: EngineError.self) { try scene.store.manifestsInTrees() }
        #expect(scene.store.isKeptInTrees(.zero))
    }

    @Test("Whether a manifest is kept is not said where it cannot be looked for")
    func unseenManifest() throws {
        #expect(try !ManifestCache(reading: scene.root.path("none"), limit: 1).hasBody(.zero))
        let cache = ManifestCache(reading: scene.root.path(String(repeating: "a", count: 300)), limit: 1)
        #expect(throws: FileError.self) { try cache.hasBody(.zero) }
    }

    @Test("When former trees go, what is known of the files that they shared stays known")
    func tidied() throws {
        for number in 1...4 { try expect(number, pull(number, keep: 3)) }
        try expect(5, pull(5, keep: 1))
        #expect(try ledger().trees.count == 2)
        let outcome = try again(keep: 1)
        try expect(5, outcome)
        // Otherwise all of it would be read, and shown once more.
        #expect(outcome.requests.isEmpty && outcome.count("tree.switched") == 0)
        // What somebody has changed is not taken for known by that.
        for number in 6...8 { try expect(number, pull(number, keep: 3)) }
        let path = scene.root.path("dest/common/d1/12")
        let before = try #require(status(following: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        var bytes = try #require(Revisions.tree(8).bytes("common/d1/12"))
        bytes[7] ^= 1
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try file.write(contentsOf: bytes)
        try file.close()
        #expect(setModified(path, in: AT_FDCWD, before.modified) == nil)
        try expect(9, pull(9, keep: 1))
    }

    @Test("Readers by path and by descriptor see one revision, whole, while it changes [S114 G11]")
    func readers() throws {
        try expect(1, pull(1, keep: 3))
        let trees = (0...16).map { Revisions.tree(UInt64($0)) }
        let poller = try TreePoller(scene.destination, revisions: trees)
        for number in 2...16 { try expect(number, pull(number, keep: 3)) }
        let seen = poller.stop()
        #expect(seen.wrong == [])
        #expect(seen.rounds > 0)
    }
}

/// A program during which a stop is requested.
final class StopAtCheck: GroupHook {
    let count = SharedCounter()
    private let stop: StopRequest

    init(_ stop: StopRequest) { self.stop = stop }

    func run(_ invocation: HookInvocation) -> HookOutcome {
        _ = count.take()
        stop.stop(.user)
        return HookOutcome(end: .stopped, output: "", milliseconds: 1)
    }
}

/// Reads a destination again and again, until it is stopped: the file that differs in every revision must always be one of them,
/// and what is read through one descriptor must be of one revision.
final class TreePoller: Sendable {
    struct Seen: Sendable {
        var rounds = 0
        var wrong: [String] = []
    }
    private let seen = Monitor((Seen(), isOver: false))
    private let threads: Monitor<[WorkerThread]>

    init(_ path: String, revisions: [AssetTree]) throws {
        let contents = revisions.map { $0.bytes("each/now") ?? [] }
        threads = Monitor([])
        let byPath = try WorkerThread(name: "by path") { [seen] in
            while !seen.withLock(\.isOver) {
                let bytes = try? readFile("\(path)/each/now", trust: .input, limit: 1 << 20)
                let code = bytes == nil ? "\(Errno.last)" : ""
                seen.withLock {
                    $0.0.rounds += 1
                    if let bytes, contents.contains(bytes) { return }
                    $0.0.wrong.append("by path: \(code)")
                }
            }
        }
        let byDescriptor = try WorkerThread(name: "by descriptor") { [seen] in
            while !seen.withLock(\.isOver) {
                guard let top = openDirectory(path) else {
                    seen.withLock { $0.0.wrong.append("cannot be opened: \(Errno.last)") }
                    continue
                }
                let bytes = try? readFile("each/now", in: top.raw, trust: .input, limit: 1 << 20)
                let number = bytes.flatMap { contents.firstIndex(of: $0) }
                let names = (try? directoryEntries("\(path)/.")) ?? []
                var own: [String] = []
                if let deep = openDirectory("each/deep/er", in: top.raw) {
                    own = (try? directoryEntries(deep.raw)) ?? []
                }
                seen.withLock {
                    $0.0.rounds += 1
                    if let number, own == ["\(number)"], names.contains("common") { return }
                    $0.0.wrong.append("mixed: \(number ?? -1) with \(own)")
                }
            }
        }
        threads.withLock { $0 = [byPath, byDescriptor] }
    }

    func stop() -> Seen {
        seen.withLock { $0.isOver = true }
        for thread in threads.withLock({ $0 }) { thread.join() }
        return seen.withLock(\.0)
    }
}
