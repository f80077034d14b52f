import Foundation
import SyncAgent
import SyncControlFixture
import SyncDaemon
import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct EventStreamTests {
    static let path = "/v1/sessions/com.example.tower/events"

    /// Waits until something is so; the suite's time limit ends what never comes.
    static func wait(until condition: () async -> Bool) async throws {
        while await !condition() { try await Task.sleep(for: .milliseconds(5)) }
    }

    @Test("Events are lines with their numbers, from the cursor on", .enabled(if: Curl.path != nil, "SKIPPED: no curl"))
    func lines() async throws {
        let agent = FakeAgent()
        await agent.add([#"{"event":"a"}"#, #"{"event":"b"}"#, #"{"event":"c"}"#])
        let answer = try await withServer(of: agent) { try await Curl($0).run([], Self.path + "?since=1") }
        #expect(answer.status == 200)
        #expect(answer.headers["content-type"] == "application/x-ndjson")
        #expect(answer.body == "{\"seq\":2,\"event\":\"b\"}\n{\"seq\":3,\"event\":\"c\"}\n")
    }

    @Test(
        "An error in the middle of a stream is its last line, whatever kind of error it is",
        .enabled(if: Curl.path != nil, "SKIPPED: no curl"))
    func broken() async throws {
        struct Odd: Error {}
        for (error, code) in [
            (ControlError(.failed, "the disk is full", exitStatus: .ioError), "failed"), (Odd(), "internal"),
        ] as [(any Error, String)] {
            let agent = FakeAgent()
            await agent.add([#"{"event":"a"}"#])
            await agent.breakStreams(error)
            let answer = try await withServer(of: agent) { try await Curl($0).run([], Self.path + "?follow=1") }
            let lines = answer.body.split(separator: "\n")
            #expect(lines.count == 2 && lines.first == "{\"seq\":1,\"event\":\"a\"}")
            #expect(lines.last?.hasPrefix("{\"error\":{") == true && lines.last?.contains("\"\(code)\"") == true)
        }
    }

    @Test("A client that goes away ends its stream", .enabled(if: Curl.path != nil, "SKIPPED: no curl"))
    func clientGoes() async throws {
        let agent = FakeAgent()
        await agent.add([#"{"event":"a"}"#])
        try await withServer(of: agent) { socket in
            let process = try Curl(socket).process(["--no-buffer", "http://localhost\(Self.path)?follow=1"])
            let output = Pipe()
            process.standardOutput = output
            try process.run()
            try await Self.wait { await agent.linesRead == 1 }
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            try await Self.wait { await agent.endedStreams == 1 }
        }
        #expect(await agent.endedStreams == 1)
    }

    @Test(
        "A client that does not read holds the agent back; others are answered [F090]",
        .enabled(if: Curl.path != nil, "SKIPPED: no curl"))
    func slowClient() async throws {
        let agent = FakeAgent()
        let text = String(repeating: "x", count: 1000)
        await agent.add(Array(repeating: "{\"event\":\"\(text)\"}", count: 20_000))
        try await withServer(of: agent) { socket in
            let process = try Curl(socket).process(["http://localhost\(Self.path)?follow=1"])
            // A pipe that nobody reads: curl writes 64 KiB and stops.
            let output = Pipe()
            process.standardOutput = output
            try process.run()
            defer {
                kill(process.processIdentifier, SIGKILL)
                process.waitUntilExit()
            }
            var before = -1
            // Until nothing moves any more.
            try await Self.wait {
                let now = await agent.linesRead
                defer { before = now }
                if now > 0, now == before { return true }
                try? await Task.sleep(for: .milliseconds(300))
                return false
            }
            #expect(try await Curl(socket).run([], "/v1/agent").status == 200)
        }
        let read = await agent.linesRead
        // 64 KiB here, the socket's buffers, the server's, curl's and the pipe's, and what is on its way to a loop that gets no
        // processor: far from the 20 MB there are.
        #expect(read < 5_000, "\(read) lines of 1 kB were taken")
    }

    @Test(
        "Only so many may follow: the next is told, and commands still work",
        .enabled(if: Curl.path != nil, "SKIPPED: no curl"))
    func bounded() async throws {
        let agent = FakeAgent()
        try await withServer(of: agent, options: { $0.maximumStreams = 1 }) { socket in
            let process = try Curl(socket).process(["http://localhost\(Self.path)?follow=1"])
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            try await Self.wait { await agent.asked.count == 1 }
            let second = try await Curl(socket).run([], Self.path + "?follow=1")
            #expect(second.status == 409)
            #expect(second.body.contains("already following events"))
            #expect(try await Curl(socket).run([], "/v1/sessions").status == 200)
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    @Test("A stop ends streams in good order", .enabled(if: Curl.path != nil, "SKIPPED: no curl"))
    func stop() async throws {
        let agent = FakeAgent()
        await agent.add([#"{"event":"a"}"#])
        let process = try await withServer(of: agent) { socket in
            let process = try Curl(socket).process(["http://localhost\(Self.path)?follow=1"])
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            try await Self.wait { await agent.linesRead == 1 }
            return process
        }
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
    }
}
