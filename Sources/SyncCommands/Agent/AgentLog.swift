import Foundation
import Logging
import SyncModel

/// The agent's log: plain lines on standard error, `2026-11-20T02:00:00.000Z warning: …`; journald adds the rest.
struct AgentLog: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level = .info
    private let output: Output

    init(output: Output) { self.output = output }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let level = event.level == .info ? "" : "\(event.level): "
        let time = timestamp(milliseconds: EngineAssembly.milliseconds())
        output.message("\(time) \(level)\(escaped("\(event.message)"))")
    }
}
