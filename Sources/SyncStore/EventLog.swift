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
        var failure: StoreError?
    }

    private let store: SyncStore
    private let session: String
    private let maximumLines: Int
    private let maximumBytes: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - store: Where events go.
    ///   - session: Whose they are; it must be in the store at the first flush.
    ///   - maximumLines: A row takes this many lines …
    ///   - maximumBytes: … or this many **bytes**, whichever is first.
    package init(store: SyncStore, session: String, maximumLines: Int = 512, maximumBytes: Int = 256 << 10) {
        self.store = store
        self.session = session
        self.maximumLines = max(1, maximumLines)
        self.maximumBytes = maximumBytes
    }

    /// Adds one event; sometimes writes a row. A failure is kept for ``flush()``.
    ///
    /// - Parameter line: A JSON line, UTF-8, without a newline.
    package func add(_ line: [UInt8], time: Int64) {
        state.withLock { state in
            state.lines.append(line)
            state.bytes += line.count
            state.time = time
            if state.lines.count >= maximumLines || state.bytes >= maximumBytes { write(&state) }
        }
    }

    /// Takes what has been gathered, to be recorded by the caller in a transaction of its own.
    package func take() -> [[UInt8]] {
        state.withLock { state in
            defer {
                state.lines = []
                state.bytes = 0
            }
            return state.lines
        }
    }

    /// Records what has been gathered; a failure is kept for ``flush()``.
    package func settle() { state.withLock { write(&$0) } }

    /// Records what has been gathered.
    ///
    /// - Throws: ``StoreError``, the first since the last flush; the events of a failed row are lost.
    package func flush() throws(StoreError) {
        let failure = state.withLock { state -> StoreError? in
            write(&state)
            defer { state.failure = nil }
            return state.failure
        }
        if let failure { throw failure }
    }

    private func write(_ state: inout State) {
        guard !state.lines.isEmpty else { return }
        do throws(StoreError) {
            try store.append(state.lines, to: session, time: state.time)
        } catch {
            state.failure = state.failure ?? error
        }
        state.lines = []
        state.bytes = 0
    }
}

/// Makes stored events smaller; given from outside, so that the store needs no compressor of its own.
package struct EventCompression: Sendable {
    /// `nil` where it does not pay or does not work; the bytes are then kept as they are.
    package var compress: @Sendable (_ bytes: [UInt8]) -> [UInt8]?
    /// `nil` for bytes that ``compress`` did not make.
    package var decompress: @Sendable (_ bytes: [UInt8], _ limit: Int) -> [UInt8]?

    package init(
        compress: @escaping @Sendable (_ bytes: [UInt8]) -> [UInt8]?,
        decompress: @escaping @Sendable (_ bytes: [UInt8], _ limit: Int) -> [UInt8]?
    ) {
        self.compress = compress
        self.decompress = decompress
    }
}
