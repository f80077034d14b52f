import SyncModel
package import SyncPlugins
import SyncSystem

extension SyncEvent {
    /// A transport's event in the contract's words. URLs are redacted already.
    ///
    /// - Parameter subject: What the transfer is for, where it is for something of the set.
    /// - Returns: `nil` for what is shown by the states of tasks alone.
    package init?(transfer event: TransferEvent, time: Int64, subject: TransferSubject? = nil) {
        switch event {
        case .asked: return nil
        case .redirected(let transfer, let status, let from, let to, let hop):
            self.init(.taskRedirected, time: time) {
                $0.hop(transfer, subject, "redirect", hop, from, to) { $0.field("status", status) }
            }
        case .rewritten(let transfer, let from, let to, let rewriter, let hop):
            self.init(.taskRedirected, time: time) {
                $0.hop(transfer, subject, "rewrite", hop, from, to) {
                    switch rewriter {
                    case .rule(let place): $0.field("rule", place)
                    case .resolver(let name): $0.field("plugin", name)
                    }
                }
            }
        case .mirrored(let transfer, let from, let to):
            self.init(.taskRedirected, time: time) { $0.hop(transfer, subject, "mirror", 0, from, to) { _ in } }
        case .retrying(let transfer, let url, let reason, let attempt, let wait):
            let milliseconds = Int64(wait / .milliseconds(1))
            // Waits below a second are not worth a line.
            let note = wait < .seconds(1) ? nil : "\(url): \(reason); retrying in \(milliseconds / 1000) s"
            self.init(.transferRetrying, time: time, note: note) {
                $0.transfer(transfer, subject)
                $0.field("url", url)
                $0.field("reason", reason)
                $0.field("attempt", attempt)
                $0.field("wait_ms", milliseconds)
            }
        case .sourcePenalised(let transfer, let url, let reason):
            self.init(.sourcePenalised, time: time, note: "\(url): \(reason); trying other sources first") {
                $0.transfer(transfer, subject)
                $0.field("url", url)
                $0.field("reason", reason)
            }
        case .waitingForConnectivity(let transfer, let url, let reason, let wait, let patience):
            let milliseconds = Int64(wait / .milliseconds(1))
            let until = patience.map { time.addingReportingOverflow(Int64($0 / .milliseconds(1))).partialValue }
            // One line per server, not one per file.
            var note = "waiting for \(OriginLedger.origin(url) ?? url): \(reason)"
            if let until { note += "; trying until \(SystemTime.timeOfDay(at: until)), Ctrl-C stops" }
            self.init(.transferWaiting, time: time, note: note) {
                $0.transfer(transfer, subject)
                $0.field("url", url)
                $0.field("reason", reason)
                $0.field("wait_ms", milliseconds)
                $0.time("until", until)
            }
        case .pluginFailed(let point, let error):
            self.init(.pluginFailed, time: time, note: "\(error)") {
                $0.field("point", point.rawValue)
                $0.field("plugin", error.plugin)
                $0.field("code", error.code.description)
                $0.field("reason", error.message)
            }
        }
    }
}

extension TransferEvent {
    /// The transfer concerned; `nil` for none.
    var transfer: TransferID? {
        switch self {
        case .asked(let id), .redirected(let id, _, _, _, _), .rewritten(let id, _, _, _, _), .mirrored(let id, _, _),
            .retrying(let id, _, _, _, _), .sourcePenalised(let id, _, _), .waitingForConnectivity(let id, _, _, _, _):
            id
        case .pluginFailed: nil
        }
    }

    /// What it means for the tasks of its transfer: a request goes out, or it waits for more than a moment.
    var input: TaskInput? {
        switch self {
        case .asked: .started
        case .retrying(_, _, _, _, let wait): wait > .zero ? .delayed : nil
        case .waitingForConnectivity: .delayed
        case .redirected, .rewritten, .mirrored, .sourcePenalised, .pluginFailed: nil
        }
    }
}

extension JSONLine {
    /// A request that goes to another URL.
    fileprivate mutating func hop(
        _ id: TransferID, _ subject: TransferSubject?, _ reason: String, _ hop: Int, _ from: String, _ to: String,
        _ cause: (inout JSONLine) -> Void
    ) {
        transfer(id, subject)
        field("reason", reason)
        field("hop", hop)
        cause(&self)
        field("from", from)
        field("to", to)
    }

    /// Identifies a transfer by its number and what it is for: a file, or a pack.
    fileprivate mutating func transfer(_ id: TransferID, _ subject: TransferSubject?) {
        field("transfer", id.rawValue)
        field("path", optional: subject?.path)
        field("object", optional: subject?.object)
    }
}
