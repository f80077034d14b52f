package import Foundation

/// `syncagent serve` as a child process, on a port of its own.
package final class RunningServer {
    package let process: Process
    package let firstLine: String
    package let client: HTTPClient
    private let errors: URL

    package convenience init(_ scratch: Scratch, directory: String = "site", arguments: [String] = []) throws {
        try self.init(scratch, Tool(scratch).process(["serve", directory, "--port", "0"] + arguments))
    }

    /// A cache in front of `origin`, with `store` in the scratch directory.
    package convenience init(
        _ scratch: Scratch, cacheOf origin: String, store: String = "store", arguments: [String] = []
    )
        throws
    {
        let words = ["serve", "--cache", origin, "--store", store, "--port", "0"]
        try self.init(scratch, Tool(scratch).process(words + arguments))
    }

    /// A prepared process that will print its URL.
    package init(_ scratch: Scratch, _ prepared: Process) throws {
        errors = try scratch.file()
        process = prepared
        let output = Pipe()
        process.standardOutput = output
        process.standardError = try FileHandle(forWritingTo: errors)
        try process.run()
        var line: [UInt8] = []
        while let byte = try output.fileHandleForReading.read(upToCount: 1)?.first, byte != 0x0A { line.append(byte) }
        firstLine = String(decoding: line, as: UTF8.self)
        let port = firstLine.split(separator: "/").dropFirst().first?.split(separator: ":").last
        guard let number = port.flatMap({ UInt16($0) }) else {
            process.terminate()
            throw HTTPClient.Failure(
                step: "no port in '\(firstLine)': \(try String(contentsOf: errors, encoding: .utf8))")
        }
        client = HTTPClient(port: number)
    }

    deinit { if process.isRunning { process.terminate() } }

    /// Asks for a stop and waits for it.
    package func stop(_ signal: Int32 = SIGTERM) throws -> (status: Int32, error: String) {
        kill(process.processIdentifier, signal)
        process.waitUntilExit()
        return (process.terminationStatus, try String(contentsOf: errors, encoding: .utf8))
    }
}
