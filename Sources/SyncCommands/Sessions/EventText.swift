import Foundation
import SyncControl
import SyncModel

/// One event as a line for people: number, time, name, then what it says.
enum EventText {
    /// What is in every event, or says nothing to people.
    private static let hidden: Set<String> = ["seq", "event", "time", "session", "run"]
    /// What people look for first.
    private static let first = ["path", "group", "result", "program", "attempt", "reason", "state"]

    static func line(_ event: EventLine) -> String {
        let object = (try? JSONSerialization.jsonObject(with: Data(event.text.utf8))) as? [String: Any] ?? [:]
        let name = object["event"] as? String ?? "?"
        let time = (object["time"] as? String).map { String($0.prefix(19)).replacing("T", with: " ") } ?? ""
        let keys =
            first.filter { object[$0] != nil }
            + object.keys.filter { !hidden.contains($0) && !first.contains($0) }.sorted()
        let fields = keys.compactMap { key in object[key].map { "\(key)=\(text($0))" } }
        let number = event.sequence.map(String.init) ?? "-"
        return ([number, time, escaped(name)] + fields).joined(separator: "  ")
    }

    private static func text(_ value: Any) -> String {
        switch value {
        case let text as String:
            let plain = escaped(text)
            return plain.contains(" ") || plain.isEmpty ? "\"\(plain)\"" : plain
        case let object as [String: Any]:
            return object.keys.sorted().map { "\($0):\(text(object[$0] ?? ""))" }.joined(separator: ",")
        case let list as [Any]: return "[" + list.prefix(20).map(text).joined(separator: ",") + "]"
        default: return escaped("\(value)")
        }
    }
}
