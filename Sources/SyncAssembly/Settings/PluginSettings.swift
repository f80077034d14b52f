import SyncModel
package import SyncPlugins
import SyncSystem
package import SyncTransfer

/// The plugins of this machine, and their uses. Manifests and synced trees never name one.
package struct PluginSettings: Sendable, Equatable {
    /// One plugin at one point.
    package struct Use: Sendable, Equatable {
        /// The name of a built-in plugin, NAME of a `syncagent-plugin-NAME` in ``PluginSettings/directory``, or an
        /// absolute path.
        package var plugin: String
        package var point: PluginPoint
        /// The URLs that the plugin is for; for a credential plugin, origins.
        package var scope = URLScope.all
        /// Patterns of the paths that the plugin is for; empty for all.
        package var include: [String] = []
        /// The events that the plugin is for; empty for all.
        package var events: [String] = []
        /// An object in JSON, for the plugin itself. It may hold secrets.
        package var settings = "{}"
        /// The longest time for one answer, in **seconds**; `nil` for that of the point.
        package var timeout: Int?

        package init(plugin: String, point: PluginPoint) { (self.plugin, self.point) = (plugin, point) }

        /// The name in events: that of the plugin, or of its program.
        package var name: String {
            guard plugin.hasPrefix("/") else { return plugin }
            let file = plugin.split(separator: "/").last.map(String.init) ?? plugin
            let prefix = "syncagent-plugin-"
            return file.hasPrefix(prefix) ? String(file.dropFirst(prefix.count)) : file
        }
    }

    /// The directory of the programs of plugins, absolute; `nil` for the usual one.
    package var directory: String?
    /// The uses, in the order in which they apply.
    package var uses: [Use] = []

    /// Makes settings without plugins.
    package init() {}

    /// The schemes that a URL may have on this machine: http, https, and those of transports.
    package var schemes: Set<String> {
        uses(of: .transport).reduce(into: webSchemes) { $0.formUnion($1.scope.schemes) }
    }

    /// The schemes of the URLs that sources make manifests of; in lower case.
    package var sourceSchemes: Set<String> { uses(of: .source).reduce(into: []) { $0.formUnion($1.scope.schemes) } }

    /// The uses of one point.
    package func uses(of point: PluginPoint) -> [Use] { uses.filter { $0.point == point } }

    /// Whether a plugin, by its name or its path, is used as a source only: such a program is not asked what it is.
    package func isSource(_ plugin: String) -> Bool {
        let points = Set(uses.filter { $0.plugin == plugin || $0.name == plugin }.map(\.point))
        return points == [.source]
    }
}

extension PluginSettings {
    static let keys = ["directory", "use"]
    private static let useKeys = ["plugin", "point", "for", "include", "events", "settings", "timeout"]

    /// Every key, those inside objects without their path.
    static let allKeys = keys + useKeys

    static func read(_ object: StrictObject, _ base: PathBase) throws(SettingsError) -> PluginSettings {
        var settings = PluginSettings()
        settings.directory = try object.path("directory", base)
        for (index, node) in try object.list("use").enumerated() {
            settings.uses.append(try use(object.element(node, "use[\(index)]", keys: useKeys), node))
        }
        return settings
    }

    private static func use(_ object: StrictObject, _ node: ConfigurationNode) throws(SettingsError) -> Use {
        guard let plugin = try object.text("plugin", "a plugin's name or absolute path") else {
            throw object.fault(node, "plugin", "missing; write a plugin's name or the absolute path of its program")
        }
        guard !plugin.unicodeScalars.contains(where: isUnsafeOnTerminal), plugin.hasPrefix("/") || !plugin.contains("/")
        else { throw object.fault(node, "plugin", "'\(escaped(plugin))' is neither a name nor an absolute path") }
        guard let point = try object.word("point", PluginPoint.self) else {
            let points = PluginPoint.allCases.map(\.rawValue).joined(separator: ", ")
            throw object.fault(node, "point", "missing; one of \(points)")
        }
        var use = Use(plugin: plugin, point: point)
        use.include = try object.anyTexts("include")
        use.events = try object.anyTexts("events")
        for key in ["for", "include", "events"] where !point.descriptor.keys.contains(key) {
            guard let found = object.node(key) else { continue }
            throw object.fault(found, key, "has no meaning for a \(point.rawValue)")
        }
        let events = try object.texts("events", "event names") ?? []
        for (name, place) in events where EventName(rawValue: name) == nil {
            let hint = nearest(name, in: EventName.allCases.map(\.rawValue)).map { "; did you mean “\($0)”?" } ?? ""
            throw place.fault("there is no event '\(escaped(name))'\(hint)")
        }
        use.scope = try scope(object, point)
        if point == .transport, use.scope == .all {
            throw object.fault(
                node, "for",
                "missing; a transport needs the URLs it handles, such as \"https://assets.example.com/\" or \"http:\"")
        }
        if point == .source, use.scope == .all {
            throw object.fault(
                node, "for", "missing; a source needs the URLs it makes manifests of, such as \"listing:\"")
        }
        if [.transport, .source].contains(point), use.scope.schemes.contains("file") {
            // A manifest from elsewhere could name this machine's files.
            throw object.fault(node, "for", URLScope.fileIsBuiltIn)
        }
        if let timeout = try object.duration("timeout") { use.timeout = Int(timeout.components.seconds) }
        if let settings = object.node("settings") {
            guard case .object = settings.value, let json = settings.json else {
                throw object.fault(settings, "settings", "an object { … } of JSON values is expected")
            }
            use.settings = json.text
        }
        return use
    }
}

extension PluginSettings {
    /// The key `for`: origins for a credential plugin, beginnings of URLs for others.
    private static func scope(_ object: StrictObject, _ point: PluginPoint) throws(SettingsError) -> URLScope {
        let texts = try object.texts("for", "URLs") ?? []
        let make = point == .credential ? URLScope.origins : URLScope.prefixes
        for (text, place) in texts {
            do throws(URLError) { _ = try make([text]) } catch {
                throw place.fault("\(redacted(url: text)) is \(error.description)")
            }
        }
        do throws(URLError) { return try make(texts.map(\.text)) } catch { throw SettingsError(error.description) }
    }
}

extension ConfigurationNode {
    /// The value as JSON; `nil` for numbers that JSON does not have.
    fileprivate var json: JSONValue? {
        switch value {
        case .null: return .null
        case .boolean(let value): return .bool(value)
        case .integer(let value): return .integer(value)
        case .number(let value): return value.isFinite ? .number(value) : nil
        case .text(let text): return .string(text)
        case .list(let list):
            let elements = list.compactMap(\.json)
            return elements.count == list.count ? .array(elements) : nil
        case .object(let members):
            let values = members.compactMap { member in member.node.json.map { (member.key, $0) } }
            return values.count == members.count ? .object(Dictionary(uniqueKeysWithValues: values)) : nil
        }
    }
}
