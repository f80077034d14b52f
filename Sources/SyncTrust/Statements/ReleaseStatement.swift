package import SyncModel

/// Says which manifest a revision is.
package struct ReleaseStatement: Sendable, Equatable {
    package var project: String
    /// The manifest's own.
    package var revision: UInt64
    /// **Milliseconds** since 1970.
    package var signed: Int64
    /// SHA-256 of the manifest's text, uncompressed.
    package var manifest: SHA256Digest
    /// Its **bytes**.
    package var size: UInt64

    static let format = "syncagent-release/1"

    package init(project: String, revision: UInt64, signed: Int64, manifest: SHA256Digest, size: UInt64) {
        (self.project, self.revision, self.signed) = (project, revision, signed)
        (self.manifest, self.size) = (manifest, size)
    }

    package init(json: [UInt8]) throws(TrustFault) {
        var statement = ReleaseStatement(project: "", revision: 0, signed: 0, manifest: .zero, size: 0)
        try StatementReader.read(
            json,
            required: ["format", "project", "revision", "signed", "manifest"]
        ) { key, reader throws(TrustFault) in
            switch key {
            case "format": try reader.expect(Self.format)
            case "project": statement.project = try reader.project()
            case "revision": statement.revision = try reader.number(key)
            case "signed": statement.signed = try reader.time()
            case "manifest":
                try reader.object(required: ["sha256", "size"]) { key, reader throws(TrustFault) in
                    switch key {
                    case "sha256": statement.manifest = try reader.digest()
                    case "size": statement.size = try reader.number(key)
                    default: return false
                    }
                    return true
                }
            default: return false
            }
            return true
        }
        self = statement
    }

    /// The JSON text, with a newline at its end.
    package var json: [UInt8] {
        JSONLine.object { line in
            line.field("format", Self.format)
            line.field("project", project)
            line.field("revision", revision)
            line.time("signed", signed)
            line.object("manifest") { line in
                line.field("sha256", manifest.hex)
                line.field("size", size)
            }
        }.bytes + [0x0A]
    }
}
