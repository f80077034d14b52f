import SyncPlugins
import SyncSystem

/// One transfer for a check, and everything that came of it.
final class CheckedFetch: TransferSink {
    /// How it is asked for, and what the receiver does.
    struct Plan: Sendable {
        var range: Range<UInt64>?
        var limit: UInt64?
        /// Pauses once, then goes on.
        var pauses = false
        /// Stops when so many **bytes** were taken.
        var stopsAfter: Int?
        var isCancelled = false
    }

    private struct State {
        var bytes: [UInt8] = []
        var fault: String?
        var hasStarted = false
        var hasPaused = false
        var results: [Result<TransferReport, TransferError>] = []
    }

    private let plan: Plan
    private let start: UInt64
    private let state = Monitor(State())

    private init(_ plan: Plan) {
        self.plan = plan
        start = plan.range?.lowerBound ?? 0
    }

    // MARK: What came of it

    var bytes: [UInt8] { state.withLock { $0.bytes } }
    var report: TransferReport? { state.withLock { try? $0.results.first?.get() } }
    var error: TransferError? {
        guard case .failure(let error) = state.withLock({ $0.results.first }) else { return nil }
        return error
    }

    /// What was wrong, when the transfer was to succeed.
    var fault: String? {
        state.withLock { state in
            if let fault = state.fault { return fault }
            if state.results.count > 1 { return "its end was reported \(state.results.count) times" }
            switch state.results.first {
            case nil: return "it did not end in time"
            case .failure(let error): return "it failed: \(error)"
            case .success: return nil
            }
        }
    }

    // MARK: Running

    static func run(
        _ transport: any Transport, _ subject: TransportSubject, _ patience: Duration, _ plan: Plan = Plan()
    ) -> CheckedFetch {
        let fetch = CheckedFetch(plan)
        fetch.begin(transport, subject, number: 1)
        fetch.end(transport, number: 1, patience)
        transport.shutdown()
        return fetch
    }

    static func several(_ count: Int, _ transport: any Transport, _ subject: TransportSubject, _ patience: Duration)
        -> [CheckedFetch]
    {
        let all = (0..<count).map { _ in CheckedFetch(Plan()) }
        for (index, fetch) in all.enumerated() { fetch.begin(transport, subject, number: UInt64(index)) }
        for (index, fetch) in all.enumerated() { fetch.end(transport, number: UInt64(index), patience) }
        transport.shutdown()
        return all
    }

    private func begin(_ transport: any Transport, _ subject: TransportSubject, number: UInt64) {
        let id = TransferID(rawValue: number)
        if plan.isCancelled { transport.cancel(id) }
        let request = TransferRequest(
            id: id, urls: [subject.url], range: plan.range,
            limit: plan.limit ?? plan.range.map { $0.upperBound - $0.lowerBound } ?? subject.bytes.map {
                UInt64($0.count)
            } ?? 1 << 30)
        transport.start(request, sink: self) { [self] result in state.change { $0.results.append(result) } }
    }

    private func end(_ transport: any Transport, number: UInt64, _ patience: Duration) {
        let end = SuspendingClock.now + min(patience, .seconds(86_400))
        // One that ends without having paused is not waited for.
        let hasPaused = { (state: inout State) -> Bool? in state.hasPaused ? true : state.results.isEmpty ? nil : false
        }
        if plan.pauses, state.wait(until: end, for: hasPaused) == true {
            transport.resume(TransferID(rawValue: number))
        }
        state.wait(until: end) { $0.results.first }
    }

    // MARK: TransferSink

    func begin(_ response: ResponseHead) -> UInt64 {
        state.withLock { state in
            state.hasStarted = true
            if !state.results.isEmpty { state.fault = "a body began after the end" }
            return start + UInt64(state.bytes.count)
        }
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        state.change { state in
            if !state.hasStarted { state.fault = "bytes came before the answer began" }
            if !state.results.isEmpty { state.fault = "bytes came after the end" }
            if bytes.isEmpty { state.fault = "an empty piece came" }
            guard offset == start + UInt64(state.bytes.count) else {
                state.fault = "bytes came for offset \(offset) instead of \(start + UInt64(state.bytes.count))"
                return .stop
            }
            if plan.pauses, !state.hasPaused {
                state.hasPaused = true
                return .paused
            }
            if let stop = plan.stopsAfter, state.bytes.count >= stop { return .stop }
            if let stop = plan.stopsAfter {
                // So that one piece is not everything.
                state.bytes.append(contentsOf: bytes.prefix(stop))
                return .stop
            }
            state.bytes.append(contentsOf: bytes)
            return .taken
        }
    }
}
