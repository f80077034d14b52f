import SyncModel

/// The channels of a set that have a name: `channels/index.json`. The file is not signed: it only tells people which
/// channels there are. `channels/NAME.json.zst` and `trust/NAME.fresh` say what a channel points at.
package struct ChannelIndex: Sendable, Equatable {
    package var project = ""
    /// The revision that each channel points at, by name.
    package var channels: [String: UInt64] = [:]

    /// Sorted.
    package var names: [String] { channels.keys.sorted() }

    /// The path from the manifest's directory.
    package static let path = "channels/index.json"
    /// Most **bytes** of the file.
    package static let limit = 64 << 10
    private static let format = "syncagent-channels/1"

    package init(project: String, channels: [String: UInt64] = [:]) {
        (self.project, self.channels) = (project, channels)
    }

    package init(json: [UInt8]) throws(TrustFault) {
        try StatementReader.read(json, format: Self.format, required: ["project", "channels"]) {
            key, reader throws(TrustFault) in
            switch key {
            case "project": project = try reader.project()
            case "channels":
                try reader.object(required: []) { name, reader throws(TrustFault) in
                    guard ChannelName.objection(name) == nil else { return false }
                    channels[name] = try reader.integer()
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
            line.object("channels") { line in
                for (name, revision) in channels.sorted(by: { $0.key < $1.key }) { line.field(name, revision) }
            }
        }
    }
}
