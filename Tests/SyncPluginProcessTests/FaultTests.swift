import Foundation
import SyncPluginHost
import SyncPlugins
import SyncSystem
import SyncTestKit
import Testing

/// One thing a plugin can do wrong, and what its caller gets. Another plugin answers all the while (V66, F094).
struct Fault: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let body: String
    /// What the request that met the fault fails with; `nil` when it is answered all the same.
    let code: PluginError.Code?
    /// Stands in what is told of the plugin, or in the failure.
    let words: String
    var change: @Sendable (inout PluginConfiguration) -> Void = { _ in }

    /// The request about `bad` meets the fault; all others are answered.
    static func atRequest(
        _ name: String, _ act: String, _ code: PluginError.Code?, _ words: String,
        change: @escaping @Sendable (inout PluginConfiguration) -> Void = { _ in }
    ) -> Fault {
        let body = """
            def handler(message):
                if any("bad" in url for url in urls(message)):
                    \(act.split(separator: "\n").joined(separator: "\n        "))
                elif "id" in message:
                    proceed(message)
            serve(handler)
            """
        return Fault(testDescription: name, body: body, code: code, words: words, change: change)
    }

    @Sendable static func impatient(_ configuration: inout PluginConfiguration) {
        configuration.limits.request = .milliseconds(1_500)
        configuration.limits.grace = .milliseconds(300)
    }

    static let all: [Fault] = [
        .atRequest("crashes", "os.kill(os.getpid(), signal.SIGSEGV)", .unavailable, "signal 11"),
        .atRequest("exits", "os._exit(3)", .unavailable, "status 3"),
        .atRequest("hangs", "time.sleep(1000)", .timedOut, "it no longer answers", change: impatient),
        .atRequest(
            "hangs and ignores SIGTERM", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1000)",
            .timedOut, "it no longer answers", change: impatient),
        .atRequest(
            "writes a gigabyte of garbage lines", "for i in range(1 << 14): write(('x' * 65535 + '\\n'))", .unavailable,
            "and was ended"),
        .atRequest(
            "writes a gigabyte in one line", "while True: write('x' * 65536)", .unavailable,
            "a line of more than 1048576 bytes"),
        .atRequest(
            "floods its output with good messages that nobody asked for",
            "while True: send({'method': 'hello', 'params': {}})", .unavailable, "it floods its output"),
        .atRequest(
            "floods its output with progress",
            "while True: send({'method': '$/progress', 'params': {'id': message['id']}})", .unavailable,
            "it floods its output"),
        .atRequest(
            "floods its output with answers to no request", "while True: send({'id': 0, 'result': None})", .unavailable,
            "it floods its output"),
        .atRequest(
            "floods its output with empty lines", "while True: write('\\n' * 1000)", .unavailable,
            "it floods its output"),
        .atRequest(
            "floods standard error and answers",
            "for i in range(200000): sys.stderr.write('noise %d\\n' % i)\nproceed(message)", nil, "noise 1"),
        .atRequest(
            "writes garbage lines and answers",
            "for text in ['Traceback', '{', '[]', '\\x1b[2J', '{\"jsonrpc\":\"1.0\"}', '42', '\\ud800']:\n"
                + "    os.write(1, (text + '\\n').encode('utf-8', 'surrogatepass'))\nproceed(message)", nil,
            "not a JSON-RPC message: Traceback"),
        .atRequest(
            "writes garbage lines without end", "while True: write('garbage\\n')", .unavailable,
            "more than 100 lines that are not messages"),
        .atRequest(
            "writes half a line and ends", "write('{\"jsonrpc\":\"2.0\",\"id\":%d,\"res' % message['id'])\nos._exit(0)",
            .unavailable, "its last line has no end"),
        .atRequest("closes its input", "os.close(0)\nproceed(message)\ntime.sleep(1000)", nil, "it closed its input"),
        .atRequest("closes its output", "os.close(1)\ntime.sleep(1000)", .unavailable, "it closed its output"),
        .atRequest(
            "answers another request than the one it got", "send({'id': message['id'] + 1000, 'result': {}})",
            .timedOut, "a request that was not sent", change: impatient),
        .atRequest("answers twice", "proceed(message)\nproceed(message)", nil, "or was answered before"),
        .atRequest(
            "answers with both a result and an error",
            "send({'id': message['id'], 'result': {}, 'error': {'code': 1, 'message': ''}})", .timedOut,
            "not a JSON-RPC message", change: impatient),
        .atRequest(
            "answers with nonsense", "answer(message, {'dispositions': 'continue'})", .badAnswer,
            "one entry for each request"),
        .atRequest(
            "answers for too few", "answer(message, {'dispositions': []})", .badAnswer, "one entry for each request"),
        .atRequest(
            "answers with an error",
            "send({'id': message['id'], 'error': {'code': 1, 'message': 'not today\\n\\x1b[31m'}})", .refused,
            "not today\\u{a}"),
        .atRequest(
            "asks its host for something", "send({'id': 'x', 'method': 'host.secrets'})\nproceed(message)", nil,
            "it asked for 'host.secrets'"),
        .atRequest(
            "takes memory without end", "hog = []\nwhile True: hog.append(bytearray(1 << 20))", .unavailable,
            "exited with status 1"
        ) { $0.limits.process.data = 200 << 20 },
        .atRequest("takes the processor without end", "while True: pass", .unavailable, "signal 9") {
            $0.limits.process.processorTime = 1
        },
        .atRequest(
            "opens files without end", "files = []\nwhile True: files.append(open('/dev/null'))", .unavailable,
            "exited with status 1"
        ) { $0.limits.process.descriptors = 50 },
    ]
}

@Suite(.timeLimit(.minutes(10)), .enabled(if: PluginFixture.hasPython, "there is no /usr/bin/python3"))
struct FaultTests {
    @Test("A plugin that does wrong harms nothing but its own requests [V66 F094]", arguments: Fault.all)
    func fault(_ fault: Fault) async throws {
        let fixture = try PluginFixture()
        let bad = try fixture.client(fault.body, named: "bad", change: fault.change)
        let good = try fixture.client("serve(proceed)", named: "good")

        #expect(try await bad.resolve("https://a.example/good").get() == .proceed, "answers before")
        async let met = bad.resolve("https://a.example/bad")
        async let others = good.resolve()
        #expect(try await others.get() == .proceed, "another plugin answers meanwhile")
        let result = await met
        #expect(result.code == fault.code, "\(result)")
        // Started again where it ended.
        #expect(try await bad.resolve("https://a.example/good").get() == .proceed, "answers afterwards")
        let words = (fixture.notices() + [result.message]).joined(separator: "\n")
        #expect(words.contains(fault.words), "\(words)")
        await blocking {
            bad.close()
            good.close()
        }
    }

    @Test("A flood of standard error is told in few, short, harmless lines [V66]")
    func errorLines() async throws {
        let fixture = try PluginFixture()
        let body = """
            def handler(message):
                sys.stderr.write("\\x1b[2Jcleared\\n" + "long" * 100000 + "\\n")
                for i in range(100000): sys.stderr.write("noise\\n")
                sys.stderr.flush()
                proceed(message)
            serve(handler)
            """
        let client = try fixture.client(body)
        #expect(try await client.resolve().get() == .proceed)
        await blocking { client.close() }
        let lines = fixture.notices(.output)
        #expect(lines.first == "\\u{1b}[2Jcleared")
        #expect(lines.count < 400)
        #expect(lines.allSatisfy { $0.utf8.count < 1_200 })
        #expect(lines.last?.hasSuffix(" lines left out)") == true, "\(lines.last ?? "")")
    }

    @Test("The last words of a plugin are told without a line end, and do not run into the next one's [V66]")
    func lastWords() async throws {
        let fixture = try PluginFixture()
        let body = """
            sys.stderr.write("hello\\n")
            def handler(message):
                if "bad" in urls(message)[0]:
                    sys.stderr.write("no disk")
                    sys.stderr.flush()
                    os._exit(3)
                proceed(message)
            serve(handler)
            sys.stderr.write("bye")
            """
        let client = try fixture.client(body)
        #expect(await client.resolve("https://a.example/bad").code == .unavailable)
        #expect(try await client.resolve().get() == .proceed)
        await blocking { client.close() }
        #expect(fixture.notices(.output) == ["hello", "no disk", "hello", "bye"])
    }

    @Test(
        "However often a plugin does what it may not, few lines tell of it [V66]",
        arguments: [
            "for i in range(300): send({'id': i, 'method': 'host.secrets'})\n        proceed(message)",
            "answer(message, {'dispositions': [{'disposition': '?'}] * len(urls(message))})",
            "answer(message, {'dispositions': [{'disposition': 'continue', 'more': 1}] * len(urls(message))})",
        ])
    func fewWarnings(act: String) async throws {
        let fixture = try PluginFixture()
        let client = try fixture.client(
            "def handler(message):\n    if 'id' in message:\n        \(act)\nserve(handler)")
        let requests = (0..<5_000).map { number in
            ResolverRequest(url: "https://a.example/\(number)", original: "https://a.example/\(number)")
        }
        let answers = try await outcome { try client.resolve(requests) }.get()
        #expect(answers == Array(repeating: .proceed, count: 5_000))
        #expect((1..<400).contains(fixture.notices(.warning).count), "\(fixture.notices(.warning).count)")
        #expect(fixture.notices(.ended).isEmpty)
    }

    @Test("Where the system has no thread, a request fails with that reason and asks to be tried again [F095]")
    func noThread() async throws {
        let fixture = try PluginFixture()
        let client = try fixture.client("serve(proceed)") {
            $0.startThread = { _, _ throws(ThreadError) in throw ThreadError(code: .resourceTemporarilyUnavailable) }
        }
        let result = await client.resolve()
        #expect(result.code == .unavailable && result.message.contains("cannot start a thread"), "\(result)")
        let transport = PluginTransport(client)
        let run = TransferRun(TransferRequest(id: TransferID(rawValue: 1), urls: ["x://a/b"], limit: 1), on: transport)
        guard case .failure(let error) = try await run.end() else {
            Issue.record("it succeeded")
            return
        }
        #expect(error.code == .misuse && error.detail.contains("cannot start a thread"), "\(error)")
        await blocking { transport.shutdown() }
    }
}
