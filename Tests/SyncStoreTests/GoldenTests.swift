import Foundation
import GRDB
import SyncModel
import SyncStore
import Testing

@Suite("The golden store", .timeLimit(.minutes(10)))
struct GoldenTests {
    /// A copy of the committed store, in a state directory.
    private func copy() throws -> StateDirectory {
        let golden = Bundle.module.url(forResource: "version1", withExtension: "sqlite", subdirectory: "Golden")
        let state = StateDirectory()
        try FileManager.default.createDirectory(atPath: state.path, withIntermediateDirectories: true)
        try Data(contentsOf: try #require(golden)).write(to: URL(fileURLWithPath: state.database))
        return state
    }

    @Test("It is read, and goes on [S71 G19]")
    func reads() throws {
        let state = try copy()
        let store = try state.open()
        #expect(try store.findings() == [])
        let session = try #require(try store.session("tower"))
        #expect(session.isAt(device: .max, inode: 7) && session.epoch == 2 && session.label == "the tower, floor 3")
        #expect(session.limiterDelay == 120_000 && session.limiterRaised == GoldenStore.time + 86_402_500)
        let totals = session.totals
        #expect(totals.received == 70_000 && totals.requests == 12 && totals.files == 9 && totals.elapsed == 61_000)
        #expect(totals.ok == 1 && totals.partial == 0 && totals.failed == 0)
        let done = try store.run("20261120T020000Z-0000000a")
        #expect(done.state == .finished && done.result == .ok && done.counts.files.unchanged == 19_997)
        #expect(done.manifest.hex == String(repeating: "9a", count: 32))
        let paused = try store.run("20261121T020000Z-0000000b")
        #expect(paused.state == .paused && paused.reason == .userStop && paused.recipe.groups == ["sheets"])
        #expect(paused.firstPaths == ["sheets/12.pdf", "größe"] && paused.pausedAt == GoldenStore.time + 86_402_000)
        #expect(try store.owedHooks(session: "tower").map(\.arguments) == [["/bin/true"]])
        #expect(try store.hooks(run: done.identifier).map(\.state) == [.skipped, .done])
        #expect(try store.reasons(of: paused.identifier).map(\.reason) == ["no answer"])
        let page = try store.events(of: "tower", after: 0)
        #expect(page.events.count == 11 && page.events.last?.text == "{\"event\":\"group.completed\"}")
        // And on.
        #expect(try store.apply(.resumed, to: paused.identifier, now: 1))
        _ = try store.take(run: paused.identifier, now: 2)
        #expect(try store.append(lines(1...1), to: "tower", time: 3) == 12)
        try store.begin(towerRun("next"), now: 4)
        #expect(try store.findings() == [])
        // The directory goes with the last mention of it.
        withExtendedLifetime(state) {}
    }

    @Test("Runs and hooks in every state are read whole, with what they wait for and how they ended [S53 S71 S131 G19]")
    func states() throws {
        let store = try copy().open()
        let waiting = try store.run("run-waiting")
        #expect(waiting.recipe.origin == .schedule && waiting.recipe.settings.limitRate == 1_000)
        #expect(waiting.error == "no route" && waiting.due == GoldenStore.time + 9)
        #expect(waiting.recipe.conditions.power && waiting.waitingSince == GoldenStore.time + 4)
        #expect(waiting.notBefore == GoldenStore.time + 60_000)
        #expect(try store.run("run-running").losses == [GoldenStore.time + 5])
        for state in RunState.allCases { #expect(try store.run("run-\(state.rawValue)").state == state) }
        #expect(try store.run("run-finished").exitStatus == 69 && store.run("run-paused").exitStatus == nil)
        let hooks = try store.hooks(run: "run-hooks")
        #expect(Set(hooks.map(\.state)) == Set(HookRunState.allCases))
        #expect(hooks.map(\.batch) == [7] + Array(repeating: nil, count: 6))
        for cause in GoldenStore.causes { #expect(try store.run("run-cause-\(cause.rawValue)").cause == cause) }
        #expect(try store.run("run-held").cause == .diskFull)
    }

    @Test("Today's program writes, row for row, what it holds [S71]")
    func writes() throws {
        let state = StateDirectory()
        try GoldenStore.fill(state.open())
        if let path = ProcessInfo.processInfo.environment["SYNCAGENT_GOLDEN"] {
            // How it is made, once.
            try DatabaseQueue(path: state.database).vacuum(into: path)
        }
        #expect(try contents(copy()) == contents(state))
    }

    /// Every table's form and rows, as text.
    private func contents(_ state: StateDirectory) throws -> [String: [String]] {
        try DatabaseQueue(path: state.database).read { db in
            let tables = try Row.fetchAll(db, sql: "SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
            return try Dictionary(
                uniqueKeysWithValues: tables.map { table in
                    let rows = try Row.fetchAll(db, sql: "SELECT * FROM \"\(table["name"] as String)\"")
                    return (table["name"], [table["sql"]] + rows.map(\.debugDescription))
                })
        }
    }
}
