import SyncControl
import SyncModel

/// One event as a line for people: number, time, name, then what it says.
enum EventText {
    /// What is in every event, or says nothing to people.
    private static let hidden: Set<String> = ["seq", "event", "time", "session", "run"]
    /// What people look for first.
    private static let first = ["path", "group", "result", "program", "attempt", "reason", "state"]

    static func line(_ event: EventLine) -> String {
        let object = JSONValue(text: event.text)?.object ?? [:]
        let name = object["event"]?.string ?? "?"
        let time = object["time"]?.string.map { String($0.prefix(19)).replacing("T", with: " ") } ?? ""
        let keys =
            first.filter { object[$0] != nil }
            + object.keys.filter { !hidden.contains($0) && !first.contains($0) }.sorted()
        let fields = keys.compactMap { key in object[key].map { "\(key)=\(text($0))" } }
        let number = event.sequence.map(String.init) ?? "-"
        return ([number, time, escaped(name)] + fields).joined(separator: "  ")
    }

    private static func text(_ value: JSONValue) -> String {
        switch value {
        case .string(let text):
            let plain = escaped(text)
            return plain.contains(" ") || plain.isEmpty ? "\"\(plain)\"" : plain
        case .object(let object):
            return object.sorted { $0.key < $1.key }.map { "\($0.key):\(text($0.value))" }.joined(
                separator: ","
            )
        case .array(let list): return "[" + list.prefix(20).map(text).joined(separator: ",") + "]"
        case .null, .bool, .integer, .number: return value.text
        }
    }
}
