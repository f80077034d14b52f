package import SyncModel

/// Something that happened in a run. The same value is printed, stored and replayed.
package struct SyncEvent: Sendable {
    package let name: EventName
    /// When, in **milliseconds** since 1970-01-01 UTC.
    package let time: Int64
    /// One line for people, if they should see the event at once.
    package let note: String?
    /// The file that went wrong, if any; reported in sums.
    package let failure: FileFailure?
    private let fill: @Sendable (inout JSONLine) -> Void

    package init(
        _ name: EventName, time: Int64, note: String? = nil, failure: FileFailure? = nil,
        fields: @escaping @Sendable (inout JSONLine) -> Void = { _ in }
    ) {
        (self.name, self.time, self.note, self.failure) = (name, time, note, failure)
        fill = fields
    }

    /// The same event, as one of a run.
    package func of(session: String, run: String) -> SyncEvent {
        SyncEvent(name, time: time, note: note, failure: failure) { [fill] in
            $0.field("session", session)
            $0.field("run", run)
            fill(&$0)
        }
    }

    /// The same event with more fields after its own.
    package func with(_ more: @escaping @Sendable (inout JSONLine) -> Void) -> SyncEvent {
        SyncEvent(name, time: time, note: note, failure: failure) { [fill] in
            fill(&$0)
            more(&$0)
        }
    }

    /// The event as one JSON object: `event`, `time` (RFC 3339, UTC, milliseconds), then its own fields.
    package var json: JSONLine {
        JSONLine.event(name) { line in
            line.time("time", time)
            fill(&line)
        }
    }
}

/// A file that failed at the first try, or for good.
package struct FileFailure: Sendable {
    package let path: String
    /// For people; it may begin with the URL.
    package let reason: String
    package let cause: FailureCause
    /// Whether the file was not brought; otherwise it may still come from elsewhere.
    package var isFinal = true
}
