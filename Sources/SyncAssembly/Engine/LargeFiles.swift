import SyncEngine
import SyncModel
import SyncPlugins
import SyncRemotes
import SyncSystem
import SyncTransfer

/// The support of `lfs+https:` URLs and the like: for a set with such a URL, and for a local manifest, which
/// may have been imported from one.
struct LargeFiles {
    /// The schemes that URLs in a manifest may have besides the web's.
    let schemes: Set<String>
    private let variables: [String: String]
    private let stateDirectory: String
    private let isStopped: @Sendable () -> Bool

    init(
        _ recipe: RunRecipe?, _ host: HostEnvironment, _ stateDirectory: String,
        isStopped: @escaping @Sendable () -> Bool
    ) {
        // A manifest without a scheme is a local path.
        let isNeeded = recipe.map { urlScheme(of: $0.manifest).map(LFSAddress.schemes.contains) ?? true } ?? false
        schemes = isNeeded ? LFSAddress.schemes : []
        (variables, self.stateDirectory, self.isStopped) = (host.variables, stateDirectory, isStopped)
    }

    /// Resolvers that find the files of LFS servers.
    func resolvers(_ configuration: TransportConfiguration) -> [ConfiguredResolver] {
        guard !schemes.isEmpty else { return [] }
        let links = LFSLinks(configuration, environment: variables, now: SystemTime.milliseconds, isStopped: isStopped)
        return [ConfiguredResolver(name: "lfs", plugin: links, scope: .marked(LFSLinks.mark))]
    }

    /// A transport for LFS servers, around one for everything else.
    func around(_ transport: any Transport) -> any Transport {
        guard !schemes.isEmpty else { return transport }
        return LFSTransport(
            transport, environment: variables, stateDirectory: stateDirectory, now: SystemTime.milliseconds,
            isStopped: isStopped)
    }

    /// Sources that make manifests of LFS repositories.
    var sources: [ConfiguredSource] {
        let source = LFSSource(
            variables, stateDirectory: stateDirectory, now: SystemTime.milliseconds, isStopped: isStopped)
        return [
            ConfiguredSource(name: "lfs", kind: "lfs", source: source, schemes: LFSAddress.schemes) { url in
                urlScheme(of: url).map(LFSAddress.schemes.contains) ?? false
            }
        ]
    }
}

/// The schemes that are built in besides the web's: those of sources, and of buckets.
package let builtInSchemes = sourceSchemes.union(LFSAddress.schemes).union([S3Address.scheme])
