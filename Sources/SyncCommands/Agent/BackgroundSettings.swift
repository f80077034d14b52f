import Foundation
import SyncControl
import SyncDaemon
import SyncEngine
import SyncModel
import SyncSettings
import SyncTransfer

/// How the transfers of a background run are made, as it is kept with the run: JSON text without secrets.
struct BackgroundSettings: Codable, Sendable, Equatable {
    /// What was said; see ``isWhole``.
    var transfer: TransferSettings
    /// Whether that is everything, configuration file and environment of the client included, because the client
    /// named a file, or none. Otherwise it is the command line alone, over the agent's own file and environment.
    var isWhole: Bool
    /// What the names of hooks in manifests stand for, where ``isWhole``; otherwise the agent's own file says it.
    var hooks: [String: HookSetting]?
    /// The configuration file that says which plugins are used, where the client named one. Its text is not kept:
    /// settings of plugins may be secrets.
    var file: String?

    /// The settings of a client's command.
    init(_ settings: LoadedSettings, isWhole: Bool) {
        transfer = isWhole ? settings.effective : settings.said
        self.isWhole = isWhole
        hooks = isWhole ? settings.hooks : nil
        file = settings.file
    }

    /// What the names of hooks in manifests stand for, for a client with these settings.
    ///
    /// - Throws: ``CommandFailure`` with status 78 for text or a file that cannot be used.
    static func hooks(
        _ text: String?,
        environment: EnvironmentPaths
    ) throws(CommandFailure) -> [String: HookSpecification] {
        let kept = try decode(text)
        if kept?.isWhole == true { return (kept?.hooks ?? [:]).mapValues(HookSpecification.init(named:)) }
        do throws(SettingsError) {
            return try file(environment).hooks.mapValues(HookSpecification.init(named:))
        } catch {
            throw CommandFailure(.configuration, error.description)
        }
    }

    /// The plugins of the agent's own configuration file.
    static func plugins(_ environment: EnvironmentPaths) throws(CommandFailure) -> PluginSettings {
        do throws(SettingsError) {
            return try file(environment).plugins
        } catch {
            throw CommandFailure(.configuration, error.description)
        }
    }

    /// Most **bytes** a second of all runs of the agent together, as its own configuration file says.
    static func agentRateLimit(_ environment: EnvironmentPaths) throws(CommandFailure) -> UInt64? {
        do throws(SettingsError) {
            return try file(environment).agentRateLimit
        } catch {
            throw CommandFailure(.configuration, error.description)
        }
    }

    private static func decode(_ text: String?) throws(CommandFailure) -> BackgroundSettings? {
        guard let text else { return nil }
        do {
            _ = try StrictJSON.read(Array(text.utf8))
            return try JSONDecoder().decode(BackgroundSettings.self, from: Data(text.utf8))
        } catch {
            throw CommandFailure(.configuration, "The run's settings cannot be read: \(escaped("\(error)")).")
        }
    }

    /// The agent's own configuration file.
    private static func file(
        _ environment: EnvironmentPaths,
        named name: String? = nil
    ) throws(SettingsError) -> ConfigurationFile {
        guard let path = name ?? environment.configurationFile else { return ConfigurationFile() }
        return try ConfigurationFile.read(path, home: environment.pathBase.home) ?? ConfigurationFile()
    }

    /// The text that is kept.
    ///
    /// - Throws: ``CommandFailure`` with status 64 for settings that hold a secret themselves.
    func text() throws(CommandFailure) -> String {
        do {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        } catch EncodingError.invalidValue(_, let context) {
            throw CommandFailure(.usage, "--background: \(escaped(context.debugDescription)).")
        } catch {
            throw CommandFailure(.internalError, "The settings cannot be kept: \(error).")
        }
    }

    /// How the agent transfers for one piece of work.
    ///
    /// - Throws: ``CommandFailure`` with status 78 for text, a file or an environment that cannot be used.
    static func tuning(_ needs: EngineNeeds, environment: EnvironmentPaths) throws(CommandFailure)
        -> EngineTuning
    {
        var tuning = EngineTuning()
        tuning.patience = needs.patience.map { Patience($0) }
        let kept = try decode(needs.settings)
        var trust = TrustSetting()
        tuning.transfer = kept?.transfer ?? TransferSettings()
        do throws(SettingsError) {
            // A client that wants no configuration file wants none of its plugins.
            if kept?.isWhole != true || kept?.file != nil {
                let file = try file(environment, named: kept?.file)
                tuning.plugins = file.plugins
                tuning.metricsFile = file.metricsFile
                trust = file.trust
            }
        } catch {
            throw CommandFailure(.configuration, error.description)
        }
        tuning.trust = try TrustChoice(trust)
        if kept?.isWhole != true {
            do throws(SettingsError) {
                tuning.transfer = tuning.transfer.over(try file(environment).transfer)
                    .over(try environment.transferSettings())
            } catch {
                throw CommandFailure(.configuration, error.description)
            }
        }
        // What a person waits for says nothing about what nobody waits for: only what was said for this run counts.
        tuning.transfer.patience = kept?.transfer.patience
        tuning.transfer.rateLimit = tuning.transfer.rateLimit ?? needs.rateLimit
        if tuning.transfer.connections == nil, let count = needs.connections {
            tuning.transfer.connections = count
            tuning.transfer.connectionsPerHost = count
        }
        tuning.connectionShare = needs.connectionShare
        tuning.transfer.deadline = needs.deadline
        tuning.home = needs.manifest.flatMap { (try? CurlURL($0))?.origin }
        return tuning
    }
}
