import Foundation
import SyncAgent
import SyncControlFixture
import SyncDaemon
import SyncModel
import Synchronization
import Testing

/// Numbers that a reader has seen.
private final class Seen: Sendable {
    private let state = Mutex<[Int64]>([])
    var numbers: [Int64] { state.withLock { $0 } }

    func add(_ number: Int64) -> Int {
        state.withLock { numbers in
            numbers.append(number)
            return numbers.count
        }
    }
}

@Suite(.timeLimit(.minutes(10)))
struct SessionEventsTests {
    static let name = "com.example.tower"

    static func finished(_ run: String) -> String {
        """
        {"event":"pull.finished","time":"2026-11-20T02:00:00.000Z","result":"ok","session":"\(name)","run":"\(run)",\
        "files":{"total":2,"installed":1,"unchanged":1,"reused":0,"removed":0,"failed":0},\
        "bytes":{"total":9,"received":4,"reused":0},"requests":1,"elapsed_ms":5}
        """
    }

    static func session(_ socket: String) -> AgentSession {
        AgentSession(name, client: ControlClient(socketPath: socket))
    }

    @Test("Events come in order from the cursor on, and end where there are no more")
    func fromCursor() async throws {
        let agent = FakeAgent()
        await agent.add((1...2_000).map { #"{"event":"task.installed","run":"r","path":"\#($0)"}"# })
        let numbers = try await withServer(of: agent) { socket in
            var numbers: [Int64] = []
            for try await event in Self.session(socket).events(after: 500, following: false) {
                #expect(event.name == "task.installed")
                #expect(event.run == "r")
                numbers.append(try #require(event.sequence))
            }
            return numbers
        }
        #expect(numbers == Array(501...2_000))
    }

    @Test("A reader sees each event once, though the agent is replaced again and again")
    func reconnects() async throws {
        let agent = FakeAgent()
        let directory = FileManager.default.temporaryDirectory.path + "/sa-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let path = directory + "/agent.sock"
        let seen = Seen()
        let total = 300
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for try await event in Self.session(path).events() {
                    if seen.add(event.sequence ?? -1) == total { return }
                }
            }
            for round in 1...3 {
                try await serving(server(at: path, of: agent)) { _ in
                    await agent.add((1...100).map { #"{"event":"e","n":\#($0)}"# })
                    while seen.numbers.count < round * 100 { try await Task.sleep(for: .milliseconds(5)) }
                }
            }
            try await group.waitForAll()
        }
        #expect(seen.numbers == Array(1...Int64(total)))
    }

    @Test("A cancelled reader stops at once, and its stream ends at the agent")
    func cancelled() async throws {
        let agent = FakeAgent()
        await agent.add([#"{"event":"a"}"#])
        try await withServer(of: agent) { socket in
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    do {
                        for try await _ in Self.session(socket).events() {}
                        Issue.record("a follower ended by itself")
                    } catch { #expect(error is CancellationError) }
                }
                while await agent.linesRead < 1 { await Task.yield() }
                group.cancelAll()
            }
            while await agent.endedStreams < 1 { try await Task.sleep(for: .milliseconds(10)) }
        }
        #expect(await agent.endedStreams == 1)
    }

    @Test("The longest event there can be arrives; a longer line is an error, not the end [S8 S36]")
    func longLines() async throws {
        let agent = FakeAgent()
        // A hook's output, 1 MiB + 64 KiB, each byte of which takes six in JSON.
        let longest = String(repeating: #"\u0000"#, count: (1 << 20) + (64 << 10))
        await agent.add([#"{"event":"hook.finished","output":"\#(longest)"}"#, #"{"event":"a"}"#])
        try await withServer(of: agent) { socket in
            var names: [String] = []
            for try await event in Self.session(socket).events(following: false) { names.append(event.name) }
            #expect(names == ["hook.finished", "a"])
            await agent.add([#"{"event":"b","text":"\#(String(repeating: "x", count: 9 << 20))"}"#])
            let error = await #expect(throws: ControlError.self) {
                for try await _ in Self.session(socket).events(after: 2) {}
            }
            #expect(error?.code == .internal)
        }
    }

    @Test("What goes wrong in the middle of a stream is thrown")
    func unknown() async throws {
        try await withServer(of: FakeAgent()) { socket in
            let other = AgentSession("other", client: ControlClient(socketPath: socket))
            let error = await #expect(throws: ControlError.self) { for try await _ in other.events() {} }
            #expect(error?.code == .unknownSession)
            let status = try await other.open(after: 0).status
            #expect(status == nil)
        }
    }

    @Test("The end of a run is told once, also to a program that starts again")
    func completions() async throws {
        let agent = FakeAgent()
        await agent.add([#"{"event":"run.started","run":"r1"}"#, Self.finished("r1"), Self.finished("r2")])
        let path = FileManager.default.temporaryDirectory.path + "/sa-cursor-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try await withServer(of: agent) { socket in
            // A program that dies while it deals with the second one …
            var first: [String] = []
            for try await end in try Self.session(socket).completions(CursorFile(path: path)) {
                first.append(end.run)
                #expect(end.result == .ok)
                #expect(end.files.installed == 1)
                #expect(end.bytes.received == 4)
                if first.count == 2 { break }
            }
            #expect(first == ["r1", "r2"])
            // … is told of the second again, and only of that.
            var ends = try Self.session(socket).completions(CursorFile(path: path)).makeAsyncIterator()
            #expect(try await ends.next()?.run == "r2")
            await agent.add([Self.finished("r3")])
            #expect(try await ends.next()?.run == "r3")
        }
        #expect(try CursorFile(path: path).read() == 3)
    }

    @Test("A cursor file that holds something else is an error, not the beginning")
    func badCursor() throws {
        let path = FileManager.default.temporaryDirectory.path + "/sa-cursor-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        #expect(try CursorFile(path: path).read() == 0)
        try CursorFile(path: path).write(12)
        #expect(try CursorFile(path: path).read() == 12)
        try Data("twelve".utf8).write(to: URL(fileURLWithPath: path))
        #expect(throws: ControlError.self) { try CursorFile(path: path).read() }
        try FileManager.default.removeItem(atPath: path)
        #expect(mkfifo(path, 0o600) == 0)
        #expect(throws: ControlError.self) { try CursorFile(path: path).read() }
    }
}
