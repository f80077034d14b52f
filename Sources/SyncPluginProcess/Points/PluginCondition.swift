import SyncModel
package import SyncPlugins

/// Asks a plugin whether a run may go on: method `condition.state`.
package struct PluginCondition: Condition {
    package let name: String
    private let client: PluginClient

    /// Asks the plugin of this client, which was made for ``PluginPoint/condition``.
    ///
    /// - Parameter name: What `status` and events call it; `nil` for the plugin's name.
    package init(_ client: PluginClient, name: String? = nil) {
        self.client = client
        self.name = name ?? client.name
    }

    package func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        let answer = try client.call("condition.state") { line in
            line.field("destination", context.destination)
            line.field("received_bytes", context.receivedBytes)
            line.field("now", context.now)
        }
        let why = reason(answer["reason"]) ?? "the plugin \(client.name) says so"
        switch answer["state"]?.string {
        case "ok": return .ok
        case "blocked": return .blocked(reason: why, until: answer["until"]?.integer)
        case "unknown": return .unknown(reason: why)
        default: throw client.failure(.badAnswer, "its 'state' is none of ok, blocked, unknown")
        }
    }
}
