package import SyncModel

/// Something that happened in a run. The same line is printed, stored and replayed.
package struct SyncEvent: Sendable {
    package let name: EventName
    /// When, in **milliseconds** since 1970-01-01 UTC.
    package let time: Int64
    /// One line for people, if they should see the event at once.
    package let note: String?
    /// The file that went wrong, if any; reported in sums.
    package let failure: FileFailure?
    /// The event as one JSON object: `event`, `time` (RFC 3339, UTC, milliseconds), `session` and `run`, then its own
    /// fields.
    package let json: JSONLine

    /// - Parameters:
    ///   - session: The session of the event; `nil` if it belongs to none.
    ///   - run: The run of the event; `nil` if it belongs to none.
    ///   - fill: Adds its own fields.
    package init(
        _ name: EventName, time: Int64, note: String? = nil, failure: FileFailure? = nil, session: String? = nil,
        run: String? = nil, fields fill: (inout JSONLine) -> Void
    ) {
        (self.name, self.time, self.note, self.failure) = (name, time, note, failure)
        json = JSONLine.event(name) { line in
            line.time("time", time)
            line.field("session", optional: session)
            line.field("run", optional: run)
            fill(&line)
        }
    }
}

/// A file that failed at one attempt, or for good.
package struct FileFailure: Sendable {
    package let path: String
    /// For people; it may begin with the URL.
    package let reason: String
    package let cause: FailureCause
    /// Whether the file is given up; otherwise it may still come from elsewhere.
    package var isFinal = true
}
