import SyncModel
import SyncStore
import Testing

@Suite("Tasks on record", .timeLimit(.minutes(10)))
struct TaskTests {
    private func task(_ path: String, _ reason: String, sha256: String? = nil) -> TaskStatus {
        TaskStatus(path: path, sha256: sha256, size: 1, state: .failed, reason: reason)
    }

    @Test("Why a task failed is kept with its run, until it is tried again [S66 S105]")
    func reasons() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        let other = String(repeating: "ab", count: 32)
        try store.record([task("a", "not there"), task("a", "wrong bytes", sha256: other)], of: "r1")
        let two = try store.reasons(of: "r1")
        #expect(two.map(\.path) == ["a", "a"], "the same path with other content is another task")
        #expect(two.map(\.reason) == ["not there", "wrong bytes"])
        try store.record([task("a", "late")], of: "r1")
        #expect(try store.reasons(of: "r1").first?.reason == "late")
        try store.begin(towerRun("r2"), now: 3)
        #expect(try store.reasons(of: "r2").isEmpty, "runs do not share tasks")
        try store.forgetTasks(of: "r1")
        #expect(try store.reasons(of: "r1").isEmpty)
        #expect(.of { try store.record([], of: "r3") } == .unknown)
        #expect(try store.findings() == [])
    }

    @Test("A run that fails a million times keeps ten thousand reasons")
    func bound() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        try store.record((0..<SyncStore.mostTasks - 1).map { task("\($0)", "x") }, of: "r1")
        try store.record([task("y", "x"), task("z", "x")], of: "r1")
        #expect(try store.reasons(of: "r1").count == SyncStore.mostTasks)
    }

    @Test("A task file says where each row stands, in place, and is one run's")
    func file() throws {
        let state = StateDirectory()
        let store = try state.open()
        _ = try store.lease(of: "tower", process: 1, now: 1)
        let files = try #require(store.liveFiles(of: "tower"))
        #expect(files.tasks() == nil)
        let tracker = TaskTracker([.waiting, .unselected, .waiting, .waiting, .unchanged], files: files, run: "r1")
        #expect(files.tasks()?.marks == [.waiting, .unselected, .waiting, .waiting, .unchanged])
        tracker.installed([3, 0, 2, 99]) { $0 == 2 }
        tracker.give([2, 0, 3], to: 70_000)
        tracker.give([99], to: 1)
        let read = try #require(files.tasks())
        #expect(read.run == "r1")
        #expect(read.marks == [.installed, .unselected, .reused, .installed, .unchanged])
        #expect(read.transfers == [70_000, 0, 70_000, 70_000, 0])
        let next = TaskTracker([.waiting], files: files, run: "r2")
        #expect(files.tasks()?.run == "r2")
        tracker.give([4], to: 2)
        #expect(files.tasks()?.transfers == [0], "who is behind writes to its own file")
        next.endAll(.paused)
        #expect(files.tasks()?.marks == [.paused] && next.steps.refused == 0)
        try files.write(requests: Array("{}".utf8))
        try store.begin(towerRun("r2"), now: 1)
        try store.remove(session: "tower")
        #expect(files.tasks() == nil && files.requests() == nil, "a session that is forgotten leaves nothing")
    }
}
