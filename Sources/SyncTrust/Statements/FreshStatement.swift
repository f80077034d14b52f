package import SyncModel

/// States which release is the newest of a channel, for a limited time.
package struct FreshStatement: Sendable, Equatable {
    package var project = ""
    /// The channel; `nil` for the default one.
    package var channel: String?
    /// Grows with every statement.
    package var serial: UInt64 = 0
    /// When it was signed, and until when it is valid; **milliseconds** since 1970.
    package var signed: Int64 = 0
    package var until: Int64 = 0
    /// The number of the newest root.
    package var root: UInt64 = 0
    package var revision: UInt64 = 0
    /// ``SignedStatement/digest`` of the release's statement.
    package var release = SHA256Digest.zero
    /// Whether the channel was removed; ``release`` is its last one then.
    package var isRemoved = false

    static let format = "syncagent-fresh/1"

    package init(
        project: String, channel: String? = nil, serial: UInt64, signed: Int64, until: Int64, root: UInt64,
        revision: UInt64, release: SHA256Digest, isRemoved: Bool = false
    ) {
        (self.project, self.channel) = (project, channel)
        (self.serial, self.signed, self.until) = (serial, signed, until)
        (self.root, self.revision, self.release) = (root, revision, release)
        self.isRemoved = isRemoved
    }

    package init(json: [UInt8]) throws(TrustFault) {
        try StatementReader.read(
            json, format: Self.format, required: ["project", "serial", "signed", "until", "root", "release"]
        ) { key, reader throws(TrustFault) in
            switch key {
            case "project": project = try reader.project()
            case "channel": channel = try reader.channel()
            case "serial": serial = try reader.number(key)
            case "signed": signed = try reader.time()
            case "until": until = try reader.time()
            case "root": root = try reader.number(key)
            case "removed": isRemoved = try reader.bool()
            case "release":
                try reader.object(required: ["revision", "sha256"]) { key, reader throws(TrustFault) in
                    switch key {
                    case "revision": revision = try reader.number(key)
                    case "sha256": release = try reader.digest()
                    default: return false
                    }
                    return true
                }
            default: return false
            }
            return true
        }
        guard channel != nil || !isRemoved else { throw TrustFault("the default channel cannot be removed") }
    }

    /// The name of its file in `trust/`.
    package static func name(_ channel: String?) -> String { channel.map { "\($0).fresh" } ?? "fresh" }

    /// The channel that has a file of this name in `trust/`; `nil` for every other file, and for the default channel.
    package static func channel(ofFile name: String) -> String? {
        guard name.hasSuffix(".fresh") else { return nil }
        let channel = String(name.dropLast(6))
        return ChannelName.objection(channel) == nil ? channel : nil
    }

    /// The JSON text, with a newline at its end.
    package var json: [UInt8] {
        statementText(Self.format, of: project) { line in
            line.field("channel", optional: channel)
            line.field("serial", serial)
            line.time("signed", signed)
            line.time("until", until)
            line.field("root", root)
            line.object("release") { line in
                line.field("revision", revision)
                line.field("sha256", release.hex)
            }
            if isRemoved { line.field("removed", true) }
        }
    }
}
