import Foundation
import SyncControl
public import SyncModel

/// One event of a session.
public struct SessionEvent: Sendable, Equatable {
    /// Its number in the session, from 1 without a gap: the cursor to go on from. `nil` for progress.
    public let sequence: Int64?
    /// What happened: `run.started`, `task.installed`, `group.completed`, `pull.finished` …
    public let name: String
    /// The run it is about.
    public let run: String?
    /// When it happened.
    public let time: WallTime?
    /// Everything, as one JSON object; its keys are snake_case.
    public let json: String

    /// Reads a line of an event stream; `nil` for what is no event.
    init?(_ line: EventLine) {
        struct Fields: Decodable {
            let event: String
            let run: String?
            let time: WallTime?
        }
        guard let fields = try? JSONDecoder().decode(Fields.self, from: Data(line.text.utf8)) else {
            return nil
        }
        sequence = line.sequence
        name = fields.event
        run = fields.run
        time = fields.time
        json = line.text
    }

    /// Reads more of the event: keys in camelCase meet those in snake_case.
    ///
    /// - Throws: `DecodingError`.
    public func fields<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(type, from: Data(json.utf8))
    }
}
