import SyncModel
import SyncStore
import Testing

@Suite("Tasks on record", .timeLimit(.minutes(10)))
struct TaskTests {
    private func task(_ path: String, _ reason: String) -> StoredTask {
        StoredTask(path: path, digest: .zero, state: .failed, reason: reason)
    }

    @Test("Why a task failed is kept with its run, until it is tried again [S66 S105]")
    func reasons() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        let other = try #require(SHA256Digest(hex: String(repeating: "ab", count: 32)))
        let two = [task("a", "not there"), StoredTask(path: "a", digest: other, state: .failed, reason: "wrong bytes")]
        try store.record(two, of: "r1")
        #expect(try store.tasks(of: "r1") == two, "the same path with other content is another task")
        try store.record([task("a", "late")], of: "r1")
        #expect(try store.tasks(of: "r1").first?.reason == "late")
        try store.begin(towerRun("r2"), now: 3)
        #expect(try store.tasks(of: "r2") == [], "runs do not share tasks")
        try store.forgetTasks(of: "r1")
        #expect(try store.tasks(of: "r1") == [])
        #expect(.of { try store.record([], of: "r3") } == .unknown)
        #expect(try store.findings() == [])
    }

    @Test("A run that fails a million times keeps ten thousand reasons")
    func bound() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        try store.record((0..<SyncStore.mostTasks - 1).map { task("\($0)", "x") }, of: "r1")
        try store.record([task("y", "x"), task("z", "x")], of: "r1")
        #expect(try store.tasks(of: "r1").count == SyncStore.mostTasks)
    }

    @Test("A task file says where each row stands, in place, and is one run's")
    func file() throws {
        let state = StateDirectory()
        let store = try state.open()
        _ = try store.lease(of: "tower", process: 1, now: 1)
        let files = try #require(store.liveFiles(of: "tower"))
        #expect(files.tasks() == nil)
        let file = try TaskFile(files, run: "r1", marks: [.waiting, .unselected, .waiting, .waiting, .unchanged])
        file.set([3, 0, 2], .installed)
        file.give([2, 0, 3], to: 70_000)
        file.set([99], .failed)
        let read = try #require(files.tasks())
        #expect(read.run == "r1")
        #expect(read.marks == [.installed, .unselected, .installed, .installed, .unchanged])
        #expect(read.transfers == [70_000, 0, 70_000, 70_000, 0])
        _ = try TaskFile(files, run: "r2", marks: [.failed])
        #expect(files.tasks()?.run == "r2")
        file.set([4], .installed)
        #expect(files.tasks()?.marks == [.failed], "who is behind writes to its own file")
        try files.write(requests: Array("{}".utf8))
        try store.begin(towerRun("r2"), now: 1)
        try store.remove(session: "tower")
        #expect(files.tasks() == nil && files.requests() == nil, "a session that is forgotten leaves nothing")
    }
}
