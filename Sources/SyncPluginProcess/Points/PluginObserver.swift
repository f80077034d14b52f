import SyncModel
package import SyncPlugins

/// Tells a plugin of events: method `observer.events`. Its answer says that it has taken them, so that no more are on
/// their way than it can take.
package struct PluginObserver: EventObserver {
    private let client: PluginClient

    private static let most = 500
    /// **Bytes** of one question; an event that is longer goes alone.
    private static let mostBytes = 256 << 10

    /// Tells the plugin of this client, which was made for ``PluginPoint/observer``.
    package init(_ client: PluginClient) { self.client = client }

    package func observe(_ events: [ObservedEvent]) throws(PluginError) {
        var rest = events[...]
        while !rest.isEmpty {
            var bytes = 0
            var count = 0
            for event in rest.prefix(Self.most) {
                bytes += event.json.utf8.count + 2 * event.name.utf8.count + 32
                if count > 0, bytes > Self.mostBytes { break }
                count += 1
            }
            let batch = rest.prefix(count)
            rest = rest.dropFirst(count)
            _ = try client.call("observer.events") { line in
                line.key("events")
                line.array { line in
                    for event in batch {
                        line.object { line in
                            line.field("name", event.name)
                            line.key("event")
                            line.raw(event.json)
                        }
                    }
                }
            }
        }
    }
}
