import Foundation
import SyncEngine
import SyncModel
import SyncSettings

/// Everything that was said about transfers and hooks, wherever it was said.
struct LoadedSettings: Sendable {
    /// By the command line alone: what a run that others work on keeps.
    var said: TransferSettings
    /// By the command line, the configuration file and the environment, in this order.
    var effective: TransferSettings
    /// Hooks by the names that manifests use.
    var hooks: [String: HookSetting] = [:]
    /// Which plugins are used for what.
    var plugins = PluginSettings()
    /// Where metrics are put, absolute; `nil` for nowhere.
    var metricsFile: String?
    /// Whom this machine believes, whoever pulls.
    var trust = TrustSetting()
    /// Most files that a pull may prune; `nil` without such a limit.
    var maximumRemovals: Int?
    /// Where what is removed or replaced is kept, absolute; `nil` for nowhere.
    var backupDirectory: String?
    /// The configuration file that was named, absolute; `nil` for the usual one.
    var file: String?

    /// Reads the configuration file and the environment.
    ///
    /// - Parameters:
    ///   - said: By the command line.
    ///   - options: Which configuration file.
    ///   - environment: Variables and home directory.
    /// - Throws: ``CommandFailure`` with status 78.
    init(
        _ said: TransferSettings,
        _ options: TransferOptions,
        environment: EnvironmentPaths
    ) throws(CommandFailure) {
        let base = environment.pathBase
        var file = ConfigurationFile()
        do throws(SettingsError) {
            if let name = options.configurationFile {
                let path = try base.absolute(name)
                guard let found = try ConfigurationFile.read(path, home: base.home) else {
                    throw SettingsError("\(path): there is no such configuration file")
                }
                file = found
                self.file = path
            } else if !options.noConfigurationFile, let path = environment.configurationFile {
                file = try ConfigurationFile.read(path, home: base.home) ?? file
            }
            hooks = file.hooks
            plugins = file.plugins
            metricsFile = file.metricsFile
            trust = file.trust
            maximumRemovals = file.maximumRemovals
            backupDirectory = file.backupDirectory
            self.said = said
            effective = said.over(file.transfer).over(try environment.transferSettings())
        } catch {
            throw CommandFailure(.configuration, error.description)
        }
    }
}

extension HookSpecification {
    /// What a hook's name stands for; whoever resolves the name knows the group.
    init(named hook: HookSetting) {
        self.init(
            group: "",
            arguments: [hook.program] + hook.arguments,
            timeout: hook.timeout,
            batch: hook.batch
        )
    }
}
