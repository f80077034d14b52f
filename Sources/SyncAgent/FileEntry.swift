import SyncModel
package import SyncSystem

/// One file and the URLs of its bytes, for pulling a list of files without a published manifest.
public struct FileEntry: Sendable, Hashable {
    /// The path relative to the destination, with `/`.
    public var path: String
    /// The size in **bytes**.
    public var size: UInt64
    /// SHA-256 of the file, 64 hexadecimal digits.
    public var sha256: String
    /// Absolute http or https URLs, best first.
    public var urls: [String]

    /// Creates an entry; see the properties.
    public init(path: String, size: UInt64, sha256: String, urls: [String]) {
        (self.path, self.size, self.sha256, self.urls) = (path, size, sha256, urls)
    }
}

extension [FileEntry] {
    /// Stores the list as a manifest that only its owner can read, because URLs may contain secrets.
    ///
    /// - Parameters:
    ///   - project: The files' project, such as `com.example.tower`.
    ///   - path: The path of the manifest, absolute; replaced atomically.
    /// - Throws: ``/SyncSystem/FileError``.
    package func writeManifest(of project: String, to path: String) throws(FileError) {
        let text = JSONLine.object { line in
            line.field("format", "syncagent-manifest/1")
            line.field("project", project)
            line.list("files", self) { entry, line in
                line.field("path", entry.path)
                line.field("size", entry.size)
                line.field("sha256", entry.sha256)
                line.field("urls", entry.urls)
            }
        }
        try replaceFile(path, with: text.bytes, mode: 0o600)
    }
}

extension AgentSession {
    /// Enqueues a pull of a list of files into a directory, without a published manifest. Returns when the agent has it
    /// on disk.
    ///
    /// - Parameters:
    ///   - files: All files that the directory should contain.
    ///   - project: The files' project, such as `com.example.tower`.
    ///   - manifest: The path of a manifest that stores the list, absolute, in an existing directory. The agent reads
    ///     it when a run starts; keep it as long as the session is used.
    ///   - destination: A directory, absolute.
    ///   - configure: Sets further options: groups, hooks, a start time.
    /// - Returns: The run. The same list returns the same run while it is open; another list replaces it.
    /// - Throws: `ControlError`; `CancellationError`.
    @discardableResult public func enqueue(
        _ files: [FileEntry], project: String, keptAs manifest: String, into destination: String,
        _ configure: (inout EnqueueRequest) -> Void = { _ in }
    ) async throws -> EnqueueReply {
        try rethrowing(files.writeManifest(of: project, to: manifest)) { (error: FileError) in
            ControlError(
                .failed, "Cannot store the list of files as \(escaped(manifest)): \(error.reason).",
                exitStatus: .ioError)
        }
        return try await enqueue(manifest: manifest, into: destination, configure)
    }
}
