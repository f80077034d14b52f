import SyncModel
package import SyncPlugins
import SyncSystem

extension SyncEvent {
    /// A transport's event in the contract's words. URLs are redacted already.
    ///
    /// - Parameters:
    ///   - subject: The subject of the transfer, if that belongs to the set.
    ///   - session: The session of the transfer; `nil` if no run is open. The same holds for `run`.
    /// - Returns: `nil` for an event that only the states of tasks show.
    package init?(
        transfer event: TransferEvent, time: Int64, subject: TransferSubject? = nil, session: String? = nil,
        run: String? = nil
    ) {
        switch event {
        case .asked: return nil
        case .moved(let transfer, let hop):
            self.init(.taskRedirected, time: time, session: session, run: run) {
                $0.transfer(transfer, subject)
                $0.field("reason", hop.word)
                $0.field("hop", hop.number)
                switch hop.cause {
                case .redirect(let status): $0.field("status", status)
                case .rule(let place): $0.field("rule", place)
                case .resolver(let name): $0.field("plugin", name)
                case .mirror: break
                }
                $0.field("from", hop.from)
                $0.field("to", hop.to)
            }
        case .retrying(let transfer, let url, let reason, let attempt, let wait):
            let milliseconds = Int64(wait / .milliseconds(1))
            // Waits below a second are not worth a line.
            let note = wait < .seconds(1) ? nil : "\(url): \(reason); retrying in \(milliseconds / 1000) s"
            self.init(.transferRetrying, time: time, note: note, session: session, run: run) {
                $0.transfer(transfer, subject)
                $0.field("url", url)
                $0.field("reason", reason)
                $0.field("attempt", attempt)
                $0.field("wait_ms", milliseconds)
            }
        case .sourcePenalised(let transfer, let url, let reason):
            self.init(
                .sourcePenalised, time: time, note: "\(url): \(reason); trying other sources first", session: session,
                run: run
            ) {
                $0.transfer(transfer, subject)
                $0.field("url", url)
                $0.field("reason", reason)
            }
        case .waitingForConnectivity(let transfer, let url, let reason, let wait, let patience):
            let milliseconds = Int64(wait / .milliseconds(1))
            let until = patience.map { time.addingReportingOverflow(Int64($0 / .milliseconds(1))).partialValue }
            // One line per server, not one per file.
            var note = "waiting for \(urlOrigin(url).map(escaped) ?? url): \(reason)"
            if let until {
                note += "; trying until \(SystemTime.timeOfDay(at: until)), Ctrl-C stops"
            } else if wait >= .seconds(5) {
                // Only the pauses that servers ask for are as long.
                note += "; going on in \(milliseconds / 1000) s"
            }
            self.init(.transferWaiting, time: time, note: note, session: session, run: run) {
                $0.transfer(transfer, subject)
                $0.field("url", url)
                $0.field("reason", reason)
                $0.field("wait_ms", milliseconds)
                $0.time("until", until)
            }
        case .pluginFailed(let point, let error):
            self.init(.pluginFailed, time: time, note: "\(error)", session: session, run: run) {
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
        case .asked(let id), .moved(let id, _), .retrying(let id, _, _, _, _), .sourcePenalised(let id, _, _),
            .waitingForConnectivity(let id, _, _, _, _):
            id
        case .pluginFailed: nil
        }
    }

    /// The input for the tasks of its transfer: a request goes out, or waits for more than a moment.
    var input: TaskInput? {
        switch self {
        case .asked: .started
        case .retrying(_, _, _, _, let wait): wait > .zero ? .delayed : nil
        case .waitingForConnectivity: .delayed
        case .moved, .sourcePenalised, .pluginFailed: nil
        }
    }
}

extension Hop {
    /// The cause of the step, in a word.
    fileprivate var word: String {
        switch cause {
        case .redirect: "redirect"
        case .rule, .resolver: "rewrite"
        case .mirror: "mirror"
        }
    }
}

extension JSONLine {
    /// Identifies a transfer by its number and its subject: a file, or a pack.
    fileprivate mutating func transfer(_ id: TransferID, _ subject: TransferSubject?) {
        field("transfer", id.rawValue)
        field("path", optional: subject?.path)
        field("object", optional: subject?.object)
    }
}

/// The subject of a transfer: a pack, or a file.
package struct TransferSubject: Sendable, Equatable {
    /// The digest of a pack; `nil` for a file.
    package var object: String?
    /// The path of a file of the set that is fetched by its own URLs.
    package var path: String?
    /// The number of tasks that depend on it.
    package var tasks: Int
}
