package import SyncPlugins
import SyncSystem

/// Checks a transport with an existing object. ``SyncTestKit``'s `TransportContract` checks it against servers that
/// misbehave; these rules apply to any server.
///
/// - Parameters:
///   - url: The URL of an object that can be fetched repeatedly, of at least 1,000 **bytes**, preferably several
///     hundred thousand.
///   - object: The object's bytes, if known.
///   - missing: A similar URL at which nothing exists.
///   - patience: Longest time for one transfer.
///   - make: Makes a transport for each rule, which shuts it down.
package func check(
    transport url: String, holding object: [UInt8]? = nil, missing: String? = nil, patience: Duration = .seconds(60),
    make: () -> any Transport
) -> [CheckResult] {
    var book: [CheckResult] = []
    let plan = CheckedFetch.Plan(url: url, limit: object.map { UInt64($0.count) } ?? 1 << 30)
    func fetch(_ change: (inout CheckedFetch.Plan) -> Void = { _ in }) -> CheckedFetch {
        var plan = plan
        change(&plan)
        return CheckedFetch.run(1, make(), plan, patience)[0]
    }
    let whole = fetch()
    let known = object ?? whole.bytes
    book.rule(
        "An object arrives whole, in order, and is reported once",
        "Write the whole body, then close the pipe, then answer."
    ) {
        if let fault = whole.fault { return fault }
        if let object, object != whole.bytes { return "its bytes differ from the object's" }
        guard let report = whole.report else { return "no report" }
        return report.bytesReceived < UInt64(whole.bytes.count) ? "it reported \(report.bytesReceived) bytes" : nil
    }
    guard whole.fault == nil, known.count >= 1_000 else {
        book.rule("The object is suitable for the other rules", "Give the URL of an object of at least 1,000 bytes.") {
            whole.fault == nil ? "it has \(known.count) bytes" : "it could not be fetched"
        }
        return book
    }
    let size = UInt64(known.count)
    let middle = (size / 3)..<(size / 3 * 2)

    func deliver(_ wanted: ArraySlice<UInt8>, _ change: (inout CheckedFetch.Plan) -> Void) -> String? {
        let fetched = fetch(change)
        return fetched.fault ?? (fetched.bytes.elementsEqual(wanted) ? nil : "other bytes arrived than asked for")
    }
    book.rule("A part arrives alone, at its offset", "Honour 'range', or report status 200 and send everything.") {
        deliver(known[Int(middle.lowerBound)..<Int(middle.upperBound)]) { $0.range = middle }
    }
    book.rule("The first and the last byte can be fetched alone", "'range' is half open: [0, 1] is one byte.") {
        deliver(known.prefix(1)) { $0.range = 0..<1 } ?? deliver(known.suffix(1)) { $0.range = (size - 1)..<size }
    }
    book.rule("A pause holds bytes back, and all arrive after it", "A blocked write is not an error.") {
        deliver(known[...]) { $0.pauses = true }
    }
    func end(_ code: TransferError.Code, most: Int = .max, _ change: (inout CheckedFetch.Plan) -> Void) -> String? {
        let fetched = fetch(change)
        if fetched.bytes.count > most { return "\(fetched.bytes.count) bytes arrived" }
        return fetched.error?.code == code ? nil : "it ended with \(fetched.error?.code.name ?? "success")"
    }
    book.rule("No byte beyond the limit arrives", "Nothing to do for a plugin: the excess is cut off.") {
        end(.tooLarge, most: 500) { $0.limit = 500 }
    }
    book.rule("A receiver that stops ends the transfer", "A closed pipe (EPIPE) is not an error.") {
        end(.stoppedBySink) { $0.stopsAfter = 1 }
    }
    book.rule("A cancelled transfer ends soon", "Answer after $/cancelRequest.") {
        end(.cancelled) { $0.isCancelled = true }
    }
    book.rule("Sixteen transfers at a time arrive whole", "Handle several at a time, or report 'concurrency': 1.") {
        let all = CheckedFetch.run(16, make(), plan, patience)
        return all.compactMap(\.fault).first ?? (all.allSatisfy { $0.bytes == known } ? nil : "other bytes arrived")
    }
    if let missing {
        book.rule("A missing object is a failure without a byte", "Answer an error with data.code 'status-404'.") {
            let fetched = fetch {
                $0.url = missing
                $0.limit = 1 << 30
            }
            if !fetched.bytes.isEmpty { return "\(fetched.bytes.count) bytes arrived" }
            return fetched.error == nil ? "it succeeded" : nil
        }
    }
    return book
}

/// One transfer for a check, with everything that came of it.
final class CheckedFetch: TransferSink {
    /// The request, and the behaviour of the receiver.
    struct Plan: Sendable {
        var url: String
        /// Most **bytes**, unless there is a range.
        var limit: UInt64
        var range: Range<UInt64>?
        /// Pauses once, then resumes.
        var pauses = false
        /// Stops after this many **bytes**.
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

    /// The fault of a transfer that should succeed.
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

    /// Runs several transfers at once, then shuts the transport down.
    static func run(_ count: Int, _ transport: any Transport, _ plan: Plan, _ patience: Duration) -> [CheckedFetch] {
        let all = (0..<count).map { _ in CheckedFetch(plan) }
        for (index, fetch) in all.enumerated() { fetch.begin(transport, number: UInt64(index)) }
        for (index, fetch) in all.enumerated() { fetch.end(transport, number: UInt64(index), patience) }
        transport.shutdown()
        return all
    }

    private func begin(_ transport: any Transport, number: UInt64) {
        let id = TransferID(rawValue: number)
        if plan.isCancelled { transport.cancel(id) }
        let request = TransferRequest(
            id: id, urls: [plan.url], range: plan.range,
            limit: plan.range.map { $0.upperBound - $0.lowerBound } ?? plan.limit)
        transport.start(request, sink: self) { [self] result in state.change { $0.results.append(result) } }
    }

    private func end(_ transport: any Transport, number: UInt64, _ patience: Duration) {
        let end = SuspendingClock.now + min(patience, .seconds(86_400))
        // A transfer that ends without having paused is not waited for.
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
                // Takes only a part of the piece.
                state.bytes.append(contentsOf: bytes.prefix(stop))
                return .stop
            }
            state.bytes.append(contentsOf: bytes)
            return .taken
        }
    }
}
