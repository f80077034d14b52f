import SyncEngine
import SyncManifest
import SyncModel
import SyncSettings
import SyncTransfer

/// What a command asks of the engine and the transport beyond what the engine's own options carry.
struct EngineTuning: Sendable {
    /// Whether files are synced to the disk before they become visible.
    var isDurable = true
    /// How long to wait for servers that give nothing; `nil` for as long as the deadline.
    var patience: Patience? = .ofPerson
    /// How to transfer.
    var transfer = TransferSettings()
    /// Most connections, whatever ``transfer`` says; `nil` without a cap.
    var connectionShare: Int?
    /// Which plugins are used for what.
    var plugins = PluginSettings()
    /// Where metrics are put when the engine ends, absolute; `nil` for nowhere.
    var metricsFile: String?
    /// Whom to believe.
    var trust = TrustChoice()
    /// The manifest's origin when it comes from a server; see ``TransportConfiguration/homes``.
    var home: Origin?

    /// Nothing asked.
    init() {}

    /// What a command of a person asks, whichever it is: settings and plugins from everywhere they are said.
    ///
    /// - Throws: ``CommandFailure`` with status 64 for a manifest that no transport is for.
    init(_ settings: LoadedSettings, for target: TargetOptions) throws(CommandFailure) {
        if let scheme = urlScheme(of: target.manifest), !settings.plugins.schemes.contains(scheme) {
            throw CommandFailure(
                .usage,
                "MANIFEST is a path or an http(s) URL; no transport plugin of this machine is for \(escaped(scheme)): "
                    + "(plugins.use in the configuration)"
            )
        }
        transfer = settings.effective
        plugins = settings.plugins
        metricsFile = settings.metricsFile
        trust = try TrustChoice(settings.trust)
        home = target.home
    }

    /// The most a manifest may hold.
    var manifestLimits: ManifestLimits {
        var limits = transfer.manifestLimit.map { ManifestLimits(ownText: Int(clamping: $0)) } ?? .standard
        limits.schemes = plugins.schemes
        return limits
    }

    /// - Throws: ``CommandFailure`` with status 78 when a file the settings name cannot be used.
    func apply(to configuration: inout TransportConfiguration) throws(CommandFailure) {
        configuration.homes = home.map { [$0] }
        configuration.patience = patience
        do throws(SettingsError) {
            try transfer.apply(to: &configuration)
        } catch {
            throw CommandFailure(.configuration, error.description)
        }
        guard let connectionShare else { return }
        configuration.connections = min(configuration.connections, connectionShare)
        configuration.connectionsPerHost = min(configuration.connectionsPerHost, connectionShare)
        configuration.initialConnections = min(configuration.initialConnections, connectionShare)
    }
}
