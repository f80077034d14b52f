public import SyncControl
import SyncModel

/// The tasks of a session's latest run, in the order of their paths.
///
/// Nothing is sent before the first is asked for; only a bounded piece is held, however many there are.
public struct SessionTasks: AsyncSequence, Sendable {
    /// One task.
    public typealias Element = TaskStatus

    let call: AgentCall

    /// Begins to ask.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(call) }

    /// Walks through the tasks.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let call: AgentCall
        private var stream: LineStream?
        private var waiting: [String] = []

        init(_ call: AgentCall) { self.call = call }

        /// The next task; `nil` after the last.
        ///
        /// - Throws: `ControlError`; `CancellationError`.
        public mutating func next() async throws -> TaskStatus? {
            let stream = stream ?? LineStream(call)
            self.stream = stream
            while true {
                if let text = waiting.popLast() { return try Self.task(text) }
                guard let lines = try await stream.next() else { return nil }
                waiting = lines.reversed()
            }
        }

        private static func task(_ text: String) throws -> TaskStatus {
            let bytes = Array(text.utf8)
            if let error = try? ControlJSON.decode(ErrorAnswer.self, from: bytes) { throw error.value }
            return try ControlJSON.decode(TaskStatus.self, from: bytes)
        }
    }
}
