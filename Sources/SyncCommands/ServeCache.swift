import ArgumentParser
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncServer
import SyncSystem
import SyncTransfer

/// `serve --cache`: one copy per site.
extension ServeCommand {
    /// Refuses options that contradict each other.
    func validateCache() throws {
        guard let origin else {
            if directory == nil { throw ValidationError("Give a directory to serve, or --cache with the URL of one.") }
            if store != nil { throw ValidationError("--store goes with --cache.") }
            if most != nil { throw ValidationError("--max goes with --cache.") }
            return
        }
        guard directory == nil else { throw ValidationError("Give a directory to serve or --cache, not both.") }
        guard let store else { throw ValidationError("--cache needs --store, a directory for what it keeps.") }
        if store.isEmpty { throw ValidationError("--store needs a directory, not an empty string.") }
        try requireLocal(store, "--store", "run the cache there")
        if origin.isEmpty {
            throw ValidationError("--cache needs the URL of a published directory, not an empty string.")
        }
        _ = try Self.directory(of: origin)
        if let most, most.bytes < leastCacheRoom {
            throw ValidationError("--max takes at least \(ByteCount(leastCacheRoom)), not \(most).")
        }
    }

    private static func directory(of text: String) throws -> PublishedDirectory {
        do throws(EngineError) { return try PublishedDirectory(text) } catch {
            throw ValidationError("--cache needs the URL of a published directory. \(error.message).")
        }
    }

    /// The origin, with the settings of this machine's configuration except the rewrite rules, which may lead back
    /// here.
    private static func origin(at directory: PublishedDirectory, _ stop: StopRequest, _ output: Output) throws
        -> CacheOrigin
    {
        let host = EnvironmentPaths.ofProcess.host
        let needs = EngineRequest(deadline: .seconds(3_600), patience: .seconds(5), stop: stop)
        var configuration = try needs.configuration(on: host)
        configuration.rewriteRules = []
        configuration.advise = { $0.words(hasOptions: false) }
        // Clients have other places to try, so they get an error soon.
        configuration.patience = Patience(.seconds(5))
        configuration.connectTimeout = min(configuration.connectTimeout, .seconds(5))
        configuration.retry.attempts = min(configuration.retry.attempts, 3)
        configuration.retry.base = .milliseconds(250)
        // An origin that asks for a longer wait has no answer for them.
        configuration.retry.retryAfterCap = .seconds(1)
        configuration.headers.append("Via: 1.1 \(identity)")
        let (transport, name) = try directory.transport(
            configuration, on: host, notice: { output.warning($0.text) }, isStopped: { stop.isStopped })
        return CacheOrigin(base: directory.base, name: name, transport: transport)
    }

    /// This process's name in its requests to an origin.
    private static let identity = "syncagent-" + String(UInt64.random(in: .min ... .max), radix: 36)

    func runCache(of origin: String, in store: String) async throws {
        let output = Output()
        let directory = try Self.directory(of: origin)
        let (request, signals) = (StopRequest(), StopSignals.firstRequest())
        // Each connection may have a file open, and so may the fetch it waits for.
        let connections = max(16, StaticServer.connectionsThatFit() * 2 / 3 - 128)
        try await serveCache(
            of: Self.origin(at: directory, request, output), in: store, atMost: most?.bytes ?? 100 << 30,
            settings(output, atMost: connections), identity: Self.identity,
            now: { SystemTime.milliseconds() / 1_000 }, warn: { output.warning($0) },
            listening: { [bind] (port: Int) in
                output.line(Self.url(address: bind, port: port, path: "/manifest.json"))
                output.message("Caching \(redacted(url: origin)) in \(escaped(store)). Stop with ^C.")
            },
            until: {
                await signals()
                request.stop()
            })
    }
}
