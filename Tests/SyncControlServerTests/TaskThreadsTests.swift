import SyncDaemon
import Testing

@Suite("Waiting on the server's threads", .timeLimit(.minutes(10)))
struct TaskThreadsTests {
    @Test("A wait lasts as long as it is told to")
    func whole() async throws {
        let start = ContinuousClock.now
        try await TaskThreads.sleep(for: .milliseconds(30))
        #expect(ContinuousClock.now - start >= .milliseconds(30))
        try await TaskThreads.sleep(for: .seconds(-1))
    }

    @Test("A wait ends at once when its task is cancelled, before or while it waits", arguments: [0, 20])
    func cancelled(milliseconds: Int) async {
        let waiting = Task { try await TaskThreads.sleep(for: .seconds(86_400 * 1_000)) }
        if milliseconds > 0 { try? await TaskThreads.sleep(for: .milliseconds(milliseconds)) }
        waiting.cancel()
        await #expect(throws: (any Error).self) { try await waiting.value }
    }
}
