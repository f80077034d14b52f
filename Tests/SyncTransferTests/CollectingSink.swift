import Glibc
import SyncModel
import SyncPlugins
import SyncTransfer
import Synchronization

/// Keeps what it gets; can pause or stop on the way.
final class CollectingSink: TransferSink {
    struct State {
        var bytes: [UInt8] = []
        var start: UInt64
        var begins: [ResponseHead] = []
        var pauses = 0
        var outOfOrder = false
    }
    private let state: Mutex<State>
    private let rule: @Sendable (inout State, Int) -> SinkOutcome

    /// - Parameter rule: Decides about a chunk of so many bytes before it is taken.
    init(from start: UInt64 = 0, rule: @escaping @Sendable (inout State, Int) -> SinkOutcome = { _, _ in .taken }) {
        state = Mutex(State(start: start))
        self.rule = rule
    }

    var bytes: [UInt8] { state.withLock { $0.bytes } }
    var begins: [ResponseHead] { state.withLock { $0.begins } }
    var pauses: Int { state.withLock { $0.pauses } }
    var outOfOrder: Bool { state.withLock { $0.outOfOrder } }

    func begin(_ response: ResponseHead) -> UInt64 {
        state.withLock {
            $0.begins.append(response)
            return $0.start + UInt64($0.bytes.count)
        }
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        state.withLock { state in
            let outcome = rule(&state, bytes.count)
            switch outcome {
            case .taken:
                if offset != state.start + UInt64(state.bytes.count) { state.outOfOrder = true }
                state.bytes += bytes
            case .paused: state.pauses += 1
            case .stop: break
            }
            return outcome
        }
    }
}

/// Events in the order they came.
final class EventLog: Sendable {
    private let list = Mutex<[TransferEvent]>([])
    var events: [TransferEvent] { list.withLock { $0 } }
    func add(_ event: TransferEvent) { list.withLock { $0.append(event) } }

    /// `status from to` of each redirect.
    var redirects: [String] {
        events.compactMap { if case .redirected(_, let status, _, let to, let hop) = $0 { "\(status) \(hop) \(to)" } else { nil } }
    }
}

/// A transport whose waits are short enough for tests.
func makeTransport(
    log: EventLog = EventLog(),
    _ change: (inout TransportConfiguration) -> Void = { _ in }
) throws -> CurlTransport {
    var configuration = TransportConfiguration(
        clock: testClock,
        random: { 1 << 62 },
        events: { log.add($0) }
    )
    configuration.retry.base = .milliseconds(20)
    configuration.retry.connectivityCap = .milliseconds(50)
    configuration.idleTimeout = .milliseconds(400)
    configuration.connectTimeout = .seconds(2)
    configuration.resourceDeadline = .seconds(20)
    change(&configuration)
    return try CurlTransport(configuration: configuration)
}

let testClock = TransportClock(
    now: {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    },
    unixTime: { Int64(time(nil)) }
)

extension Transport {
    /// Runs one transfer to its end.
    func run(_ request: TransferRequest, sink: any TransferSink) async -> Result<TransferReport, TransferError> {
        await withCheckedContinuation { continuation in
            start(request, sink: sink) { continuation.resume(returning: $0) }
        }
    }
}

extension TransferRequest {
    init(_ url: String, id: UInt64 = 1, range: Range<UInt64>? = nil, size: Int? = nil) {
        self.init(
            id: TransferID(rawValue: id),
            urls: [url],
            range: range,
            objectSize: size.map(UInt64.init),
            limit: 1 << 40
        )
    }
}

/// Bytes that differ from their neighbours, so that a shift is seen.
func sampleBytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
    return (0..<count).map { _ in
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return UInt8(truncatingIfNeeded: state)
    }
}
