import SyncControl
import SyncModel

/// The events of a session after a cursor, in order, without a gap and without a repeat.
///
/// It holds no more than one connection, reads only as fast as it is asked, and connects anew where it stopped when
/// an agent ends and another starts. Numbers that are no longer kept are told of by one event `events.pruned`.
public struct SessionEvents: AsyncSequence, Sendable {
    /// One event.
    public typealias Element = SessionEvent

    let client: ControlClient
    let session: String
    let cursor: Int64
    let isFollowing: Bool
    let withProgress: Bool
    /// How often it tries to reach an agent that has gone, half a second apart.
    let patience: Int

    /// Begins at the cursor; nothing is sent before the first event is asked for.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// Walks through the events.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let sequence: SessionEvents
        private var cursor: Int64
        private var stream: LineStream?
        private var waiting: [String] = []
        private var failures = 0

        init(_ sequence: SessionEvents) {
            self.sequence = sequence
            cursor = sequence.cursor
        }

        /// The next event; `nil` after the last, unless it follows.
        ///
        /// - Throws: `ControlError`, `unreachable` among them when no agent answers for too long;
        ///   `CancellationError`.
        public mutating func next() async throws -> SessionEvent? {
            while true {
                while let text = waiting.popLast() {
                    if let event = try take(text) { return event }
                }
                try Task.checkCancellation()
                do {
                    guard let lines = try await connected().next() else {
                        stream = nil
                        // The agent ended the stream in good order: there is no more, or it stops.
                        guard sequence.isFollowing else { return nil }
                        try await pause()
                        continue
                    }
                    failures = 0
                    waiting = lines.reversed()
                } catch let error as ControlError where error.code == .unreachable || error.code == .stopping
                {
                    stream = nil
                    failures += 1
                    guard failures <= sequence.patience else { throw error }
                    try await pause()
                }
            }
        }

        private mutating func connected() -> LineStream {
            if let stream { return stream }
            let new = sequence.client.lines(
                of: sequence.session,
                since: cursor,
                follow: sequence.isFollowing,
                progress: sequence.withProgress
            )
            stream = new
            return new
        }

        private func pause() async throws { try await rest(milliseconds: 500) }

        private mutating func take(_ text: String) throws -> SessionEvent? {
            let line = EventLine(text)
            if let number = line.sequence {
                // Seen already: the connection broke between a line and its acknowledgement, which there is none of.
                guard number > cursor else { return nil }
                cursor = number
            }
            if let event = SessionEvent(line) { return event }
            let answer = try ControlJSON.decode(ErrorAnswer.self, from: Array(text.utf8))
            throw answer.value
        }
    }
}
