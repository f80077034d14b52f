package import SyncCurl
package import SyncDaemon
package import SyncEngine
package import SyncManifest
package import SyncModel
import SyncPlugins
package import SyncSettings
package import SyncTransfer

/// What an engine is made with, for a command and for the agent alike.
package struct EngineTuning: Sendable {
    package var settings: RunSettings
    package let trust: TrustChoice
    /// Where cached manifests are kept, absolute.
    package var stateDirectory: String
    /// Where files go: nothing below it is a plugin; `nil` when nothing is pulled.
    package var destination: String?
    package let verifiers: [[String]]
    /// The manifest's origin when it comes from a server; see ``TransportConfiguration/homes``.
    package var home: Origin?
    /// How long to wait for servers that give nothing; `nil` for as long as the deadline.
    package var patience: Patience? = .ofPerson
    /// Most connections, whatever ``settings`` say; `nil` without a cap.
    package var connectionShare: Int?

    /// For a recipe, or for nothing that is pulled.
    ///
    /// - Throws: ``/SyncEngine/EngineError`` for a root that cannot be read.
    package init(_ settings: RunSettings, _ recipe: RunRecipe?, stateDirectory: String) throws(EngineError) {
        self.settings = settings
        trust = try TrustChoice(settings.trust, recipe)
        self.stateDirectory = stateDirectory
        destination = recipe?.destination
        verifiers = recipe?.verifiers ?? []
        home = recipe.flatMap { try? CurlURL($0.manifest).origin }
    }

    /// For a piece of the agent's work.
    ///
    /// - Throws: ``/SyncEngine/EngineError`` for settings or a root that cannot be read.
    package init(_ needs: EngineNeeds, _ environment: RunSettings.Environment, stateDirectory: String)
        throws(EngineError)
    {
        let kept = needs.recipe?.settings
        let settings = try rethrowing(RunSettings(kept: kept, environment)) { (error: SettingsError) in
            EngineError(error)
        }
        try self.init(settings, needs.recipe, stateDirectory: stateDirectory)
        var transfer = settings.transfer
        // The tightest of what is said holds, wherever it is said.
        transfer.rateLimit = [transfer.rateLimit, needs.recipe?.limitRate].compactMap(\.self).min()
        if let count = needs.recipe?.connections, count < transfer.plannedConnections ?? .max {
            transfer.connections = count
            transfer.connectionsPerHost = min(transfer.connectionsPerHost ?? count, count)
        }
        transfer.deadline = needs.deadline
        self.settings.transfer = transfer
        patience = Self.patience(needs)
        connectionShare = needs.connectionShare
    }

    /// How long a piece of the agent's work waits for servers unless its client says; `nil` for as long as its deadline.
    package static func patience(_ needs: EngineNeeds) -> Patience? {
        needs.patience.map { Patience(firstContact: needs.firstContact ?? $0, silence: $0) }
    }

    /// The most a manifest may hold.
    package var manifestLimits: ManifestLimits {
        var limits = settings.transfer.manifestLimit.map { ManifestLimits(ownText: Int(clamping: $0)) } ?? .standard
        limits.schemes = settings.plugins.schemes
        return limits
    }

    func apply(to configuration: inout TransportConfiguration) throws(EngineError) {
        configuration.homes = home.map { [$0] }
        configuration.patience = patience
        try rethrowing(settings.transfer.apply(to: &configuration)) { (error: SettingsError) in EngineError(error) }
        guard let connectionShare else { return }
        configuration.connections = min(configuration.connections, connectionShare)
        configuration.connectionsPerHost = min(configuration.connectionsPerHost, connectionShare)
        configuration.initialConnections = min(configuration.initialConnections, connectionShare)
    }
}

extension EngineError {
    /// Settings that cannot be used.
    package init(_ error: SettingsError) {
        self.init(error == .workingDirectoryIsGone ? .cannotCreate : .configuration, error.description)
    }
}
