import Foundation
import SyncModel
import SyncStore
import SyncSystem
import Testing

@Suite("Who holds a session", .timeLimit(.minutes(10)))
struct LeaseTests {
    @Test("The second is told who holds it and since when; when the first lets go it may [S3]")
    func busy() throws {
        let state = StateDirectory()
        let store = try state.open()
        var first = try store.lease(of: "tower", process: 4711, now: 1_795_140_000_000)
        do throws(StoreError) {
            _ = try store.lease(of: "tower", process: 1, now: 2)
            Issue.record("two hold it")
        } catch {
            #expect(error.code == .busy && error.status == .busy)
            #expect(error.message.contains("process 4711, since 2026-11-20T02:00:00.000Z"))
        }
        _ = try store.lease(of: "bridge", process: 1, now: 2)
        #expect(first != nil)
        first = nil
        _ = try store.lease(of: "tower", process: 1, now: 2)
    }

    @Test("A run that says running is interrupted when nobody has its session, and only then [S28]")
    func interrupted() throws {
        let state = StateDirectory()
        let store = try state.open()
        var lease = try store.lease(of: "tower", process: 4711, now: 1)
        try store.begin(towerRun("r1"), now: 1)
        #expect(try !store.isInterrupted(store.run("r1")) && lease != nil)
        lease = nil
        let left = try store.run("r1")
        #expect(try store.isInterrupted(left))
        // Taken and not signed yet: somebody has it all the same.
        lease = try store.lease(of: "tower", process: 4712, now: 2)
        #expect(truncate(state.path + "/sessions/tower.lock", 0) == 0)
        #expect(try !store.isInterrupted(left) && store.holder(of: "tower") == nil)
        // What was read before another process took it up is old.
        _ = try store.recover(session: "tower", now: 3)
        let taken = try store.take(run: "r1", now: 3)
        lease = nil
        #expect(try !store.isInterrupted(left) && store.isInterrupted(taken))
        try store.finish(run: "r1", result: .ok, counts: RunCounts(), now: 4)
        #expect(try !store.isInterrupted(taken) && !store.isInterrupted(store.run("r1")))
        let memory = try SyncStore.inMemory()
        try memory.begin(towerRun("r1"), now: 1)
        #expect(try !memory.isInterrupted(memory.run("r1")))
    }

    @Test("Of 50 at once exactly one has it [S3]")
    func race() async throws {
        let state = StateDirectory()
        let store = try state.open()
        let leases = await withTaskGroup(of: FileLock?.self) { group in
            for number in 0..<50 {
                group.addTask { try? store.lease(of: "tower", process: Int32(number), now: 1) }  // Busy: nil.
            }
            return await group.reduce(into: [FileLock]()) { all, lease in if let lease { all.append(lease) } }
        }
        #expect(leases.count == 1)
    }

    @Test(
        "No name leaves the directory, and no two share a file",
        arguments: ["..", ".", "a/b", "a%2fb", "ü", "A", "a", ""])
    func names(name: String) throws {
        let state = StateDirectory()
        let store = try state.open()
        let all = try ["..", ".", "a/b", "a%2fb", "ü", "A", "a", ""].map { try store.lease(of: $0, process: 1, now: 1) }
        #expect(all.count == 8)
        #expect(.of { _ = try store.lease(of: name, process: 2, now: 1) } == .busy)
        #expect(try FileManager.default.contentsOfDirectory(atPath: state.path + "/sessions").count == 8)
        #expect(.of { _ = try store.lease(of: String(repeating: "ü", count: 100), process: 2, now: 1) } == .refused)
    }
}
