import Foundation
import Testing

@Suite("In a working directory that has been removed", .timeLimit(.minutes(10)))
struct GoneDirectoryTests {
    private func run(_ arguments: [String], _ set: PublishedSet) throws -> Tool.Outcome {
        let gone = set.scratch.url.appendingPathComponent("gone")
        try FileManager.default.createDirectory(at: gone, withIntermediateDirectories: true)
        let (output, error) = (try set.scratch.file(), try set.scratch.file())
        let process = set.tool.process(
            ["-c", "cd gone && rmdir ../gone && exec \"$@\"", "sh", Tool.url.path] + arguments
        )
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: error)
        try process.run()
        process.waitUntilExit()
        return Tool.Outcome(
            status: process.terminationStatus,
            output: try String(contentsOf: output, encoding: .utf8),
            error: try String(contentsOf: error, encoding: .utf8)
        )
    }

    @Test(
        "A relative path is none below the root directory: 73, with what to do; an absolute one does its work"
    )
    func relativePaths() throws {
        let set = try PublishedSet()
        let name = "syncagent-test-\(UUID().uuidString)"
        let target = set.scratch.url.appendingPathComponent("target").path
        for arguments in [
            ["pull", set.url, "--into", name], ["pull", set.url, "--into", name, "--background"],
            ["pull", set.url, "--into", target, "--backup-dir", name],
            ["pull", set.url, "--into", target, "--hook", "./\(name)"], ["publish", name, name],
        ] {
            let outcome = try run(arguments, set)
            #expect(outcome.status == 73, "\(arguments): \(outcome.error)")
            #expect(
                outcome.error.contains(
                    "the working directory is gone: change into one that exists, or give an absolute path"
                ),
                "\(arguments): \(outcome.error)"
            )
            #expect(!FileManager.default.fileExists(atPath: "/\(name)"))
        }
        let whole = try run(["pull", set.url, "--into", target], set)
        #expect(whole.status == 0, "\(whole.error)")
    }
}
