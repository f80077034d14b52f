import SyncModel
package import SyncPlugins
package import SyncStore
import SyncSystem

/// Passes every event of a run to a listener and records it in the store, one at a time and in one order, whichever
/// thread it comes from.
package final class EventRecorder: Sendable {
    private struct Recording: Sendable {
        let session: String
        let run: String
        let log: EventLog
    }

    private struct State: Sendable {
        var recording: Recording?
        var hops = 0
    }

    private let listener: @Sendable (SyncEvent) -> Void
    private let state = Mutex(State())
    /// What the transfers in events are for.
    package let subjects = TransferSubjects()

    /// Hops of a run that are recorded before their request goes out; later ones follow within a second.
    private static let hopLimit = 1_000

    /// - Parameter listener: Told of every event, from several threads, one call at a time.
    package init(_ listener: @escaping @Sendable (SyncEvent) -> Void = { _ in }) { self.listener = listener }

    /// From here on, events belong to this run.
    func open(_ log: EventLog, session: String, run: String) {
        state.withLock { $0 = State(recording: Recording(session: session, run: run, log: log)) }
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
        state.withLock { state in
            state.recording?.log.add(event.json.bytes, time: event.time)
            listener(event)
        }
    }

    /// Reports an event that is not recorded: it concerns this process only.
    func tellOnly(_ event: SyncEvent) { state.withLock { _ in listener(event) } }

    /// Reports what a transport does for the run. A hop is recorded before the next request goes out (S76).
    package func tell(transfer event: TransferEvent, time: Int64) {
        if let id = event.transfer, let input = event.input { subjects.note(input, of: id) }
        // Not reported, so do not look up what it is for.
        if case .asked = event { return }
        let subject = event.transfer.flatMap { subjects.subject(of: $0) }
        if let event = SyncEvent(transfer: event, time: time, subject: subject) { tell(transfer: event) }
    }

    /// Reports what happened to a transfer, as one of the run's events.
    func tell(transfer event: SyncEvent) {
        state.withLock { state in
            guard let recording = state.recording else { return listener(event) }
            let event = event.of(session: recording.session, run: recording.run)
            recording.log.add(event.json.bytes, time: event.time)
            if event.name == .taskRedirected, state.hops < Self.hopLimit {
                state.hops += 1
                // A failure is reported at the next flush; the request does not wait for it.
                recording.log.settle()
            }
            listener(event)
        }
    }

    /// Records pending events together with `events` in one transaction of the caller's, then reports them.
    func tell(
        _ events: [SyncEvent],
        recordedBy record: ([[UInt8]]) throws(StoreError) -> Void
    ) throws(StoreError) {
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
            } catch {
                return error
            }
        }
        if let failure { throw failure }
    }

    /// Records pending events; a failure is reported at the next ``flush()``.
    func settle() { state.withLock { $0.recording?.log }?.settle() }

    /// Records pending events.
    ///
    /// - Parameter synced: Whether a power cut must not take them either, nor any before.
    package func flush(synced: Bool = false) throws(StoreError) {
        let log = state.withLock { $0.recording?.log }
        try log?.flush(synced: synced)
    }
}
