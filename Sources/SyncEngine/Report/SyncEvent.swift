package import SyncModel

/// Something that happened in a run. The same line is printed, stored and replayed.
package struct SyncEvent: Sendable {
    package let name: EventName
    /// When, in **milliseconds** since 1970-01-01 UTC.
    package let time: Int64
    /// One line for people, if they should see the event at once.
    package let note: String?
    /// The event as one JSON object: `event`, `time` (RFC 3339, UTC, milliseconds), `session` and `run`, then its own
    /// fields.
    package let json: JSONLine

    /// - Parameters:
    ///   - session: The session of the event; `nil` if it belongs to none.
    ///   - run: The run of the event; `nil` if it belongs to none.
    ///   - fill: Adds its own fields.
    package init(
        _ name: EventName, time: Int64, note: String? = nil, session: String? = nil, run: String? = nil,
        fields fill: (inout JSONLine) -> Void
    ) {
        (self.name, self.time, self.note) = (name, time, note)
        json = JSONLine.event(name) { line in
            line.time("time", time)
            line.field("session", optional: session)
            line.field("run", optional: run)
            fill(&line)
        }
    }
}
