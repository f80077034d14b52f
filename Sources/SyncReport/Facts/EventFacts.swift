import SyncModel
import SyncStore

/// The facts that the events of one session contain about a period, collected one event at a time.
struct EventFacts {
    /// The pieces of work for each run, in order.
    private(set) var work: [String: [WorkPiece]] = [:]
    /// Problems, sorted by time.
    var problems: [Problem] { (failures.problems + others).sorted { $0.time < $1.time } }
    private(set) var waits: [Wait] = []
    private(set) var origins: [String: OriginAmount] = [:]
    private(set) var directories: [String?: DirectoryAmount] = [:]
    private(set) var otherBytes: UInt64 = 0

    /// Earlier events, in **milliseconds** since 1970, count only for ``work`` and for conditions that block.
    private let since: Int64
    private var failures = FailureSums()
    /// Problems that do not concern single files.
    private var others: [Problem] = []
    /// The conditions that block at present, by name: their index in ``waits``, and the run that they block.
    private var open: [String: (index: Int, run: String)] = [:]
    private var delays: [String: Int] = [:]

    /// Limit on each kind of fact.
    private static let limit = FailureSums.limit

    init(since: Int64) { self.since = since }

    /// The relevant events; the others, one for every file, are not even parsed.
    private static let wanted: Set<EventName> = [
        .runStarted, .runSummary, .taskCancelled, .taskFailed, .sourceWrongBytes, .taskRedirected, .transferRetrying,
        .transferWaiting, .conditionBlocked, .conditionCleared, .scheduleFailed, .runStopped, .pullFinished,
    ]

    /// Takes the next event. Unknown events are ignored.
    mutating func take(_ event: SessionEvent) {
        guard let name = event.kind, Self.wanted.contains(name) else { return }
        guard let fields = event.line.withUnsafeBytes(JSONParser.parse), let text = fields.text("time"),
            let time = parseTimestamp(utc: text)
        else { return }
        take(name, fields, time)
    }

    private mutating func take(_ name: EventName, _ fields: JSONValue, _ time: Int64) {
        switch name {
        case .runSummary: summary(fields, time)
        // Conditions that have been blocking since before the period count, too.
        case .runStarted: unblocked(others: fields.text("run") ?? "", time)
        case .conditionBlocked: blocked(fields, time)
        case .conditionCleared: cleared(fields, time)
        case .runStopped: stopped(fields, time)
        case .pullFinished: unblocked(fields, time)
        case _ where time < since: break
        case .taskFailed, .taskCancelled, .sourceWrongBytes:
            failures.take(name, fields, run: fields.text("run") ?? "", time: time)
        case .taskRedirected: redirected(fields)
        case .transferRetrying: delayed(.retry, fields, time)
        case .transferWaiting: delayed(.connectivity, fields, time)
        case .scheduleFailed:
            let detail = fields.text("reason") ?? "the schedule could not start it"
            others.append(Problem(kind: fields.cause, detail: detail, time: time))
        default: break
        }
    }

    private mutating func summary(_ fields: JSONValue, _ time: Int64) {
        var amounts = Amounts()
        let files = fields["files"] ?? .null
        amounts.installed = files.int("installed")
        amounts.reused = files.int("reused")
        amounts.removed = files.int("removed")
        amounts.failed = files.int("failed")
        amounts.received = fields.unsigned("received")
        amounts.reusedBytes = fields.unsigned("reused")
        amounts.requests = fields.unsigned("requests")
        amounts.elapsed = Int64(fields.int("elapsed_ms"))
        var piece = WorkPiece(ended: time, amounts: amounts)
        piece.waited = Int64(fields.int("waited_ms"))
        piece.stop = fields.text("stopped").map(RestReason.init(rawValue:))
        work[fields.text("run") ?? "", default: []].append(piece)
        guard time >= since else { return }
        for entry in fields.list("origins").prefix(Self.limit) {
            guard let name = entry.text("origin") else { continue }
            var origin = origins[name] ?? OriginAmount(origin: name)
            origin.requests = origin.requests.saturatingAdd(entry.unsigned("requests"))
            origin.bytes = origin.bytes.saturatingAdd(entry.unsigned("bytes"))
            origin.transfers = origin.transfers.saturatingAdd(entry.int("transfers"))
            origin.failed = origin.failed.saturatingAdd(entry.int("failed"))
            origins[name] = origin
        }
        otherBytes = otherBytes.saturatingAdd(fields.unsigned("other_bytes"))
        for entry in fields.list("directories").prefix(Self.limit) {
            let path = entry.text("path")
            var directory = directories[path] ?? (path, 0, 0)
            directory.files = directory.files.saturatingAdd(entry.int("files"))
            directory.bytes = directory.bytes.saturatingAdd(entry.unsigned("bytes"))
            directories[path] = directory
        }
    }

    private mutating func redirected(_ fields: JSONValue) {
        guard let from = fields.text("from").flatMap(urlOrigin), let to = fields.text("to").flatMap(urlOrigin),
            from != to, origins.count < Self.limit
        else { return }
        var origin = origins[to] ?? OriginAmount(origin: to)
        if !origin.via.contains(from), origin.via.count < 8 { origin.via.append(from) }
        origins[to] = origin
    }

    // MARK: Waiting

    private mutating func delayed(_ cause: RestReason, _ fields: JSONValue, _ time: Int64) {
        let origin = fields.text("url").flatMap(urlOrigin) ?? ""
        let reason = fields.text("reason") ?? ""
        let elapsed = Int64(fields.int("wait_ms"))
        let end = time.saturatingAdd(elapsed)
        let key = "\(cause.rawValue) \(origin) \(FailureSums.kind(of: reason))"
        guard let index = delays[key] else {
            guard waits.count < Self.limit else { return }
            delays[key] = waits.count
            let detail = origin.isEmpty ? reason : "\(origin): \(reason)"
            return waits.append(Wait(cause: cause, detail: detail, from: time, to: end, elapsed: elapsed))
        }
        waits[index].count += 1
        // Many transfers wait at the same time.
        let known = max(time, waits[index].to ?? time)
        guard end > known else { return }
        waits[index].elapsed = waits[index].elapsed.saturatingAdd(end.saturatingSubtract(known))
        waits[index].to = end
    }

    private mutating func blocked(_ fields: JSONValue, _ time: Int64) {
        let cause = fields.text("condition") ?? "condition"
        let detail = fields.text("detail") ?? ""
        let run = fields.text("run") ?? ""
        if let known = open[cause] {
            guard known.run != run else {
                // More detail on the same block.
                if !detail.isEmpty { waits[known.index].detail = detail }
                return
            }
            end(cause, time)
        }
        guard waits.count < Self.limit else { return }
        open[cause] = (waits.count, run)
        waits.append(Wait(cause: RestReason(rawValue: cause), detail: detail, from: time))
    }

    private mutating func cleared(_ fields: JSONValue, _ time: Int64) {
        for name in fields.text("condition").map({ [$0] }) ?? Array(open.keys) { end(name, time) }
    }

    /// Stopped by a condition, or with its process, a run waits on; by a person it does not.
    private mutating func stopped(_ fields: JSONValue, _ time: Int64) {
        let reason = fields.text("reason").map(RestReason.init(rawValue:))
        if reason != .policy, reason != .agentRestart { unblocked(fields, time) }
    }

    /// A run is at its end, or at rest: nothing blocks it.
    private mutating func unblocked(_ fields: JSONValue, _ time: Int64) {
        let run = fields.text("run") ?? ""
        for (cause, blocked) in open where blocked.run == run { end(cause, time) }
    }

    /// Another run has taken the place of those that were blocked.
    private mutating func unblocked(others run: String, _ time: Int64) {
        for (cause, blocked) in open where blocked.run != run { end(cause, time) }
    }

    private mutating func end(_ cause: String, _ time: Int64) {
        guard let index = open.removeValue(forKey: cause)?.index else { return }
        waits[index].to = time
        waits[index].elapsed = max(0, time - waits[index].from)
    }

    /// Closes open waits at the time of the report, and drops those that ended before the period.
    ///
    /// - Parameter isWaiting: Whether the session is waiting now: otherwise nothing can block it any more.
    mutating func close(now: Int64, isWaiting: Bool) {
        for (index, _) in open.values {
            waits[index].elapsed = max(0, now - waits[index].from)
            if !isWaiting { waits[index].to = now }
        }
        open = [:]
        delays = [:]
        waits.removeAll { wait in wait.to.map { $0 < since } ?? false }
    }
}

extension JSONValue {
    /// A number; 0 if it is missing, negative or not whole.
    fileprivate func unsigned(_ name: String) -> UInt64 { self[name]?.unsigned ?? 0 }

    fileprivate func int(_ name: String) -> Int { Int(clamping: unsigned(name)) }

    func text(_ name: String) -> String? { self[name]?.string }

    fileprivate func list(_ name: String) -> [JSONValue] { self[name]?.array ?? [] }
}
