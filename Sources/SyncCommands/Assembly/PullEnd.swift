import ArgumentParser
import SyncAgent
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSystem

/// Makes `pull --json` end with `pull.finished`, however early it ends, so that its readers need no other way to learn
/// the result.
final class PullEnd: Sendable {
    /// The run's own last line, printed at the end, when the exit status is known; and the transport that counts its
    /// requests.
    private let state = Mutex((finished: JSONLine?.none, transport: (any Transport)?.none))
    private let start = ContinuousClock.now

    /// Takes an event of the run.
    ///
    /// - Returns: Whether the event is held back for the end.
    func keeps(_ event: SyncEvent) -> Bool {
        guard event.name == .pullFinished else { return false }
        state.withLock { $0.finished = event.json }
        return true
    }

    /// Whether a run has reported its end, which is then recorded.
    var hasEnded: Bool { state.withLock { $0.finished != nil } }

    /// Sets the transport that counts requests.
    func count(_ transport: any Transport) { state.withLock { $0.transport = transport } }

    /// Prints the last line: the run's own, or else what is known, with the reason for an early end.
    ///
    /// - Parameter error: The error that ends the process; `nil` for success.
    func write(_ error: (any Error)?, on output: Output) {
        let (finished, transport) = state.withLock { ($0.finished, $0.transport) }
        let cause = error.map { Self.cause($0) }
        var line = finished
        if let (status, message) = cause, status != ExitStatus.done.rawValue {
            var end = finished ?? Self.unknown(transport, since: start)
            // A run that is only stopped has no error of its own: it continues later.
            if JSONValue(text: end.text)?["error"] == nil { end.extend { $0.error(status, message) } }
            line = end
        }
        if let line { output.event(line, flushing: true) }
    }

    /// The last line of a command that led to no run.
    private static func unknown(_ transport: (any Transport)?, since start: ContinuousClock.Instant) -> JSONLine {
        var report = PullReport()
        report.result = .failed
        report.requests = transport?.totals.requests ?? 0
        report.bytes.received = transport?.totals.bytesReceived ?? 0
        report.elapsedMilliseconds = Int64((ContinuousClock.now - start) / .milliseconds(1))
        return SyncEvent(.pullFinished, time: SystemTime.milliseconds()) { report.write(to: &$0) }.json
    }

    /// The exit status of the process, and the reason.
    ///
    /// - Parameter stopped: The message for a command that was stopped; by default that of a pull.
    static func cause(_ error: any Error, stopped: (() -> String)? = nil) -> (status: Int32, message: String) {
        guard let failure = CommandFailure(error) else {
            return (SyncagentCommand.exitCode(for: error).rawValue, SyncagentCommand.message(for: error))
        }
        let message = failure.message.isEmpty ? stopped?() ?? Self.stopped(failure.status) : failure.message
        return (failure.status.rawValue, message)
    }

    private static func stopped(_ status: ExitStatus) -> String {
        switch status {
        case .interrupted: "stopped by SIGINT; everything fetched so far is kept"
        case .terminated:
            "stopped by \(StopSignals.hasHungUp ? "SIGHUP" : "SIGTERM"); everything fetched so far is kept"
        case .hookFailed:
            "every file is in place; a hook failed, or was stopped and is called again by the next pull"
        default: "it ended with exit status \(status.rawValue)"
        }
    }
}

extension JSONLine {
    fileprivate mutating func error(_ status: Int32, _ message: String) {
        key("error")
        object {
            $0.field("status", status)
            $0.field("message", message)
        }
    }
}
