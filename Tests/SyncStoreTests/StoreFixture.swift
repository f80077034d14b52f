import Foundation
import GRDB
import SyncModel
import SyncStore

/// A state directory of a test's own.
final class StateDirectory: Sendable {
    let path: String

    init() { path = FileManager.default.temporaryDirectory.path + "/state-" + UUID().uuidString + "/syncagent" }

    // What cannot be removed is in the temporary directory.
    deinit { try? FileManager.default.removeItem(atPath: (path as NSString).deletingLastPathComponent) }

    var database: String { path + "/syncagent.sqlite" }

    func open(wait: Int = 10_000, now: Int64 = 0, compression: EventCompression? = nil) throws -> SyncStore {
        try SyncStore.open(directory: path, now: now, wait: wait, compression: compression)
    }

    /// Runs SQL behind the store's back.
    func tamper(_ sql: String) throws {
        let queue = try DatabaseQueue(path: database)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: sql)
            try db.checkpoint(.truncate)
        }
        try queue.close()
    }

    func names() throws -> Set<String> { Set(try FileManager.default.contentsOfDirectory(atPath: path)) }

    func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: name)[.posixPermissions] as? Int
    }
}

let tower = StoredSession(
    identifier: "tower", project: "com.example.tower", destination: "/srv/tower", device: .max, inode: 7)

/// A run of `tower` with the groups `all` and `sheets` and a hook for each.
func towerRun(_ identifier: String, session: StoredSession = tower) -> RunStart {
    var start = RunStart(
        session: session, run: identifier, manifest: .zero,
        recipe: RunRecipe(manifest: "https://cdn.example.com/m.json"))
    start.groups = ["all", "sheets"]
    start.recipe.hooks = [
        RunHook(group: "all", arguments: ["/usr/bin/reindex", "a b", "ü\n\"\\"], timeout: 30),
        RunHook(group: "sheets", arguments: ["/bin/true"], results: [.ok]),
    ]
    return start
}

let bothGroups = [
    CompletedGroup(name: "all", result: .partial, changed: 3), CompletedGroup(name: "sheets", result: .ok, changed: 1),
]

func lines(_ range: ClosedRange<Int>) -> [[UInt8]] { range.map { Array("{\"event\":\"e\",\"n\":\($0)}".utf8) } }

extension StoreError.Code? {
    /// The code of the error that `body` throws.
    static func of(_ body: () throws -> Void) -> StoreError.Code? {
        do {
            try body()
            return nil
        } catch { return (error as? StoreError)?.code }
    }
}
