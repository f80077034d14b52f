import SyncControl
public import SyncModel

/// How a run ended.
public struct RunCompletion: Sendable, Equatable, Decodable {
    /// The run.
    public let run: String
    /// What it came to.
    public let result: RunResult
    /// What became of its files.
    public let files: FileCounts
    /// **Bytes** of its files and on the network.
    public let bytes: ByteCounts
}

/// The ends of a session's runs; ``AgentSession/completions(_:)`` makes it.
public struct RunCompletions: AsyncSequence, Sendable {
    /// One end of a run.
    public typealias Element = RunCompletion

    let events: SessionEvents
    let cursor: CursorFile

    /// Begins where the cursor was when this was made.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(events: events.makeAsyncIterator(), cursor: cursor)
    }

    /// Walks through the ends.
    public struct AsyncIterator: AsyncIteratorProtocol {
        var events: SessionEvents.AsyncIterator
        let cursor: CursorFile
        private var dealtWith: Int64?

        init(events: SessionEvents.AsyncIterator, cursor: CursorFile) {
            self.events = events
            self.cursor = cursor
        }

        /// The next end; remembers first that the one before has been dealt with.
        ///
        /// - Throws: As ``SessionEvents/AsyncIterator/next()``; `ControlError` when the cursor cannot be kept.
        public mutating func next() async throws -> RunCompletion? {
            if let number = dealtWith.take() { try cursor.write(number) }
            while let event = try await events.next() {
                guard event.name == "pull.finished", let number = event.sequence else { continue }
                dealtWith = number
                return try event.fields(RunCompletion.self)
            }
            return nil
        }
    }
}
