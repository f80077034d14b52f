/// A file whose bytes are what the manifest says, and which nobody sees yet.
public struct StagedFile: Sendable, Equatable {
    /// Where it will be, as in the manifest.
    public var path: String
    /// Where it is now, absolute. For reading; it is gone afterwards.
    public var stagedPath: String
    /// **Bytes**.
    public var size: UInt64
    /// SHA-256 of its bytes, 64 digits.
    public var sha256: String

    /// Makes a file; see the properties.
    public init(path: String, stagedPath: String, size: UInt64, sha256: String) {
        self.path = path
        self.stagedPath = stagedPath
        self.size = size
        self.sha256 = sha256
    }
}

/// What becomes of a staged file.
public enum FileVerdict: Sendable, Equatable {
    /// It is installed.
    case accepted
    /// It is not, and its task fails; the reason is for people.
    case refused(reason: String)
    /// It is not either, because nobody could tell: the verifier is at fault and not the file; the reason is for people.
    case unchecked(reason: String)
}

/// Looks at files before they are installed: decodes an image, scans for what must not come in.
///
/// When it fails, the files are not installed: a check that did not happen has not passed.
public protocol FileVerifier: Sendable {
    /// Decides about files; blocks.
    ///
    /// - Returns: One verdict for each file, in their order.
    func verify(_ files: [StagedFile]) throws(PluginError) -> [FileVerdict]
}
