import SyncSystem

/// Jobs enter in order, workers finish them in any order, and results leave in order.
///
/// At most ``window`` jobs are between `submit` and `collect`, which bounds the memory of all stages, and lets a slow
/// disk slow down the reader.
final class Pipeline: Sendable {
    private struct State {
        /// Jobs that wait for a worker, and results that wait for their turn; by number, within the window.
        var jobs: [EncodeJob?]
        var results: [EncodeResult?]
        var submitted = 0
        var taken = 0
        var collected = 0
        var closed = false
        var failure: PublishError?
    }

    private static let room = 0
    private static let work = 1
    private static let ready = 2

    private let state: Monitor<State>

    let window: Int

    init(window: Int) {
        self.window = window
        state = Monitor(
            State(jobs: Array(repeating: nil, count: window), results: Array(repeating: nil, count: window)),
            conditions: 3)
    }

    /// Adds a job; blocks while the window is full.
    ///
    /// - Returns: `false` when the run has failed and there is no more to do.
    func submit(_ job: EncodeJob) -> Bool {
        let isOpen = state.wait(for: Self.room) { state -> Bool? in
            guard state.failure == nil else { return false }
            guard state.submitted - state.collected < window else { return nil }
            state.jobs[state.submitted % window] = job
            state.submitted += 1
            return true
        }
        state.signal(Self.work)
        return isOpen
    }

    /// Says that no more jobs will follow.
    func close() { state.change { $0.closed = true } }

    /// Waits for the next job for a worker, and its number. `nil` at the end.
    func take() -> (number: Int, job: EncodeJob)? {
        state.wait(for: Self.work) { state -> (number: Int, job: EncodeJob)?? in
            if state.failure == nil, state.taken == state.submitted, !state.closed { return nil }
            let number = state.taken
            guard state.failure == nil, number < state.submitted, let job = state.jobs[number % window] else {
                return .some(nil)
            }
            state.jobs[number % window] = nil
            state.taken += 1
            return (number, job)
        }
    }

    /// Hands in a job's result.
    func finish(_ number: Int, _ result: EncodeResult) {
        let isNext = state.withLock { state in
            state.results[number % window] = result
            return number == state.collected
        }
        if isNext { state.signal(Self.ready) }
    }

    /// Whether the run was ended early.
    var hasFailed: Bool { state.withLock { $0.failure != nil } }

    /// Ends the run early; the first failure is reported.
    func fail(_ error: PublishError) { state.change { $0.failure = $0.failure ?? error } }

    /// Waits for the next result in order. `nil` after the last.
    func collect() throws(PublishError) -> EncodeResult? {
        let result = state.wait(for: Self.ready) { state -> Result<EncodeResult?, PublishError>? in
            if let failure = state.failure { return .failure(failure) }
            if let result = state.results[state.collected % window] {
                state.results[state.collected % window] = nil
                state.collected += 1
                return .success(result)
            }
            return state.closed && state.collected == state.submitted ? .success(nil) : nil
        }
        state.signal(Self.room)
        return try result.get()
    }
}
