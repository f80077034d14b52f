import Foundation
import SyncPluginHost
import SyncPlugins
import Synchronization
import Testing

/// A directory with scripts, removed with the value that owns it.
private final class Scripts {
    let path = FileManager.default.temporaryDirectory.path + "/small-\(UUID().uuidString)"

    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

    deinit {
        // A leftover in the temporary directory harms nobody.
        try? FileManager.default.removeItem(atPath: path)
    }

    func script(_ lines: String, mode: Int = 0o755) throws -> String {
        let file = "\(path)/asked-\(UUID().uuidString.prefix(8))"
        try Data("#!/bin/sh\n\(lines)\n".utf8).write(to: URL(fileURLWithPath: file))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file)
        return file
    }

    func program(_ lines: String, limit: Duration = .seconds(20), isStopped: @escaping @Sendable () -> Bool = { false })
        throws -> SmallProgram
    { try SmallProgram([try script(lines)], destination: nil, limit: limit, environment: [:], isStopped: isStopped) }

    /// Why a file is not accepted, by a script that is shown it.
    func verdict(_ lines: String, limit: Duration = .seconds(20), isStopped: @escaping @Sendable () -> Bool = { false })
        throws -> FileVerdict
    {
        let file = path + "/staged"
        try Data("bytes".utf8).write(to: URL(fileURLWithPath: file))
        let staged = StagedFile(
            path: "sheets/a b.txt", stagedPath: file, size: 5, sha256: String(repeating: "0", count: 64))
        let verifier = ProgramVerifier(try program(lines, limit: limit, isStopped: isStopped), instances: 1)
        return try #require(verifier.verify([staged]).first)
    }
}

@Suite("Small programs", .timeLimit(.minutes(10)))
struct SmallProgramTests {
    private func files(_ count: Int, in scripts: Scripts) throws -> [StagedFile] {
        try (0..<count).map { number in
            let file = "\(scripts.path)/staged-\(number)"
            try Data("\(number)".utf8).write(to: URL(fileURLWithPath: file))
            return StagedFile(path: "f\(number)", stagedPath: file, size: 1, sha256: "")
        }
    }

    @Test("Two files are looked at side by side: each waits until it sees the other")
    func sideBySide() throws {
        let scripts = try Scripts()
        let program = try scripts.program(
            """
            touch "\(scripts.path)/seen-$SYNCAGENT_PATH"
            until [ -e "\(scripts.path)/seen-f0" ] && [ -e "\(scripts.path)/seen-f1" ]; do sleep 0.02; done
            """)
        let verdicts = ProgramVerifier(program, instances: 2).verify(try files(2, in: scripts))
        #expect(verdicts == [.accepted, .accepted])
        #expect([1, 8, 99].map(ProgramVerifier.instances(cores:)) == [2, 8, 16])
    }

    @Test("Never more at a time than allowed, and each file has its own verdict", arguments: [1, 3])
    func bounded(instances: Int) throws {
        let scripts = try Scripts()
        let program = try scripts.program(
            """
            mkdir -p "\(scripts.path)/running" && touch "\(scripts.path)/running/$SYNCAGENT_PATH"
            ls "\(scripts.path)/running" | wc -l >>"\(scripts.path)/counts"
            number=$(cat)
            rm "\(scripts.path)/running/$SYNCAGENT_PATH"
            case $number in
            *3) echo "three in $SYNCAGENT_PATH"; exit 1 ;;
            *7) exit 2 ;;
            esac
            """)
        let verdicts = ProgramVerifier(program, instances: instances).verify(try files(30, in: scripts))
        try #require(verdicts.count == 30)
        for (number, verdict) in verdicts.enumerated() {
            switch (number % 10, verdict) {
            case (3, .refused(let reason)): #expect(reason == "three in f\(number)")
            case (7, .unchecked): break
            case (let digit, .accepted): #expect(digit != 3 && digit != 7)
            default: Issue.record("\(number): \(verdict)")
            }
        }
        let counts = try String(contentsOfFile: scripts.path + "/counts", encoding: .utf8).split(
            whereSeparator: \.isWhitespace
        ).compactMap { Int($0) }
        #expect(counts.count == 30 && counts.allSatisfy { $0 <= instances }, "\(counts)")
    }

    @Test("When a stop was asked for, no file more is shown to anybody")
    func shownNoMore() throws {
        let scripts = try Scripts()
        let program = try scripts.program("touch \"\(scripts.path)/started\"", isStopped: { true })
        let verdicts = ProgramVerifier(program, instances: 2).verify(try files(5, in: scripts))
        #expect(verdicts.count == 5)
        for verdict in verdicts {
            guard case .unchecked = verdict else {
                Issue.record("\(verdict)")
                continue
            }
        }
        #expect(!FileManager.default.fileExists(atPath: scripts.path + "/started"))
    }

    @Test(
        "What a verifier's status means; the file is on standard input, what it is called in variables",
        arguments: [
            ("exit 0", .accepted), ("[ \"$(cat)\" = bytes ]", .accepted),
            ("[ \"$SYNCAGENT_PATH\" = 'sheets/a b.txt' ] && [ \"$(cat \"$SYNCAGENT_FILE\")\" = bytes ]", .accepted),
            ("[ \"$SYNCAGENT_SIZE\" = 5 ] && [ ${#SYNCAGENT_SHA256} = 64 ]", .accepted),
            ("echo 'Eicar FOUND'; echo more; exit 1", .refused(reason: "Eicar FOUND")),
            ("echo to nobody >&2; echo; echo '  no image'; exit 1", .refused(reason: "no image")),
            ("echo only here >&2; exit 1", .refused(reason: "only here")),
        ] as [(String, FileVerdict)])
    func statuses(lines: String, verdict: FileVerdict) throws { #expect(try Scripts().verdict(lines) == verdict) }

    @Test(
        "A verifier that could not tell is at fault, and says why",
        arguments: [
            ("echo 'no database' >&2; exit 2", "status 2: no database"), ("exit 127", "status 127"),
            ("kill -9 $$", "signal 9"), ("kill -SEGV $$", "signal 11"),
        ])
    func trouble(lines: String, words: String) throws {
        guard case .unchecked(let reason) = try Scripts().verdict(lines) else {
            Issue.record("it is no trouble")
            return
        }
        #expect(reason.contains(words), "\(reason)")
    }

    @Test("One that hangs is ended in time, with what it has started")
    func hanging() throws {
        let scripts = try Scripts()
        let clock = ContinuousClock()
        let start = clock.now
        let verdict = try scripts.verdict(
            "sleep 300 & echo $! >\"\(scripts.path)/child\"; wait", limit: .milliseconds(500))
        guard case .unchecked(let reason) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(reason.contains("has not answered within"), "\(reason)")
        #expect(clock.now - start < .seconds(10))
        let child = try String(contentsOfFile: scripts.path + "/child", encoding: .utf8)
        let number = try #require(pid_t(child.trimmingCharacters(in: .whitespacesAndNewlines)))
        // A zombie is somebody else's to reap; a living one is not.
        while kill(number, 0) == 0, !Self.isZombie(number), clock.now - start < .seconds(20) { usleep(10_000) }
        #expect(kill(number, 0) != 0 || Self.isZombie(number))
    }

    private static func isZombie(_ number: pid_t) -> Bool {
        let text = try? String(contentsOfFile: "/proc/\(number)/stat", encoding: .utf8)
        return text?.contains(") Z ") ?? true
    }

    @Test("What one leaves running keeps nobody")
    func leftovers() throws {
        let clock = ContinuousClock()
        let start = clock.now
        #expect(try Scripts().verdict("sleep 300 & exit 0") == .accepted)
        #expect(clock.now - start < .seconds(10))
    }

    @Test("One that floods its output is read to the end, and kept to a bound")
    func flooding() throws {
        let verdict = try Scripts().verdict("head -c 30000000 /dev/zero | tr '\\0' x; exit 1")
        guard case .refused(let reason) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(reason == String(repeating: "x", count: 200))
        // And one that never ends.
        guard case .unchecked = try Scripts().verdict("yes", limit: .milliseconds(300)) else {
            Issue.record("it has ended")
            return
        }
    }

    @Test("A stop that is asked for ends it")
    func stopped() throws {
        let looks = Atomic(0)
        let asked: @Sendable () -> Bool = { looks.add(1, ordering: .relaxed).newValue > 2 }
        guard case .unchecked(let reason) = try Scripts().verdict("sleep 300", isStopped: asked) else {
            Issue.record("it has ended")
            return
        }
        #expect(reason.contains("it was stopped"))
    }

    @Test("One that is not there, that is no program, that others could change or that was pulled is refused by name")
    func missing() throws {
        let scripts = try Scripts()
        func refusal(_ path: String, destination: String? = nil) -> String {
            do throws(PluginError) {
                _ = try SmallProgram([path], destination: destination, limit: .seconds(1), environment: [:])
                return ""
            } catch { return error.message }
        }
        #expect(refusal("/nowhere/nobody").contains("nobody"))
        #expect(refusal("no-such-program-anywhere").contains("no-such-program-anywhere"))
        #expect(refusal(try scripts.script("exit 0", mode: 0o644)) != "")
        #expect(refusal(try scripts.script("exit 0", mode: 0o777)) != "")
        #expect(refusal(try scripts.script("exit 0"), destination: scripts.path) != "")
        #expect(refusal(try scripts.script("exit 0")) == "")
        #expect(refusal("sh") == "")
    }

    @Test("A program that goes after it was looked at is trouble, and the file is not let in")
    func gone() throws {
        let scripts = try Scripts()
        let path = try scripts.script("exit 0")
        let program = try SmallProgram([path], destination: nil, limit: .seconds(1), environment: [:])
        try FileManager.default.removeItem(atPath: path)
        let file = StagedFile(path: "a", stagedPath: "/dev/null", size: 0, sha256: "")
        guard case .unchecked(let reason) = ProgramVerifier(program, instances: 1).verify([file])[0] else {
            Issue.record("it was let in")
            return
        }
        #expect(reason.contains("cannot be started"), "\(reason)")
    }

    @Test("What a condition's status means, and its answer is believed for a while")
    func conditions() throws {
        let scripts = try Scripts()
        let context = ConditionContext(destination: "/srv/tower", receivedBytes: 7, now: 0)
        let time = Mutex(ContinuousClock.now)
        func condition(_ lines: String) throws -> ProgramCondition {
            ProgramCondition(try scripts.program(lines), clock: { time.withLock { $0 } })
        }
        #expect(
            try condition("[ \"$SYNCAGENT_DESTINATION$SYNCAGENT_RECEIVED\" = /srv/tower7 ]").state(in: context) == .ok)
        let blocked = try condition("echo x >>\"\(scripts.path)/asked\"; echo 'not on the VPN'; exit 1")
        #expect(try blocked.state(in: context) == .blocked(reason: "not on the VPN"))
        #expect(try blocked.state(in: context) == .blocked(reason: "not on the VPN"))
        let asked = { try String(contentsOfFile: scripts.path + "/asked", encoding: .utf8).count }
        #expect(try asked() == 2, "asked once: one line")
        time.withLock { $0 += ProgramCondition.interval }
        _ = try blocked.state(in: context)
        #expect(try asked() == 4)
        #expect(try condition("exit 3").state(in: context) == .unknown(reason: "it exited with status 3"))
        #expect(try condition("exit 1").state(in: context) != .ok)
    }

    @Test(
        "The words of a command as it is typed",
        arguments: [
            ("clamdscan --fdpass -", ["clamdscan", "--fdpass", "-"]), ("  a  b ", ["a", "b"]),
            ("'a b' \"c 'd\" e\\ f", ["a b", "c 'd", "e f"]), ("a ''", ["a", ""]), ("a\\\\b", ["a\\b"]), ("a 'b", nil),
            ("", nil), ("''", nil), ("a\\", nil), ("'$HOME' `x`", ["$HOME", "`x`"]),
        ] as [(String, [String]?)])
    func words(text: String, words: [String]?) { #expect(commandWords(text) == words) }
}
