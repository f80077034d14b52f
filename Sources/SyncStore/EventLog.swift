import SyncSystem

/// Buffers a session's events and records many in one row: 20,000 files cost some tens of rows.
///
/// Any thread may add; order is the order of ``add(_:time:)``. Events that have not been flushed when the process is
/// killed are lost, so flush before reporting anything as durable.
package final class EventLog: Sendable {
    private struct State {
        var lines: [[UInt8]] = []
        var bytes = 0
        var time: Int64 = 0
        /// The first failure since which not everything has been recorded.
        var failure: StoreError?
        /// Whether events were discarded.
        var hasLost = false
        /// How much was buffered when the store last refused it.
        var refused = (lines: 0, bytes: 0)

        /// The lines of a row.
        typealias Batch = (lines: [[UInt8]], bytes: Int, time: Int64)

        /// Removes and returns everything buffered.
        mutating func takeAll() -> Batch {
            defer { (lines, bytes, refused) = ([], 0, (0, 0)) }
            return (lines, bytes, time)
        }

        /// Puts a batch that could not be recorded before what has been added since.
        mutating func putBack(_ batch: Batch) {
            lines = batch.lines + lines
            bytes += batch.bytes
        }

        /// Notes that the batch taken out has been recorded.
        mutating func recorded() { if !hasLost { failure = nil } }
    }

    private let store: SyncStore
    package let session: String
    private let maximumLines: Int
    private let maximumBytes: Int
    /// The number of rows' worth of events that are kept while the store refuses them.
    private static let keptRows = 64
    private let state = Mutex(State())
    /// Held while a row is written, which may take long, so that rows keep their order. Events are buffered meanwhile.
    private let writing = Mutex(())

    /// - Parameters:
    ///   - store: The store of the events.
    ///   - session: The events' session, which must be in the store at the first flush.
    ///   - maximumLines: The lines of a row …
    ///   - maximumBytes: … or its **bytes**, whichever is reached first.
    package init(store: SyncStore, session: String, maximumLines: Int = 512, maximumBytes: Int = 256 << 10) {
        (self.store, self.session) = (store, session)
        self.maximumLines = max(1, maximumLines)
        self.maximumBytes = maximumBytes
    }

    /// Adds one event, and writes a row if there are enough. A failure is kept for ``flush(synced:)``.
    ///
    /// - Parameter line: A JSON line, UTF-8, without a newline.
    package func add(_ line: [UInt8], time: Int64) { if gather(line, time: time) { record() } }

    /// Adds one event; never waits for the store.
    ///
    /// - Parameter line: A JSON line, UTF-8, without a newline.
    /// - Returns: Whether there is a row's worth for ``record()``.
    package func gather(_ line: [UInt8], time: Int64) -> Bool {
        state.withLock { state in
            state.lines.append(line)
            state.bytes += line.count
            state.time = time
            // After a refusal, the store is tried again with the next row's worth, not with each line.
            let (lines, bytes) = (state.lines.count - state.refused.lines, state.bytes - state.refused.bytes)
            return lines >= maximumLines || bytes >= maximumBytes
        }
    }

    /// Lets the caller record the buffered events, in a transaction of its own. If that fails, they are kept.
    package func take(_ record: ([[UInt8]]) throws(StoreError) -> Void) throws(StoreError) {
        try writing.withLock { (_) throws(StoreError) in
            let batch = state.withLock { $0.takeAll() }
            do throws(StoreError) { try record(batch.lines) } catch {
                state.withLock { $0.putBack(batch) }
                throw error
            }
            state.withLock { $0.recorded() }
        }
    }

    /// Records the buffered events; a failure is kept for ``flush(synced:)``.
    package func record() { writing.withLock { _ in write() } }

    /// Records the buffered events.
    ///
    /// - Parameter synced: Whether a power cut must not take them either, nor anything recorded before.
    /// - Throws: ``StoreError``, the first since the last flush, unless everything is recorded now. Events that the
    ///   store refuses are kept for the next attempt, up to a bound.
    package func flush(synced: Bool = false) throws(StoreError) {
        record()
        let failure = state.withLock { state -> StoreError? in
            defer { (state.failure, state.hasLost) = (nil, false) }
            return state.failure
        }
        if let failure { throw failure }
        if synced { try store.synchronize() }
    }

    private func write() {
        let batch = state.withLock { $0.takeAll() }
        guard !batch.lines.isEmpty else { return }
        do throws(StoreError) {
            try store.append(batch.lines, to: session, time: batch.time)
            state.withLock { $0.recorded() }
        } catch {
            state.withLock { state in
                state.failure = state.failure ?? error
                state.putBack(batch)
                state.refused = (batch.lines.count, batch.bytes)
                guard state.bytes / Self.keptRows >= maximumBytes else { return }
                state.hasLost = true
                _ = state.takeAll()
            }
        }
    }
}

/// Compresses stored events. It is passed in, so that the store needs no compressor of its own.
///
/// `compress` returns `nil` if compression fails or does not pay; the bytes are then stored as they are. `decompress`
/// returns `nil` for bytes that `compress` did not produce; its second argument is their original length.
package typealias EventCompression = (
    compress: @Sendable (_ bytes: [UInt8]) -> [UInt8]?,
    decompress: @Sendable (_ bytes: [UInt8], _ length: Int) -> [UInt8]?
)
