import SyncModel
import SyncPlugins
import SyncSystem

/// A cache in front of a published directory: a file that several clients ask for is fetched once, verified against its
/// name, kept, and sent to each of them. Clients see what a server of the directory shows.
package struct CacheServer: Sendable {
    /// The address, the store and the limits of a cache.
    package struct Settings: Sendable {
        /// The directory of the store.
        package var store: String
        /// Most **bytes** in the store.
        package var most: UInt64
        package var address = "127.0.0.1"
        /// 0 for any free port.
        package var port = 0
        package var maximumConnections = 64
        package var maximumPerAddress = 256
        /// A client that takes nothing of its answer for so long is disconnected.
        package var timeout = Duration.seconds(60)

        package init(store: String, most: UInt64) { (self.store, self.most) = (store, most) }
    }

    /// The least size of a store, in **bytes**: slices on their way have to fit.
    package static let leastRoom: UInt64 = 16 << 20

    private let settings: Settings
    private let origin: CacheOrigin
    private let identity: String
    private let now: @Sendable () -> Int64
    private let warn: @Sendable (String) -> Void
    private let log: (@Sendable (AccessRecord) -> Void)?

    /// - Parameters:
    ///   - identity: The name in the `Via` of requests to the origin, by which a cache that is its own origin is
    ///     detected.
    ///   - now: **Seconds** since 1970.
    ///   - warn: Gets messages for the operator.
    ///   - log: Called after each answer, from any thread.
    package init(
        _ settings: Settings, origin: CacheOrigin, identity: String, now: @escaping @Sendable () -> Int64,
        warn: @escaping @Sendable (String) -> Void, log: (@Sendable (AccessRecord) -> Void)?
    ) {
        (self.settings, self.origin, self.identity) = (settings, origin, identity)
        (self.now, self.warn, self.log) = (now, warn, log)
    }

    /// Serves until `stop` returns or the task is cancelled; then gives answers under way five seconds to end, and
    /// shuts the transport down.
    ///
    /// - Parameter listening: Gets the port once connections are accepted.
    /// - Throws: ``CacheError``, or ``/SyncServer/ServerError`` where the address cannot be listened on.
    package func run(listening: @escaping @Sendable (Int) -> Void, until stop: @escaping @Sendable () async -> Void)
        async throws
    {
        // Work that no client waits for alone.
        let (works, source) = AsyncStream.makeStream(of: (@Sendable () async -> Void).self)
        let store = try CacheStore(path: settings.store, most: settings.most, now: now)
        let context = CacheContext(
            store: store, origin: origin, warn: Self.seldom(warn), start: { source.yield($0) }, now: now)
        let answers = CacheAnswers(context, identity: identity, log: log)
        var limits = HTTPServer.Limits(
            maximumConnections: settings.maximumConnections, idleTimeout: settings.timeout,
            requestTimeout: settings.timeout, bodyLength: 0, stopTimeout: .seconds(5), threads: max(4, processorCount))
        limits.maximumPerAddress = settings.maximumPerAddress
        limits.stallTimeout = settings.timeout
        let server = HTTPServer(
            at: .tcp(address: settings.address, port: settings.port), limits, .later { await answers.respond(to: $0) })
        async let end = serve(server, listening, until: stop) { source.finish() }
        await withDiscardingTaskGroup { group in
            for await work in works { group.addTask { await work() } }
            group.cancelAll()
        }
        if let error = await end {
            throw ServerError.cannotListen(address: settings.address, port: settings.port, reason: error.reason)
        }
    }

    /// Serves to the end, then ends the transport and the work that depends on it.
    ///
    /// - Returns: The error that kept it from listening, if any.
    private func serve(
        _ server: HTTPServer, _ listening: @escaping @Sendable (Int) -> Void,
        until stop: @escaping @Sendable () async -> Void, ended: @Sendable () -> Void
    ) async -> FileError? {
        defer {
            origin.transport.shutdown()
            ended()
        }
        do throws(FileError) {
            try await server.run(listening: { listening($0 ?? settings.port) }, until: stop)
        } catch { return error }
        return nil
    }

    /// Passes the same line on at most once a minute.
    private static func seldom(_ warn: @escaping @Sendable (String) -> Void) -> @Sendable (String) -> Void {
        let said = Remembered()
        return { text in if let line = said.line(text) { warn(line) } }
    }
}

/// The lines of the last minute, and when each was said.
private final class Remembered: Sendable {
    private let said = Mutex<[String: ContinuousClock.Instant]>([:])
    /// Most lines: an origin may refuse whatever paths clients choose.
    private static let most = 30

    /// The line to say; `nil` for none.
    func line(_ text: String) -> String? {
        let now = ContinuousClock.now
        return said.withLock { said -> String? in
            said = said.filter { now - $0.value < .seconds(60) }
            guard said[text] == nil, said.count < Self.most else { return nil }
            said[text] = now
            return said.count < Self.most ? text : text + " (the last of \(Self.most) lines in a minute)"
        }
    }
}
