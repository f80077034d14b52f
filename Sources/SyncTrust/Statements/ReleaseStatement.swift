package import SyncModel

/// States which manifest a revision is.
package struct ReleaseStatement: Sendable, Equatable {
    package var project = ""
    /// The manifest's revision.
    package var revision: UInt64 = 0
    /// **Milliseconds** since 1970.
    package var signed: Int64 = 0
    /// SHA-256 of the manifest's text, uncompressed.
    package var manifest = SHA256Digest.zero
    /// The **bytes** of that text.
    package var size: UInt64 = 0

    static let format = "syncagent-release/1"

    package init(project: String, revision: UInt64, signed: Int64, manifest: SHA256Digest, size: UInt64) {
        (self.project, self.revision, self.signed) = (project, revision, signed)
        (self.manifest, self.size) = (manifest, size)
    }

    package init(json: [UInt8]) throws(TrustFault) {
        try StatementReader.read(json, format: Self.format, required: ["project", "revision", "signed", "manifest"]) {
            key, reader throws(TrustFault) in
            switch key {
            case "project": project = try reader.project()
            case "revision": revision = try reader.number(key)
            case "signed": signed = try reader.time()
            case "manifest":
                try reader.object(required: ["sha256", "size"]) { key, reader throws(TrustFault) in
                    switch key {
                    case "sha256": manifest = try reader.digest()
                    case "size": size = try reader.number(key)
                    default: return false
                    }
                    return true
                }
            default: return false
            }
            return true
        }
    }

    /// The JSON text, with a newline at its end.
    package var json: [UInt8] {
        statementText(Self.format, of: project) { line in
            line.field("revision", revision)
            line.time("signed", signed)
            line.object("manifest") { line in
                line.field("sha256", manifest.hex)
                line.field("size", size)
            }
        }
    }
}
