package import SyncSystem

/// A thread of our own: workers block in system calls, which Swift's shared executor must not.
package final class WorkerThread: Sendable {
    /// Starts a thread: ``init(name:body:)``, or what a test puts in its place.
    package typealias Starter =
        @Sendable (_ name: String, _ body: @escaping @Sendable () -> Void) throws(ThreadError) -> WorkerThread

    /// Starts threads of the system.
    package static let system: Starter = { name, body throws(ThreadError) in
        try WorkerThread(name: name, body: body)
    }

    private let thread: Monitor<Bool>

    /// Starts `body` on a new thread.
    ///
    /// - Throws: ``ThreadError``; then `body` is not called (F095).
    package init(name: String, body: @escaping @Sendable () -> Void) throws(ThreadError) {
        let ended = Monitor(false)
        thread = ended
        try detachThread(name, stackSize: 1 << 20) {
            body()
            ended.change { $0 = true }
        }
    }

    /// Waits for the thread's end.
    package func join() { thread.wait { $0 ? true : nil } }
}
