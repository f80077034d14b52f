import CommandTestSupport
import Foundation
import Testing

/// ssh-keygen(1).
enum SSH {
    static var isHere: Bool { FileManager.default.isExecutableFile(atPath: "/usr/bin/ssh-keygen") }

    private static func run(_ script: String, in scratch: Scratch) throws -> Int32 {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", script]
        process.currentDirectoryURL = scratch.url
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus
    }

    static func sign(_ file: String, with key: String, _ namespace: String, in scratch: Scratch) throws -> String {
        let status = try run("rm -f \(file).sig; ssh-keygen -Y sign -n \(namespace) -f \(key) \(file)", in: scratch)
        try #require(status == 0)
        return try String(contentsOf: scratch.url.appendingPathComponent("\(file).sig"), encoding: .utf8)
    }

    static func verifies(_ file: String, _ signature: String, by key: String, _ namespace: String, in scratch: Scratch)
        throws -> Bool
    {
        try run(
            "printf 'me %s\\n' \"$(ssh-keygen -y -f \(key))\" >allowed && "
                + "ssh-keygen -Y verify -f allowed -I me -n \(namespace) -s \(signature) <\(file)", in: scratch) == 0
    }
}
