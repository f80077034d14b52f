import GRDB
import SyncModel
import Testing

@testable import SyncStore

@Suite("Records and their tables", .timeLimit(.minutes(10)))
struct RecordTests {
    @Test("Every column of a table is a property of its record, and the other way round")
    func columns() throws {
        let store = try SyncStore.inMemory()
        let started = try store.begin(towerRun("r1"), now: 1)
        let hook = try #require(try store.hooks(run: "r1").first)
        let records = [
            "sessions": try started.session.record.databaseDictionary,
            "runs": try started.run.record.databaseDictionary,
            "groups": try StoredGroup(run: started.run.number, name: "all").databaseDictionary,
            "hooks": try hook.record.databaseDictionary,
        ]
        for (table, values) in records {
            let columns = try store.read { db in try db.columns(in: table).map(\.name) }
            #expect(Set(values.keys) == Set(columns), "\(table)")
        }
    }

    @Test("What a run is asked for is in its columns to the byte [S71]")
    func bytes() throws {
        let store = try SyncStore.inMemory()
        var start = towerRun("r1")
        (start.recipe.groups, start.recipe.conditions.power) = (["a/b", "ü\t\"\u{7F}"], true)
        try store.begin(start, now: 1)
        let row = try store.read { db in
            try Row.fetchOne(db, sql: "SELECT selection, conditions, losses, first_paths FROM runs")
        }
        let found = try #require(row)
        #expect(found["selection"] == #"["a/b","ü\u0009\"\u007f"]"#)
        #expect(found["conditions"] == #"{"power":true}"#)
        #expect(found["losses"] == "[]" && found["first_paths"] == "[]")
        let hooks = try store.read { db in
            try String.fetchAll(db, sql: "SELECT arguments || results FROM hooks ORDER BY id")
        }
        #expect(hooks == [#"["/usr/bin/reindex","a b","ü\n\"\\"]["failed","ok","partial"]"#, #"["/bin/true"]["ok"]"#])
    }
}
