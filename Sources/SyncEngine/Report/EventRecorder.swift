import SyncModel
package import SyncPlugins
package import SyncStore
import SyncSystem

/// Passes every event of a run to a listener and records it in the store, one at a time and in one order, whichever
/// thread it comes from.
package final class EventRecorder: Sendable {
    private struct State: Sendable {
        var recording: (run: String, log: EventLog)?
        var hops = 0
        /// Called once the events reported so far are recorded.
        var waiting: [@Sendable () -> Void] = []
        /// Whether the thread that records hops is running.
        var hasThread = false
    }

    private let listener: @Sendable (SyncEvent) -> Void
    private let state = Monitor(State())

    private typealias Plan = (
        numbers: Range<UInt64>, subject: @Sendable (_ place: Int) -> TransferSubject,
        tasks: @Sendable (_ place: Int, TaskInput) -> Void
    )

    /// What the transfers are of, one entry per plan, since there may be a hundred thousand transfers; and answers given
    /// before: counting a span's tasks takes time.
    private let transfers = Mutex<(plans: [Plan], known: [UInt64: TransferSubject])>(([], [:]))

    /// The longest wait of the recording thread for work, in **milliseconds**.
    private static let idleTime = 1_000
    /// Hops of a run that are recorded before their request goes out; later ones follow within a second.
    private static let hopLimit = 1_000

    /// - Parameter listener: Receives every event, from several threads, one call at a time.
    package init(_ listener: @escaping @Sendable (SyncEvent) -> Void = { _ in }) { self.listener = listener }

    /// Assigns events to this run, and records them in the store, from here on.
    func open(session: String, run: String, in store: SyncStore) {
        state.withLock { state in
            state.recording = (run, EventLog(store: store, session: session))
            state.hops = 0
        }
    }

    /// Ends the assignment of events to a run; pending ones are recorded.
    func close() throws(StoreError) {
        let log = state.withLock { state in
            defer { state.recording = nil }
            return state.recording?.log
        }
        try log?.flush()
    }

    /// Reports an event and records it with the next ones.
    func emit(_ event: SyncEvent) {
        // Not under the lock: the transport's thread must not wait for the store.
        if gather({ _, _ in event }) { record() }
    }

    /// Reports an event that is not recorded: it concerns this process only.
    func notifyListener(_ event: SyncEvent) { state.withLock { _ in listener(event) } }

    /// Reports an event of a transport for the run. Never waits for the store: see ``record(then:)``.
    package func emit(transfer event: TransferEvent, time: Int64) {
        if let id = event.transfer, let input = event.input { note(input, of: id) }
        // The event is not reported, so its subject is not looked up.
        if case .asked = event { return }
        let subject = event.transfer.flatMap { self.subject(of: $0) }
        emitTransfer { SyncEvent(transfer: event, time: time, subject: subject, session: $0, run: $1) }
    }

    /// Reports an event of a transfer as one of the run's events.
    ///
    /// - Parameter event: Makes the event for the open session and run, `nil` where none is open; returns `nil` for no
    ///   event.
    func emitTransfer(_ event: (_ session: String?, _ run: String?) -> SyncEvent?) {
        // The next call that records takes it along; a thread does so twice a second (``LiveRun``).
        _ = gather(event)
    }

    /// - Returns: Whether there is enough to record.
    private func gather(_ event: (_ session: String?, _ run: String?) -> SyncEvent?) -> Bool {
        state.withLock { state in
            guard let event = event(state.recording?.log.session, state.recording?.run) else { return false }
            defer { listener(event) }
            guard let log = state.recording?.log else { return false }
            if event.name == .taskRedirected { state.hops += 1 }
            return log.gather(event.json.bytes, time: event.time)
        }
    }

    /// Records the events so far on another thread, before a request goes out after a hop. A failure is reported at the
    /// next flush; the request does not wait longer.
    ///
    /// - Parameter done: Called once, when they are recorded.
    /// - Returns: Whether `done` will be called: not if no run is open, or the run has had too many hops.
    package func record(then done: @escaping @Sendable () -> Void) -> Bool {
        let (waits, needsThread) = state.change { state -> (Bool, Bool) in
            guard state.recording != nil, state.hops <= Self.hopLimit else { return (false, false) }
            state.waiting.append(done)
            defer { state.hasThread = true }
            return (true, !state.hasThread)
        }
        guard needsThread else { return waits }
        do throws(ThreadError) { try WorkerThread(name: "hops") { [self] in recordHops() } } catch {
            // Without a thread, this one has to wait.
            recordOnce(idleTime: 0)
            state.withLock { $0.hasThread = false }
        }
        return true
    }

    private func recordHops() { while recordOnce(idleTime: Self.idleTime) {} }

    /// Records the events that somebody waits for.
    ///
    /// - Returns: Whether somebody did within the time, in **milliseconds**; if not, the thread counts as ended.
    @discardableResult private func recordOnce(idleTime: Int) -> Bool {
        var looks = 0
        let (waiting, log) = state.wait(every: idleTime) { state -> ([@Sendable () -> Void], EventLog?)? in
            looks += 1
            guard !state.waiting.isEmpty || looks > 1 else { return nil }
            defer { state.waiting = [] }
            if state.waiting.isEmpty { state.hasThread = false }
            return (state.waiting, state.recording?.log)
        }
        guard !waiting.isEmpty else { return false }
        log?.record()
        for done in waiting { done() }
        return true
    }

    /// Records pending events together with `events` in one transaction of the caller's, then reports them.
    func emit(_ events: [SyncEvent], recordedBy record: ([[UInt8]]) throws(StoreError) -> Void) throws(StoreError) {
        // Under the lock, so that no other event comes in between.
        let failure = state.withLock { state -> StoreError? in
            do throws(StoreError) {
                let lines = events.map(\.json.bytes)
                if let log = state.recording?.log {
                    try log.take { earlier throws(StoreError) in try record(earlier + lines) }
                } else {
                    try record(lines)
                }
                for event in events { listener(event) }
                return nil
            } catch { return error }
        }
        if let failure { throw failure }
    }

    /// Records pending events; a failure is reported at the next ``flush()``.
    func record() { state.withLock { $0.recording?.log }?.record() }

    /// Records pending events.
    ///
    /// - Parameter synced: Whether these and all earlier events must survive a power cut.
    package func flush(synced: Bool = false) throws(StoreError) {
        let log = state.withLock { $0.recording?.log }
        try log?.flush(synced: synced)
    }

    // MARK: Transfers

    /// Reserves numbers in a row for the transfers of a plan.
    ///
    /// - Parameters:
    ///   - count: The number of transfers.
    ///   - subject: Returns the subject of the transfer at a place.
    ///   - tasks: Receives the inputs for the tasks of the transfer at a place.
    /// - Returns: The numbers; for ``forgetTransfers(_:)`` when all transfers have ended.
    func beginTransfers(
        _ count: Int, _ subject: @escaping @Sendable (_ place: Int) -> TransferSubject,
        tasks: @escaping @Sendable (_ place: Int, TaskInput) -> Void
    ) -> Range<UInt64> {
        let numbers = TransferID.numbers(count)
        transfers.withLock { $0.plans.append((numbers, subject, tasks)) }
        return numbers
    }

    /// Forgets the transfers of a plan, which have ended.
    func forgetTransfers(_ numbers: Range<UInt64>) {
        transfers.withLock { transfers in
            transfers.plans.removeAll { $0.numbers == numbers }
            transfers.known = transfers.known.filter { !numbers.contains($0.key) }
        }
    }

    /// The subject of a transfer; `nil` if it belongs to no plan.
    func subject(of id: TransferID) -> TransferSubject? {
        let number = id.rawValue
        let found = transfers.withLock { transfers in
            (transfers.known[number], transfers.plans.first { $0.numbers.contains(number) })
        }
        guard found.0 == nil, let plan = found.1 else { return found.0 }
        let subject = plan.subject(Int(number - plan.numbers.lowerBound))
        transfers.withLock { transfers in
            if transfers.plans.contains(where: { $0.numbers == plan.numbers }) { transfers.known[number] = subject }
        }
        return subject
    }

    /// Passes an input on to the tasks of a transfer.
    private func note(_ input: TaskInput, of id: TransferID) {
        let number = id.rawValue
        let plan = transfers.withLock { $0.plans.first { $0.numbers.contains(number) } }
        guard let plan else { return }
        plan.tasks(Int(number - plan.numbers.lowerBound), input)
    }
}
