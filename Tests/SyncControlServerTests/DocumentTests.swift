import Foundation
import SyncAgent
import SyncModel
import Testing

@testable import SyncDaemon

/// `Documentation/reference/Control-API.md` says what the code does.
@Suite(.timeLimit(.minutes(10)))
struct DocumentTests {
    static func text() throws -> String {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return try String(
            contentsOf: root.appendingPathComponent("Documentation/reference/Control-API.md"), encoding: .utf8)
    }

    @Test("Every route in the document is one, and every route is in the document")
    func routes() async throws {
        var asked: [String] = []
        for match in try Self.text().matches(of: /\| `(GET|POST|DELETE) (\/v1\S*?)`/) {
            let target = match.2.replacing("{name}", with: "tower").replacing("{number}", with: "7")
            asked += await ask(String(match.1), String(target)).asked
        }
        let all = [
            "status", "stop release", "sessions", "session tower", "remove tower false", "enqueue", "pause tower",
            "resume tower", "cancel tower", "prioritize tower b", "requests tower", "tasks tower failed sheets/**",
            "events tower since 0 follow false progress false", "hooks tower", "replay 7", "metrics",
        ]
        #expect(asked == all)
    }

    @Test("Every code of an error is in the document", arguments: ControlError.Code.allCases)
    func codes(code: ControlError.Code) throws {
        // The client makes that one up itself.
        guard code != .unreachable else { return }
        #expect(try Self.text().contains("`\(code.rawValue)`"))
    }

    @Test("The document's request is understood, and its keys are those of the code")
    func request() throws {
        let text = try Self.text()
        let body = try #require(text.firstMatch(of: /--data '(\{[^']*\})'/)).1
        let request = try EnqueueRequest.keys.decode(EnqueueRequest.self, from: Array(body.utf8))
        #expect(request.hooks == [RunHook(arguments: ["/usr/local/lib/syncagent/reindex"])])
        let table = text.matches(of: /\n\| `([a-z_]+)` \| [^|]* \| [^|]* \|/).map { String($0.1) }
        for key in table where !ControlError.Code.allCases.map(\.rawValue).contains(key) {
            // What the code does not know is refused by its name, before anything else is.
            let error = #expect(throws: ControlError.self) {
                try EnqueueRequest.keys.decode(EnqueueRequest.self, from: Array(#"{"\#(key)":{}}"#.utf8))
            }
            #expect(error?.message.contains("Unknown key") == false, "\(key)")
        }
        #expect(table.contains("not_before"))
    }
}
