package import Foundation

/// curl(1) on a Unix socket, as a user of the API runs it.
package struct Curl: Sendable {
    /// What came back.
    package struct Answer: Sendable {
        package let exit: Int32
        package let status: Int
        package let headers: [String: String]
        package let body: String
    }

    private let socketPath: String

    package init(_ socketPath: String) { self.socketPath = socketPath }

    /// Whether it is installed.
    package static let path = ["/usr/bin/curl", "/usr/local/bin/curl", "/bin/curl"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    /// Prepares a run; its standard output is the caller's to set.
    package func process(_ arguments: [String]) throws -> Process {
        guard let path = Self.path else { throw CocoaError(.fileNoSuchFile) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = ["--silent", "--unix-socket", socketPath] + arguments
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        return process
    }

    /// Runs it to its end without holding up the caller's thread.
    package func run(_ arguments: [String], _ target: String) async throws -> Answer {
        let output = FileManager.default.temporaryDirectory.path + "/sa-curl-\(UUID().uuidString)"
        try Data().write(to: URL(fileURLWithPath: output))
        defer { try? FileManager.default.removeItem(atPath: output) }
        let process = try process(["--include"] + arguments + ["http://localhost" + target])
        process.standardOutput = try FileHandle(forWritingTo: URL(fileURLWithPath: output))
        let exit: Int32 = try await withCheckedThrowingContinuation { continuation in
            process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
            do { try process.run() } catch { continuation.resume(throwing: error) }
        }
        var text = try String(contentsOfFile: output, encoding: .utf8)
        // Interim answers come before the answer. RFC 9110 §15.2.
        while text.hasPrefix("HTTP/1.1 1"), let end = text.range(of: "\r\n\r\n") {
            text.removeSubrange(..<end.upperBound)
        }
        let head = text.range(of: "\r\n\r\n").map { text[..<$0.lowerBound] } ?? ""
        let body = text.range(of: "\r\n\r\n").map { text[$0.upperBound...] } ?? ""
        var lines = head.components(separatedBy: "\r\n")
        let status = lines.isEmpty ? 0 : Int(lines.removeFirst().split(separator: " ").dropFirst().first ?? "") ?? 0
        var headers: [String: String] = [:]
        for line in lines {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { continue }
            headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        return Answer(exit: exit, status: status, headers: headers, body: String(body))
    }
}
