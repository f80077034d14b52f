public import SyncControl
import SyncModel
package import SyncSystem

/// One file by where its bytes are, for whoever has a list of files and no manifest that somebody has published.
public struct FileEntry: Sendable, Hashable {
    /// Relative to the destination, with `/`.
    public var path: String
    /// **Bytes**.
    public var size: UInt64
    /// SHA-256 of its bytes, 64 hexadecimal digits.
    public var sha256: String
    /// Absolute http or https URLs, the best first.
    public var urls: [String]

    /// Names a file; see the properties.
    public init(path: String, size: UInt64, sha256: String, urls: [String]) {
        self.path = path
        self.size = size
        self.sha256 = sha256
        self.urls = urls
    }
}

extension [FileEntry] {
    /// Keeps the list as a manifest, readable by its owner only: URLs may hold what is nobody else's business.
    ///
    /// - Parameters:
    ///   - project: What they are part of, such as `com.example.tower`.
    ///   - path: Absolute; replaced whole or not at all.
    /// - Throws: ``/SyncSystem/FileError``.
    package func writeManifest(of project: String, to path: String) throws(FileError) {
        let text = JSONLine.object { line in
            line.field("format", "syncagent-manifest/1")
            line.field("project", project)
            line.key("files")
            line.array { line in
                for entry in self {
                    line.object { line in
                        line.field("path", entry.path)
                        line.field("size", entry.size)
                        line.field("sha256", entry.sha256)
                        line.key("urls")
                        line.array { line in for url in entry.urls { line.value(url) } }
                    }
                }
            }
        }
        try replaceFile(path, with: text.bytes, mode: 0o600)
    }
}

extension AgentSession {
    /// Asks for a list of files in a directory, without a manifest that somebody has published; returns when the agent has
    /// it on the disk.
    ///
    /// - Parameters:
    ///   - files: All files that are to be there.
    ///   - project: What they are part of, such as `com.example.tower`.
    ///   - manifest: Where the list is kept as a manifest, absolute, below a directory that exists. The agent reads it when
    ///     a run starts: it is yours, and stays as long as the session is to be pulled again.
    ///   - destination: A directory, absolute.
    ///   - configure: Sets what else is wanted: groups, hooks, a time to start.
    /// - Returns: The run. The same list again, while the run is open, gives the same run; another one takes its place.
    /// - Throws: `ControlError`; `CancellationError`.
    @discardableResult
    public func enqueue(
        _ files: [FileEntry],
        project: String,
        keptAs manifest: String,
        into destination: String,
        _ configure: (inout EnqueueRequest) -> Void = { _ in }
    ) async throws -> EnqueueReply {
        do throws(FileError) {
            try files.writeManifest(of: project, to: manifest)
        } catch {
            throw ControlError(
                .failed,
                "Cannot store the list of files as \(escaped(manifest)): \(error.reason).",
                exitStatus: .ioError
            )
        }
        return try await enqueue(manifest: manifest, into: destination, configure)
    }
}
