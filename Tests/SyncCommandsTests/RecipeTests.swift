import Foundation
import SyncAgent
import SyncModel
import SyncSchedule
import Testing

@testable import SyncCommands
@testable import SyncStore

@Suite("A property of a recipe is carried wherever a recipe goes, and nobody has to name it", .timeLimit(.minutes(10)))
struct RecipeTests {
    /// Something to say, for each type of a property.
    private static let samples: [String: JSONValue] = [
        "Omittable<Bool>": .bool(true), "Omittable<String>": .string("/a b"), "Optional<String>": .string("/a b"),
        "Optional<Int>": .integer(7), "Optional<Int64>": .integer(7), "Optional<UInt64>": .integer(7),
        "Omittable<Array<String>>": .array([.string("a b"), .string("{c}")]),
        "Omittable<Array<Array<String>>>": .array([.array([.string("/bin/a"), .string("b c")])]),
        "Omittable<Array<RunHook>>": .array([.object(["arguments": .array([.string("/bin/h")])])]),
        "Omittable<RunConditions>": .object(["power": .bool(true)]), "Omittable<Origin>": .string("hook"),
        "Optional<Umask>": .string("027"), "Optional<WallTime>": .string("2026-11-20T12:00:00Z"),
        "Optional<JSONValue>": .object(["a b": .integer(1)]), "Optional<Duration>": .array([.integer(0), .integer(7)]),
        "Omittable<Array<TransferHeader>>": .array([.string("X-A: b"), .string("@/a b")]),
        "Optional<ProxySettings>": .object([
            "url": .string("http://p:1"), "user": .string("u"), "passwordFile": .string("/a b"),
        ]), "Optional<Array<String>>": .array([.string("a.example")]), "Optional<TLSVersion>": .string("1.3"),
        "Optional<HTTP2Use>": .string("whole"),
        "Omittable<HostExemption>": .object(["hosts": .object(["_0": .array([.string("a.example")])])]),
        "Optional<AtomicSwitch>": .object([
            "layout": .string("exchange"), "keep": .integer(3), "keepSeconds": .integer(7),
            "check": .array([.string("/bin/check"), .string("a b")]), "keepForeign": .bool(true),
            "notBefore": .string("2026-11-20T12:00:00Z"),
        ]),
        "Optional<RunConfiguration>": .object([
            "file": .string("/c"),
            "hooks": .object(["in-place Re_index": .object(["arguments": .array([.string("/bin/h")])])]),
        ]),
    ]

    /// Something of every property there is now, in JSON: by the properties' types.
    private static func filled(_ whole: Any) throws -> [String: JSONValue] {
        var object: [String: JSONValue] = [:]
        for (label, value) in Mirror(reflecting: whole).children {
            let name = try #require(label).drop { $0 == "_" }
            if let settings = value as? Omittable<TransferSettings> {
                object[String(name)] = .object(try filled(settings.wrappedValue))
                continue
            }
            let sample: JSONValue = try #require(
                samples["\(type(of: value))"],
                "\(name) is of a type that this test has no sample of: \(type(of: value))")
            object[String(name)] = sample
        }
        return object
    }

    /// A recipe that says something of every property.
    private static func filled() throws -> (recipe: RunRecipe, names: [String]) {
        let object = try filled(RunRecipe(manifest: ""))
        let recipe = try JSONDecoder().decode(RunRecipe.self, from: Data(JSONValue.object(object).text.utf8))
        let settings = try filled(recipe.settings)
        #expect(differences(recipe.settings, TransferSettings()) == Set(settings.keys))
        return (recipe, Array(object.keys))
    }

    /// The names of properties that differ.
    private static func differences<Value>(_ one: Value, _ other: Value) -> Set<String> {
        let pairs = zip(Mirror(reflecting: one).children, Mirror(reflecting: other).children)
        return Set(
            pairs.compactMap { one, other in
                "\(one.value)" == "\(other.value)" ? nil : one.label.map { String($0.drop { $0 == "_" }) }
            })
    }

    @Test("The control API takes every property, and writes it")
    func control() throws {
        let (recipe, names) = try Self.filled()
        #expect(Self.differences(recipe, RunRecipe(manifest: "")) == Set(names))
        let bytes = try recipe.controlJSON()
        #expect(try RunRecipe.keys.decode(RunRecipe.self, from: bytes) == recipe)
    }

    @Test("A schedule's file keeps every property")
    func schedule() throws {
        let place = FileManager.default.temporaryDirectory.path + "/recipe-\(UUID().uuidString)"
        // A leftover in the temporary directory harms nobody.
        defer { try? FileManager.default.removeItem(atPath: place) }
        let records = try ScheduleRecords(
            EnvironmentPaths(home: nil) {
                ["XDG_CONFIG_HOME": place + "/config", "XDG_STATE_HOME": place + "/state"][$0]
            })
        let (recipe, _) = try Self.filled()
        let timing = ScheduleTiming(.every(minutes: 60))
        try records.put(ScheduleDefinition(timing, backend: "agent", request: recipe), for: "night")
        #expect(try records.get("night").definition.request == recipe)
    }

    @Test("The store keeps every property with the run but those that have a place of their own or are not to be kept")
    func store() throws {
        let (recipe, _) = try Self.filled()
        let start = RunStart(
            session: StoredSession(
                identifier: "tower", project: "tower", destination: "/srv/tower", device: 1, inode: 2), run: "run-1",
            manifest: .zero, recipe: recipe)
        let kept = StoredRun(start, of: start.session, isHeld: false, now: 0).recipe
        #expect(
            Self.differences(kept, recipe) == [
                // Columns and tables of their own.
                "destination", "session", "hooks", "label", "deadlineSeconds", "paused", "userData",
                // What came of them is kept, or nothing has to be.
                "originRun", "trust", "staleSeconds",
            ])
    }
}
