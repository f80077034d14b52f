import Foundation
import SyncPluginHost
import SyncPlugins
import SyncTestKit
import Testing

/// A transport over the example plugin.
func exampleTransport(_ fixture: PluginFixture, timeout: Duration = .seconds(1)) throws -> PluginTransport {
    let program = try fixture.example("http-python")
    let client = fixture.client(fixture.configuration(program, point: .transport) { $0.limits.request = timeout })
    var retries = PluginTransport.Retries()
    retries.firstDelay = .milliseconds(10)
    // A server that stalls again and again shall outlast a test that is kept waiting by others.
    retries.most = 30
    return PluginTransport(client, retries: retries)
}

@Suite(.timeLimit(.minutes(10)), .enabled(if: PluginFixture.hasPython, "there is no /usr/bin/python3"))
struct TransportTests {
    @Test(
        "A transport that is a plugin keeps the contract of every transport [V66]", arguments: TransportContract.cases)
    func contract(_ rule: TransportContract.Rule) async throws {
        let fixture = try PluginFixture()
        try await rule.check { try exampleTransport(fixture) }
        #expect(fixture.notices().isEmpty, "\(fixture.notices())")
    }
}

/// What a transport plugin can do wrong, and how the transfer ends.
struct TransportFault: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// Python; `fetch(message)` does it.
    let body: String
    /// `nil` when the transfer succeeds all the same.
    let code: TransferError.Code?
    var limit: UInt64 = 1_000

    static let all: [TransportFault] = [
        TransportFault(
            testDescription: "crashes in the middle of the first body",
            body: """
                first = not os.path.exists("ROOT/crashed")
                head(message, size=1000, start=start)
                if first:
                    open("ROOT/crashed", "w")
                    body(message, b"x" * 500)
                    os.kill(os.getpid(), signal.SIGSEGV)
                body(message, b"x" * (1000 - start))
                answer(message, {})
                """, code: nil),
        TransportFault(testDescription: "crashes each time", body: "os._exit(1)", code: .unreachable),
        TransportFault(
            testDescription: "writes more than there is",
            body: "head(message, size=1000)\nbody(message, b'x' * 100000)\nanswer(message, {})", code: nil),
        TransportFault(
            testDescription: "writes without end and tells no size",
            body: "head(message)\nbody(message, b'x' * 1000000)\nanswer(message, {})", code: .tooLarge),
        TransportFault(
            testDescription: "writes less than it said, each time",
            body: "head(message, size=1000, start=start)\nbody(message, b'')\nanswer(message, {})", code: .unreachable),
        TransportFault(
            testDescription: "says nothing of what comes", body: "answer(message, {'requests': 1})", code: .badAnswer),
        TransportFault(
            testDescription: "tells a head that makes no sense",
            body: "send({'method': 'transport.head', 'params': {'id': message['id'], 'status': 777}})", code: .badAnswer
        ), TransportFault(testDescription: "tells a negative size", body: "head(message, size=-5)", code: .badAnswer),
        TransportFault(
            testDescription: "tells another size than the manifest", body: "head(message, size=999)", code: .badAnswer),
        TransportFault(testDescription: "never opens the pipe", body: "head(message, size=1000)", code: .timedOut),
        TransportFault(
            testDescription: "opens the pipe and stalls",
            body: "head(message, size=1000)\npipe = open(message['params']['into'], 'wb')\ntime.sleep(1000)",
            code: .timedOut),
        TransportFault(
            testDescription: "tells progress for ever and brings nothing",
            body: """
                head(message, size=1000)
                while True:
                    send({"method": "$/progress", "params": {"id": message["id"]}})
                    time.sleep(0.1)
                """, code: .timedOut),
        TransportFault(
            testDescription: "answers before it has written",
            body: """
                head(message, size=1000)
                pipe = open(message["params"]["into"], "wb", buffering=0)
                answer(message, {})
                time.sleep(0.2)
                pipe.write(b"x" * 1000)
                pipe.close()
                """, code: nil),
        TransportFault(
            testDescription: "writes everything and never answers",
            body: "head(message, size=1000)\nbody(message, b'x' * 1000)", code: nil),
    ]

    var program: String {
        let lines = body.replacingOccurrences(of: "\\\n", with: "\n").split(separator: "\n")
        return """
            def head(message, size=None, start=0):
                params = {"id": message["id"], "status": 206 if start else 200, "offset": start}
                if size is not None: params["object_size"] = size
                send({"method": "transport.head", "params": params})
            def body(message, data):
                try:
                    with open(message["params"]["into"], "wb", buffering=0) as pipe:
                        while data: data = data[pipe.write(data):]
                except BrokenPipeError: pass
            def fetch(message):
                start = message["params"].get("range", [0])[0]
                \(lines.joined(separator: "\n    "))
            def handler(message):
                if message["method"] == "transport.fetch":
                    threading.Thread(target=fetch, args=(message,), daemon=True).start()
            serve(handler)
            """
    }
}

extension TransportTests {
    @Test(
        "A transport plugin that does wrong fails its transfer and leaves no pipe [V66]", arguments: TransportFault.all)
    func fault(_ fault: TransportFault) async throws {
        let fixture = try PluginFixture()
        let program = fault.program.replacingOccurrences(of: "ROOT", with: fixture.root.path)
        let client = try fixture.client(program, point: .transport) {
            $0.limits.request = .milliseconds(700)
            $0.limits.progressFactor = 2
            $0.restart.firstDelay = .milliseconds(10)
            $0.restart.mostEnds = 100
        }
        var retries = PluginTransport.Retries()
        retries.most = 3
        retries.firstDelay = .milliseconds(10)
        let transport = PluginTransport(client, retries: retries)
        let run = TransferRun(
            TransferRequest(
                id: TransferID(rawValue: 1), urls: ["x://a/b"], objectSize: fault.code == .tooLarge ? nil : 1_000,
                limit: fault.limit), on: transport)
        let result = try await run.end()
        await blocking { transport.shutdown() }
        switch result {
        case .success:
            #expect(fault.code == nil)
            #expect(run.sink.bytes == [UInt8](repeating: UInt8(ascii: "x"), count: 1_000))
        case .failure(let error):
            #expect(error.code == fault.code, "\(error)")
            #expect(error.isOtherSize == fault.body.contains("size=999"))
            #expect(run.sink.bytes.count <= 1_000)
        }
        #expect(run.sink.violations.isEmpty, "\(run.sink.violations)")
        #expect(run.completions == 1)
        let left = try FileManager.default.subpathsOfDirectory(atPath: fixture.root.path)
        #expect(!left.contains { $0.contains("syncagent-plugin-") && !$0.hasPrefix("plugins") }, "\(left)")
    }

    @Test("A transfer for which there is no pipe for now is tried again [F095]")
    func pipeLater() async throws {
        let fixture = try PluginFixture()
        let runtime = fixture.root.path("runtime")
        let fine = TransportFault(
            testDescription: "", body: "head(message, size=1000)\nbody(message, b'x' * 1000)\nanswer(message, {})",
            code: nil)
        let client = try fixture.client(fine.program, point: .transport) { $0.runtimeDirectory = runtime }
        var retries = PluginTransport.Retries()
        retries.firstDelay = .milliseconds(10)
        let transport = PluginTransport(client, retries: retries) { event in
            if case .retrying = event { mkdir(runtime, 0o700) }
        }
        let run = TransferRun(
            TransferRequest(id: TransferID(rawValue: 1), urls: ["x://a/b"], limit: 1_000), on: transport)
        if case .failure(let error) = try await run.end() { Issue.record("\(error)") }
        #expect(run.sink.bytes.count == 1_000)
        await blocking { transport.shutdown() }
    }

    @Test("A cancel that comes before its transfer counts; of very many only the latest are kept")
    func earlyCancels() async throws {
        let fixture = try PluginFixture()
        let fine = TransportFault(
            testDescription: "", body: "head(message, size=1000)\nbody(message, b'x' * 1000)\nanswer(message, {})",
            code: nil)
        let transport = PluginTransport(try fixture.client(fine.program, point: .transport))
        for number in 1...5_000 as ClosedRange<UInt64> { transport.cancel(TransferID(rawValue: number)) }
        func run(_ number: UInt64) -> TransferRun {
            TransferRun(
                TransferRequest(id: TransferID(rawValue: number), urls: ["x://a/b"], limit: 1_000), on: transport)
        }
        let (late, early) = (run(5_000), run(1))
        if case .failure(let error) = try await late.end() { #expect(error.code == .cancelled) }
        #expect(late.sink.bytes == [])
        if case .failure(let error) = try await early.end() { Issue.record("\(error)") }
        await blocking { transport.shutdown() }
    }
}
