import Foundation
import SyncPluginHost
import SyncPlugins
import Testing

@Suite("What a hook gets", .timeLimit(.minutes(10)))
struct ProgramHookTests {
    @Test("The environment is the allow-list and nothing else [V61 S18]")
    func environment() async throws {
        let fixture = try HookFixture()
        let hook = ProgramHook(environment: [
            "HOME": "/home/site", "LANG": "C.UTF-8", "TZ": "Europe/Zurich", "USER": "site", "PATH": "/tmp/evil",
            "LD_PRELOAD": "/tmp/evil.so", "SYNCAGENT_TOKEN": "canary", "AWS_SECRET_ACCESS_KEY": "canary",
            "BASH_ENV": "/tmp/evil",
        ])
        var invocation = fixture.invocation(["/usr/bin/env"])
        invocation.environment["LD_PRELOAD"] = "/tmp/evil.so"
        invocation.environment["SYNCAGENT_X=1\nPATH"] = "/tmp/evil"
        let outcome = await fixture.run(hook, invocation)
        #expect(outcome.end == .exited(0))
        #expect(
            outcome.output.split(separator: "\n").map(String.init).sorted() == [
                "HOME=/home/site", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "SYNCAGENT_ATTEMPT=2", "SYNCAGENT_CHANGED=3", "SYNCAGENT_DESTINATION=\(fixture.destination)",
                "SYNCAGENT_GROUP=all", "SYNCAGENT_RESULT=ok", "SYNCAGENT_RUN_ID=20261120T020000Z-0000002a",
                "SYNCAGENT_SESSION=com.example.tower", "TZ=Europe/Zurich", "USER=site",
            ])
    }

    @Test("Only descriptors 0, 1 and 2 are open [V61]")
    func descriptors() async throws {
        let fixture = try HookFixture()
        // Descriptors without close-on-exec, as a careless library leaves them.
        let careless = try (0..<8).map { _ in try #require(dup(0) >= 0 ? dup(0) : nil) }
        defer { careless.forEach { close($0) } }
        let outcome = await fixture.run(
            ProgramHook(environment: [:]), fixture.invocation(["/bin/ls", "/proc/self/fd"]))
        // 3 is ls reading that directory.
        #expect(outcome.output == "0\n1\n2\n3\n")
    }

    @Test("It leads its own session and group, works in the destination, with umask 022 and plain signals [V61]")
    func processState() async throws {
        let fixture = try HookFixture()
        let outcome = try await fixture.run(
            """
            pwd -P; umask; echo $$ $$; cut -d' ' -f5,6 /proc/$$/stat; exec cat /proc/self/status
            """)
        let lines = outcome.output.split(separator: "\n").map(String.init)
        let real = try #require(realpath(fixture.destination, nil))
        defer { free(real) }
        try #require(lines.count > 10)
        #expect(lines[0] == String(cString: real))
        #expect(lines[1] == "0022")
        #expect(lines[2] == lines[3], "group and session are its own")
        // 32 and 33 belong to the C library, nptl(7); no program can change them.
        let reserved: UInt64 = 0b11 << 31
        for name in ["SigBlk", "SigIgn", "SigCgt"] {
            let line = try #require(lines.first { $0.hasPrefix(name + ":\t") })
            let mask = try #require(UInt64(line.dropFirst(name.count + 2), radix: 16))
            #expect(mask & ~reserved == 0, "\(line)")
        }
    }

    @Test("The report is on standard input, whole, however large")
    func report() async throws {
        let fixture = try HookFixture()
        let report = (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let outcome = try await fixture.run("cat > \(fixture.root)/copy", report: report)
        #expect(outcome.end == .exited(0))
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.root + "/copy")) == Data(report))
    }

    @Test("A hook that never reads its 5 MB report ends all the same", arguments: ["true", "exec 0<&-; exit 0"])
    func unreadReport(body: String) async throws {
        let outcome = try await HookFixture().run(body, report: [UInt8](repeating: 0x20, count: 5 << 20))
        #expect(outcome.end == .exited(0))
    }

    @Test("Names in the report and arguments are data, never a command [V56 V63]")
    func hostileNames() async throws {
        let fixture = try HookFixture()
        let names = ["$(touch x)", "`touch x`", "-rf", "a;touch x", "b\ntouch x", "\u{1B}]52;c;eA==\u{7}", "'", "\""]
        let report = Array(names.joined(separator: "\u{0}").utf8)
        let show = try fixture.script("for a in \"$@\"; do printf '%s|' \"$a\"; done; cat")
        var invocation = fixture.invocation([show] + names, report: report)
        invocation.environment["SYNCAGENT_GROUP"] = "$(touch x)"
        invocation.environment["SYNCAGENT_SESSION"] = ";touch x"
        let outcome = await fixture.run(ProgramHook(environment: [:]), invocation)
        #expect(Array(outcome.output.utf8) == Array((names.joined(separator: "|") + "|").utf8) + report)
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.destination) == [])
    }

    @Test("Exit statuses and signals come back as they are [F093]", arguments: [0, 1, 75, 127, 255] as [Int32])
    func statuses(status: Int32) async throws {
        let outcome = try await HookFixture().run("exit \(status)")
        #expect(outcome.end == .exited(status))
        #expect(outcome.isTransient == (status == 75))
        #expect(outcome.succeeded == (status == 0))
    }

    @Test("A hook ended by a signal says which [F093]", arguments: [SIGKILL, SIGTERM, SIGSEGV, SIGPIPE])
    func signals(
        number: Int32
    ) async throws { #expect(try await HookFixture().run("kill -\(number) $$").end == .signalled(number)) }
}

@Suite("What a hook writes", .timeLimit(.minutes(10)))
struct HookOutputTests {
    @Test("Output beyond the bound is counted, its beginning and end kept [F093]")
    func bounded() async throws {
        let outcome = try await HookFixture().run("echo start; head -c 64000000 /dev/zero; echo end")
        #expect(outcome.end == .exited(0))
        #expect(outcome.outputBytes == 64_000_010)
        let note = "\n[… \(64_000_010 - (1 << 20) - (64 << 10)) bytes not kept …]\n"
        #expect(outcome.output.utf8.count == (1 << 20) + note.utf8.count + (64 << 10))
        #expect(outcome.output.hasPrefix("start\n\0"))
        #expect(outcome.output.hasSuffix("\0end\n"))
        #expect(outcome.output.contains(note))
    }

    @Test("Standard output and error keep their order")
    func order() async throws {
        let outcome = try await HookFixture().run("echo a; echo b >&2; echo c; echo d >&2")
        #expect(outcome.output == "a\nb\nc\nd\n")
    }

    @Test("A hook that writes for ever meets its deadline [F093 S34]")
    func endless() async throws {
        let outcome = try await HookFixture().run("exec cat /dev/zero", timeout: 1)
        #expect(outcome.end == .timedOut)
        #expect(outcome.outputBytes > 2 << 20)
    }
}
