import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// What a pull says while it happens, and how it keeps to the time that it is given.
@Suite("Live", .timeLimit(.minutes(10)))
struct LiveTests {
    /// Bytes that nothing can make shorter.
    private static let noise: Data = {
        var (state, bytes) = (UInt64(42), [UInt8]())
        for _ in 0..<2_000_000 {
            state = state &* 6_364_136_223_846_793_005 &+ 1
            bytes.append(UInt8(truncatingIfNeeded: state >> 56))
        }
        return Data(bytes)
    }()

    @Test("Bytes count as they come, also within one file: progress as JSON lines [S116 S117]")
    func bytesCount() throws {
        let set = try ScriptedSet(files: ["huge.bin": Self.noise])
        for path in try set.scratch.contents(of: "site") where path.hasSuffix(".pack") {
            let file = set.scratch.url.appendingPathComponent("site/\(path)")
            let bytes = try #require(FileManager.default.contents(atPath: file.path))
            let answer = FaultAnswer.object(ServedObject(Array(bytes)))
            set.server.script("/site/\(path)", answer.dripping(50_000, every: .milliseconds(50)))
        }
        let pull = try set.pull([set.manifest, "--progress"])
        #expect(pull.status == 0, "\(pull.error)")
        let steps = try pull.events().filter { $0["event"] as? String == "progress" }
        let fetching = steps.filter { $0["phase"] as? String == "fetching" }
        let bytes = fetching.compactMap { $0["bytes_done"] as? Int }
        #expect(bytes == bytes.sorted() && bytes.last == fetching.last?["bytes_total"] as? Int)
        // 2 MB at 1 MB/s and connection, told five times a second.
        #expect(Set(bytes).count >= 4, "\(bytes)")
        #expect(steps.contains { ($0["received"] as? Int ?? 0) > 0 })
        let refused = try set.tool.run(["pull", set.manifest, "--progress"])
        #expect(refused.status == 64 && refused.error.contains("needs --json"), "\(refused.error)")
    }

    @Test("A server that says nothing ends a pull at its deadline, or when its patience is over")
    func silence() throws {
        let set = try ScriptedSet()
        for path in try set.scratch.contents(of: "site") { set.server.script("/site/\(path)", .silence) }
        let late = try set.pull([set.manifest, "--deadline", "1s"])
        #expect(late.status == 69 && late.error.contains("the deadline has passed"), "\(late.error)")
        let end = try #require(try late.events().last)
        #expect((end["error"] as? [String: Any])?["status"] as? Int == 69)
        #expect((end["elapsed_ms"] as? Int ?? .max) < 2_500)
        let impatient = try set.pull([set.manifest, "--patience", "1s"])
        #expect(impatient.status == 69, "\(impatient.error)")
        #expect(impatient.error.contains("nothing came from http://127.0.0.1:"), "\(impatient.error)")
        set.server.releaseStalls()
    }

    @Test("A dead server is told with the time until which it is tried, once, and named in the end")
    func dead() throws {
        let set = try ScriptedSet()
        let port = try ClosedPort()
        let pull = try set.tool.run(["pull", port.url("/m.json"), "--into", "tower", "--patience", "2s"])
        #expect(pull.status == 69)
        let waits = pull.error.split(separator: "\n").filter { $0.contains("waiting for") }
        #expect(waits.count == 1 && waits[0].contains("; trying until "), "\(pull.error)")
        #expect(pull.error.contains("nothing came from \(port.url("")) for 2 s"), "\(pull.error)")
    }

    @Test("The deadline counts while a hook runs; the next pull calls it again")
    func hook() throws {
        let set = try ScriptedSet()
        let program = try set.scratch.write(Data("#!/bin/sh\n[ -e ../again ] && exit 0\nsleep 60\n".utf8), to: "hook")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program.path)
        let late = try set.pull([set.manifest, "--deadline", "2s", "--hook", program.path])
        #expect(late.status == 5, "\(late.error)")
        let end = try #require(try late.events().last)
        #expect((end["error"] as? [String: Any])?["status"] as? Int == 5)
        #expect(late.error.contains("The deadline passed before all hooks had ended"), "\(late.error)")
        #expect(set.isPulled())
        try set.scratch.write(Data(), to: "again")
        let again = try set.pull([set.manifest, "--hook", program.path])
        #expect(again.status == 0, "\(again.error)")
    }

    @Test("Each hook that fails is named, also where only a number tells two apart")
    func failedHooks() throws {
        let set = try ScriptedSet()
        let programs = try (1...2).map { number in
            let text = "#!/bin/sh\necho $0 >&2\nexit \(number)\n"
            let program = try set.scratch.write(Data(text.utf8), to: "hook\(number)")
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program.path)
            return program.path
        }
        let pull = try set.tool.run(["pull", set.manifest, "--into", "tower"] + programs.flatMap { ["--hook", $0] })
        #expect(pull.status == 5)
        for (number, program) in zip(1..., programs) {
            #expect(pull.error.contains("hook \(program): exit \(number)\n"), "\(pull.error)")
        }
    }

    @Test("That a hook is owed is said after the deadline, too, when files are missing, and only then")
    func hookOfPartialPull() throws {
        let set = try ScriptedSet(files: ["a": Data("a".utf8)])
        let program = try set.scratch.write(Data("#!/bin/sh\n[ -e ../again ] && exit 0\nsleep 60\n".utf8), to: "hook")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program.path)
        try FileManager.default.createDirectory(
            at: set.scratch.url.appendingPathComponent("tower/a/mine"), withIntermediateDirectories: true)
        let said = "The deadline passed before all hooks had ended; the next pull calls those that are left."
        let late = try set.pull([set.manifest, "--deadline", "2s", "--hook", program.path])
        #expect(late.status == 2 && late.error.contains(said), "\(late.error)")
        // The hook that is owed is called first, then that of the new run.
        try set.scratch.write(Data(), to: "again")
        let failed = try set.pull([set.manifest, "--deadline", "60s", "--hook", program.path])
        #expect(failed.status == 2 && !failed.error.contains(said), "\(failed.error)")
    }
}
