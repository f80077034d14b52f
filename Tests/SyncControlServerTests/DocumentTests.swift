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
    func routes() throws {
        let found = try Self.text().matches(of: /\| `(GET|POST|DELETE) (\/v1\S*?)`/).map { match in
            let target = match.2.replacing("{name}", with: "tower").replacing("{number}", with: "7")
            return try Route(method: String(match.1), target: String(target))
        }
        let expected: [Route] = [
            .agent, .stopAgent, .sessions, .session("tower"), .remove("tower", files: false), .enqueue, .pause("tower"),
            .resume("tower"), .cancel("tower"), .prioritize("tower"), .requests("tower"),
            .tasks("tower", state: .failed, path: "sheets/**"),
            .events("tower", since: 0, follow: false, progress: false), .hooks(session: "tower"), .replay(7), .metrics,
        ]
        #expect(found == expected)
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
