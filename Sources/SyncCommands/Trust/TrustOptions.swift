import ArgumentParser
import SyncAssembly
import SyncEngine
import SyncModel

/// Trust in the publisher of a pull.
struct TrustOptions: ParsableArguments {
    @Option(
        help:
            "Pin the project: from now on its releases must be signed. Takes a root file, SHA256:HEX of its statement, or 'first' to trust the root that is served now."
            .taking("root"), completion: .file(extensions: ["root"]))
    var trust: String?

    @Option(
        help: "Accept a signed release for this long after it expires, such as 7d; the run records it.".taking("time"),
        transform: validity)
    var stale: Int64?

    func validate() throws {
        guard let trust else { return }
        if trust.isEmpty { throw ValidationError("--trust needs a file, SHA256:HEX or 'first'.") }
        if trust.hasPrefix("SHA256:"), TrustChoice.digest(trust) == nil {
            throw ValidationError("--trust SHA256: needs 64 hexadecimal digits.")
        }
    }

    func apply(to recipe: inout RunRecipe, _ environment: EnvironmentPaths) throws(CommandFailure) {
        recipe.staleSeconds = stale.map { $0 / 1_000 }
        guard let trust else { return }
        let isPath = trust != "first" && TrustChoice.digest(trust) == nil
        recipe.trust = isPath ? try translating(environment.pathBase.absolute(trust)) : trust
    }
}
