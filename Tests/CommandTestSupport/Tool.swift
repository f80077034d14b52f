package import Foundation
import SyncTestKit

/// The built program as a child process.
package struct Tool {
    /// How a run ended and what it said.
    package struct Outcome: Sendable {
        package let status: Int32
        package let output: String
        package let error: String

        package init(status: Int32, output: String, error: String) {
            self.status = status
            self.output = output
            self.error = error
        }

        /// What is wrong with the events on standard output: those of runs must be in order [S29 S30 S31], and every step
        /// of every task goes by the table [S98 S104].
        package var complaints: [String] {
            let lines = output.split(separator: "\n").map(String.init)
            let refusals = lines.filter { line in
                // What is not JSON is no event.
                let event = (try? JSONSerialization.jsonObject(with: Data(line.utf8))) as? [String: Any] ?? [:]
                let tasks = event["tasks"] as? [String: Int]
                return event["event"] as? String == "run.summary" && (tasks?["refused"] ?? 0) != 0
            }
            return orderComplaints(inEvents: lines) + refusals.map { "steps of tasks were refused: \($0)" }
        }

        /// The JSON lines on standard output, whatever they are.
        package func objects() throws -> [[String: Any]] {
            try output.split(separator: "\n").map { line in
                let value = try JSONSerialization.jsonObject(with: Data(line.utf8))
                guard let object = value as? [String: Any] else { throw Failure("no object: \(line)") }
                return object
            }
        }
    }

    /// What the program said or did, and why no test can go on with it.
    package struct Failure: Error {
        package let reason: String

        package init(_ reason: String) { self.reason = reason }
    }

    /// It stands beside the test bundle in the build directory.
    package static let url = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("syncagent")

    /// A directory of its own for home, state and work, removed by ``Scratch``.
    package let scratch: Scratch

    package init(_ scratch: Scratch) { self.scratch = scratch }

    /// Prepares a run in the scratch directory, with an environment that holds nothing of the caller's.
    package func process(_ arguments: [String], environment: [String: String] = [:]) -> Process {
        let process = Process()
        process.executableURL = Self.url
        process.arguments = arguments
        process.currentDirectoryURL = scratch.url
        var variables = ["HOME": scratch.path, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"]
        // The Swift runtime of a toolchain outside the system's library path.
        variables["LD_LIBRARY_PATH"] = ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"]
        process.environment = variables.merging(environment) { $1 }
        process.standardInput = FileHandle.nullDevice
        return process
    }

    /// Runs to the end. Output goes through files, so that no pipe can fill up.
    package func run(_ arguments: [String], environment: [String: String] = [:]) throws -> Outcome {
        try run(process(arguments, environment: environment))
    }

    /// Runs a prepared process to its end.
    package func run(_ process: Process) throws -> Outcome {
        let (output, error) = (try scratch.file(), try scratch.file())
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: error)
        try process.run()
        process.waitUntilExit()
        return Outcome(
            status: process.terminationReason == .exit ? process.terminationStatus : -process.terminationStatus,
            output: try String(contentsOf: output, encoding: .utf8),
            error: try String(contentsOf: error, encoding: .utf8))
    }
}

/// A directory that is removed with the value that owns it.
package final class Scratch {
    package let url: URL
    package var path: String { url.path }
    private var count = 0

    package init() throws {
        url = FileManager.default.temporaryDirectory.resolvingSymlinksInPath().appendingPathComponent(
            "syncagent-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        // A leftover in the temporary directory harms nobody.
        try? FileManager.default.removeItem(at: url)
    }

    /// Writes a file at `path` below the directory.
    @discardableResult package func write(_ data: Data, to path: String) throws -> URL {
        let file = url.appendingPathComponent(path)
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try data.write(to: file)
        return file
    }

    /// A new empty file.
    package func file() throws -> URL {
        count += 1
        return try write(Data(), to: ".captured-\(count)")
    }

    /// What stands below a directory: relative paths, in order.
    package func contents(of path: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: url.appendingPathComponent(path).path).sorted()
    }
}
