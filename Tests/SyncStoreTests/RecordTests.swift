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
        let records = [
            "sessions": try store.session(named: "tower").databaseDictionary,
            "runs": try started.run.databaseDictionary,
            "groups": try StoredGroup(run: "r1", name: "all").databaseDictionary,
        ]
        for (table, values) in records {
            let columns = try store.read { db in try db.columns(in: table).map(\.name) }
            #expect(Set(values.keys) == Set(columns), "\(table)")
        }
        // The name of a hook's group is a word of SQL.
        let hook = Mirror(reflecting: try #require(try store.hooks(run: "r1").first)).children.compactMap(\.label)
        let columns = try store.read { db in try db.columns(in: "hooks").map(\.name) }
        #expect(Set(columns).subtracting(hook) == ["group_name"])
    }

    @Test("What a run is asked for is in its columns to the byte [S71]")
    func bytes() throws {
        let store = try SyncStore.inMemory()
        var start = towerRun("r1")
        (start.recipe.groups, start.recipe.conditions.power) = (["a/b", "ü\t\"\u{7F}"], true)
        try store.begin(start, now: 1)
        let row = try store.read { db in try Row.fetchOne(db, sql: "SELECT recipe, losses, first_paths FROM runs") }
        let found = try #require(row)
        let place = #""manifest":"https://cdn.example.com/m.json","session":"tower"}"#
        #expect(found["recipe"] == #"{"conditions":{"power":true},"groups":["a/b","ü\t\"\#u{7F}"],"# + place)
        #expect(found["losses"] == "[]" && found["first_paths"] == "[]")
        let hooks = try store.read { db in
            try String.fetchAll(db, sql: "SELECT arguments || results FROM hooks ORDER BY id")
        }
        #expect(hooks == [#"["/usr/bin/reindex","a b","ü\n\"\\"]["failed","ok","partial"]"#, #"["/bin/true"]["ok"]"#])
    }
}
