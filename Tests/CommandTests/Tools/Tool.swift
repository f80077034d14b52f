import Foundation
import SyncTestKit
import Testing

/// The built program as a child process.
struct Tool {
    /// How a run ended and what it said.
    struct Outcome {
        let status: Int32
        let output: String
        let error: String

        /// The JSON lines on standard output; events of runs must be in order [S29 S30 S31].
        func events(sourceLocation: SourceLocation = #_sourceLocation) throws -> [[String: Any]] {
            let complaints = orderComplaints(inEvents: output.split(separator: "\n").map(String.init))
            #expect(complaints == [], sourceLocation: sourceLocation)
            let events = try objects()
            // Every step of every task goes by the table [S98 S104].
            for event in events where event["event"] as? String == "run.summary" {
                let tasks = event["tasks"] as? [String: Int]
                #expect((tasks?["refused"] ?? 0) == 0, sourceLocation: sourceLocation)
            }
            return events
        }

        /// The JSON lines on standard output, whatever they are.
        func objects() throws -> [[String: Any]] {
            try output.split(separator: "\n").map { line in
                try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            }
        }
    }

    /// It stands beside the test bundle in the build directory.
    static let url = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("syncagent")

    /// A directory of its own for home, state and work, removed by ``Scratch``.
    let scratch: Scratch

    init(_ scratch: Scratch) { self.scratch = scratch }

    /// Prepares a run in the scratch directory, with an environment that holds nothing of the caller's.
    func process(_ arguments: [String], environment: [String: String] = [:]) -> Process {
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
    func run(_ arguments: [String], environment: [String: String] = [:]) throws -> Outcome {
        try run(process(arguments, environment: environment))
    }

    /// Runs a prepared process to its end.
    func run(_ process: Process) throws -> Outcome {
        let (output, error) = (try scratch.file(), try scratch.file())
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: error)
        try process.run()
        process.waitUntilExit()
        return Outcome(
            status: process.terminationReason == .exit
                ? process.terminationStatus : -process.terminationStatus,
            output: try String(contentsOf: output, encoding: .utf8),
            error: try String(contentsOf: error, encoding: .utf8)
        )
    }
}

/// A directory that is removed with the value that owns it.
final class Scratch {
    let url: URL
    var path: String { url.path }
    private var count = 0

    init() throws {
        url = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
            .appendingPathComponent("syncagent-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        // A leftover in the temporary directory harms nobody.
        try? FileManager.default.removeItem(at: url)
    }

    /// Writes a file at `path` below the directory.
    @discardableResult
    func write(_ data: Data, to path: String) throws -> URL {
        let file = url.appendingPathComponent(path)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        try data.write(to: file)
        return file
    }

    /// A new empty file.
    func file() throws -> URL {
        count += 1
        return try write(Data(), to: ".captured-\(count)")
    }

    /// What stands below a directory: relative paths, in order.
    func contents(of path: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: url.appendingPathComponent(path).path).sorted()
    }
}
