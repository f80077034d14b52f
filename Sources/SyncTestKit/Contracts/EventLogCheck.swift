import Foundation
import SyncModel

/// What is wrong with the order of events in the output of `--json` or of `syncagent events` (S29–S31, S33).
///
/// - Parameter lines: JSON objects, one a line; lines that are no event of a run are left out.
/// - Returns: One line a complaint; empty when all is in order.
public func orderComplaints(inEvents lines: [String]) -> [String] {
    var order = EventOrder()
    return lines.compactMap { line in
        // What is not JSON is no event.
        guard let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any],
            let name = (object["event"] as? String).flatMap(EventName.init(rawValue:)),
            let run = object["run"] as? String, !run.isEmpty
        else { return nil }
        return order.take(
            EventOrder.Event(
                name,
                run: run,
                path: object["path"] as? String,
                group: object["group"] as? String,
                program: object["program"] as? String,
                attempt: object["attempt"] as? Int,
                batch: object["batch_size"] as? Int
            )
        )
    }
}
