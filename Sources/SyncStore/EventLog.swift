import SyncSystem

/// Gathers a session's events and records many in one row: 20,000 files cost some tens of rows.
///
/// Any thread may add; order is the order of ``add(_:time:)``. What has not been flushed when the process is
/// killed is lost, so flush before telling anyone of something durable.
package final class EventLog: Sendable {
    private struct State {
        var lines: [[UInt8]] = []
        var bytes = 0
        var time: Int64 = 0
        /// The first failure that nothing has made good.
        var failure: StoreError?
        /// Whether events were given up.
        var hasLost = false
        /// What had been gathered when the store refused it.
        var refused = (lines: 0, bytes: 0)

        /// Lines that are gathered for a row.
        typealias Batch = (lines: [[UInt8]], bytes: Int, time: Int64)

        /// Takes out everything that has been gathered.
        mutating func takeAll() -> Batch {
            defer { (lines, bytes, refused) = ([], 0, (0, 0)) }
            return (lines, bytes, time)
        }

        /// What could not be recorded comes before what has come since.
        mutating func putBack(_ batch: Batch) {
            lines = batch.lines + lines
            bytes += batch.bytes
        }

        /// What was taken has been recorded.
        mutating func recorded() { if !hasLost { failure = nil } }
    }

    private let store: SyncStore
    package let session: String
    private let maximumLines: Int
    private let maximumBytes: Int
    /// So many rows' worth of events are kept while the store takes none.
    private static let keptRows = 64
    private let state = Mutex(State())
    /// Held while a row is written, which can take long, so that rows keep their order. Events are gathered meanwhile.
    private let writing = Mutex(())

    /// - Parameters:
    ///   - store: Where events go.
    ///   - session: Whose they are; it must be in the store at the first flush.
    ///   - maximumLines: A row takes this many lines …
    ///   - maximumBytes: … or this many **bytes**, whichever is first.
    package init(store: SyncStore, session: String, maximumLines: Int = 512, maximumBytes: Int = 256 << 10) {
        (self.store, self.session) = (store, session)
        self.maximumLines = max(1, maximumLines)
        self.maximumBytes = maximumBytes
    }

    /// Adds one event; sometimes writes a row. A failure is kept for ``flush()``.
    ///
    /// - Parameter line: A JSON line, UTF-8, without a newline.
    package func add(_ line: [UInt8], time: Int64) { if gather(line, time: time) { record() } }

    /// Adds one event, and never waits for the store.
    ///
    /// - Parameter line: A JSON line, UTF-8, without a newline.
    /// - Returns: Whether there is a row's worth to ``record()``.
    package func gather(_ line: [UInt8], time: Int64) -> Bool {
        state.withLock { state in
            state.lines.append(line)
            state.bytes += line.count
            state.time = time
            // What the store has refused is tried again with the next row, not with each line.
            let (lines, bytes) = (state.lines.count - state.refused.lines, state.bytes - state.refused.bytes)
            return lines >= maximumLines || bytes >= maximumBytes
        }
    }

    /// Has the caller record what has been gathered, in a transaction of its own. If that fails, it is kept.
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

    /// Records what has been gathered; a failure is kept for ``flush()``.
    package func record() { writing.withLock { _ in write() } }

    /// Records what has been gathered.
    ///
    /// - Parameter synced: Whether a power cut must not take it either, nor anything recorded before.
    /// - Throws: ``StoreError``, the first since the last flush, unless everything is recorded now. Events that the store
    ///   refuses are kept for the next attempt, up to a bound.
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

/// Makes stored events smaller; given from outside, so that the store needs no compressor of its own.
///
/// `compress` gives `nil` where it does not pay or does not work; the bytes are then kept as they are. `decompress` gives `nil`
/// for bytes that the other did not make; its second argument is their length.
package typealias EventCompression = (
    compress: @Sendable (_ bytes: [UInt8]) -> [UInt8]?,
    decompress: @Sendable (_ bytes: [UInt8], _ length: Int) -> [UInt8]?
)
