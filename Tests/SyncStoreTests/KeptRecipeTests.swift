import SyncModel
import Testing

@testable import SyncStore

@Suite("What is kept of a recipe", .timeLimit(.minutes(10)))
struct KeptRecipeTests {
    @Test("The words of earlier versions are read, those not known left out [S71 G19]")
    func words() throws {
        let kept = try KeptRecipe(
            stored: "connections=4 limit_rate=1000 prune force manifest_from=public max_delete=7 "
                + "backup_dir=2f61 expected_bytes=9 user_data=372e3530 allow_older signed revision=42 later=1 more")
        #expect(kept.recipe.settings.connections == 4 && kept.recipe.settings.limitRate == 1000)
        #expect(kept.recipe.prune && kept.recipe.force && kept.recipe.allowOlder)
        #expect(kept.recipe.maxDelete == 7 && kept.recipe.backupDir == "/a")
        #expect(kept.recipe.expectedBytes == 9)
        var facts = ManifestFacts(revision: 42, isPublic: true, isSigned: true)
        facts.userData = "7.50"
        #expect(kept.facts == facts)
        #expect(try KeptRecipe(stored: kept.text()) == kept)
        #expect(try KeptRecipe(stored: "") == KeptRecipe(stored: "{}"))
    }

    @Test("A run that an earlier version recorded goes on when the same is asked for")
    func continues() throws {
        let state = StateDirectory()
        let store = try state.open()
        var start = towerRun("r1")
        (start.recipe.prune, start.recipe.settings.connections) = (true, 4)
        start.facts.revision = 42
        try store.begin(start, now: 1)
        try state.tamper("UPDATE runs SET options = 'connections=4 prune revision=42'")
        #expect(try store.openRun(like: start)?.identifier == "r1")
        start.recipe.prune = false
        #expect(try store.openRun(like: start) == nil)
    }

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

    @Test("What has no word of its own is kept all the same, blanks and all")
    func rest() throws {
        let kept = try KeptRecipe(stored: #"prune {"label":"a\u0020prune\u0020force"}"#)
        #expect(kept.recipe.label == "a prune force" && kept.recipe.prune && !kept.recipe.force)
        #expect(try kept.text() == #"prune {"label":"a\u0020prune\u0020force"}"#)
        #expect(try KeptRecipe(stored: kept.text()) == kept)
    }

    @Test("What the pin came of is not kept, what is handed on is, as it was written")
    func handedOn() throws {
        var start = towerRun("r1")
        (start.recipe.trust, start.recipe.staleSeconds) = ("first", 7)
        (start.recipe.userData, start.recipe.expectedBytes) = (.array([.integer(1), .string("a b")]), 5)
        let kept = try KeptRecipe(stored: KeptRecipe(start).text())
        #expect(kept == KeptRecipe(start) && kept.recipe.trust == nil && kept.recipe.staleSeconds == nil)
        #expect(kept.facts.userData == #"[1,"a b"]"# && kept.recipe.expectedBytes == 5)
        let store = try StateDirectory().open()
        try store.begin(start, now: 1)
        #expect(try store.run("r1").recipe.userData == start.recipe.userData)
        #expect(try store.openRun(like: start)?.identifier == "r1")
    }

    @Test("A text that cannot be read is the run's own damage, said by its name")
    func damage() throws {
        let state = StateDirectory()
        let store = try state.open()
        try store.begin(towerRun("r1"), now: 1)
        try state.tamper("UPDATE runs SET options = '{\"prune\":7}'")
        let error = #expect(throws: StoreError.self) { try store.run("r1") }
        #expect(error?.message == "The state's record of run r1 cannot be read.")
    }
}
