import SyncModel
package import SyncPlugins

/// What host and plugin agree on; `Documentation/reference/Plugin-protocol.md`.
package enum PluginProtocol {
    package static let version = 1

    struct Fault: Error { let message: String }

    /// Looks at an answer to `initialize`.
    static func check(_ answer: JSONValue, for point: PluginPoint?) -> Result<PluginDescription, Fault> {
        func fault(_ message: String) -> Result<PluginDescription, Fault> { .failure(Fault(message: message)) }
        guard let spoken = answer["protocol"]?.integer else {
            return fault("its answer to initialize has no number 'protocol'")
        }
        guard spoken == Int64(version) else {
            return fault(
                "it speaks version \(spoken) of the plugin protocol, and this program version \(version); "
                    + (spoken > Int64(version) ? "update syncagent" : "update the plugin"))
        }
        guard let name = answer["name"]?.string, let points = answer["points"]?.array else {
            return fault("its answer to initialize has no 'name' or no list 'points'")
        }
        let served = points.compactMap(\.string).compactMap(PluginPoint.init(rawValue:))
        if let point, !served.contains(point) {
            let known = served.map(\.rawValue).joined(separator: ", ")
            return fault("it does not serve \(point.rawValue); it serves: \(known.isEmpty ? "nothing" : known)")
        }
        let concurrency = answer["concurrency"]?.integer ?? 8
        return .success(
            PluginDescription(
                name: escaped(String(name.prefix(100))),
                version: answer["version"]?.string.map { escaped(String($0.prefix(100))) }, points: served,
                concurrency: Int(min(max(concurrency, 1), 64))))
    }
}

/// What a plugin says of itself.
package struct PluginDescription: Sendable, Equatable {
    package var name: String
    package var version: String?
    package var points: [PluginPoint]
    /// Transfers it works on at a time, 1...64.
    package var concurrency: Int
}

/// What is told about a plugin besides its answers.
package struct PluginNotice: Sendable, Equatable {
    package enum Kind: String, Sendable {
        /// A line that the plugin wrote to standard error.
        case output
        /// It did something the protocol does not allow; it goes on.
        case warning
        /// It ended, or was ended; it is started again when it is asked for.
        case ended
        /// It is not started again.
        case givenUp
    }

    package var plugin: String
    package var kind: Kind
    /// One line for people, safe for a terminal.
    package var text: String
}
