import Foundation
import SyncPluginHost
import SyncPlugins
import Testing

@Suite("How a hook is ended", .timeLimit(.minutes(10)))
struct HookEndTests {
    @Test("At the deadline the whole group ends, grandchildren that ignore SIGTERM too [S34 F093]")
    func wholeGroup() async throws {
        let fixture = try HookFixture()
        let outcome = try await fixture.run(
            """
            trap '' TERM
            sh -c 'trap "" TERM; echo $$ > \(fixture.root)/grandchild; while :; do sleep 1; done' &
            while :; do sleep 1; done
            """, timeout: 1)
        #expect(outcome.end == .timedOut)
        let grandchild = try #require(Int32(fixture.contents("grandchild").trimmingCharacters(in: .newlines)))
        #expect(!isAlive(grandchild))
    }

    @Test("SIGTERM comes first, so that a hook can tidy up [S34]")
    func termFirst() async throws {
        let fixture = try HookFixture()
        let outcome = try await fixture.run(
            "trap 'echo tidied; exit 3' TERM; echo up; while :; do sleep 0.05; done", timeout: 1, grace: .seconds(20))
        #expect(outcome.end == .timedOut)
        // The shell may say "Terminated" in between.
        #expect(outcome.output.hasPrefix("up\n") && outcome.output.hasSuffix("tidied\n"))
    }

    @Test("A stopped hook is ended too")
    func stopped() async throws {
        let outcome = try await HookFixture().run("kill -STOP $$", timeout: 1, grace: .seconds(20))
        #expect(outcome.end == .timedOut)
    }

    @Test("What a hook leaves running in its group ends with it; its own status stays [F093]")
    func leftovers() async throws {
        let fixture = try HookFixture()
        let outcome = try await fixture.run(
            "sh -c 'trap \"\" TERM; echo $$ > \(fixture.root)/left; while :; do sleep 1; done' >/dev/null 2>&1 &\n"
                + "while [ ! -s \(fixture.root)/left ]; do sleep 0.01; done; exit 4")
        #expect(outcome.end == .exited(4))
        #expect(outcome.endedLeftovers)
        let left = try #require(Int32(fixture.contents("left").trimmingCharacters(in: .newlines)))
        #expect(!isAlive(left))
    }

    @Test("The end of a pipeline may finish after the hook itself")
    func pipeline() async throws {
        let outcome = try await HookFixture().run("(sleep 0.1; echo late) &\nexit 0", linger: .seconds(20))
        #expect(outcome.end == .exited(0))
        #expect(outcome.output == "late\n")
        #expect(!outcome.endedLeftovers)
    }

    @Test("A daemon with a session of its own lives on and holds nobody up [F093]")
    func daemon() async throws {
        let fixture = try HookFixture()
        let outcome = try await fixture.run(
            "setsid sh -c 'echo $$ > \(fixture.root)/daemon; exec sleep 600' &\n"
                + "while [ ! -s \(fixture.root)/daemon ]; do sleep 0.01; done; echo done")
        let daemon = try #require(Int32(fixture.contents("daemon").trimmingCharacters(in: .newlines)))
        defer { kill(daemon, SIGKILL) }
        #expect(outcome.end == .exited(0))
        #expect(outcome.output == "done\n")
        #expect(isAlive(daemon))
    }

    @Test("A caller that stops ends the hook, which is still owed")
    func stoppedByCaller() async throws {
        let fixture = try HookFixture()
        let outcome = try await fixture.run(
            "echo $$ > \(fixture.root)/up; while :; do sleep 0.05; done", timeout: 600,
            isStopped: { fixture.exists("up") })
        #expect(outcome.end == .stopped)
        #expect(!outcome.isTransient)
        let process = try #require(Int32(fixture.contents("up").trimmingCharacters(in: .newlines)))
        #expect(!isAlive(process))
    }

    @Test("Many hooks at once do not wait for each other, and each gets its own [S35]")
    func atOnce() async throws {
        let fixture = try HookFixture()
        let script = try fixture.script("echo $SYNCAGENT_GROUP; cat")
        let texts = await withTaskGroup(of: (Int, String).self) { group in
            for number in 0..<24 {
                group.addTask {
                    var invocation = fixture.invocation([script], report: Array("report \(number)".utf8))
                    invocation.environment["SYNCAGENT_GROUP"] = "group \(number)"
                    return (number, await fixture.run(ProgramHook(environment: [:]), invocation).output)
                }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        #expect(texts == Dictionary(uniqueKeysWithValues: (0..<24).map { ($0, "group \($0)\nreport \($0)") }))
    }
}
