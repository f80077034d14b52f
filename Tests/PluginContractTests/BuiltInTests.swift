import Foundation
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncSchedule
import SyncTestKit
import SyncTransfer
import Testing

/// Built-in plugins keep the same contracts as those that are programs of their own: there is no private door.
@Suite(.timeLimit(.minutes(10)))
struct BuiltInTests {
    private static func configuration() -> TransportConfiguration {
        let start = ContinuousClock.now
        return TransportConfiguration(
            clock: TransportClock(
                now: { ContinuousClock.now - start }, unixTime: { Int64(Date().timeIntervalSince1970) }),
            random: { .random(in: .min ... .max) })
    }

    /// Runs what blocks on a thread of its own.
    private func blocking<R: Sendable>(_ body: @escaping @Sendable () -> R) async -> R {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: body()) }
        }
    }

    @Test("The transport for http keeps the contract of transports")
    func http() async throws {
        let server = try FaultServer()
        let object = ServedObject.patterned(size: 400_000)
        server.serve(object, at: "/a")
        let (url, missing) = (server.url("/a"), server.url("/none"))
        let spare = try CurlTransport(configuration: Self.configuration())
        let results = await blocking {
            check(transport: url, holding: object.bytes, missing: missing, patience: .seconds(30)) {
                // The spare one is used when no other can be made; its rule then fails.
                (try? CurlTransport(configuration: Self.configuration())) ?? spare
            }
        }
        spare.shutdown()
        #expect(results.failures == [])
        #expect(results.count == 9)
    }

    @Test("The transport for files keeps the contract of transports")
    func file() async throws {
        let root = try TemporaryRoot()
        let object = ServedObject.patterned(size: 400_000)
        try root.write(object.bytes, to: "a")
        let (url, missing) = ("file://\(root.path("a"))", "file://\(root.path("none"))")
        let results = await blocking {
            check(transport: url, holding: object.bytes, missing: missing, patience: .seconds(30)) { FileTransport() }
        }
        #expect(results.failures == [])
        #expect(results.count == 9)
    }

    @Test("Rewriting rules keep the contract of resolvers")
    func rewriting() async throws {
        let rules = try [
            RewriteRule("https://assets.example.com/ https://mirror.example.com/a/"),
            RewriteRule("~^https://(.*)\\.example\\.org/ http://$1.lan/"),
        ]
        let failures = await blocking {
            check(resolver: RewriteRules(rules)).failures
                + check(resolver: RewriteRules(rules), url: "https://x.example.org/b").failures
                + check(resolver: RewriteRules([])).failures
        }
        #expect(failures == [])
    }

    @Test("A file of credentials keeps the contract of providers, S3 signing included")
    func credentials() throws {
        let root = try TemporaryRoot()
        let text = """
            [https://basic.example.com]
            type = basic
            user = alice
            password = p:q

            [https://bearer.example.com]
            type = bearer
            token = t0ken

            [https://bucket.s3.eu-central-1.amazonaws.com]
            type = sigv4
            access-key = AKIDEXAMPLE
            secret-key = s3cret
            region = eu-central-1
            service = s3
            """
        try root.write(text, to: "credentials")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: root.path("credentials"))
        let provider = try Credentials.read(path: root.path("credentials"))
        let now = Int64(Date().timeIntervalSince1970)
        for host in ["basic.example.com", "bearer.example.com", "bucket.s3.eu-central-1.amazonaws.com", "none.example"]
        {
            let origin = "https://\(host)"
            #expect(check(credentials: provider, origin: origin, now: now).failures == [])
            let credential = provider.credential(for: CredentialRequest(origin: origin))
            #expect((credential == nil) == (host == "none.example"))
        }
    }

    @Test("Each built-in condition keeps the contract of conditions", arguments: builtInConditions)
    func condition(name: String) async throws {
        let root = try TemporaryRoot()
        let places = MachinePlaces()
        let condition = try builtInCondition(name, for: RunConditions(), on: places)
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        let results = await blocking { check(condition: condition, destination: root.path, now: now) }
        #expect(results.failures == [])
    }

    @Test("Programs and webhooks keep the contract of hooks")
    func hooks() async throws {
        let root = try TemporaryRoot()
        var invocation = HookInvocation(
            arguments: ["/bin/cat"], directory: root.path, environment: ["SYNCAGENT_GROUP": "all"],
            input: Array("{}".utf8), timeout: 20)
        let program = ProgramHook(environment: [:])
        let ofProgram = await blocking { [invocation] in check(hook: program, invocation: invocation) }
        #expect(ofProgram.failures == [])

        let server = try FaultServer()
        server.respond(to: "/hook") { _ in .status(200, text: "ok") }
        invocation.arguments = [server.url("/hook")]
        let webhook = WebhookHook(userAgent: "syncagent", connectTimeout: .seconds(30))
        let ofWebhook = await blocking { [invocation] in check(hook: webhook, invocation: invocation) }
        #expect(ofWebhook.failures == [])
    }
}
