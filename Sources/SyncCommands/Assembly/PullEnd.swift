import ArgumentParser
import SyncControl
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSystem

/// Sees to it that `pull --json` ends with `pull.finished`, however early it ends: whoever reads lines needs no second way
/// to learn what became of it.
final class PullEnd: Sendable {
    private struct State {
        var isTold = false
        var transport: (any Transport)?
    }

    private let state = Mutex(State())
    private let start = ContinuousClock.now

    /// Sees an event that is told.
    func note(_ event: SyncEvent) {
        if event.name == .pullFinished { state.withLock { $0.isTold = true } }
    }

    /// What sends the requests that are counted.
    func count(_ transport: any Transport) { state.withLock { $0.transport = transport } }

    /// Prints the line, unless the run has told its end itself.
    func tell(_ error: any Error, on output: Output) {
        let (isTold, transport) = state.withLock { ($0.isTold, $0.transport) }
        let (status, message) = Self.cause(error)
        guard !isTold, status != ExitStatus.done.rawValue else { return }
        var report = PullReport()
        report.result = .failed
        report.requests = transport?.totals.requests ?? 0
        report.bytes.received = transport?.totals.bytesReceived ?? 0
        report.elapsedMilliseconds = Int64((ContinuousClock.now - start) / .milliseconds(1))
        let written = report
        let event = SyncEvent(.pullFinished, time: EngineAssembly.milliseconds()) { line in
            written.write(to: &line)
            line.key("error")
            line.object {
                $0.field("status", status)
                $0.field("message", message)
            }
        }
        output.event(event.json, flushing: true)
    }

    /// What the process is about to exit with, and why.
    private static func cause(_ error: any Error) -> (status: Int32, message: String) {
        switch error {
        case let error as CommandFailure:
            (error.status.rawValue, error.message.isEmpty ? stopped(error.status) : error.message)
        case let error as ControlError: (error.exitStatus.rawValue, error.message)
        case let error as ThreadError: (ExitStatus.ioError.rawValue, "\(error)")
        default: (SyncagentCommand.exitCode(for: error).rawValue, SyncagentCommand.message(for: error))
        }
    }

    private static func stopped(_ status: ExitStatus) -> String {
        switch status {
        case .interrupted: "stopped by SIGINT; what was fetched is kept"
        case .terminated: "stopped by SIGTERM; what was fetched is kept"
        default: "it has ended with exit status \(status.rawValue)"
        }
    }
}
