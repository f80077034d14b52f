import SyncContent
import SyncModel
package import SyncPlugins
import SyncSystem

/// Files and calls with which plugins are checked.
package struct SampleFiles: Sendable {
    /// The files, with their digests.
    package let files: [StagedFile]

    /// Writes the standard samples into a directory.
    ///
    /// - Parameter others: Paths of more files to show to a verifier.
    package init(in directory: String, besides others: [String]) throws(PluginError) {
        var found: [StagedFile] = []
        for (name, bytes) in Self.samples {
            let path = "\(directory)/\(name)"
            try Self.write(bytes, to: path)
            found.append(try Self.staged(path, name: name))
        }
        for path in others {
            let absolute = try rethrowing(absolutePath(path)) { (error: FileError) in Self.failure("\(error)") }
            found.append(try Self.staged(absolute, name: absolute.split(separator: "/").last.map(String.init) ?? path))
        }
        files = found
    }

    /// Whether a file is unchanged.
    package func isUnchanged(_ file: StagedFile) -> Bool {
        (try? Self.staged(file.stagedPath, name: file.path)) == file
    }

    private static func staged(_ path: String, name: String) throws(PluginError) -> StagedFile {
        let data = try rethrowing(readFile(path, trust: .input, limit: 1 << 30)) { (error: FileError) in
            failure(error.description)
        }
        guard var hasher = try? SHA256Hasher(), let digest = data.withUnsafeBytes({ try? hasher.digest(of: $0) }) else {
            throw failure("cannot make a digest")
        }
        return StagedFile(path: name, stagedPath: path, size: UInt64(data.count), sha256: digest.hex)
    }

    private static func write(_ bytes: [UInt8], to path: String) throws(PluginError) {
        try rethrowing(replaceFile(path, with: bytes, isDurable: false)) { (error: FileError) in failure("\(error)") }
    }

    private static func failure(_ text: String) -> PluginError {
        PluginError(plugin: "check", code: .unavailable, message: text)
    }

    /// One grey pixel; PNG specification, third edition.
    private static let png: [UInt8] = [
        0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0, 0, 1,
        8, 0, 0, 0, 0, 0x3A, 0x7E, 0x9B, 0x55, 0, 0, 0, 0x0A, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9C, 0x63, 0x60, 0, 0, 0,
        2, 0, 1, 0x48, 0xAF, 0xA4, 0x71, 0, 0, 0, 0, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82,
    ]
    private static let samples: [(String, [UInt8])] = [
        ("picture.png", png), ("damaged.png", Array(png.dropLast(6))), ("not-a-picture.png", Array("text".utf8)),
        ("text.txt", Array("text\n".utf8)), ("empty.bin", []), ("data.json", Array("{\"a\":1}\n".utf8)),
        ("damaged.json", Array("{\"a\":".utf8)), ("bytes.bin", (0..<4_096).map { UInt8($0 & 0xFF) }),
    ]

    /// Writes an object of 400,000 **bytes** for transports; returns its path.
    package static func object(in directory: String) throws(PluginError) -> String {
        var state: UInt64 = 1
        let bytes = (0..<400_000).map { _ in
            // Knuth's generator, MMIX: no two places look alike.
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 33)
        }
        let path = "\(directory)/object.bin"
        try write(bytes, to: path)
        return path
    }

    /// A call of a hook for a complete group.
    package static func invocation(_ word: String, directory: String, timeout: Int) -> HookInvocation {
        let report = JSONLine.object { line in
            line.field("format", "syncagent-report/1")
            line.field("project", "check")
            line.field("revision", 1)
            line.field("manifest_sha256", String(repeating: "0", count: 64))
            line.field("group", "all")
            line.field("group_result", "ok")
            line.field("changed", 1)
            line.field("destination", directory)
            line.field("result", "ok")
            line.field("session", "check")
            line.field("run", "check")
            line.object("files") { files in
                for name in ["total", "installed"] { files.field(name, 1) }
                for name in ["unchanged", "reused", "removed", "failed"] { files.field(name, 0) }
            }
            line.object("bytes") { bytes in for name in ["total", "received", "reused"] { bytes.field(name, 5) } }
            line.object("manifest") { parts in
                for name in ["bytes", "parts", "parts_fetched"] { parts.field(name, 0) }
            }
            line.field("requests", 1)
            line.field("elapsed_ms", 1)
            line.array("entries") { entries in
                entries.object { entry in
                    entry.field("path", "text.txt")
                    entry.field("state", "installed")
                    entry.field("size", 5)
                    entry.field("sha256", "b9e68e1bea3e5b19ca6b2f98b73a54b73daafaa250484902e09982e07a12e733")
                }
            }
        }
        return HookInvocation(
            arguments: [word], directory: directory,
            environment: [
                "SYNCAGENT_SESSION": "check", "SYNCAGENT_RUN_ID": "check", "SYNCAGENT_GROUP": "all",
                "SYNCAGENT_RESULT": "ok", "SYNCAGENT_CHANGED": "1", "SYNCAGENT_DESTINATION": directory,
                "SYNCAGENT_ATTEMPT": "1",
            ], input: report.bytes, timeout: timeout)
    }
}
