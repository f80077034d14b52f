import Foundation
import SyncModel
import SyncPlugins
import SyncTestKit
import Testing

@testable import SyncPluginHost

@Suite(.timeLimit(.minutes(10)), .enabled(if: PluginFixture.hasPython, "there is no /usr/bin/python3"))
struct LifeTests {
    @Test("Answers out of order reach those who asked")
    func outOfOrder() async throws {
        let fixture = try PluginFixture()
        // Answers every ten requests, the last one first.
        let body = """
            waiting = []
            def handler(message):
                waiting.append(message)
                if len(waiting) == 10:
                    for each in reversed(waiting):
                        link = urls(each)[0] + "?signed"
                        answer(each, {"dispositions": [{"disposition": "replace", "request": {"url": link}}]})
            serve(handler)
            """
        let client = try fixture.client(body)
        let wanted = (0..<10).map { "https://a.example/\($0)" }
        let answers = await withTaskGroup(of: (String, RequestDisposition?).self) { group in
            for url in wanted { group.addTask { (url, try? await client.resolve(url).get()) } }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        for url in wanted { #expect(answers[url] == .replace(url: url + "?signed", headers: [])) }
        #expect(fixture.notices().isEmpty, "\(fixture.notices())")
    }

    @Test("A slow request does not keep others waiting, nor does a lost one end the plugin")
    func slowOne() async throws {
        let fixture = try PluginFixture()
        let body = """
            def handler(message):
                if "id" in message and "slow" not in urls(message)[0]: proceed(message)
            serve(handler)
            """
        let client = try fixture.client(body) {
            $0.limits.request = .seconds(1)
            $0.limits.grace = .seconds(20)
        }
        async let slow = client.resolve("https://a.example/slow")
        for number in 0..<20 { #expect(try await client.resolve("https://a.example/\(number)").get() == .proceed) }
        #expect(await slow.code == .timedOut)
        #expect(try await client.resolve().get() == .proceed)
        #expect(fixture.notices(.ended).isEmpty, "the same process answered all")
    }

    @Test(
        "Another version of the protocol is refused with words that say what to do [V66]",
        arguments: [
            ("2", "it speaks version 2 of the plugin protocol, and this program version 1; update syncagent"),
            ("0", "it speaks version 0 of the plugin protocol, and this program version 1; update the plugin"),
            ("'1'", "its answer to initialize has no number 'protocol'"),
        ])
    func version(spoken: String, words: String) async throws {
        let fixture = try PluginFixture()
        let client = try fixture.client("hello(json.loads(sys.stdin.readline()), protocol=\(spoken))\ntime.sleep(9)")
        for _ in 0..<2 {
            let result = await client.resolve()
            #expect(result.code == .unavailable)
            #expect(result.message == words)
        }
        #expect(fixture.notices(.givenUp) == [words], "told once, not started again")
    }

    @Test("A plugin that is not for this point is refused")
    func otherPoint() async throws {
        let fixture = try PluginFixture()
        let client = try fixture.client("points = ['hook', 'observer']\nserve(proceed)")
        let result = await client.resolve()
        #expect(result.code == .unavailable)
        #expect(result.message == "it does not serve resolver; it serves: hook, observer")
    }

    @Test("A plugin that ends again and again is given up, and then fails at once [V66]")
    func givenUp() async throws {
        let fixture = try PluginFixture()
        let client = try fixture.client("open('\(fixture.root.path)/starts', 'a').write('x')\nos._exit(9)") {
            $0.restart.firstDelay = .milliseconds(10)
            $0.restart.mostEnds = 4
        }
        let result = await client.resolve()
        #expect(result.code == .unavailable)
        #expect(result.message == "it is not started again; last failure: it exited with status 9")
        #expect(await client.resolve().code == .unavailable)
        #expect(fixture.text("starts") == "xxxx")
        #expect(fixture.notices(.ended).count == 4)
    }

    @Test("A plugin that outlives runs is tried again after a rest, others are not")
    func rest() {
        for (rest, second, isTriedAgain) in [
            (Duration?.none, 10_000, false), (.seconds(600), 700, false), (.seconds(600), 703, true),
        ] {
            var policy = RestartPolicy()
            policy.rest = rest
            for _ in 0..<5 { policy.ended(at: .seconds(102)) }
            #expect(policy.isGivenUp)
            let hasRecovered = policy.recovered(at: .seconds(second))
            #expect(hasRecovered == isTriedAgain)
            #expect(policy.isGivenUp != isTriedAgain)
        }
    }

    @Test("A plugin that never answers initialize is ended, and its requests fail in time")
    func slowStart() async throws {
        let fixture = try PluginFixture()
        let client = try fixture.client("time.sleep(1000)") {
            $0.limits.start = .milliseconds(300)
            $0.restart.firstDelay = .milliseconds(10)
            $0.restart.mostEnds = 2
        }
        let result = await client.resolve()
        #expect(result.code == .unavailable)
        #expect(result.message.contains("did not answer initialize within 0.30 s"), "\(result)")
    }

    @Test("Delays between starts double up to a bound, and old ends are forgotten")
    func delays() {
        var policy = RestartPolicy()
        policy.mostEnds = 100
        policy.longestDelay = .seconds(2)
        var delays: [Duration] = []
        for second in 0..<8 {
            policy.ended(at: .seconds(second))
            delays.append(policy.notBefore - .seconds(second))
        }
        #expect(delays == [100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000].map { .milliseconds($0) })
        policy.ended(at: .seconds(1_000))
        #expect(policy.notBefore == .seconds(1_000) + .milliseconds(100))
    }

    @Test("A plugin that hangs at shutdown is asked, then ended, and close returns [V66]")
    func hangingShutdown() async throws {
        let fixture = try PluginFixture()
        let body = """
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open("\(fixture.root.path)/pid", "w").write(str(os.getpid()))
            def handler(message): proceed(message)
            for line in sys.stdin:
                message = json.loads(line)
                if message["method"] == "initialize": hello(message)
                elif message["method"] == "resolver.resolve": proceed(message)
            while True: time.sleep(1000)
            """
        let client = try fixture.client(body)
        #expect(try await client.resolve().get() == .proceed)
        let process = try #require(Int32(fixture.text("pid")))
        #expect(isAlive(process))
        await blocking { client.close() }
        #expect(!isAlive(process))
        #expect(
            fixture.notices(.warning) == [
                "it did not exit when it was asked to shut down", "it did not exit on SIGTERM either, and was killed",
            ])
    }

    @Test("A good plugin is asked to shut down and ends by itself; nobody can ask it any more")
    func politeShutdown() async throws {
        let fixture = try PluginFixture()
        let body = "serve(proceed)\nopen('\(fixture.root.path)/bye', 'w').write('ended by itself')"
        let client = try fixture.client(body)
        #expect(try await client.resolve().get() == .proceed)
        await blocking { client.close() }
        #expect(fixture.text("bye") == "ended by itself")
        #expect(fixture.notices().isEmpty)
        #expect(await client.resolve().code == .cancelled)
        client.close()
    }

    @Test("Processes that a plugin leaves behind end with it [V66]")
    func leftBehind() async throws {
        let fixture = try PluginFixture()
        let body = """
            for i in range(20): subprocess.Popen(["/bin/sleep", "1000"])
            open("\(fixture.root.path)/pids", "w").write(subprocess.run(
                ["/usr/bin/pgrep", "-P", str(os.getpid())], capture_output=True, text=True).stdout)
            def handler(message):
                if "bad" in urls(message)[0]: os._exit(1)
                proceed(message)
            serve(handler)
            """
        let client = try fixture.client(body)
        #expect(try await client.resolve().get() == .proceed)
        let first = fixture.text("pids").split(separator: "\n").compactMap { Int32($0) }.filter(isAlive)
        #expect(first.count == 20)
        #expect(await client.resolve("https://a.example/bad").code == .unavailable)
        try await wait(until: { first.filter(isAlive).isEmpty })
        #expect(try await client.resolve().get() == .proceed)
        await blocking { client.close() }
        let second = fixture.text("pids").split(separator: "\n").compactMap { Int32($0) }
        try await wait(until: { second.filter(isAlive).isEmpty })
    }

    @Test("A plugin gets a list of variables, three descriptors, and a group of its own [V61]")
    func environment() async throws {
        let fixture = try PluginFixture()
        let body = """
            def handler(message):
                open("\(fixture.root.path)/env", "w").write("\\n".join(sorted(os.environ)))
                fds = " ".join(str(f) for f in range(100) if os.path.exists("/proc/self/fd/%d" % f))
                open("\(fixture.root.path)/fds", "w").write(fds)
                open("\(fixture.root.path)/group", "w").write(str(os.getpgid(0) == os.getpid() == os.getsid(0)))
                proceed(message)
            serve(handler)
            """
        let client = try fixture.client(body)
        #expect(try await client.resolve().get() == .proceed)
        let names = fixture.text("env").split(separator: "\n").map(String.init)
        #expect(Set(names).subtracting(["LC_CTYPE"]) == ["HOME", "PATH", "SYNCAGENT_PLUGIN_PROTOCOL"])
        #expect(fixture.text("fds") == "0 1 2")
        #expect(fixture.text("group") == "True")
    }

    @Test("A request that the caller gives up is cancelled at the plugin, which goes on")
    func cancellation() async throws {
        let fixture = try PluginFixture()
        let body = """
            held = {}
            def handler(message):
                if message["method"] == "$/cancelRequest":
                    number = message["params"]["id"]
                    open("\(fixture.root.path)/cancelled", "w").write(str(number == held["id"]))
                    send({"id": number, "error": {"code": -32800, "message": "given up"}})
                elif message["method"] == "hold": held["id"] = message["id"]; open("\(fixture.root.path)/held", "w").write("x")
                else: proceed(message)
            serve(handler)
            """
        let client = try fixture.client(body)
        let root = fixture.root
        let result: Result<JSONValue, PluginError> = await blocking {
            do throws(PluginError) {
                return .success(try client.call("hold", isStopped: { root.read("held") != nil }) { _ in })
            } catch { return .failure(error) }
        }
        #expect(result.code == .cancelled)
        #expect(try await client.resolve().get() == .proceed)
        #expect(fixture.text("cancelled") == "True")
        #expect(fixture.notices().isEmpty, "\(fixture.notices())")
    }

    @Test("A request that tells progress has longer, but not for ever")
    func progress() async throws {
        let fixture = try PluginFixture()
        let body = """
            def handler(message):
                if message["method"] == "$/cancelRequest": return
                rounds = 8 if "enough" in urls(message)[0] else 10000
                for i in range(rounds):
                    send({"method": "$/progress", "params": {"id": message["id"], "done": i}})
                    time.sleep(0.1)
                proceed(message)
            serve(handler)
            """
        let client = try fixture.client(body) {
            $0.limits.request = .milliseconds(500)
            $0.limits.progressFactor = 4
        }
        #expect(try await client.resolve("https://a.example/enough").get() == .proceed)
        #expect(await client.resolve("https://a.example/never").code == .timedOut)
    }

    @Test("A plugin that does not read its input fails the requests that do not fit, and no others wait for it")
    func ignoresInput() async throws {
        let fixture = try PluginFixture()
        let body = "hello(json.loads(sys.stdin.readline()))\ntime.sleep(1000)"
        let client = try fixture.client(body) {
            $0.limits.queue = 1 << 20
            $0.limits.request = .milliseconds(800)
            $0.limits.grace = .milliseconds(200)
            $0.restart.mostEnds = 1
        }
        let long = "https://a.example/" + String(repeating: "x", count: 100_000)
        let codes = await withTaskGroup(of: PluginError.Code?.self) { group in
            for _ in 0..<20 { group.addTask { await client.resolve(long).code } }
            return await group.reduce(into: [PluginError.Code?: Int]()) { $0[$1, default: 0] += 1 }
        }
        #expect(codes[.timedOut] ?? 0 > 0)
        #expect(codes[.unavailable] ?? 0 > 0)
        #expect(codes.values.reduce(0, +) == 20)
        #expect(codes[nil] == nil)
    }
}
