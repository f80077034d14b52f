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
        /// Called once what has been told by then is on record.
        var waiting: [@Sendable () -> Void] = []
        /// Whether that thread is there.
        var hasThread = false
    }

    private let listener: @Sendable (SyncEvent) -> Void
    private let state = Monitor(State())
    /// What the transfers in events are for.
    package let subjects = TransferSubjects()

    /// How long the thread that records waits for something to do, in **milliseconds**.
    private static let idleTime = 1_000
    /// Hops of a run that are recorded before their request goes out; later ones follow within a second.
    private static let hopLimit = 1_000

    /// - Parameter listener: Told of every event, from several threads, one call at a time.
    package init(_ listener: @escaping @Sendable (SyncEvent) -> Void = { _ in }) { self.listener = listener }

    /// From here on, events belong to this run, and go to the store.
    func open(session: String, run: String, in store: SyncStore) {
        state.withLock { state in
            state.recording = (run, EventLog(store: store, session: session))
            state.hops = 0
        }
    }

    /// Events belong to no run any more; pending ones are recorded.
    func close() throws(StoreError) {
        let log = state.withLock { state in
            defer { state.recording = nil }
            return state.recording?.log
        }
        try log?.flush()
    }

    /// Reports an event and records it with the next ones.
    func tell(_ event: SyncEvent) {
        let full = state.withLock { state -> EventLog? in
            defer { listener(event) }
            guard let log = state.recording?.log, log.gather(event.json.bytes, time: event.time) else { return nil }
            return log
        }
        // Not under the lock: the transport's thread must not wait for the store.
        full?.record()
    }

    /// Reports an event that is not recorded: it concerns this process only.
    func tellOnly(_ event: SyncEvent) { state.withLock { _ in listener(event) } }

    /// Reports what a transport does for the run. Never waits for the store: see ``record(then:)``.
    package func tell(transfer event: TransferEvent, time: Int64) {
        if let id = event.transfer, let input = event.input { subjects.note(input, of: id) }
        // Not reported, so do not look up what it is for.
        if case .asked = event { return }
        let subject = event.transfer.flatMap { subjects.subject(of: $0) }
        tellTransfer { SyncEvent(transfer: event, time: time, subject: subject, session: $0, run: $1) }
    }

    /// Reports what happened to a transfer, as one of the run's events.
    ///
    /// - Parameter event: Makes it for the session and the run that are open; `nil` for none.
    func tellTransfer(_ event: (_ session: String?, _ run: String?) -> SyncEvent?) {
        state.withLock { state in
            guard let event = event(state.recording?.log.session, state.recording?.run) else { return }
            if let log = state.recording?.log {
                // Whatever records next takes it along; a thread does twice a second (``LiveRun``).
                _ = log.gather(event.json.bytes, time: event.time)
                if event.name == .taskRedirected { state.hops += 1 }
            }
            listener(event)
        }
    }

    /// Records what has been told, on another thread, before a request goes out after a hop. A failure is reported at
    /// the next flush; the request does not wait for longer.
    ///
    /// - Parameter done: Called once, when that is done.
    /// - Returns: Whether `done` will be called: not where no run is open or it has had many hops.
    package func record(then done: @escaping @Sendable () -> Void) -> Bool {
        let (waits, needsThread) = state.change { state -> (Bool, Bool) in
            guard state.recording != nil, state.hops <= Self.hopLimit else { return (false, false) }
            state.waiting.append(done)
            defer { state.hasThread = true }
            return (true, !state.hasThread)
        }
        guard needsThread else { return waits }
        do throws(ThreadError) { try WorkerThread(name: "hops") { [self] in recordHops() } } catch {
            // Then this thread has to wait.
            recordOnce(idleTime: 0)
            state.withLock { $0.hasThread = false }
        }
        return true
    }

    private func recordHops() { while recordOnce(idleTime: Self.idleTime) {} }

    /// Records what somebody waits for.
    ///
    /// - Returns: Whether there was somebody within the time, in **milliseconds**; if not, the thread is gone.
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
    func tell(_ events: [SyncEvent], recordedBy record: ([[UInt8]]) throws(StoreError) -> Void) throws(StoreError) {
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
    /// - Parameter synced: Whether a power cut must not take them either, nor any before.
    package func flush(synced: Bool = false) throws(StoreError) {
        let log = state.withLock { $0.recording?.log }
        try log?.flush(synced: synced)
    }
}
