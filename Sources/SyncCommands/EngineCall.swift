import SyncEngine
import SyncModel

/// The one place where commands meet the engine.
///
/// STAND-IN: the three calls below fail until the engine's entry points exist.
struct EngineCall: Sendable {
    let output: Output
    let display: ProgressDisplay
    let json: Bool

    init(_ reporting: ReportingOptions, on output: Output) {
        self.output = output
        display = reporting.display(on: output)
        json = reporting.json
    }

    /// Runs a pull; its last JSON line is printed here.
    func pull(_ options: PullOptions) async throws -> PullReport {
        try await stoppable {
            throw CommandFailure(.internalError, "pull is not connected to the engine yet")
        }
    }

    /// Plans a pull and prints the plan.
    func plan(_ options: PullOptions) async throws {
        try await stoppable {
            throw CommandFailure(.internalError, "plan is not connected to the engine yet")
        }
    }

    /// Verifies and prints what differs.
    func verify(_ options: PullOptions) async throws {
        try await stoppable {
            throw CommandFailure(.internalError, "verify is not connected to the engine yet")
        }
    }

    /// Runs `work` with progress and with SIGINT and SIGTERM as a request to stop.
    ///
    /// - Throws: What `work` throws; after a signal, whatever that was, ``CommandFailure`` with status 130 or 143.
    private func stoppable<R: Sendable>(_ work: @escaping @Sendable () async throws -> R) async throws -> R {
        do {
            return try await StopSignals.cancelling(
                notice: { [output] in output.message("Stopping; what has been fetched is kept.") },
                atOnce: { [output] in output.clearProgress() },
                { [display] in try await display.whileRunning(work) }
            )
        } catch {
            if let status = StopSignals.requestedStatus { throw CommandFailure(status) }
            throw error
        }
    }
}
