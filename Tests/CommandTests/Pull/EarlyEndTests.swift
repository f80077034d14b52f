import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// Every way in which a pull ends before its time, by what a program sees that reads `--json`.
@Suite("Early ends", .timeLimit(.minutes(10)))
struct EarlyEndTests {
    /// What stands in a pull's way.
    enum Obstacle: String, CaseIterable {
        case pin, access, missing, broken, page, taken
        /// Only patience, time or a signal ends these soon; the last two begin when the manifest is here.
        case dead, silent, outOfOrder, putOff, silentPack, hook
    }

    /// A set whose server does what is asked of it.
    private final class Way {
        let set: ScriptedSet
        private let port: ClosedPort
        private var other: Process?
        private(set) var arguments: [String]

        /// - Parameter lacksFile: Whether the manifest names one more file, which is not on the server.
        init(_ obstacle: Obstacle, lacksFile: Bool = false) throws {
            let digest = String(repeating: "ab", count: 32)
            let gone = #"{"path":"0","size":3,"sha256":"\#(digest)","urls":["gone.bin"]},"#
            set =
                lacksFile
                ? try ScriptedSet { $0.replacing(#""files":["#, with: #""files":["# + gone) } : try ScriptedSet()
            port = try ClosedPort()
            arguments = [set.manifest]
            switch obstacle {
            case .pin: arguments += ["--trust", "SHA256:" + String(repeating: "ab", count: 32)]
            case .access: try answer(.status(401))
            case .missing: arguments = [set.server.url("/nowhere.json")]
            case .broken: arguments = [try set.scratch.write(Data("{".utf8), to: "broken.json").path]
            case .page: try answer(.captivePortal())
            case .taken:
                try answer(.silence, packsOnly: true)
                let process = set.tool.process(["pull", set.manifest, "--into", "tower", "--quiet"])
                try process.run()
                other = process
                try #require(until { isAsked(".pack") })
            case .dead: arguments = [port.url("/m.json")]
            case .silent: try answer(.silence)
            case .outOfOrder: try answer(.unavailable(503))
            case .putOff: try answer(.unavailable(503, retryAfter: "60"))
            case .silentPack: try answer(.silence, packsOnly: true)
            case .hook:
                let script = Data("#!/bin/sh\n: >../hooked\nsleep 60\n".utf8)
                let program = try set.scratch.write(script, to: "hook").path
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program)
                arguments += ["--hook", program]
            }
        }

        deinit {
            set.server.releaseStalls()
            other?.terminate()
            other?.waitUntilExit()
        }

        private func answer(_ answer: FaultAnswer, packsOnly: Bool = false) throws {
            for path in try set.scratch.contents(of: "site") where !packsOnly || path.hasSuffix(".pack") {
                set.server.respond(to: "/site/\(path)") { _ in answer }
            }
        }

        private func isAsked(_ end: String) -> Bool {
            set.server.log.entries.contains { $0.request.path.hasSuffix(end) }
        }

        private func until(_ isThere: () -> Bool) -> Bool {
            for _ in 0..<2_000 {
                if isThere() { return true }
                usleep(10_000)
            }
            return false
        }

        /// Waits until a pull stands where it is to stand; of a port that nobody listens at, that it has said so.
        func stands(_ obstacle: Obstacle, _ output: URL) -> Bool {
            until {
                switch obstacle {
                case .hook: FileManager.default.fileExists(atPath: set.scratch.path + "/hooked")
                case .silentPack: isAsked(".pack")
                case .dead: (try? Data(contentsOf: output))?.isEmpty == false
                default: isAsked(".zst")
                }
            }
        }
    }

    /// Exactly one `pull.finished`, the last line, with the status and a message.
    private func expectEnd(
        _ outcome: Tool.Outcome, _ statuses: Set<Int32>, _ words: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(
            statuses.contains(outcome.status), "\(outcome.status): \(outcome.error)", sourceLocation: sourceLocation)
        let events = try outcome.events()
        let ends = events.indices.filter { events[$0]["event"] as? String == "pull.finished" }
        #expect(ends == [events.count - 1], sourceLocation: sourceLocation)
        let error = events.last?["error"] as? [String: Any]
        #expect(error?["status"] as? Int == Int(outcome.status), sourceLocation: sourceLocation)
        let message = error?["message"] as? String ?? ""
        #expect(message.contains(words), "\(message)", sourceLocation: sourceLocation)
    }

    /// How one ends, and a word that its message has.
    struct Ending: Sendable, CustomStringConvertible {
        let obstacle: Obstacle
        let statuses: Set<Int32>
        let words: String
        var description: String { obstacle.rawValue }

        init(_ obstacle: Obstacle, _ statuses: Set<Int32>, _ words: String) {
            (self.obstacle, self.statuses, self.words) = (obstacle, statuses, words)
        }
    }

    @Test(
        "What ends by itself, or when the patience is over, tells one end, the last line, with status and cause",
        arguments: [
            Ending(.pin, [77], "trust"), Ending(.access, [77], "401"), Ending(.missing, [66], "404"),
            Ending(.broken, [65], "broken.json"), Ending(.page, [65], "web page"), Ending(.taken, [75], "busy"),
            Ending(.dead, [69], "nothing came from"), Ending(.silent, [69], "nothing came from"),
            Ending(.outOfOrder, [69], "503"), Ending(.silentPack, [2, 69], "no answer"),
        ])
    func byItself(ending: Ending) throws {
        let way = try Way(ending.obstacle)
        try expectEnd(try way.set.pull(way.arguments + ["--patience", "1s"]), ending.statuses, ending.words)
    }

    static let standing: [Obstacle] = [.dead, .silent, .outOfOrder, .putOff, .silentPack, .hook]

    @Test("A deadline tells the same wherever it meets a pull, soon", arguments: standing)
    func deadline(obstacle: Obstacle) throws {
        let way = try Way(obstacle)
        let outcome = try way.set.pull(way.arguments + ["--deadline", "2s"])
        try expectEnd(outcome, obstacle == .hook ? [5] : [69], obstacle == .hook ? "hook" : "deadline")
        #expect((try outcome.events().last?["elapsed_ms"] as? Int ?? .max) < 4_000)
    }

    @Test("A deadline during a hook of an incomplete pull ends it as incomplete, and is told once [S51]")
    func deadlineOfIncomplete() throws {
        let way = try Way(.hook, lacksFile: true)
        let outcome = try way.set.pull(way.arguments + ["--deadline", "2s"])
        #expect(FileManager.default.fileExists(atPath: way.set.scratch.path + "/hooked"), "\(outcome.error)")
        try expectEnd(outcome, [2], "status 2")
    }

    @Test("SIGTERM tells the same wherever it meets a pull, soon", arguments: standing)
    func signal(obstacle: Obstacle) throws {
        let way = try Way(obstacle)
        let (output, error) = (try way.set.scratch.file(), try way.set.scratch.file())
        let process = way.set.tool.process(["pull", "--into", "tower", "--json"] + way.arguments)
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: error)
        try process.run()
        #expect(way.stands(obstacle, output))
        let start = ContinuousClock.now
        kill(process.processIdentifier, SIGTERM)
        process.waitUntilExit()
        #expect(.now - start < .seconds(3))
        let outcome = Tool.Outcome(
            status: process.terminationReason == .exit ? process.terminationStatus : -1,
            output: try String(contentsOf: output, encoding: .utf8),
            error: try String(contentsOf: error, encoding: .utf8))
        try expectEnd(outcome, obstacle == .hook ? [5] : [143], obstacle == .hook ? "hook" : "SIGTERM")
    }
}
