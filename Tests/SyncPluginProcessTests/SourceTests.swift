import Foundation
import SyncPluginHost
import SyncPlugins
import SyncTestKit
import Testing

@Suite("Programs that make manifests", .timeLimit(.minutes(10)))
struct SourceTests {
    private let fixture: PluginFixture

    init() throws { fixture = try PluginFixture() }

    private func source(
        _ script: String, settings: String = "{}", time: Duration? = .seconds(30), silence: Duration? = nil,
        isStopped: @escaping @Sendable () -> Bool = { false }
    ) throws -> SourceProgram {
        try fixture.root.write(Array("#!/bin/sh\n\(script)\n".utf8), to: "plugins/syncagent-plugin-s", executable: true)
        let program = try PluginProgram("s", directory: fixture.root.path("plugins"), destination: nil)
        return SourceProgram(
            program, settings: settings, time: time, silence: silence,
            environment: ["HOME": "/h", "SECRET": "canary"], destination: fixture.root.path("dest"),
            isStopped: isStopped)
    }

    private func error(_ source: SourceProgram, _ url: String = "s://x", known: String? = nil) async -> PluginError? {
        let result = await outcome { try source.manifest(of: url, known: known) }
        guard case .failure(let error) = result else { return nil }
        return error
    }

    private func text(_ source: SourceProgram, _ url: String = "s://x", known: String? = nil) async throws -> String {
        let answer = try await outcome { try source.manifest(of: url, known: known) }.get()
        guard case .manifest(let bytes) = answer else { return "unchanged" }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("It gets the URL as its only argument, the last state, its settings, and nothing of this process [V66]")
    func surroundings() async throws {
        let script = #"echo "$# $1|$SYNCAGENT_AT|$SYNCAGENT_SETTINGS|$SECRET|$HOME|$(pwd)|$(umask)""#
        let source = try source(script, settings: #"{"a":"b c"}"#)
        let url = "s://h/a b?q=$(id)"
        #expect(try await text(source, url, known: "7") == "1 \(url)|7|{\"a\":\"b c\"}||/h|/|0077\n")
        #expect(try await text(source, url) == "1 \(url)||{\"a\":\"b c\"}||/h|/|0077\n")
        let command = try SourceProgram(
            command: ["/bin/echo", "-n", "a"], environment: [:], destination: nil)
        #expect(try await text(command, "s://x") == "a s://x")
    }

    @Test("Nothing printed means that nothing is new, where something is known")
    func unchanged() async throws {
        #expect(try await text(try source("echo"), known: "7") == "unchanged")
        let error = await error(try source("echo oh >&2"))
        #expect(error?.code == .badAnswer && error?.message == "it printed nothing: oh")
    }

    @Test(
        "Its exit status says what went wrong, and its last line of errors why",
        arguments: [
            (64, PluginError.Code.misused), (65, .badAnswer), (66, .notThere), (69, .unavailable), (77, .refused),
            (1, .unavailable),
        ])
    func statuses(status: Int, code: PluginError.Code) async throws {
        let said = await error(try source("echo first >&2; printf 'no \\033[1m luck\\n\\n' >&2; exit \(status)"))
        #expect(said?.code == code && said?.message == "no \\u{1b}[1m luck", "\(String(describing: said))")
        let silent = await error(try source("exit \(status)"))
        #expect(silent?.message == "it exited with status \(status)")
    }

    @Test("What never ends, never stops writing, or is killed ends within its bounds, with all it has started [V66]")
    func bounds() async throws {
        let begun = ContinuousClock.now
        let late = fixture.root.path("late")
        let hanging = "echo working >&2; (sleep 3; touch \(late)) & sleep 1000"
        var error = await error(try source(hanging, time: .seconds(1)))
        #expect(error?.code == .timedOut && error?.message == "it took more than 1 s and was ended: working")
        error = await self.error(try source(hanging, time: nil, silence: .seconds(1)))
        #expect(error?.code == .timedOut && error?.message == "it wrote nothing for 1 s and was ended: working")
        error = await self.error(try source("yes"))
        #expect(error?.code == .badAnswer && error?.message.hasPrefix("it printed more than 64") == true)
        error = await self.error(try source("kill -9 $$"))
        #expect(error?.code == .unavailable && error?.message == "it was killed by signal 9")
        error = await self.error(try source(hanging, isStopped: { ContinuousClock.now - begun > .seconds(2) }))
        #expect(error?.code == .cancelled)
        try await Task.sleep(for: .seconds(4))
        #expect(!FileManager.default.fileExists(atPath: late))
    }

    @Test("What it says of a URL comes without its secrets, however it spells them")
    func secrets() async throws {
        let url = "s://anna:hunter%202@host/p?token=canary-1&page=2#canary-3"
        let script = """
            echo "cannot read $1: anna has no hunter%202, 'hunter 2', canary-1, token=canary-1&page=2#canary-3" >&2
            exit 69
            """
        let message = await error(try source(script), url)?.message ?? ""
        for secret in ["anna", "hunter", "canary"] { #expect(!message.contains(secret), "\(message)") }
        #expect(message.hasPrefix("cannot read s://host/p?…: … has no …"), "\(message)")
    }

    @Test("A program that others can change, or that is below the destination, is not run")
    func trust() async throws {
        let source = try source("echo '{}'")
        #expect(try await text(source) == "{}\n")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o777], ofItemAtPath: fixture.root.path("plugins/syncagent-plugin-s"))
        #expect(await error(source)?.code == .unavailable)
    }

    @Test("The rules find what is wrong, and pass what is right")
    func rules() async throws {
        func failures(_ script: String, objection: String? = nil) async throws -> [String] {
            let source = try source(script)
            let results = await blocking {
                check(source: source, url: "s://x") { _ in (objection, "7") }
            }
            #expect(results.allSatisfy { !$0.advice.isEmpty })
            return results.failures
        }
        let good = "[ $1 = s://x ] || exit 66; [ \"$SYNCAGENT_AT\" = 7 ] || echo '{}'"
        #expect(try await failures(good) == [])
        #expect(try await failures(good, objection: "broken").first?.hasSuffix(": broken") == true)
        #expect(try await failures("exit 3").first?.hasSuffix("it exited with status 3") == true)
        #expect(try await failures("echo '{}'") == ["What is not there is an error: it printed a manifest"])
        #expect(try await failures("[ $1 = s://x ] || exit 66; echo $$").count == 2)
    }
}
