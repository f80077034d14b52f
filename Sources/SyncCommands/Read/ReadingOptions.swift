import ArgumentParser
import Foundation
import SyncEngine
import SyncModel
import SyncSettings

/// What all verbs that only read manifests take: whom to believe, how to fetch.
struct ReadingOptions: ParsableArguments {
    @OptionGroup
    var trust: TrustOptions

    @OptionGroup(title: "Transfer")
    var transfer: TransferOptions

    /// Works on manifests; nothing is kept.
    ///
    /// - Parameter locations: The manifests; headers and the client's certificate are for the last one's server.
    func reading<R: Sendable>(
        _ locations: [String],
        _ reporting: ReportingOptions,
        _ output: Output,
        _ work: @escaping @Sendable (PullEngine) throws -> R
    ) async throws -> R {
        let environment = EnvironmentPaths.ofProcess
        let said = try transfer.settings(environment.pathBase)
        let settings = try transfer.runSettings(said, environment)
        for location in locations { try settings.requireTransport(for: location) }
        var recipe = RunRecipe(manifest: locations.last ?? "")
        recipe.connections = settings.transfer.plannedConnections
        try trust.apply(to: &recipe, environment)
        let tuning = try EngineTuning(settings, recipe, stateDirectory: try environment.stateDirectory())
        return try await EngineCall(reporting, on: output, tuning: tuning).reading(work)
    }
}
