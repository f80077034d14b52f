import SyncModel
package import SyncPlugins

/// A plugin's description of itself, in the protocol of `Documentation/reference/Plugin-protocol.md`.
package struct PluginDescription: Sendable, Equatable {
    /// The version of the protocol that this program speaks.
    package static let protocolVersion = 1

    package var name: String
    package var version: String?
    package var points: [PluginPoint]
    /// Transfers that it handles at a time, 1...64.
    package var concurrency: Int

    /// Parses an answer to `initialize`.
    init(_ answer: JSONValue, for point: PluginPoint?) throws(WireFault) {
        guard let spoken = answer["protocol"]?.integer else {
            throw WireFault("its answer to initialize has no number 'protocol'")
        }
        guard spoken == Int64(Self.protocolVersion) else {
            throw WireFault(
                "it speaks version \(spoken) of the plugin protocol, and this program version \(Self.protocolVersion); "
                    + (spoken > Int64(Self.protocolVersion) ? "update syncagent" : "update the plugin"))
        }
        guard let name = answer["name"]?.string, let points = answer["points"]?.array else {
            throw WireFault("its answer to initialize has no 'name' or no list 'points'")
        }
        self.points = points.compactMap(\.string).compactMap(PluginPoint.init(rawValue:))
        if let point, !self.points.contains(point) {
            let known = self.points.map(\.rawValue).joined(separator: ", ")
            throw WireFault(
                "it does not serve \(point.rawValue); it serves: \(known.isEmpty ? "nothing" : known)")
        }
        self.name = escaped(String(name.prefix(100)))
        version = answer["version"]?.string.map { escaped(String($0.prefix(100))) }
        concurrency = Int(min(max(answer["concurrency"]?.integer ?? 8, 1), 64))
    }
}

/// The fault of a message from a plugin.
struct WireFault: Error {
    let reason: String
    init(_ reason: String) { self.reason = reason }
}

/// A notice about a plugin, besides its answers.
package struct PluginNotice: Sendable, Equatable {
    package enum Kind: String, Sendable {
        /// A line that the plugin wrote to standard error.
        case output
        /// It violated the protocol; it continues.
        case warning
        /// It ended, or was ended; it is restarted for the next request.
        case ended
        /// It is not restarted.
        case givenUp
    }

    package var plugin: String
    package var kind: Kind
    /// One line for people, safe for a terminal.
    package var text: String

    package init(plugin: String, kind: Kind, text: String) {
        (self.plugin, self.kind, self.text) = (plugin, kind, text)
    }
}
