import SyncSystem
import SyncTestKit
import Testing

@testable import SyncLFS

@Suite("Copies of repositories", .timeLimit(.minutes(10)))
struct GitStoreTests {
    @Test("Whoever waits for a copy that is removed meanwhile keeps others out of the next one")
    func removedMeanwhile() throws {
        let directory = try TemporaryRoot()
        let path = directory.path("a.git.lock")
        let remover = Monitor<FileLock?>(try GitStore.lock(path, [.readWrite, .create], wait: 0))
        let long: Int64 = 1_000_000_000
        #expect(setModified(path, in: currentDirectory, long) == nil)
        let held = concurrently(2, name: "copy") { index -> FileLock? in
            if index == 0 { return (try? GitStore.lock(path, [.readWrite, .create], wait: 60_000)) ?? nil }
            // Whoever waits has opened the file, and said so.
            let deadline = ContinuousClock.now + .seconds(30)
            while ContinuousClock.now < deadline, status(following: path)?.modified == long {
                pauseThread(milliseconds: 2)
            }
            removeFile(path)
            remover.withLock { $0 = nil }
            return nil
        }
        #expect(held.contains { $0 != nil } && exists(path))
        #expect(try GitStore.lock(path, .readWrite, wait: 0) == nil)
        withExtendedLifetime(held) {}
    }
}
