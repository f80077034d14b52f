import Foundation

/// ssh-keygen(1), which decides what a signature and a key file are.
enum SSHKeygen {
    static let path = "/usr/bin/ssh-keygen"
    static var isHere: Bool { FileManager.default.isExecutableFile(atPath: path) }

    struct Result {
        var status: Int32
        var output: String
    }

    static func run(_ arguments: [String], input: [UInt8] = []) throws -> Result {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        let (entry, exit) = (Pipe(), Pipe())
        (process.standardInput, process.standardOutput, process.standardError) = (entry, exit, exit)
        try process.run()
        try entry.fileHandleForWriting.write(contentsOf: input)
        try entry.fileHandleForWriting.close()
        let output = try exit.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Result(status: process.terminationStatus, output: String(decoding: output, as: UTF8.self))
    }
}

/// A directory that goes with its owner.
final class Scratch {
    let path: String

    init() throws {
        path = NSTemporaryDirectory() + "trust-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Writes a file that only its owner may read, as ssh-keygen wants keys.
    func write(_ bytes: [UInt8], _ name: String) throws -> String {
        let file = "\(path)/\(name)"
        _ = FileManager.default.createFile(atPath: file, contents: Data(bytes), attributes: [.posixPermissions: 0o600])
        return file
    }

    func read(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)"))) }
}
