import Foundation
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncTestKit
import Synchronization
import Testing

/// A plugin of every point that does what a closure says.
private struct Fake: RequestResolver, CredentialProvider, Condition, FileVerifier, GroupHook, EventObserver {
    var name = "fake"
    var resolving: @Sendable ([ResolverRequest]) -> [RequestDisposition] = { $0.map { _ in .proceed } }
    var crediting: @Sendable (CredentialRequest) -> Credential? = { _ in nil }
    var stating: @Sendable () -> ConditionState = { .ok }
    var verifying: @Sendable ([StagedFile]) -> [FileVerdict] = { $0.map { _ in .accepted } }
    var running: @Sendable (HookInvocation) -> HookOutcome = { _ in
        HookOutcome(end: .exited(0), output: "", milliseconds: 0)
    }
    var observing: @Sendable ([SessionEvent]) throws(PluginError) -> Void = { (_) throws(PluginError) in }

    func resolve(_ requests: [ResolverRequest]) throws(PluginError) -> [RequestDisposition] { resolving(requests) }
    func credential(for request: CredentialRequest) throws(PluginError) -> Credential? { crediting(request) }
    func state(in context: ConditionContext) throws(PluginError) -> ConditionState { stating() }
    func verify(_ files: [StagedFile]) throws(PluginError) -> [FileVerdict] { verifying(files) }
    func run(_ invocation: HookInvocation) -> HookOutcome { running(invocation) }
    func observe(_ events: [SessionEvent]) throws(PluginError) { try observing(events) }
}

@Suite(.timeLimit(.minutes(10)))
struct CheckTests {
    private let files = [
        StagedFile(path: "a.png", stagedPath: "/s/a", size: 1, sha256: ""),
        StagedFile(path: "b.png", stagedPath: "/s/b", size: 1, sha256: ""),
    ]
    private let call = HookInvocation(arguments: ["x"], directory: "/", environment: [:], input: [], timeout: 9)

    @Test("A plugin that does nothing wrong passes everything")
    func good() {
        let fake = Fake()
        #expect(check(resolver: fake).failures == [])
        #expect(check(credentials: fake, now: 1_000).failures == [])
        #expect(check(condition: fake, now: 1_000).failures == [])
        #expect(check(verifier: fake, files: files) { _ in true }.failures == [])
        #expect(check(hook: fake, invocation: call).failures == [])
        #expect(check(observer: fake).failures == [])
    }

    @Test("Each rule finds what it is for, and says it in words with advice")
    func findings() {
        func first(_ results: [CheckResult]) -> String {
            #expect(results.allSatisfy { !$0.advice.isEmpty })
            return results.failures.first ?? "nothing"
        }
        let count = Mutex(0)
        var fake = Fake()
        fake.resolving = { Array(repeating: .proceed, count: max(0, $0.count - 1)) }
        #expect(first(check(resolver: fake)) == "One request gets one disposition: 0 dispositions for 1 requests")
        fake.resolving = { $0.map { _ in .replace(url: "ftp://x", headers: []) } }
        #expect(first(check(resolver: fake)).hasSuffix("a replacement that is not an http or https URL"))
        fake.resolving = { $0.map { _ in .replace(url: "http://x", headers: [HeaderField("A", "b\r\nc")]) } }
        #expect(first(check(resolver: fake)).hasSuffix("the header A has a control character in it"))
        fake.resolving = { $0.map { .cancel(reason: $0.url.hasSuffix("?x=1") ? "" : "no") } }
        #expect(first(check(resolver: fake)).hasSuffix("a cancel without a reason"))
        fake.resolving = { requests in requests.indices.map { $0 > 900 ? .cancel(reason: "late") : .proceed } }
        #expect(first(check(resolver: fake)).hasSuffix("equal requests got 'continue' and 'cancel'"))

        fake.crediting = { _ in Credential(.bearer(token: "t\n")) }
        #expect(first(check(credentials: fake, now: 5)).hasSuffix("the token has a control character in it"))
        fake.crediting = { $0.origin.contains("nobody") ? Credential(.bearer(token: "t")) : nil }
        #expect(first(check(credentials: fake, now: 5)).contains("the unknown origin got one"))
        fake.crediting = { $0.origin.contains("nobody") ? nil : Credential(.bearer(token: "t"), expires: 3) }
        #expect(first(check(credentials: fake, now: 5)).hasSuffix("it expired 2 s ago"))
        fake.crediting = { _ in Credential(.bearer(token: "t"), expires: .min) }
        #expect(check(credentials: fake, now: 5).failures.last?.hasSuffix("expired 9223372036854775807 s ago") == true)

        fake.name = "My Condition"
        #expect(first(check(condition: fake, now: 5)).hasSuffix("it is called 'My Condition'"))
        fake.name = "mine"
        fake.stating = { .blocked(reason: "") }
        #expect(first(check(condition: fake, now: 5)).hasSuffix("blocked without a reason"))
        fake.stating = { .blocked(reason: "x", until: 1_700_000_000) }
        #expect(first(check(condition: fake, now: 1_700_000_000_000)).hasSuffix("is it in seconds?"))

        fake.stating = { .blocked(reason: "x", until: .min) }
        #expect(first(check(condition: fake, now: 5)).contains("until is 9223372036854775807 ms ago"))
        fake.stating = { .blocked(reason: "x", until: .max) }
        #expect(first(check(condition: fake, now: 5)).hasSuffix("until is more than a year ahead"))

        fake.verifying = { _ in [] }
        #expect(first(check(verifier: fake, files: files) { _ in true }).hasSuffix("0 verdicts for 1 files"))
        fake.verifying = { $0.map(\.path).sorted().map { $0 == "a.png" ? .accepted : .refused(reason: "b") } }
        #expect(first(check(verifier: fake, files: files) { _ in true }).contains("alone and"))
        fake.verifying = { $0.map { $0.stagedPath.hasSuffix("/a") ? .refused(reason: "a") : .accepted } }
        #expect(
            first(check(verifier: fake, files: files) { _ in true }).hasSuffix("'a.png' is not there and was accepted"))
        fake.verifying = { $0.map { _ in .accepted } }
        #expect(first(check(verifier: fake, files: files) { _ in false }).hasSuffix("'a.png' was changed"))

        fake.running = { _ in
            let isFirst = count.withLock { count in
                count += 1
                return count == 1
            }
            return HookOutcome(end: .exited(isFirst ? 0 : 1), output: "already there", milliseconds: 0)
        }
        #expect(first(check(hook: fake, invocation: call)).hasSuffix("status 1: already there"))
        fake.running = { call in
            let hasEntries = String(decoding: call.input, as: UTF8.self).contains("\"entries\"")
            return HookOutcome(end: .exited(hasEntries ? 0 : 1), output: "no entries", milliseconds: 0)
        }
        let whole = SampleFiles.invocation("x", directory: "/", timeout: 9)
        #expect(
            first(check(hook: fake, invocation: whole)) == "It handles a report without entries: status 1: no entries")
        fake.observing = { (events) throws(PluginError) in
            if events.isEmpty { throw PluginError(plugin: "fake", code: .refused, message: "nothing there") }
        }
        #expect(first(check(observer: fake)) == "An empty list of events is accepted: it failed: nothing there")
    }

    @Test(
        "What is wrong with a program is said in words",
        .enabled(if: PluginFixture.hasPython, "there is no /usr/bin/python3"),
        arguments: [
            (
                "os._exit(1)",
                "It starts, and answers initialize with protocol, name and points: it is not started again"
            ),
            (
                "print('starting', flush=True)\nserve(proceed)",
                "Its standard output contains only messages: it wrote a line that is not a JSON-RPC message: starting"
            ),
            (
                "serve(lambda m: None)",
                "A method that it does not know is answered with an error: no answer to check.unknown within 5 s"
            ),
            (
                "serve(lambda m: send({'id': m.get('id'), 'error': {'code': 1, 'message': ''}}))\ntime.sleep(100)",
                "It exits when it is asked to shut down: it did not exit"
            ),
            (
                "m = json.loads(sys.stdin.readline())\nm['params']['point']\nhello(m)\n"
                    + "serve(lambda m: send({'id': m.get('id'), 'error': {'code': 1, 'message': ''}}))",
                "Asked without a point and settings, it lists its points"
            ),
        ]) func programs(body: String, words: String) async throws
    {
        let fixture = try PluginFixture()
        let configuration = try fixture.configuration(body)
        let failures = await blocking { check(process: configuration) }.failures
        #expect(failures.contains { $0.hasPrefix(words) }, "\(failures)")
    }
}
