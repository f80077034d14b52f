/// Every event there is, by its name in JSON, in the store and in `syncagent events`. `Documentation/reference/Events.md` has a section
/// for each.
package enum EventName: String, Sendable, CaseIterable, Codable {
    // A run's life.
    case runEnqueued = "run.enqueued"
    case runStarted = "run.started"
    case planReady = "plan.ready"
    case runSummary = "run.summary"
    case runStopped = "run.stopped"
    case pullFinished = "pull.finished"

    // Files.
    case taskInstalled = "task.installed"
    case taskFailed = "task.failed"
    case taskCancelled = "task.cancelled"
    case manifestRevision = "manifest.revision"
    case sourceWrongBytes = "source.wrong_bytes"
    case taskRemoved = "task.removed"
    case pruneFailed = "prune.failed"
    case taskRedirected = "task.redirected"

    // Groups and hooks.
    case groupCompleted = "group.completed"
    case hookStarted = "hook.started"
    case hookFinished = "hook.finished"
    case hookUnknown = "hook.unknown"

    // Conditions.
    case conditionBlocked = "condition.blocked"
    case conditionCleared = "condition.cleared"

    // Transfers.
    case transferRetrying = "transfer.retrying"
    case transferWaiting = "transfer.waiting"
    case sourcePenalised = "source.set_back"

    // Signatures.
    case trustPinned = "trust.pinned"
    case trustRefused = "trust.refused"
    case trustStale = "trust.stale"

    // Plugins and metrics.
    case pluginFailed = "plugin.failed"
    case pluginNotice = "plugin.notice"
    case metricsFailed = "metrics.failed"
    case scheduleFailed = "schedule.failed"

    // Other commands.
    case plan = "plan"
    case planFile = "plan.file"
    case planRoute = "plan.route"
    case verifyFinished = "verify.finished"
    case publishFinished = "publish.finished"
    case lsFile = "ls.file"
    case diffFile = "diff.file"
    case diffFinished = "diff.finished"
    case publishPlanned = "publish.planned"
    case publishFile = "publish.file"

    // Stream notices.
    case progress = "progress"
    case eventsPruned = "events.pruned"
    case observerDropped = "observer.dropped"
}

/// The fields of one event besides those that every event may have.
package struct EventFields: Sendable {
    /// Written each time.
    package let required: Set<String>
    /// Written where there is something to say.
    package let optional: Set<String>

    /// Those of every event; no list has them.
    package static let common: Set = ["event", "time", "seq", "session", "run"]

    /// Takes names with spaces between them.
    package init(_ required: String, optional: String = "") {
        self.required = Self.words(required)
        self.optional = Self.words(optional)
    }

    private static func words(_ text: String) -> Set<String> { Set(text.split(separator: " ").map(String.init)) }

    /// What is wrong with an event that has these fields; `nil` if nothing is. Common ones are ignored.
    package func problem(in fields: some Sequence<String>) -> String? {
        let own = Set(fields).subtracting(Self.common)
        if let missing = required.subtracting(own).min() { return "the field '\(missing)' is missing" }
        return own.subtracting(required).subtracting(optional).min().map { "the field '\($0)' is unknown" }
    }
}

extension EventName {
    /// What the event is written with. `Documentation/reference/Events.md` explains these fields, and no others.
    package var fields: EventFields { Self.known[self] ?? listed }

    /// Made once: a debug build looks at the fields of each event.
    private static let known = Dictionary(uniqueKeysWithValues: allCases.map { ($0, $0.listed) })

    private var listed: EventFields {
        switch self {
        case .runEnqueued: EventFields("is_new state superseded", optional: "not_before")
        case .runStarted:
            EventFields(
                "project manifest manifest_sha256 destination", optional: "channel revision expected_bytes user_data")
        case .planReady: EventFields("files unchanged wanted requests requests_avoided bytes gap_bytes")
        case .runSummary:
            EventFields(
                "elapsed_ms requests received reused files origins directories", optional: "stopped tasks other_bytes")
        case .runStopped: EventFields("reason")
        case .pullFinished:
            EventFields(
                "result files bytes manifest requests elapsed_ms",
                optional: "directories replaced obsolete error stopped")

        case .taskInstalled: EventFields("path source", optional: "size sha256 link")
        case .taskFailed, .taskCancelled: EventFields("path reason cause")
        case .manifestRevision: EventFields("reason revision installed")
        case .sourceWrongBytes: EventFields("path source sha256 reason", optional: "got_sha256")
        case .taskRemoved: EventFields("path")
        case .pruneFailed: EventFields("path reason")
        case .taskRedirected: EventFields("transfer reason hop from to", optional: "\(Self.subject) status rule plugin")

        case .groupCompleted: EventFields("group result")
        case .hookStarted: EventFields(Self.hook, optional: Self.batches)
        case .hookFinished: EventFields("\(Self.hook) result output elapsed_ms", optional: "\(Self.batches) calls")
        case .hookUnknown: EventFields("", optional: "group hook more")

        case .conditionBlocked: EventFields("condition detail", optional: "until")
        case .conditionCleared: EventFields("condition after_ms")

        case .transferRetrying: EventFields("transfer url reason attempt wait_ms", optional: Self.subject)
        case .transferWaiting: EventFields("transfer url reason wait_ms", optional: "\(Self.subject) until")
        case .sourcePenalised: EventFields("transfer url reason", optional: Self.subject)

        case .trustPinned: EventFields("project root sha256 origin")
        case .trustRefused: EventFields("url cause reason")
        case .trustStale: EventFields("project until")

        case .pluginFailed: EventFields("point plugin code reason")
        case .pluginNotice: EventFields("plugin kind text")
        case .metricsFailed: EventFields("reason")
        case .scheduleFailed: EventFields("schedule reason cause status")

        case .plan:
            EventFields(
                "project revision destination files unchanged wanted prunable bytes requests spans",
                optional: "replaced directories prunable_directories prune_refused refused obstructed")
        case .planFile: EventFields("path action", optional: "directory size link from here reason")
        case .planRoute:
            EventFields(
                "prefix objects requests",
                optional: "local plugin asked rule credentials headers proxy tls hops status reason probes")
        case .verifyFinished:
            EventFields("result files bytes differing extra problems", optional: "directories signed notes")
        case .publishFinished:
            EventFields(
                "\(Self.published) packs parts deltas repack_pays", optional: "channel signed manifest_sha256 error")
        case .lsFile: EventFields("path kind groups", optional: "size sha256 mode mtime link")
        case .diffFile: EventFields("path change size fetch", optional: "from what")
        case .diffFinished: EventFields("old_revision new_revision different files fetch")
        case .publishPlanned: EventFields("\(Self.published) changes", optional: "base_revision error")
        case .publishFile: EventFields("path change size")

        case .progress:
            EventFields("phase files_done files_total bytes_done bytes_total", optional: "received host until attempt")
        case .eventsPruned: EventFields("through")
        case .observerDropped: EventFields("count")
        }
    }

    /// What a transfer is for.
    private static let subject = "path object"
    private static let hook = "group program attempt"
    private static let batches = "batch_size batches entries_manifest_sha256"
    private static let published =
        "result project revision unchanged files links directories excluded loose kept unread bytes"
        + " warnings elapsed_ms"
}

extension JSONLine {
    /// Makes the line of an event: `event`, then what `fill` adds. A debug build traps if a field is missing or
    /// unknown.
    package static func event(_ name: EventName, _ fill: (inout JSONLine) -> Void) -> JSONLine {
        let line = object {
            $0.field("event", name)
            fill(&$0)
        }
        assert(line.problem(of: name) == nil, "\(name.rawValue): \(line.problem(of: name) ?? "")")
        return line
    }

    private func problem(of name: EventName) -> String? {
        // Somebody's `user_data` may be nested deeper than what is read.
        guard let fields = JSONValue(text: text)?.object else { return nil }
        return name.fields.problem(in: fields.keys)
    }
}
