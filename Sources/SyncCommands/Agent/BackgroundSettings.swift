import Foundation
import SyncDaemon
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

    /// The settings of a client's command.
    init(_ settings: LoadedSettings, isWhole: Bool) {
        transfer = isWhole ? settings.effective : settings.said
        self.isWhole = isWhole
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
        tuning.patience = needs.patience
        do {
            var kept: BackgroundSettings?
            if let text = needs.settings {
                kept = try JSONDecoder().decode(BackgroundSettings.self, from: Data(text.utf8))
            }
            tuning.transfer = kept?.transfer ?? TransferSettings()
            if kept?.isWhole != true {
                let path = environment.configurationFile
                let file = try path.flatMap {
                    try ConfigurationFile.read($0, home: environment.pathBase.home)
                }
                tuning.transfer = tuning.transfer.over((file ?? ConfigurationFile()).transfer)
                    .over(try environment.transferSettings())
            }
        } catch let error as SettingsError {
            throw CommandFailure(.configuration, error.description)
        } catch {
            throw CommandFailure(.configuration, "The run's settings cannot be read: \(escaped("\(error)")).")
        }
        tuning.transfer.rateLimit = tuning.transfer.rateLimit ?? needs.rateLimit
        // The usual number stands for none: connections adapt.
        if tuning.transfer.connections == nil, let count = needs.connections,
            count != TransferSettings.usualConnections
        {
            tuning.transfer.connections = count
            tuning.transfer.connectionsPerHost = count
        }
        tuning.transfer.deadline = needs.deadline
        tuning.home = needs.manifest.flatMap { (try? CurlURL($0))?.origin }
        return tuning
    }
}
