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

    @Test(
        "It says that it needs /proc, and does nothing",
        arguments: ["--version", "pull m.json --into here", "agent run"])
    func needed(words: String) throws {
        let scratch = try Scratch()
        let outcome = try run("syncagent \(words)", in: scratch)
        #expect(outcome.status == 78 && outcome.output.isEmpty, "\(outcome.error)")
        #expect(outcome.error.contains("/proc is not mounted: mount -t proc proc /proc"), "\(outcome.error)")
        #expect(!FileManager.default.fileExists(atPath: scratch.url.appendingPathComponent("here").path))
    }
}
