import SyncModel
package import SyncPlugins
import SyncSystem

extension SyncEvent {
    /// A transport's event in the contract's words. URLs are redacted already.
    ///
    /// - Parameters:
    ///   - subject: What the transfer is for, where it is for something of the set.
    ///   - session: Whose transfer it is; `nil` if no run is open, and so for `run`.
    /// - Returns: `nil` for what is shown by the states of tasks alone.
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
            if let until { note += "; trying until \(SystemTime.timeOfDay(at: until)), Ctrl-C stops" }
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

    /// What it means for the tasks of its transfer: a request goes out, or it waits for more than a moment.
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
    /// What sends a request elsewhere, in a word.
    fileprivate var word: String {
        switch cause {
        case .redirect: "redirect"
        case .rule, .resolver: "rewrite"
        case .mirror: "mirror"
        }
    }
}

extension JSONLine {
    /// Identifies a transfer by its number and what it is for: a file, or a pack.
    fileprivate mutating func transfer(_ id: TransferID, _ subject: TransferSubject?) {
        field("transfer", id.rawValue)
        field("path", optional: subject?.path)
        field("object", optional: subject?.object)
    }
}

/// What a transfer is for.
package struct TransferSubject: Sendable, Equatable {
    /// A pack, by its digest, or another object that is no file of the set; `nil` for a file.
    package var object: String?
    /// A file of the set that is fetched by its own URLs.
    package var path: String?
    /// Tasks that depend on it.
    package var tasks: Int
}

/// Knows what the transfers of this process are for: one entry per plan, since there may be a hundred thousand
/// transfers.
package final class TransferSubjects: Sendable {
    private struct Plan: Sendable {
        let numbers: Range<UInt64>
        let subject: @Sendable (_ place: Int) -> TransferSubject
        let tasks: @Sendable (_ place: Int, TaskInput) -> Void
    }

    /// The plans, and answers given before: counting a span's tasks takes time.
    private let state = Mutex<(plans: [Plan], known: [UInt64: TransferSubject])>(([], [:]))

    package init() {}

    /// Numbers for the transfers of a plan, in a row.
    ///
    /// - Parameters:
    ///   - count: How many.
    ///   - subject: What the transfer at a place is for.
    ///   - tasks: Told what happens to the tasks of the transfer at a place.
    /// - Returns: The numbers; to be given to ``forget(_:)`` when all have ended.
    func begin(
        _ count: Int, _ subject: @escaping @Sendable (_ place: Int) -> TransferSubject,
        tasks: @escaping @Sendable (_ place: Int, TaskInput) -> Void
    ) -> Range<UInt64> {
        let numbers = TransferID.numbers(count)
        state.withLock { $0.plans.append(Plan(numbers: numbers, subject: subject, tasks: tasks)) }
        return numbers
    }

    /// The transfers of a plan have ended.
    func forget(_ numbers: Range<UInt64>) {
        state.withLock { state in
            state.plans.removeAll { $0.numbers == numbers }
            state.known = state.known.filter { !numbers.contains($0.key) }
        }
    }

    /// What a transfer is for; `nil` if for no file of the set.
    package func subject(of id: TransferID) -> TransferSubject? {
        let number = id.rawValue
        let found = state.withLock { state in (state.known[number], state.plans.first { $0.numbers.contains(number) }) }
        guard found.0 == nil, let plan = found.1 else { return found.0 }
        let subject = plan.subject(Int(number - plan.numbers.lowerBound))
        state.withLock { state in
            if state.plans.contains(where: { $0.numbers == plan.numbers }) { state.known[number] = subject }
        }
        return subject
    }

    /// Passes an input on to the tasks of a transfer.
    func note(_ input: TaskInput, of id: TransferID) {
        let number = id.rawValue
        let plan = state.withLock { $0.plans.first { $0.numbers.contains(number) } }
        guard let plan else { return }
        plan.tasks(Int(number - plan.numbers.lowerBound), input)
    }
}
