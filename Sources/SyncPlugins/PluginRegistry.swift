import SyncModel

/// Plugins of one point, by name, each made with settings of its own.
public struct PluginRegistry<Plugin: Sendable, Settings: Sendable>: Sendable {
    /// Makes a plugin.
    public typealias Factory = @Sendable (Settings) -> Result<Plugin, PluginError>

    /// What all its plugins extend.
    public let point: PluginPoint
    private var factories: [String: Factory] = [:]

    /// An empty registry.
    public init(_ point: PluginPoint) { self.point = point }

    /// Adds a plugin, or puts it in the place of one with the same name.
    public mutating func register(_ name: String, _ factory: @escaping Factory) {
        factories[name] = factory
    }

    /// The names that are known, in order.
    public var names: [String] { factories.keys.sorted() }

    /// Makes the plugin called `name`.
    ///
    /// - Throws: ``PluginError`` with code `unavailable` that lists the known names; whatever its factory throws.
    public func make(_ name: String, _ settings: Settings) throws(PluginError) -> Plugin {
        guard let factory = factories[name] else {
            let known = names.isEmpty ? "none is known" : "known: \(names.joined(separator: ", "))"
            throw PluginError(
                plugin: escaped(name),
                code: .unavailable,
                message: "there is no \(point.rawValue) of this name; \(known)"
            )
        }
        return try factory(settings).get()
    }
}
