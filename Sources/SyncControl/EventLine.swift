/// One line of an event stream: an event's JSON object, with its number first where it has one.
///
/// `{"seq":12,"event":"task.installed","time":…,"path":…}`; progress and notices of the stream itself have no `seq`.
public struct EventLine: Sendable, Equatable {
    /// The event's number in its session, from 1 without a gap; `nil` for what is not recorded.
    public let sequence: Int64?
    /// The whole line, one JSON object.
    public let text: String

    /// Takes a line of a stream.
    public init(_ text: String) {
        self.text = text
        let prefix = "{\"seq\":"
        guard text.hasPrefix(prefix) else {
            sequence = nil
            return
        }
        sequence = Int64(text.dropFirst(prefix.count).prefix { $0.isASCII && $0.isNumber })
    }

    /// Takes a recorded event: its number, and its JSON object as text.
    public init(sequence: Int64, event: String) {
        self.sequence = sequence
        let rest = event.dropFirst()
        text = "{\"seq\":\(sequence)" + (rest == "}" ? "}" : ",\(rest)")
    }

    /// Says that events up to this number are no longer kept, to a reader that has not seen them.
    public static func pruned(through sequence: Int64) -> EventLine {
        EventLine("{\"event\":\"events.pruned\",\"through\":\(sequence)}")
    }
}
