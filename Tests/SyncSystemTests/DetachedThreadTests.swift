import Dispatch
import Glibc
import SyncSystem
import Testing

@Suite("Threads that nobody joins", .timeLimit(.minutes(1)))
struct DetachedThreadTests {
    @Test("What is to run there runs, on another thread")
    func runs() throws {
        let done = DispatchSemaphore(value: 0)
        let own = pthread_self()
        try detachThread("a name that is longer than 15 bytes") {
            if pthread_equal(own, pthread_self()) == 0 { done.signal() }
        }
        #expect(done.wait(timeout: .now() + 20) == .success)
    }

    @Test("Where there is none to be had, that is an error with the system's word and advice [F095]")
    func none() {
        // No machine has this much for a stack.
        let error = #expect(throws: ThreadError.self) { try detachThread("x", stackSize: 1 << 50) {} }
        let text = error.map { "\($0)" } ?? ""
        #expect(
            text.hasPrefix("cannot start a thread: ")
                && text.hasSuffix("raise the limit on processes or memory")
        )
    }
}
