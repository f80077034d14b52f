public import ArgumentParser
import Foundation
import SyncAssembly
import SyncEngine
import SyncModel
import SyncSystem
import SyncTransfer

extension TLSVersion: ExpressibleByArgument {}
extension HTTP2Use: ExpressibleByArgument {}

/// Options for transfers, on top of the configuration file. Names follow curl(1) where curl has one.
///
/// Values that may hold a secret are taken as text and parsed in ``settings(_:)``, since the parser itself prints
/// values that it refuses.
struct TransferOptions: ParsableArguments {
    @Option(
        name: .customLong("config"),
        help:
            "The configuration file.  (default: $XDG_CONFIG_HOME/syncagent/config.json over /etc/syncagent/config.json)"
            .taking("file"), completion: .file(extensions: ["json", "json5"]))
    var configurationFile: String?

    @Flag(name: .customLong("no-config"), help: "Read no configuration file.") var noConfigurationFile = false

    @Option(
        help:
            "Rewrite URLs: 'PREFIX REPLACEMENT' or '~REGEX REPLACEMENT'. Applies before the configuration's rules; repeatable."
            .taking("rule"))
    var rewrite: [String] = []

    @Option(
        name: .customLong("credentials"),
        help: "A file with the credentials for each origin (mode 0600).".taking("file"), completion: .file())
    var credentialsFile: String?

    @Option(
        name: .customLong("header"),
        help: "A header for the manifest's origin, 'Name: value', or @FILE with one per line; repeatable.".taking(
            "line"))
    var headers: [String] = []

    @Option(
        help: "The proxy for all requests; '' for none.  (default: $https_proxy, $http_proxy, $all_proxy)".taking("url")
    )
    var proxy: String?

    @Option(
        help:
            "Hosts, domains and networks to reach without a proxy, separated by commas; '*' for all.  (default: $no_proxy)"
            .taking("list"))
    var noproxy: String?

    @Option(
        name: .customLong("cacert"), help: "CA certificates to trust instead of the system's, PEM.".taking("file"),
        completion: .file())
    var authorities: String?

    @Option(name: .customLong("cert"), help: "The client certificate, PEM.".taking("file"), completion: .file())
    var certificate: String?

    @Option(
        name: .customLong("key"),
        help: "The client certificate's key, PEM, if it is in a separate file.".taking("file"), completion: .file())
    var certificateKey: String?

    @Option(name: .customLong("tls-min"), help: "The oldest TLS version to accept.  (default: 1.2)".taking("version"))
    var tlsMinimum: TLSVersion?

    @Option(help: "Which requests may use HTTP/2.  (default: never)".taking("which")) var http2: HTTP2Use?

    @Option(
        name: .customLong("max-manifest"),
        help: "The largest manifest to accept, such as 500M; it is held in memory.  (default: 128M)".taking("size"),
        transform: positiveByteCount)
    var manifestLimit: ByteCount?

    @Option(help: "How long connecting may take, such as 10s.  (default: 30s)".taking("time"), transform: duration)
    var connectTimeout: Duration?

    @Option(
        help: "How long a transfer may go without a byte, such as 2m.  (default: 60s)".taking("time"),
        transform: duration)
    var idleTimeout: Duration?

    @Option(
        help: "Retry transfers slower than this many bytes per second, such as 4K; 0 for never.  (default: 1K)".taking(
            "rate"), transform: byteCount)
    var speedLimit: ByteCount?

    @Option(
        help: "The period over which --speed-limit is measured.  (default: 60s)".taking("time"), transform: duration)
    var speedTime: Duration?

    @Option(
        name: .customLong("max-redirects"),
        help: "The most redirects to follow for one request, 0 to 50.  (default: 10)".taking("n"))
    var redirectLimit: Int?

    @Option(
        name: .customLong("allow-redirect-downgrade"),
        help: "A host that an https redirect or manifest may send requests to over http, or 'all'; repeatable.".taking(
            "host"), transform: { try setting(of: "--allow-redirect-downgrade", SettingValue.exemption($0)) })
    var downgrades: [HostExemption] = []

    @Option(
        name: .customLong("allow-private-redirect"),
        help: "A private host that a public redirect or manifest may send requests to, or 'all'; repeatable.".taking(
            "host"), transform: { try setting(of: "--allow-private-redirect", SettingValue.exemption($0)) })
    var privateTargets: [HostExemption] = []

    func validate() throws {
        if configurationFile != nil, noConfigurationFile {
            throw ValidationError("--config and --no-config are mutually exclusive.")
        }
        if certificateKey != nil, certificate == nil {
            throw ValidationError("--key needs --cert; give the certificate as well.")
        }
        if let redirectLimit, !(0...50).contains(redirectLimit) {
            throw ValidationError("--max-redirects takes 0 to 50, not \(redirectLimit).")
        }
        _ = try settings(PathBase(directory: "/", home: nil))
    }

    /// The engine request of a command that changes nothing.
    func engine(trusting trust: TrustOptions, _ asked: (RunSettings) throws -> RunRecipe) throws -> EngineRequest {
        let environment = EnvironmentPaths.ofProcess
        let settings = try runSettings(try settings(environment.pathBase), environment)
        var recipe = try asked(settings)
        try trust.apply(to: &recipe, environment)
        return EngineRequest(recipe, settings)
    }

    /// Works on manifests. Nothing is recorded.
    ///
    /// - Parameters:
    ///   - recipes: The manifests as named; headers and the client's certificate are for the last one's server.
    ///   - work: Gets the manifests as ``RunSettings/location(_:)`` finds them.
    func reading<R: Sendable>(
        _ recipes: [RunRecipe], trusting trust: TrustOptions, _ reporting: ReportingOptions, _ output: Output,
        _ work: @escaping @Sendable (PullEngine, [RunRecipe]) throws -> R
    ) async throws -> R {
        let (call, found) = try call(for: recipes, trusting: trust, reporting, output)
        return try await call.reading { engine in try work(engine, found) }
    }

    /// The call of an engine that can read manifests, and the recipes with the manifests as
    /// ``RunSettings/location(_:)`` finds them.
    ///
    /// - Parameter hasOptions: Whether the command has these options.
    func call(
        for recipes: [RunRecipe], trusting trust: TrustOptions, _ reporting: ReportingOptions, _ output: Output,
        hasOptions: Bool = true
    ) throws -> (call: EngineCall, found: [RunRecipe]) {
        var found = recipes
        var request = try engine(trusting: trust) { settings in
            for index in found.indices { found[index].manifest = try settings.location(found[index].manifest) }
            var recipe = RunRecipe(manifest: found.last?.manifest ?? "")
            recipe.settings.connections = settings.transfer.plannedConnections
            return recipe
        }
        request.others = found.dropLast().map(\.manifest)
        request.hasOptions = hasOptions
        return (EngineCall(reporting, on: output, request), found)
    }

    /// The settings of the command line, with absolute paths.
    ///
    /// - Throws: `ValidationError` that names the option, but never a value that may be a secret.
    func settings(_ base: PathBase) throws -> TransferSettings {
        func path(_ name: String, _ text: String?) throws -> String? {
            try text.map { try setting(of: name, base.absolute($0)) }
        }
        var settings = TransferSettings()
        settings.rewrite = try rewrite.map { try setting(of: "--rewrite", SettingValue.rule($0)) }
        settings.credentialsFile = try path("--credentials", credentialsFile)
        settings.headers = try headers.map { try setting(of: "--header", SettingValue.header($0, base)) }
        if let proxy { settings.setProxy(try setting(of: "--proxy", SettingValue.proxy(proxy))) }
        settings.proxyExceptions = noproxy.map(SettingValue.hostList)
        settings.authorities = try path("--cacert", authorities)
        settings.certificate = try path("--cert", certificate)
        settings.certificateKey = try path("--key", certificateKey)
        settings.tlsMinimum = tlsMinimum
        settings.http2 = http2
        settings.manifestLimit = manifestLimit?.bytes
        settings.connectTimeout = connectTimeout
        settings.idleTimeout = idleTimeout
        settings.speedLimit = speedLimit?.bytes
        settings.speedTime = speedTime
        settings.redirectLimit = redirectLimit
        settings.downgrade = downgrades.reduce(.none) { $0.union($1) }
        settings.privateTargets = privateTargets.reduce(.none) { $0.union($1) }
        return settings
    }
}

/// How much of the network a pull may use, and for how long.
struct LimitOptions: ParsableArguments {
    @Option(
        help: "The most connections at a time, 1 to 64.  (default: 8, and up to 32 per server where that is faster)"
            .taking("n"))
    var connections: Int?

    @Option(help: "The most bytes per second, such as 500K or 10MB.".taking("rate"), transform: positiveByteCount)
    var limitRate: ByteCount?

    @Option(
        help: "Give up after this time, including waits: 90s, 15m, 6h.  (default: 7d)".taking("time"), transform: period
    )
    var deadline: Duration?

    @Option(
        help: ArgumentHelp(
            """
            Give up when no server has sent anything for this time.  (default: 10s until one answers, then \
            60s; with --background no limit but --deadline)
            """, valueName: "time"), transform: duration)
    var patience: Duration?

    func validate() throws {
        if let connections, !TransferSettings.connectionsOfRun.contains(connections) {
            throw ValidationError("--connections takes 1 to 64, not \(connections).")
        }
    }

    /// The options as settings. A number of connections also limits those to each server.
    var settings: TransferSettings {
        var settings = TransferSettings()
        settings.connections = connections
        settings.connectionsPerHost = connections
        settings.limitRate = limitRate?.bytes
        settings.deadline = deadline
        settings.patience = patience
        return settings
    }
}
