import SyncModel
import Testing

@testable import SyncStore

@Suite("What is kept of a recipe", .timeLimit(.minutes(10)))
struct KeptRecipeTests {
    @Test("Patterns are kept with a run, and another pattern is another run")
    func patterns() throws {
        let store = try StateDirectory().open()
        var start = towerRun("r1")
        (start.recipe.include, start.recipe.exclude) = (["maps/**", "a b"], ["*.txt"])
        try store.begin(start, now: 1)
        #expect(try store.run("r1").recipe.include == ["maps/**", "a b"])
        #expect(try store.run("r1").recipe.exclude == ["*.txt"])
        #expect(try store.openRun(like: start)?.identifier == "r1")
        start.recipe.exclude = []
        #expect(try store.openRun(like: start) == nil)
    }

    @Test("What the pin came of is not kept, what is handed on is, as it was written")
    func handedOn() throws {
        var start = towerRun("r1")
        (start.recipe.trust, start.recipe.staleSeconds) = ("first", 7)
        (start.recipe.userData, start.recipe.expectedBytes) = (.array([.integer(1), .string("a b")]), 5)
        let store = try StateDirectory().open()
        try store.begin(start, now: 1)
        let kept = try store.run("r1")
        #expect(kept.recipe.userData == start.recipe.userData && kept.facts.userData == #"[1,"a b"]"#)
        #expect(kept.recipe.trust == nil && kept.recipe.staleSeconds == nil && kept.recipe.expectedBytes == 5)
        #expect(try store.openRun(like: start)?.identifier == "r1")
        // What the manifest has is not the client's: a newer manifest has its own.
        (start.run, start.recipe.userData, start.facts.userData) = ("r2", nil, "[2]")
        try store.begin(start, now: 2)
        #expect(try store.run("r2").recipe.userData == nil && store.run("r2").facts.userData == "[2]")
    }

    @Test(
        "Another run than the open one is whatever would do other work, and nothing else", arguments: [0, 1, 2, 3, 4])
    func others(change: Int) throws {
        let store = try StateDirectory().open()
        var start = towerRun("r1")
        (start.recipe.prune, start.recipe.settings.connections, start.facts.revision) = (true, 4, 42)
        try store.begin(start, now: 1)
        start.recipe.label = "again"
        (start.recipe.settings.http2, start.recipe.configuration) = (.always, RunConfiguration(file: "/c", hooks: [:]))
        (start.recipe.conditions.power, start.recipe.origin) = (true, .schedule)
        (start.recipe.notBefore, start.recipe.deadlineSeconds) = (WallTime(milliseconds: 7), 9)
        #expect(try store.openRun(like: start)?.identifier == "r1")
        switch change {
        case 0: start.recipe.prune = false
        case 1: start.recipe.settings.connections = nil
        case 2: start.facts.revision = 43
        case 3: start.recipe.groups = ["sheets"]
        default: start.recipe.hooks.append(RunHook(arguments: ["/bin/more"]))
        }
        #expect(try store.openRun(like: start) == nil)
    }

    @Test("A text that cannot be read is the run's own damage, said by its name")
    func damage() throws {
        let state = StateDirectory()
        let store = try state.open()
        try store.begin(towerRun("r1"), now: 1)
        try state.tamper("UPDATE runs SET recipe = '{\"prune\":7}'")
        let error = #expect(throws: StoreError.self) { try store.run("r1") }
        #expect(error?.message == "The state's record of run r1 cannot be read.")
    }
}
