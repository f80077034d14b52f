public import SyncModel

/// The events of a session after a cursor, in order, without gaps or duplicates.
///
/// It uses one connection, reads only as fast as its consumer, and reconnects where it stopped when
/// an agent ends and another starts. One event `events.pruned` stands for numbers that are no longer kept.
public struct SessionEvents: AsyncSequence, Sendable {
    /// One event.
    public typealias Element = SessionEvent

    let client: ControlClient
    let session: String
    let cursor: Int64
    let isFollowing: Bool
    let withProgress: Bool
    /// How many times it tries to reach an agent that is gone, half a second apart.
    private static let patience = 120

    /// Starts at the cursor; nothing is sent before the first event is requested.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// Iterates over the events.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let sequence: SessionEvents
        private var cursor: Int64
        private var stream: LineStream?
        private var failures = 0

        init(_ sequence: SessionEvents) {
            self.sequence = sequence
            cursor = sequence.cursor
        }

        /// The next event; `nil` after the last one, unless the sequence follows.
        ///
        /// - Throws: `ControlError`, with code `unreachable` if no agent answers for too long, and with `notFound` if
        ///   the session has no event with the cursor's number, such as after a power cut: read again from 0;
        ///   `CancellationError`.
        public mutating func next() async throws -> SessionEvent? {
            while true {
                try Task.checkCancellation()
                let line: String?
                do {
                    line = try await connected().next()
                    failures = 0
                } catch let error as ControlError where error.code == .unreachable || error.code == .stopping {
                    failures += 1
                    guard failures <= SessionEvents.patience else { throw error }
                    try await reconnect()
                    continue
                }
                if let line {
                    if let event = try take(line) { return event }
                } else {
                    // The agent ended the stream properly: there are no more events, or the agent stops.
                    guard sequence.isFollowing else { return nil }
                    try await reconnect()
                }
            }
        }

        private mutating func reconnect() async throws {
            stream = nil
            try await Task.sleep(for: .milliseconds(500))
        }

        private mutating func connected() -> LineStream {
            if let stream { return stream }
            let session = ControlClient.encoded(sequence.session)
            let options = (sequence.isFollowing ? "&follow=1" : "") + (sequence.withProgress ? "&progress=1" : "")
            let new = LineStream(sequence.client, "/v1/sessions/\(session)/events?since=\(cursor)\(options)")
            stream = new
            return new
        }

        private mutating func take(_ text: String) throws -> SessionEvent? {
            guard let event = SessionEvent(text) else {
                throw ControlError(body: Array(text.utf8))
                    ?? ControlError(
                        .internal, "The agent sent a line that is not an event.", exitStatus: .internalError)
            }
            guard let number = event.sequence else { return event }
            // Already returned before the connection broke.
            guard number > cursor else { return nil }
            cursor = number
            return event
        }
    }
}

extension SessionEvent {
    /// Parses a line of an event stream; `nil` if it is not an event.
    init?(_ line: String) {
        struct Fields: Decodable {
            let seq: Int64?
            let event: String
            let run: String?
            let time: WallTime?
        }
        guard let fields = try? Fields(json: Array(line.utf8)) else { return nil }
        self.init(json: line)
        guard sequence == fields.seq else { return nil }
    }

    /// Decodes further fields of the event; camelCase properties match snake_case keys.
    ///
    /// - Throws: `DecodingError`.
    public func fields<Value: Decodable>(_ type: Value.Type) throws -> Value { try Value(json: Array(json.utf8)) }
}
