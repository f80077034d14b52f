/// Jobs go in in order, workers finish them in any order, results come out in order.
///
/// At most ``window`` jobs are between `submit` and `collect`; that bounds every buffer behind them, and makes
/// a slow disk slow down the reader.
final class Pipeline: @unchecked Sendable {  // Safe: every stored property is touched under `monitor` only.
    private enum Slot {
        case empty
        case waiting(Job)
        case running
        case done(JobResult)
    }

    private static let room = 0
    private static let work = 1
    private static let ready = 2

    private let monitor = Monitor(conditions: 3)
    private var slots: [Slot]
    private var submitted = 0
    private var taken = 0
    private var collected = 0
    private var closed = false
    private var failure: PublishError?

    let window: Int

    init(window: Int) {
        self.window = window
        slots = Array(repeating: .empty, count: window)
    }

    /// Adds a job; waits while the window is full.
    ///
    /// - Returns: `false` when the run has failed and there is no more to do.
    func submit(_ job: Job) -> Bool {
        monitor.locked {
            while submitted - collected >= window, failure == nil { monitor.wait(Self.room) }
            guard failure == nil else { return false }
            slots[submitted % window] = .waiting(job)
            submitted += 1
            monitor.signal(Self.work)
            return true
        }
    }

    /// No more jobs come.
    func close() {
        monitor.locked {
            closed = true
            monitor.broadcast()
        }
    }

    /// The next job for a worker, with its number; waits for one. `nil` at the end.
    func take() -> (number: Int, job: Job)? {
        monitor.locked {
            while taken == submitted, !closed, failure == nil { monitor.wait(Self.work) }
            guard failure == nil, taken < submitted else { return nil }
            let number = taken
            guard case .waiting(let job) = slots[number % window] else { return nil }
            slots[number % window] = .running
            taken += 1
            return (number, job)
        }
    }

    /// Hands in a job's result.
    func finish(_ number: Int, _ result: JobResult) {
        monitor.locked {
            slots[number % window] = .done(result)
            if number == collected { monitor.signal(Self.ready) }
        }
    }

    /// Ends the run early; the first failure is the one reported.
    func fail(_ error: PublishError) {
        monitor.locked {
            failure = failure ?? error
            monitor.broadcast()
        }
    }

    /// The next result in order; waits for it. `nil` after the last.
    func collect() throws(PublishError) -> JobResult? {
        let (result, failure): (JobResult?, PublishError?) = monitor.locked {
            while self.failure == nil {
                if case .done(let result) = slots[collected % window] {
                    slots[collected % window] = .empty
                    collected += 1
                    monitor.signal(Self.room)
                    return (result, nil)
                }
                if closed, collected == submitted { return (nil, nil) }
                monitor.wait(Self.ready)
            }
            return (nil, self.failure)
        }
        if let failure { throw failure }
        return result
    }
}
