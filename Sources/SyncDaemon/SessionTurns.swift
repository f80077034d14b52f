import SyncAgent
import SyncEngine
import SyncModel
import SyncStore

// Commands on a session run one at a time, in order; meanwhile no run of the session starts.
extension Agent {
    /// Waits for the session's turn. The caller must call ``leave(_:)`` afterwards.
    func enter(_ session: String) async {
        guard turns[session] != nil else {
            turns[session] = []
            return
        }
        await withCheckedContinuation { turns[session, default: []].append($0) }
    }

    /// Passes the turn on. If no command waits, runs may start.
    func leave(_ session: String) {
        guard var others = turns[session], !others.isEmpty else {
            turns[session] = nil
            return wake()
        }
        let next = others.removeFirst()
        turns[session] = others
        next.resume()
    }
}

extension Agent {
    /// Pauses or resumes a session. Commands waiting at the same time are recorded together: the last one decides, in
    /// one transaction, and all get the resulting status.
    func pauseOrResume(_ input: RunInput, _ session: String) async throws(ControlError) -> SessionStatus {
        guard pauseCommands[session] != nil else {
            pauseCommands[session] = []
            return try await recordTogether(input, session).get()
        }
        let result = await withCheckedContinuation { continuation in
            pauseCommands[session, default: []].append((input, continuation))
        }
        return try result.get()
    }

    /// Takes the session's turn for the first command and for all that have arrived by then.
    private func recordTogether(_ first: RunInput, _ session: String) async -> Result<SessionStatus, ControlError> {
        await enter(session)
        // Includes commands that came while the previous command was recorded.
        await Task.yield()
        // Later commands wait for the next turn.
        let others = pauseCommands.removeValue(forKey: session) ?? []
        let last = others.last?.input ?? first
        if last == .paused, let job = jobs[session] {
            job.stop.stop(.user)
            await job.untilEnd()
        }
        if first == .resumed || others.contains(where: { $0.input == .resumed }) { resetLimiter(session) }
        let recorded = Result { () throws(ControlError) in try stored(record(last, session)) }
        leave(session)
        let status = Result { () throws(ControlError) in try self.session(session) }
        /// Returns the failure only for the commands that it concerns.
        func answer(_ input: RunInput) -> Result<SessionStatus, ControlError> {
            input == last ? recorded.flatMap { _ in status } : status
        }
        for other in others { other.answered.resume(returning: answer(other.input)) }
        return answer(first)
    }

    private func record(_ input: RunInput, _ session: String) throws(StoreError) {
        // Hooks that are owed are retried, too.
        if input == .resumed { retries[session] = nil }
        for run in try openRuns(of: session) {
            if input == .paused {
                try recordStop(of: run, .paused, .user)
            } else {
                failedStarts[run.identifier] = nil
                if run.state == .paused {
                    try store.apply(.resumed, to: run.identifier, now: environment.now())
                    changes[session] = environment.now()
                }
                try store.expedite(run: run.identifier)
            }
        }
    }

    /// The open runs of a session, oldest first: one, or more while hooks of an earlier run are owed.
    ///
    /// - Throws: ``StoreError`` with code `unknownSession`.
    func openRuns(of session: String) throws(StoreError) -> [StoredRun] {
        try store.runs(session: store.session(named: session).identifier, onlyOpen: true).reversed()
    }

    /// The latest open run; `nil` if there is none.
    func openRun(of session: String) throws(StoreError) -> StoredRun? { try openRuns(of: session).last }

    /// Pauses or cancels a run that this agent does not work on. Fails while a foreground command works on it: that one
    /// is stopped at its own terminal.
    func recordStop(of run: StoredRun, _ input: RunInput, _ reason: StopReason) throws(StoreError) {
        let lease = try store.lease(of: run.session, process: environment.process, now: environment.now())
        let isChanged = try store.apply(
            input, to: run.identifier, reason: reason.rest, events: [stopped(run, reason)], now: environment.now())
        if isChanged { changes[run.session] = environment.now() }
        withExtendedLifetime(lease) {}
    }

    /// The event for a stopped run that no process works on: the same as a working process would record.
    func stopped(_ run: StoredRun, _ reason: StopReason) -> [UInt8] {
        SyncEvent(.runStopped, time: environment.now(), session: run.session, run: run.identifier) {
            $0.field("reason", reason.rawValue)
        }.json.bytes
    }
}
