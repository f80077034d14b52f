import SyncModel
import SyncPlugins
import SyncSystem

/// One slice on its way from the origin, for all answers that need it meanwhile. Bytes are verified as they arrive;
/// verified ones can be read at once.
///
/// Slices of a few MiB are held in memory until they are kept, larger ones in a file of the store.
final class Flight: TransferSink {
    enum End: Sendable {
        /// All of it is verified; it is in the store if there was room.
        case proved
        /// The bytes are not what its name says.
        case wrong
        case failed(TransferError)
        /// The store could not write it.
        case unwritten
    }

    /// The result of a read at a position.
    enum Progress: Sendable {
        case bytes([UInt8], isProven: Bool)
        case ended(End)
        /// The reader's task was cancelled.
        case stopped
    }

    private struct State {
        /// The bytes, unless they are in the file.
        var memory: [UInt8] = []
        /// The offset of the next **byte** to arrive.
        var filled: UInt64
        /// Everything before this offset is verified.
        var proven: UInt64
        var isWrong = false
        var trouble: Errno?
        var end: End?
    }

    let slice: CacheStore.Slice
    /// The file of a slice that is too large for memory.
    private let file: UnfinishedFile?
    /// Whether bytes can be read before all of the slice is verified: those of a whole object, of which a reader's last
    /// ones wait.
    let givesUnproven: Bool
    /// Called when the server gives whole objects only.
    private let isRangeless: @Sendable () -> Void
    private let verifier: Mutex<SliceVerifier>
    private let state: Mutex<State>
    private let waiters = Waiters()

    /// - Parameter file: The file of a slice that is too large for memory.
    init(
        _ slice: CacheStore.Slice, _ check: SliceCheck, file: UnfinishedFile?,
        isRangeless: @escaping @Sendable () -> Void
    ) throws {
        (self.slice, self.file, self.isRangeless) = (slice, file, isRangeless)
        givesUnproven = if case .whole = check { true } else { false }
        verifier = Mutex(try SliceVerifier(check, from: slice.start))
        state = Mutex(State(filled: slice.start, proven: slice.start))
    }

    // MARK: The transport's thread

    func begin(_ response: ResponseHead) -> UInt64 {
        if response.status == 200, slice.start > 0 { isRangeless() }
        return state.withLock(\.filled)
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        let piece = Array(bytes)
        let (isRight, proven) = verifier.withLock { verifier -> (Bool, UInt64) in
            (piece.withUnsafeBytes { verifier.take($0) }, verifier.proven)
        }
        let isGood = state.withLock { state -> Bool in
            guard isRight, offset == state.filled else {
                // The verified bytes of it stay good.
                state.proven = max(state.proven, proven)
                state.isWrong = true
                return false
            }
            if let file {
                if let code = writeAll(bytes, to: file.descriptor.raw, at: offset - slice.start) {
                    state.trouble = code
                    return false
                }
            } else {
                if state.memory.isEmpty { state.memory.reserveCapacity(Int(slice.length)) }
                state.memory.append(contentsOf: piece)
            }
            state.filled += UInt64(bytes.count)
            state.proven = proven
            return true
        }
        waiters.wake()
        return isGood ? .taken : .stop
    }

    /// The outcome of the transfer, for ``finish(_:)``.
    func outcome(_ result: Result<TransferReport, TransferError>) -> End {
        let (isWrong, trouble, isFull) = state.withLock { ($0.isWrong, $0.trouble, $0.filled == slice.end) }
        if trouble != nil { return .unwritten }
        if isWrong { return .wrong }
        if case .failure(let error) = result { return .failed(error) }
        guard isFull, verifier.withLock({ $0.end(at: slice.end) }) else { return .wrong }
        return .proved
    }

    /// Whether all of it has arrived and was right.
    var isProved: Bool { state.withLock { if case .proved? = $0.end { true } else { false } } }

    /// Why the store could not take it.
    var trouble: Errno? { state.withLock(\.trouble) }

    /// The offset of the first byte that is not verified.
    var firstUnproven: UInt64 { state.withLock(\.proven) }

    /// The bytes, for the store, once they are verified.
    var content: (bytes: [UInt8]?, file: UnfinishedFile?) {
        (file == nil ? state.withLock(\.memory) : nil, file)
    }

    /// Frees the memory; readers get the rest from elsewhere.
    func release() { state.withLock { $0.memory = [] } }

    /// Ends the flight, and wakes its readers.
    func finish(_ end: End) {
        state.withLock { state in
            state.end = end
            if case .proved = end { state.proven = slice.end }
        }
        waiters.wake()
    }

    // MARK: Readers

    /// Waits for bytes at an offset of the object.
    ///
    /// - Parameters:
    ///   - most: Most **bytes** at a time.
    ///   - hold: Bytes from here on are given only when they are verified.
    func bytes(at offset: UInt64, atMost most: UInt64, holding hold: UInt64) async -> Progress {
        while true {
            let found = state.withLock { state -> Progress? in
                let ready = readable(state, holding: hold)
                if ready > offset {
                    let range = offset..<min(ready, offset + most)
                    if let bytes = read(range, state.memory) {
                        return .bytes(bytes, isProven: range.upperBound <= state.proven)
                    }
                    return .ended(.unwritten)
                }
                return state.end.map { .ended($0) }
            }
            if let found { return found }
            let isThere = await waiters.wait {
                self.state.withLock { self.readable($0, holding: hold) > offset || $0.end != nil }
            }
            guard isThere else { return .stopped }
        }
    }

    /// Everything before this offset can be read.
    private func readable(_ state: State, holding hold: UInt64) -> UInt64 {
        let givesMore = givesUnproven && !state.isWrong && state.end == nil
        return min(slice.end, givesMore ? max(state.proven, min(state.filled, hold)) : state.proven)
    }

    private func read(_ range: Range<UInt64>, _ memory: [UInt8]) -> [UInt8]? {
        let (start, end) = (range.lowerBound - slice.start, range.upperBound - slice.start)
        if let file { return readBytes(file.descriptor.raw, start, Int(end - start)) }
        return end <= UInt64(memory.count) ? Array(memory[Int(start)..<Int(end)]) : nil
    }
}

/// Exactly these **bytes** of a file; `nil` where it is shorter or cannot be read.
func readBytes(_ file: Int32, _ offset: UInt64, _ count: Int) -> [UInt8]? {
    var read = -1
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
        read = readFully(file, into: UnsafeMutableRawBufferPointer(buffer), at: offset)
        used = max(0, read)
    }
    return read == count ? bytes : nil
}
