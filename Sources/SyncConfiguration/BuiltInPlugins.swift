import Foundation
import SyncAssembly
import SyncCurl
import SyncModel
import SyncPluginHost
package import SyncPlugins
import SyncSchedule
package import SyncSettings
import SyncSystem
package import SyncTransfer

/// Plugins that are part of the program, made with the settings of a configuration file.
package enum BuiltInPlugins {
    /// What one is made with.
    package struct Needs: Sendable {
        package let use: PluginSettings.Use
        /// Whose proxies and trust it uses for requests of its own.
        package let web: TransportConfiguration

        package init(use: PluginSettings.Use, web: TransportConfiguration) {
            self.use = use
            self.web = web
        }
    }

    // Whatever is registered here is known to the configuration, to `plugins list` and to `plugins check`; conditions have a
    // registry of their own.
    package static let resolvers = registry(.resolver, "rewrite", rewrite)
    package static let credentials = registry(.credential, "file", credentialsFile)
    package static let observers = registry(.observer, "webhook", webhook)

    /// The names of a point.
    package static func names(_ point: PluginPoint) -> [String] {
        switch point {
        case .resolver: resolvers.names
        case .credential: credentials.names
        case .observer: observers.names
        case .condition: builtInConditions.names
        case .verifier: ["program"]
        case .hook: ["program", "webhook"]
        case .transport: ["http", "file"]
        }
    }

    private static func registry<Plugin>(
        _ point: PluginPoint, _ name: String, _ make: @escaping @Sendable (Needs) throws(PluginError) -> Plugin
    ) -> PluginRegistry<Plugin, Needs> {
        var registry = PluginRegistry<Plugin, Needs>(point)
        registry.register(name) { needs in Result { () throws(PluginError) in try make(needs) } }
        return registry
    }

    private struct RewriteSettings: Decodable { var rules: [String] }
    private struct FileSettings: Decodable { var path: String }
    private struct ProgramSettings: Decodable { var command: [String] }
    private struct WebhookSettings: Decodable { var url: String }

    private static func rewrite(_ needs: Needs) throws(PluginError) -> any RequestResolver {
        let use = needs.use
        let settings = try settings(RewriteSettings.self, of: use, "{ rules: [\"PREFIX REPLACEMENT\"] }")
        var rules: [RewriteRule] = []
        do throws(SyncCurl.URLError) { for text in settings.rules { rules.append(try RewriteRule(text)) } } catch {
            throw refused(use, error.description)
        }
        return RewriteResolver(rules)
    }

    private static func credentialsFile(_ needs: Needs) throws(PluginError) -> any CredentialProvider {
        let use = needs.use
        let settings = try settings(FileSettings.self, of: use, "{ path: \"/absolute/path\" }")
        return try rethrowing(Credentials.read(path: settings.path)) { (refusal: Credentials.Refusal) in
            refused(use, refusal.description)
        }
    }

    /// The argv of a program that answers by its exit status.
    static func command(_ use: PluginSettings.Use) throws(PluginError) -> [String] {
        let command = try settings(ProgramSettings.self, of: use, "{ command: [\"/absolute/path\", \"argument\"] }")
            .command
        guard command.first?.hasPrefix("/") == true else {
            throw refused(use, "settings.command must begin with an absolute path")
        }
        return command
    }

    private static func webhook(_ needs: Needs) throws(PluginError) -> any EventObserver {
        let use = needs.use
        let settings = try settings(WebhookSettings.self, of: use, "{ url: \"https://…\" }")
        guard WebhookHook.isFor(settings.url) else { throw refused(use, "settings.url must be an http or https URL") }
        return WebhookObserver(url: settings.url, name: use.name, hook: WebhookHook(needs.web))
    }

    /// A transport's configuration without any settings; its advice names this program's options.
    package static var plainConfiguration: TransportConfiguration {
        var configuration = TransportConfiguration(clock: SystemTime.clock, random: { .random(in: .min ... .max) })
        configuration.advise = { $0.words }
        return configuration
    }

    private static func settings<Settings: Decodable>(_ type: Settings.Type, of use: PluginSettings.Use, _ form: String)
        throws(PluginError) -> Settings
    {
        do { return try JSONDecoder().decode(type, from: Data(use.settings.utf8)) } catch {
            throw refused(use, "settings must have the form \(form)")
        }
    }

    private static func refused(_ use: PluginSettings.Use, _ message: String) -> PluginError {
        PluginError(plugin: use.name, code: .refused, message: message)
    }
}

/// Sends events to a URL, a batch a request: `{"events":[…]}`.
private struct WebhookObserver: EventObserver {
    let url: String
    let name: String
    let hook: WebhookHook

    func observe(_ events: [ObservedEvent]) throws(PluginError) {
        let body = "{\"events\":[" + events.map(\.json).joined(separator: ",") + "]}"
        let outcome = hook.run(
            HookInvocation(arguments: [url], directory: "/", environment: [:], input: Array(body.utf8), timeout: 30))
        guard !outcome.succeeded else { return }
        let text = outcome.output.split(separator: "\n").first.map(String.init) ?? "\(outcome.end)"
        throw PluginError(plugin: name, code: .refused, message: "\(events.count) events were not accepted: \(text)")
    }
}
