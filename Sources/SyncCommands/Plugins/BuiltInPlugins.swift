import Foundation
import SyncPlugins
import SyncSettings
import SyncTransfer

/// Plugins that are part of the program, made with the settings of a configuration file.
enum BuiltInPlugins {
    /// The names of each point; conditions have their own registry.
    static let names: [PluginPoint: [String]] = [
        .resolver: ["rewrite"], .credential: ["file"], .observer: ["webhook"],
        .verifier: ["program"],
        .hook: ["program", "webhook"], .transport: ["http", "file"],
    ]

    private struct RewriteSettings: Decodable { var rules: [String] }
    private struct FileSettings: Decodable { var path: String }
    private struct ProgramSettings: Decodable { var command: [String] }
    private struct WebhookSettings: Decodable { var url: String }

    static func rewrite(_ use: PluginSettings.Use) throws(PluginError) -> any RequestResolver {
        let settings = try settings(RewriteSettings.self, of: use, "{ rules: [\"PREFIX REPLACEMENT\"] }")
        var rules: [RewriteRule] = []
        do throws(RewriteRule.SyntaxError) {
            for text in settings.rules { rules.append(try RewriteRule(text)) }
        } catch {
            throw PluginError(plugin: use.name, code: .refused, message: error.description)
        }
        return RewriteResolver(rules)
    }

    static func credentialsFile(_ use: PluginSettings.Use) throws(PluginError) -> any CredentialProvider {
        let settings = try settings(FileSettings.self, of: use, "{ path: \"/absolute/path\" }")
        do throws(CredentialsFile.Refusal) {
            return try CredentialsFile.read(path: settings.path)
        } catch {
            throw PluginError(plugin: use.name, code: .refused, message: error.description)
        }
    }

    /// The argv of a program that answers by its exit status.
    static func command(_ use: PluginSettings.Use) throws(PluginError) -> [String] {
        let command = try settings(
            ProgramSettings.self,
            of: use,
            "{ command: [\"/absolute/path\", \"argument\"] }"
        ).command
        guard command.first?.hasPrefix("/") == true else {
            throw PluginError(
                plugin: use.name,
                code: .refused,
                message: "settings.command begins with an absolute path"
            )
        }
        return command
    }

    /// - Parameter configuration: Whose proxies and trust it uses.
    static func webhook(
        _ use: PluginSettings.Use,
        _ configuration: TransportConfiguration
    ) throws(PluginError) -> any EventObserver {
        let settings = try settings(WebhookSettings.self, of: use, "{ url: \"https://…\" }")
        guard WebhookHook.isFor(settings.url) else {
            let text = "settings.url is an http or https URL"
            throw PluginError(plugin: use.name, code: .refused, message: text)
        }
        return WebhookObserver(url: settings.url, name: use.name, hook: WebhookHook(configuration))
    }

    /// A transport's configuration without any settings.
    static var plainConfiguration: TransportConfiguration {
        TransportConfiguration(clock: EngineAssembly.clock, random: { .random(in: .min ... .max) })
    }

    private static func settings<Settings: Decodable>(
        _ type: Settings.Type,
        of use: PluginSettings.Use,
        _ form: String
    ) throws(PluginError) -> Settings {
        do {
            return try JSONDecoder().decode(type, from: Data(use.settings.utf8))
        } catch {
            throw PluginError(plugin: use.name, code: .refused, message: "settings are of the form \(form)")
        }
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
            HookInvocation(
                arguments: [url],
                directory: "/",
                environment: [:],
                input: Array(body.utf8),
                timeout: 30
            )
        )
        guard !outcome.succeeded else { return }
        let text = outcome.output.split(separator: "\n").first.map(String.init) ?? "\(outcome.end)"
        throw PluginError(
            plugin: name,
            code: .refused,
            message: "\(events.count) events were not taken: \(text)"
        )
    }
}
