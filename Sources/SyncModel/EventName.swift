/// All events, by their names in JSON, in the store and in `syncagent events`. `Documentation/reference/Events.md` has
/// a section for each.
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

    // Trees.
    case treeSwitched = "tree.switched"

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

extension EventName {
    /// The fields of every event, which are not listed below.
    package static let commonFields: Set = ["event", "time", "seq", "session", "run"]

    /// The other fields of the event: those that are always present, and those that may be missing.
    /// `Documentation/reference/Events.md` explains exactly these fields.
    package var fields: (required: Set<String>, optional: Set<String>) { Self.known[self] ?? ([], []) }

    /// Computed once: a debug build checks the fields of each event.
    private static let known = Dictionary(
        uniqueKeysWithValues: allCases.map { ($0, (required: words($0.listed.0), optional: words($0.listed.1))) })

    private static func words(_ text: String) -> Set<String> { Set(text.split(separator: " ").map(String.init)) }

    /// The fault of an event with these fields; `nil` for none. Common fields are ignored.
    package func problem(in names: some Sequence<String>) -> String? {
        let fields = self.fields
        let own = Set(names).subtracting(Self.commonFields)
        if let missing = fields.required.subtracting(own).min() { return "the field '\(missing)' is missing" }
        return own.subtracting(fields.required).subtracting(fields.optional).min().map {
            "the field '\($0)' is unknown"
        }
    }

    /// The required and the optional fields, separated by spaces.
    private var listed: (String, String) {
        switch self {
        case .runEnqueued: ("is_new state superseded", "not_before")
        case .runStarted:
            (
                "project manifest manifest_sha256 destination", "channel revision expected_bytes user_data"
            )
        case .planReady: ("files unchanged wanted requests requests_avoided bytes gap_bytes", "")
        case .runSummary:
            (
                "elapsed_ms requests received reused files origins directories",
                "waited_ms stopped tasks other_bytes"
            )
        case .runStopped: ("reason", "")
        case .pullFinished:
            (
                "result files bytes manifest requests elapsed_ms",
                "source directories replaced obsolete error stopped"
            )

        case .taskInstalled: ("path source", "size sha256 link")
        case .taskFailed, .taskCancelled: ("path reason cause", "")
        case .manifestRevision: ("reason revision installed", "")
        case .sourceWrongBytes: ("path source sha256 reason", "got_sha256")
        case .taskRemoved: ("path", "")
        case .pruneFailed: ("path reason", "")
        case .taskRedirected: ("transfer reason hop from to", "\(Self.subject) status rule plugin")

        case .treeSwitched: ("revision manifest_sha256 tree gap_us", "rollback")

        case .groupCompleted: ("group result", "")
        case .hookStarted: (Self.hook, Self.batches)
        case .hookFinished: ("\(Self.hook) result output elapsed_ms", "\(Self.batches) calls")
        case .hookUnknown: ("", "group hook more")

        case .conditionBlocked: ("condition detail", "until")
        case .conditionCleared: ("condition after_ms", "")

        case .transferRetrying: ("transfer url reason attempt wait_ms", Self.subject)
        case .transferWaiting: ("transfer url reason wait_ms", "\(Self.subject) until")
        case .sourcePenalised: ("transfer url reason", Self.subject)

        case .trustPinned: ("project root sha256 origin", "")
        case .trustRefused: ("url cause reason", "")
        case .trustStale: ("project until", "")

        case .pluginFailed: ("point plugin code reason", "")
        case .pluginNotice: ("plugin kind text", "")
        case .metricsFailed: ("reason", "")
        case .scheduleFailed: ("schedule reason cause status", "")

        case .plan:
            (
                "project revision destination files unchanged wanted prunable bytes requests spans",
                "source unknown limit replaced directories prunable_directories prune_refused refused obstructed"
            )
        case .planFile: ("path action", "directory size link from here reason")
        case .planRoute:
            (
                "prefix objects requests",
                "local plugin skipped asked rule credentials headers proxy tls hops status reason probes"
            )
        case .verifyFinished:
            ("result files bytes differing extra problems", "source directories signed notes")
        case .publishFinished:
            (
                "\(Self.published) packs parts deltas repack_pays",
                "channel shard shards signed manifest_sha256 removed error"
            )
        case .lsFile: ("path kind groups", "size sha256 mode mtime link")
        case .diffFile: ("path change size fetch", "from what")
        case .diffFinished: ("old_revision new_revision different files fetch", "")
        case .publishPlanned: ("\(Self.published) changes", "base_revision channel error")
        case .publishFile: ("path change size", "")

        case .progress:
            ("phase files_done files_total bytes_done bytes_total", "received host until attempt")
        case .eventsPruned: ("through", "")
        case .observerDropped: ("count", "")
        }
    }

    /// The subject of a transfer.
    private static let subject = "path object"
    private static let hook = "group program attempt"
    private static let batches = "batch_size batches entries_manifest_sha256"
    private static let published =
        "result project revision unchanged files links directories excluded loose kept unread bytes"
        + " warnings elapsed_ms"
}

extension JSONLine {
    /// Makes the line of an event: `event`, then the fields that `fill` adds. A debug build traps if a field is missing
    /// or unknown.
    package static func event(_ name: EventName, _ fill: (inout JSONLine) -> Void) -> JSONLine {
        let line = object {
            $0.field("event", name)
            fill(&$0)
        }
        assert(line.problem(of: name) == nil, "\(name.rawValue): \(line.problem(of: name) ?? "")")
        return line
    }

    private func problem(of name: EventName) -> String? {
        // A `user_data` may be nested too deeply for the parser.
        guard let fields = JSONValue(text: text)?.object else { return nil }
        return name.problem(in: fields.keys)
    }
}

/// One event as it is stored, sent to followers and shown to observers: the line that says it, and its number.
public struct SessionEvent: Sendable, Equatable {
    /// Its number in the session, from 1 without gaps: the cursor to continue from. `nil` for progress, for a notice
    /// that is not recorded, and for an event that an observer is told of before it is.
    public let sequence: Int64?
    /// The line as it is stored: one JSON object without the number, UTF-8, without a newline.
    package let line: [UInt8]

    package init(sequence: Int64? = nil, line: [UInt8]) { (self.sequence, self.line) = (sequence, line) }

    /// Takes an event as one JSON object on one line: `event`, its name, comes first, after `seq`, its number, if it
    /// has one.
    public init(json: String) {
        let head = json.hasPrefix(Self.numberHead) ? json.dropFirst(Self.numberHead.count).prefix { $0.isNumber } : ""
        guard let number = Int64(head) else {
            self.init(line: Array(json.utf8))
            return
        }
        let rest = json.utf8.dropFirst(Self.numberHead.utf8.count + head.utf8.count)
        self.init(sequence: number, line: [0x7B] + rest.drop { $0 == 0x2C })
    }

    private static let numberHead = "{\"seq\":"
    private static let nameHead = Array("{\"event\":\"".utf8)

    /// The whole event as one JSON object, its number first: `{"seq":12,"event":"task.installed","time":…,"path":…}`.
    /// Its keys are snake_case.
    public var json: String {
        guard let sequence else { return text }
        return "\(Self.numberHead)\(sequence)" + (line.count == 2 ? "}" : ",\(text.dropFirst())")
    }

    /// The line as it is stored.
    package var text: String { String(decoding: line, as: UTF8.self) }

    /// What happened: `run.started`, `task.installed`, `group.completed`, `pull.finished` …
    public var name: String { firstName ?? JSONValue(text: text)?["event"]?.string ?? "" }

    /// ``name``, if this program knows it and it comes first in the line, which is not parsed.
    package var kind: EventName? { firstName.flatMap(EventName.init(rawValue:)) }

    private var firstName: String? {
        guard line.starts(with: Self.nameHead) else { return nil }
        let rest = line[Self.nameHead.count...]
        return rest.firstIndex(of: UInt8(ascii: "\"")).map { String(decoding: rest[..<$0], as: UTF8.self) }
    }

    /// The run it is about.
    public var run: String? { spelling(of: "run").map { String(decoding: $0, as: UTF8.self) } }

    /// When it happened.
    public var time: WallTime? {
        spelling(of: "time").flatMap { parseTimestamp(String(decoding: $0, as: UTF8.self)) }
            .map(WallTime.init(milliseconds:))
    }

    /// The text of the first field of this name, as it is spelled; `nil` where there is none, or it does not end. The
    /// line is not parsed.
    ///
    /// Quotes inside strings are escaped, so a key is never found there.
    package func spelling(of field: String) -> ArraySlice<UInt8>? {
        let key = Array("\"\(field)\":\"".utf8)
        guard line.count >= key.count,
            let place = (0...(line.count - key.count)).first(where: {
                line[$0] == key[0] && line[$0..<($0 + key.count)].elementsEqual(key)
            })
        else { return nil }
        let start = place + key.count
        var end = start
        while end < line.count, line[end] != UInt8(ascii: "\"") { end += line[end] == UInt8(ascii: "\\") ? 2 : 1 }
        return end < line.count ? line[start..<end] : nil
    }
}
