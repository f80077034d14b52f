import SyncModel
import SyncPlugins
import SyncSystem

/// The least size of a cache's store, in **bytes**: slices on their way have to fit.
package let leastCacheRoom: UInt64 = 16 << 20

/// Serves a cache in front of a published directory: a file that several clients ask for is fetched once, verified
/// against its name, kept, and sent to each of them. Clients see what a server of the directory shows.
///
/// Serves until `stop` returns or the task is cancelled, see ``ServerSettings``; then shuts the transport down.
///
/// - Parameters:
///   - path: The directory of the store.
///   - most: Most **bytes** in the store.
///   - identity: The name in the `Via` of requests to the origin, by which a cache that is its own origin is detected.
///   - now: **Seconds** since 1970.
///   - warn: Gets messages for the operator.
///   - listening: Gets the port once connections are accepted.
/// - Throws: ``ServerError``.
package func serveCache(
    of origin: CacheOrigin, in path: String, atMost most: UInt64, _ settings: ServerSettings, identity: String,
    now: @escaping @Sendable () -> Int64, warn: @escaping @Sendable (String) -> Void,
    listening: @escaping @Sendable (Int) -> Void, until stop: @escaping @Sendable () async -> Void
) async throws {
    // Work that no client waits for alone.
    let (works, source) = AsyncStream.makeStream(of: (@Sendable () async -> Void).self)
    let store = try CacheStore(path: path, most: most, now: now)
    let context = CacheContext(
        store: store, origin: origin, warn: seldom(warn), start: { source.yield($0) }, now: now)
    let answers = CacheAnswers(context, settings, identity: identity)
    @Sendable func serve() async throws {
        defer {
            // The work that is left depends on the transport.
            origin.transport.shutdown()
            source.finish()
        }
        try await settings.serve(.later { await answers.respond(to: $0) }, listening: listening, until: stop)
    }
    async let end: Void = serve()
    await withDiscardingTaskGroup { group in
        for await work in works { group.addTask { await work() } }
        group.cancelAll()
    }
    try await end
}

/// Passes the same line on at most once a minute.
private func seldom(_ warn: @escaping @Sendable (String) -> Void) -> @Sendable (String) -> Void {
    // The lines of the last minute, and when each was said.
    let said = Monitor<[String: ContinuousClock.Instant]>([:])
    // An origin may refuse whatever paths clients choose.
    let most = 30
    return { text in
        let now = ContinuousClock.now
        let line = said.withLock { said -> String? in
            said = said.filter { now - $0.value < .seconds(60) }
            guard said[text] == nil, said.count < most else { return nil }
            said[text] = now
            return said.count < most ? text : text + " (the last of \(most) lines in a minute)"
        }
        if let line { warn(line) }
    }
}
