import SyncManifest
import SyncModel

/// Manifests as text, for tables of tests: everything but the part under test is valid.
enum ManifestFixture {
    static let digestOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    static let digest = String(repeating: "ab", count: 32)

    /// A manifest with these entries of `files`, and packs of 1,000 and 2,000 bytes.
    static func document(files: String, extra: String = "") -> String {
        """
        {"format":"syncagent-manifest/1","project":"com.example.test",\
        "packs":[{"url":"packs/a.pack","size":1000,"sha256":"\(String(repeating: "1", count: 64))"},\
        {"url":"packs/b.pack","size":2000,"sha256":"\(String(repeating: "2", count: 64))"}],\
        "files":[\(files)]\(extra)}
        """
    }

    /// An empty file at a path; the path is put in as JSON text.
    static func entry(_ path: String) -> String {
        "{\"path\":\(quoted(path)),\"size\":0,\"sha256\":\"\(digestOfNothing)\"}"
    }

    /// A link.
    static func link(_ path: String, to target: String) -> String {
        "{\"path\":\(quoted(path)),\"link\":\(quoted(target))}"
    }

    /// A JSON string.
    static func quoted(_ text: String) -> String {
        var line = JSONLine()
        line.value(text)
        return line.text
    }

    /// Reads a manifest; the digest is left zero.
    static func load(_ text: String, limits: ManifestLimits = .standard) throws(ManifestError) -> Manifest {
        try ManifestAssembly(Array(text.utf8), digest: .zero, limits: limits).finish()
    }

    /// The error that a text is refused with, or `nil` when it is accepted.
    static func refusal(_ text: String, limits: ManifestLimits = .standard) -> ManifestError? {
        do throws(ManifestError) {
            _ = try load(text, limits: limits)
            return nil
        } catch { return error }
    }
}
