import SyncCurl
import SyncDaemon
import SyncEngine
import SyncManifest
import SyncModel
import SyncSettings
import SyncTransfer

/// What an engine is made with, for a command and for the agent alike.
struct EngineTuning: Sendable {
    var settings: RunSettings
    let trust: TrustChoice
    /// Where cached manifests are kept, absolute.
    var stateDirectory: String
    /// Where files go: nothing below it is a plugin (V62); `nil` when nothing is pulled.
    var destination: String?
    let verifiers: [[String]]
    /// The manifest's origin when it comes from a server; see ``TransportConfiguration/homes``.
    var home: Origin?
    /// How long to wait for servers that give nothing; `nil` for as long as the deadline.
    var patience: Patience? = .ofPerson
    /// Most connections, whatever ``settings`` say; `nil` without a cap.
    var connectionShare: Int?

    /// For a recipe, or for nothing that is pulled.
    init(_ settings: RunSettings, _ recipe: RunRecipe?, stateDirectory: String) throws(CommandFailure) {
        self.settings = settings
        trust = try TrustChoice(settings.trust, recipe)
        self.stateDirectory = stateDirectory
        destination = recipe?.destination
        verifiers = recipe?.verifiers ?? []
        home = recipe.flatMap { try? CurlURL($0.manifest).origin }
    }

    /// For a piece of the agent's work.
    init(_ needs: EngineNeeds, _ environment: EnvironmentPaths, stateDirectory: String) throws(CommandFailure)
    {
        let kept = needs.recipe?.settings
        let settings = try translating(RunSettings(kept: kept, environment.settings))
        try self.init(settings, needs.recipe, stateDirectory: stateDirectory)
        var transfer = settings.transfer
        transfer.rateLimit = transfer.rateLimit ?? needs.recipe?.limitRate
        if transfer.connections == nil, let count = needs.recipe?.connections {
            transfer.connections = count
            transfer.connectionsPerHost = count
        }
        transfer.deadline = needs.deadline
        self.settings.transfer = transfer
        patience = Self.patience(needs)
        connectionShare = needs.connectionShare
    }

    /// How long a piece of the agent's work waits for servers unless its client says; `nil` for as long as its deadline.
    static func patience(_ needs: EngineNeeds) -> Patience? {
        needs.patience.map { Patience(firstContact: needs.firstContact ?? $0, silence: $0) }
    }

    /// The most a manifest may hold.
    var manifestLimits: ManifestLimits {
        var limits =
            settings.transfer.manifestLimit.map { ManifestLimits(ownText: Int(clamping: $0)) } ?? .standard
        limits.schemes = settings.plugins.schemes
        return limits
    }

    func apply(to configuration: inout TransportConfiguration) throws(CommandFailure) {
        configuration.homes = home.map { [$0] }
        configuration.patience = patience
        try translating(settings.transfer.apply(to: &configuration))
        guard let connectionShare else { return }
        configuration.connections = min(configuration.connections, connectionShare)
        configuration.connectionsPerHost = min(configuration.connectionsPerHost, connectionShare)
        configuration.initialConnections = min(configuration.initialConnections, connectionShare)
    }
}
