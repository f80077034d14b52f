import SyncSystem
import Testing

import struct Synchronization.Atomic

@Suite("Threads and waiting", .timeLimit(.minutes(10)))
struct ThreadTests {
    @Test("Without a thread to be had there is an error, and the work does not start (F095)")
    func exhausted() {
        let hasStarted = Atomic(false)
        // No address space has room for such a stack.
        #expect(throws: ThreadError.self) {
            try WorkerThread(name: "none", stackSize: 1 << 50) { hasStarted.store(true, ordering: .relaxed) }
        }
        let didStart = hasStarted.load(ordering: .relaxed)
        #expect(!didStart)
        #expect(
            "\(ThreadError(code: .resourceTemporarilyUnavailable))".contains("raise the limit on processes or memory"))
    }

    @Test("A thread knows itself, and its work is over when it has been joined")
    func joined() throws {
        let own = Mutex<WorkerThread?>(nil)
        let box = Box(own)
        let isCurrent = Atomic(false)
        let isThere = Monitor(false)
        let thread = try WorkerThread(name: "a name of more than fifteen bytes") {
            isThere.wait { $0 ? true : nil }
            isCurrent.store(box.value.withLock { $0?.isCurrent } == true, ordering: .relaxed)
        }
        box.value.withLock { $0 = thread }
        isThere.change { $0 = true }
        thread.join()
        let knewItself = isCurrent.load(ordering: .relaxed)
        #expect(knewItself && !thread.isCurrent)
    }

    @Test("What the work of a thread holds has been let go when it has been joined")
    func letGo() throws {
        for _ in 0..<200 {
            var held: Box? = Box(Mutex(nil))
            weak let seen = held
            let thread = try WorkerThread(name: "holder") { [held] in _ = held }
            held = nil
            thread.join()
            #expect(seen == nil)
        }
    }

    private final class Box: Sendable {
        let value: Mutex<WorkerThread?>
        init(_ value: consuming Mutex<WorkerThread?>) { self.value = value }
    }

    @Test("Work on another thread gives its result, its error, and is told when nobody wants it any more")
    func onAnotherThread() async throws {
        #expect(try await onThread("sum") { 1 + 1 } == 2)
        await #expect(throws: FileError.self) {
            try await onThread("fail") { _ in throw FileError(step: "a", path: "b") }
        }
        let hasStarted = Monitor(false)
        let task = Task {
            try await onThread("wait") { flag in
                hasStarted.change { $0 = true }
                while !flag.isSet { pauseThread(milliseconds: 1) }
                return flag.isSet
            }
        }
        while !hasStarted.withLock({ $0 }) { await Task.yield() }
        task.cancel()
        #expect(try await task.value)
    }

    @Test("A signal wakes whoever waits for that condition")
    func conditions() throws {
        let count = Monitor(0, conditions: 2)
        let thread = try WorkerThread(name: "waiter") {
            count.wait(for: 1) { $0 == 1 ? true : nil }
            count.change { $0 = 2 }
        }
        count.withLock { $0 = 1 }
        count.signal(1)
        count.wait { $0 == 2 ? true : nil }
        thread.join()
    }

    @Test("Whoever waits is asked again after the time it has said, and not all the time")
    func again() {
        let begin = ContinuousClock.now
        let asked = Monitor(0)
        asked.wait(every: 20) { count in
            count += 1
            return count == 4 ? true : nil
        }
        let time = ContinuousClock.now - begin
        #expect(time >= .milliseconds(60) && time < .seconds(60))
    }

    @Test("A wait ends with its time, or with what is waited for")
    func untilEnd() throws {
        let count = Monitor(0)
        let end = SuspendingClock.now + .milliseconds(30)
        #expect(count.wait(until: end, for: { $0 == 1 ? true : nil }) == nil)
        #expect(SuspendingClock.now >= end)
        let thread = try WorkerThread(name: "waiter") { count.change { $0 = 1 } }
        #expect(count.wait(until: .now + .seconds(600), for: { $0 == 1 ? true : nil }) == true)
        #expect(count.wait(until: end, for: { $0 == 1 ? true : nil }) == true, "it is there already")
        thread.join()
    }

    @Test("A time beyond all clocks is waited for like none")
    func forever() throws {
        let isThere = Monitor(false)
        let thread = try WorkerThread(name: "waiter") { _ = isThere.wait(every: .max) { $0 ? true : nil } }
        isThere.change { $0 = true }
        thread.join()
    }
}
