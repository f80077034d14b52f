import CommandTestSupport
import Foundation
import Testing

/// Whether a process may have mounts of its own here.
private let mayMount: Bool = {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
    process.arguments = ["-rm", "mount", "-t", "tmpfs", "none", "/proc"]
    process.standardError = FileHandle.nullDevice
    guard (try? process.run()) != nil else { return false }
    process.waitUntilExit()
    return process.terminationStatus == 0
}()

@Suite("Without /proc", .timeLimit(.minutes(10)), .enabled(if: mayMount, "SKIPPED: no mounts of our own here"))
struct NoProcTests {
    /// Runs a script that calls the program as `syncagent`, where /proc is empty.
    private func run(_ script: String, in scratch: Scratch) throws -> Tool.Outcome {
        let tool = Tool(scratch)
        let errors = try scratch.file()
        let output = try scratch.file()
        let process = tool.process([])
        process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
        process.arguments = ["-rm", "sh", "-c", "mount -t tmpfs none /proc && { \(script); }"]
        process.environment?["PATH"] = Tool.url.deletingLastPathComponent().path + ":/usr/bin:/bin"
        process.environment?["SWIFT_BACKTRACE"] = "enable=no"
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: errors)
        try process.run()
        process.waitUntilExit()
        return Tool.Outcome(
            status: process.terminationStatus, output: try String(contentsOf: output, encoding: .utf8),
            error: try String(contentsOf: errors, encoding: .utf8))
    }

    @Test("Every argument arrives, empty ones, too")
    func arguments() throws {
        let scratch = try Scratch()
        let version = try run("syncagent --version", in: scratch)
        #expect(version.status == 0 && version.output.first?.isNumber == true, "\(version.error)")
        let refused = try run("syncagent plan m ''", in: scratch)
        #expect(refused.status == 64 && refused.error.contains("PATH '' matches no path"), "\(refused.error)")
    }

    @Test("A pull that takes longer than a second, here and by an agent that it starts, brings the files")
    func pulls() throws {
        let bytes = Data((0..<150_000).map { _ in UInt8.random(in: .min ... .max) })
        let set = try ServedSet(["a.bin": bytes])
        let pull = "syncagent pull \(set.url) --limit-rate 60K --into"
        let outcome = try run(
            "\(pull) here && \(pull) there --session other --background && syncagent wait other --timeout 60s"
                + " && syncagent agent stop", in: set.scratch)
        #expect(outcome.status == 0, "\(outcome.error)")
        for directory in ["here", "there"] {
            let file = set.scratch.url.appendingPathComponent("\(directory)/a.bin")
            #expect(try Data(contentsOf: file) == bytes)
        }
    }
}
