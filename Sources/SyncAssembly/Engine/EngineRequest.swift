package import SyncEngine
import SyncManifest
package import SyncModel
package import SyncSystem
package import SyncTransfer

/// A request for an engine: its recipe, how to transfer, and who listens.
package struct EngineRequest: Sendable {
    /// `nil` when nothing is pulled.
    package var recipe: RunRecipe?
    /// Manifests to read besides that of the recipe.
    package var others: [String] = []
    /// The settings of the run; `nil` for those that are kept with the recipe, over those of this machine.
    package var settings: RunSettings?
    /// The most connections in any case, so that all runs of an agent together keep to its limit; `nil` for no limit.
    package var connectionShare: Int?
    /// The longest time of a transfer, waiting included; `nil` for that of the settings.
    package var deadline: Duration?
    /// How long to wait for servers that send nothing, unless the settings say; `nil` for as long as the deadline.
    package var patience: Patience?
    /// Whether an embedding program makes the request: messages name no options of commands, and the heaps are left
    /// alone.
    package var isEmbedded = false
    /// Whether the command has the options of a pull; otherwise messages name keys of the configuration.
    package var hasOptions = true
    package var stop: StopRequest
    package var listener: @Sendable (SyncEvent) -> Void = { _ in }
    package var progress: @Sendable (PullProgress) -> Void = { _ in }
    /// Receives the transfers on the wire, twice a second at most: the object that `status --requests` reads, as JSON.
    package var requests: @Sendable ([UInt8]) -> Void = { _ in }

    /// A request of a person who waits.
    package init(_ recipe: RunRecipe?, _ settings: RunSettings) {
        (self.recipe, self.settings) = (recipe, settings)
        (patience, stop) = (.ofPerson, StopRequest())
    }

    /// A request for a piece of an agent's work.
    ///
    /// - Parameters:
    ///   - patience: The longest wait for a server that sends nothing; `nil` for as long as the deadline.
    ///   - firstContact: The same before any server has answered; `nil` for `patience`.
    package init(
        _ recipe: RunRecipe? = nil, deadline: Duration, patience: Duration?, firstContact: Duration? = nil,
        stop: StopRequest
    ) {
        (self.recipe, self.deadline) = (recipe, deadline)
        self.patience = patience.map { Patience(firstContact: firstContact ?? $0, silence: $0) }
        self.stop = stop
    }

    /// The same request with its settings read.
    ///
    /// - Throws: ``/SyncEngine/EngineError`` with status 78 for settings that cannot be read.
    package func resolved(on host: HostEnvironment) throws(EngineError) -> (request: EngineRequest, RunSettings) {
        if let settings { return (self, settings) }
        let settings = try rethrowing(RunSettings(of: recipe, host)) { (error: SettingsError) in EngineError(error) }
        var request = self
        request.settings = settings
        return (request, settings)
    }

    /// The configuration of a transport for the request.
    ///
    /// - Throws: ``/SyncEngine/EngineError`` with status 78 for settings that cannot be used.
    package func configuration(on host: HostEnvironment) throws(EngineError) -> TransportConfiguration {
        let (_, settings) = try resolved(on: host)
        var configuration = TransportConfiguration.plain
        configuration.userAgent = isEmbedded ? "syncagent-kit" : "syncagent/\(syncagentVersion)"
        if !hasOptions { configuration.advise = { $0.words(hasOptions: false) } }
        if isEmbedded { configuration.advise = { _ in nil } }
        configuration.homes = home.map { [$0] }
        configuration.patience = patience
        try rethrowing(settings.transfer.apply(to: &configuration)) { (error: SettingsError) in EngineError(error) }
        if let deadline { configuration.resourceDeadline = deadline }
        guard let connectionShare else { return configuration }
        configuration.connections = min(configuration.connections, connectionShare)
        configuration.connectionsPerHost = min(configuration.connectionsPerHost, connectionShare)
        configuration.initialConnections = min(configuration.initialConnections, connectionShare)
        return configuration
    }

    /// The manifest's origin, if it comes from a server: headers and the client's certificate are for this origin
    /// alone.
    package var home: Origin? { recipe.flatMap { try? CurlURL($0.manifest).origin } }
}

extension TransportConfiguration {
    /// A configuration without any settings; its advice names this program's options.
    package static var plain: TransportConfiguration {
        var configuration = TransportConfiguration(clock: SystemTime.clock, random: { .random(in: .min ... .max) })
        configuration.advise = { $0.words() }
        return configuration
    }
}

extension SystemTime {
    /// The clock of transports.
    package static var clock: TransportClock {
        let start = ContinuousClock.now
        return TransportClock(now: { ContinuousClock.now - start }, unixTime: { SystemTime.milliseconds() / 1_000 })
    }
}

extension EngineError {
    /// The error for settings that cannot be used.
    package init(_ error: SettingsError) {
        self.init(error == .noWorkingDirectory ? .cannotCreate : .configuration, error.description)
    }
}
