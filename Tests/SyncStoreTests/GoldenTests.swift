import Foundation
import GRDB
import SyncModel
import SyncStore
import Testing

@Suite("Stores of every version that was ever written", .timeLimit(.minutes(10)))
struct GoldenTests {
    /// A copy of a committed store, in a state directory.
    private func copy(_ name: String) throws -> StateDirectory {
        let golden = try #require(Bundle.module.url(forResource: name, withExtension: "sqlite", subdirectory: "Golden"))
        let state = StateDirectory()
        try FileManager.default.createDirectory(atPath: state.path, withIntermediateDirectories: true)
        try Data(contentsOf: golden).write(to: URL(fileURLWithPath: state.database))
        return state
    }

    private func schema(_ state: StateDirectory) throws -> [String] {
        try DatabaseQueue(path: state.database).read { db in
            try String.fetchAll(db, sql: "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        }
    }

    @Test(
        "An old store is read, ends with today's tables, and goes on [S71 G19]",
        arguments: ["version1", "version2", "version3", "version4", "version5"])
    func reads(name: String) throws {
        let state = try copy(name)
        let store = try state.open()
        #expect(try store.findings() == [])
        let session = try #require(try store.session("tower"))
        #expect(session.device == .max && session.policy == "{\"idle\":60}" && session.epoch == 2)
        let done = try store.run("20261120T020000Z-0000000a")
        #expect(done.state == .finished && done.result == .ok && done.counts.files.unchanged == 19_997)
        #expect(done.manifest.hex == String(repeating: "9a", count: 32))
        let paused = try store.run("20261121T020000Z-0000000b")
        #expect(paused.state == .paused && paused.reason == .userStop && paused.recipe.groups == ["sheets"])
        #expect(try store.owedHooks(session: "tower").map(\.arguments) == [["/bin/true"]])
        #expect(try store.hooks(run: done.identifier).map(\.state) == [.skipped, .done])
        let page = try store.events(of: "tower", after: 0)
        #expect(page.events.count == 11 && page.events.last?.text == "{\"event\":\"group.completed\"}")
        // And on.
        #expect(try store.apply(.resumed, to: paused.identifier, now: 1))
        _ = try store.take(run: paused.identifier, now: 2)
        #expect(try store.append(lines(1...1), to: "tower", time: 3) == 12)
        try store.begin(towerRun("next"), now: 4)
        #expect(try store.findings() == [])

        let fresh = StateDirectory()
        _ = try fresh.open()
        #expect(try schema(state) == schema(fresh))
    }

    @Test("What version 2 added is read: label, limiter, origin, settings, errors, losses, first paths [S71 G19]")
    func version2() throws {
        let store = try copy("version2").open()
        let session = try #require(try store.session("tower"))
        #expect(session.label == "the tower, floor 3" && session.limiterDelay == 120_000)
        #expect(session.limiterRaised == GoldenStore.time + 86_402_500)
        let paused = try store.run("20261121T020000Z-0000000b")
        #expect(paused.firstPaths == ["sheets/12.pdf", "größe"] && paused.pausedAt == GoldenStore.time + 86_402_000)
        let waiting = try store.run("run-waiting")
        #expect(waiting.origin == "schedule")
        #expect(waiting.error == "no route" && waiting.due == GoldenStore.time + 9)
        #expect(try store.run("run-running").losses == [GoldenStore.time + 5])
        for state in RunState.allCases { #expect(try store.run("run-\(state.rawValue)").state == state) }
        let states = try store.hooks(run: "run-hooks").map(\.state)
        #expect(Set(states) == Set(HookRunState.allCases))
    }

    @Test("What version 3 added is read: conditions, since when it waits, exit statuses, batches [S53 S71 S131 G19]")
    func version3() throws {
        let store = try copy("version3").open()
        let waiting = try store.run("run-waiting")
        #expect(waiting.recipe.conditions.power)
        #expect(waiting.waitingSince == GoldenStore.time + 4)
        #expect(try store.run("run-finished").exitStatus == 69)
        #expect(try store.run("run-paused").exitStatus == nil)
        let batches = try store.hooks(run: "run-hooks").map(\.batch)
        #expect(batches.first == 7 && batches.dropFirst().allSatisfy { $0 == nil } && batches.count == 7)
    }

    @Test("What version 4 added is read: totals; those of older stores begin with the runs that are kept [S71 G19]")
    func version4() throws {
        let now = try #require(try copy("version4").open().totals()["tower"])
        #expect(now.received == 70_000 && now.requests == 12 && now.files == 9 && now.elapsed == 61_000)
        #expect(now.ok == 1 && now.partial == 0 && now.failed == 0)
        for name in ["version1", "version2", "version3"] {
            let before = try #require(try copy(name).open().totals()["tower"])
            #expect(before.received >= 4_096 && before.requests >= 2 && before.files == 3 && before.ok == 1)
        }
    }

    @Test("What version 5 added is read: what went wrong, and nothing for runs of older versions [S71 G19]")
    func version5() throws {
        let store = try copy("version5").open()
        for cause in GoldenStore.causes { #expect(try store.run("run-cause-\(cause.rawValue)").cause == cause) }
        #expect(try store.run("run-held").cause == .diskFull)
        let old = try copy("version4").open().run("run-finished")
        #expect(old.error == "404" && old.cause == nil)
    }

    @Test("A run that was asked for with every option before there were recipes is read whole [S71 G19]")
    func options() throws {
        let store = try copy("version4-options").open()
        let run = try #require(try store.runs(session: "tower").first)
        let recipe = run.recipe
        #expect(recipe.manifest == "/srv/site/out/manifest.json" && recipe.settings.connections == 3)
        #expect(recipe.settings.limitRate == 1_048_576 && recipe.prune && recipe.force && recipe.maxDelete == 4)
        #expect(recipe.backupDir == "/srv/kept" && recipe.allowOlder && recipe.expectedBytes == 123_456)
        #expect(recipe.userData == .object(["model": .number(7.5), "a": .array([.integer(1), .string("x y")])]))
        #expect(run.facts.userData == #"{"a":[1,"x y"],"model":7.5}"#)
        #expect(run.facts.isSigned && run.facts.revision == 1 && run.facts.isPublic == nil)
        #expect(recipe.conditions.power && recipe.conditions.freeSpace == 1 << 30)
        #expect(recipe.conditions.window == DailyWindow(startMinute: 1_320, lengthMinutes: 480))
        #expect(run.state == .paused && recipe.origin == .interactive)
        #expect(recipe.notBefore == WallTime(milliseconds: GoldenStore.time))
        let hooks = try store.hooks(run: run.identifier).reversed().map(\.hook)
        #expect(
            hooks == [
                RunHook(arguments: ["/bin/false"], timeout: 20, results: [.ok, .partial], batch: 7),
                RunHook(arguments: ["/bin/true"], timeout: 20, results: [.ok, .partial]),
            ])
        // And whoever asks for the same today goes on with it.
        var start = RunStart(
            session: SessionRequest(
                identifier: "tower", project: "com.example.tower", destination: "/srv/dest", device: 0, inode: 0),
            run: "again", manifest: run.manifest, recipe: recipe)
        start.recipe.hooks = hooks
        start.facts = run.facts
        #expect(try store.openRun(like: start)?.identifier == run.identifier)
    }

    @Test("Today's program writes, row for row, what the golden store of its version holds [S71]")
    func writes() throws {
        let golden = try copy("version5")
        let state = StateDirectory()
        try GoldenStore.fill(state.open())
        if let path = ProcessInfo.processInfo.environment["SYNCAGENT_GOLDEN"] {
            // How the golden store of a new version is made, once.
            try DatabaseQueue(path: state.database).vacuum(into: path)
        }
        let (old, new) = try (contents(golden), contents(state))
        // Of these, nothing is written any more; what is written of tasks now says less.
        let left: Set = ["hosts", "redirects", "tasks"]
        for (table, rows) in new where !left.contains(table) { #expect(old[table] == rows, "\(table)") }
        #expect(old.keys == new.keys)
    }

    /// Every row of every table, as text.
    private func contents(_ state: StateDirectory) throws -> [String: [String]] {
        try DatabaseQueue(path: state.database).read { db in
            let tables = try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'")
            return try Dictionary(
                uniqueKeysWithValues: tables.map { table in
                    (table, try Row.fetchAll(db, sql: "SELECT * FROM \"\(table)\"").map(\.debugDescription))
                })
        }
    }
}
