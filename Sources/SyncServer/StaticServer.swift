import SyncHTTPServer

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A static file server for a trial or a LAN: ranges, strong validators, conditional requests, many clients.
///
/// It has no TLS, no listing and no users. It serves regular files below one directory, follows no symbolic link
/// and hides names that begin with a dot.
package struct StaticServer: Sendable {
    /// Where and what to serve; everything is decided before it starts.
    package struct Options: Sendable {
        /// The directory.
        package var directory: String
        /// An IP address or a name of this host.
        package var address: String
        /// The port; 0 for any that is free.
        package var port: Int
        /// Most connections at a time; others wait in the kernel's queue.
        package var maximumConnections: Int
        /// Most connections of one address at a time; others are closed at once.
        package var maximumPerAddress: Int
        /// A client that takes nothing of its answer for so long, or does not send its request in so long, is let go.
        package var timeout: Duration
        /// How long answers under way may take after a stop.
        package var stopTimeout: Duration

        package init(
            directory: String,
            address: String = "127.0.0.1",
            port: Int = 8080,
            maximumConnections: Int,
            maximumPerAddress: Int = 256,
            timeout: Duration = .seconds(60),
            stopTimeout: Duration = .seconds(5)
        ) {
            self.directory = directory
            self.address = address
            self.port = port
            self.maximumConnections = maximumConnections
            self.maximumPerAddress = maximumPerAddress
            self.timeout = timeout
            self.stopTimeout = stopTimeout
        }
    }

    private let options: Options
    private let tree: ServedTree
    private let log: (@Sendable (AccessRecord) -> Void)?
    private let load: ServerLoad

    /// Opens the directory.
    ///
    /// - Parameters:
    ///   - idle: Called when nothing is answered any more after many answers at a time, from any thread.
    ///   - log: Told after each answer, from any thread.
    package init(
        _ options: Options,
        idle: @escaping @Sendable () -> Void = {},
        log: (@Sendable (AccessRecord) -> Void)? = nil
    ) throws(ServerError) {
        self.options = options
        self.log = log
        load = ServerLoad(idle: idle)
        tree = try ServedTree(path: options.directory)
    }

    /// Whether the tree has a file that is served at `path`, which begins with a slash.
    package func serves(_ path: String) -> Bool { tree.contains(path) }

    /// Serves until `stop` returns or the task is cancelled.
    ///
    /// A stop closes the port, lets answers under way end within ``Options/stopTimeout`` and returns.
    /// `listening` is told the port once it accepts connections.
    ///
    /// - Throws: ``ServerError``.
    package func run(
        listening: @escaping @Sendable (Int) -> Void,
        until stop: @escaping @Sendable () async -> Void
    ) async throws {
        var limits = HTTPServer.Limits(
            maximumConnections: options.maximumConnections,
            idleTimeout: options.timeout,
            requestTimeout: options.timeout,
            // A request for a file has none; one that has is answered all the same.
            bodyLength: 0,
            stopTimeout: options.stopTimeout,
            // Each may wait for a disk; a client waits only for those that its thread has.
            threads: max(4, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        )
        limits.maximumPerAddress = options.maximumPerAddress
        limits.stallTimeout = options.timeout
        let responder = StaticFileResponder(tree: tree, load: load, log: log)
        let server = HTTPServer(
            at: .tcp(address: options.address, port: options.port),
            limits,
            .atOnce { responder.respond(to: $0) }
        )
        do throws(HTTPServerError) {
            try await server.run(
                listening: { [options] port in listening(port ?? options.port) },
                until: stop
            )
        } catch {
            throw ServerError.cannotListen(address: options.address, port: options.port, reason: error.reason)
        }
    }
}
