import SyncModel
import SyncStore
import Testing

@Suite("Tasks that deviate", .timeLimit(.minutes(3)))
struct TaskTests {
    private func task(_ path: String, _ state: TaskState) -> StoredTask {
        StoredTask(path: path, digest: .zero, state: state)
    }

    @Test("Only what the manifest and the index do not say has a row [S27 S66 S105]")
    func rows() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        try store.record(TaskState.allCases.map { task($0.rawValue, $0) }, of: "r1", now: 2)
        #expect(try store.deviatingTasks(of: "r1").map(\.path) == ["cancelled", "failed", "paused"])
        var urgent = task("urgent", .running)
        urgent.priority = 5
        var late = task("late", .waiting)
        late.reason = "connectivity"
        late.error = "no route to host"
        late.due = 99
        late.attempts = 3
        try store.record([urgent, late], of: "r1", now: 3)
        urgent.state = .waiting
        let found = try store.deviatingTasks(of: "r1")
        #expect(found.first == urgent, "a running task rests as waiting")
        #expect(found.contains(late))
        try store.record([task("late", .installed), task("paused", .waiting)], of: "r1", now: 4)
        #expect(try store.deviatingTasks(of: "r1").map(\.path) == ["urgent", "cancelled", "failed"])
    }

    @Test("The same path with other content is another task; runs do not share tasks [S4 S66]")
    func identity() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        let other = try #require(SHA256Digest(hex: String(repeating: "ab", count: 32)))
        try store.record(
            [task("a", .failed), StoredTask(path: "a", digest: other, state: .paused)],
            of: "r1",
            now: 2
        )
        #expect(try store.deviatingTasks(of: "r1").count == 2)
        try store.begin(towerRun("r2"), now: 3)
        #expect(try store.deviatingTasks(of: "r2") == [])
        #expect(.of { try store.record([], of: "r3", now: 4) } == .unknown)
    }
}
