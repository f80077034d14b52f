package import SyncModel
import SyncSystem

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
            directory: String, address: String = "127.0.0.1", port: Int = 8080, maximumConnections: Int,
            maximumPerAddress: Int = 256, timeout: Duration = .seconds(60), stopTimeout: Duration = .seconds(5)
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
        _ options: Options, idle: @escaping @Sendable () -> Void = {}, log: (@Sendable (AccessRecord) -> Void)? = nil
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
    package func run(listening: @escaping @Sendable (Int) -> Void, until stop: @escaping @Sendable () async -> Void)
        async throws
    {
        var limits = HTTPServer.Limits(
            maximumConnections: options.maximumConnections, idleTimeout: options.timeout,
            requestTimeout: options.timeout,
            // A request for a file has none; one that has is answered all the same.
            bodyLength: 0, stopTimeout: options.stopTimeout,
            // Each may wait for a disk; a client waits only for those that its thread has.
            threads: max(4, processorCount))
        limits.maximumPerAddress = options.maximumPerAddress
        limits.stallTimeout = options.timeout
        let responder = StaticFileResponder(tree: tree, load: load, log: log)
        let server = HTTPServer(
            at: .tcp(address: options.address, port: options.port), limits, .atOnce { responder.respond(to: $0) })
        do throws(HTTPServerError) {
            try await server.run(listening: { [options] port in listening(port ?? options.port) }, until: stop)
        } catch { throw ServerError.cannotListen(address: options.address, port: options.port, reason: error.reason) }
    }
}

/// One answered request, for a log.
package struct AccessRecord: Sendable, Equatable {
    /// The client's address.
    package var client: String
    package var method: String
    /// As it came; foreign text.
    package var target: String
    /// The `Range` header as it came; foreign text.
    package var range: String?
    package var status: Int
    /// Body **bytes** handed to the connection.
    package var bytes: UInt64
    /// Whether the whole answer could be handed over.
    package var isComplete: Bool
    package var duration: Duration
}

/// How many answers are under way: memory is given back when many have ended.
final class ServerLoad: Sendable {
    private struct State {
        var answers = 0
        /// Most answers at a time since memory was given back.
        var peak = 0
    }
    private let state = Mutex(State())
    private let idle: @Sendable () -> Void

    /// So many answers at a time leave memory behind that is worth giving back.
    private static let many = 32

    /// - Parameter idle: Called when nothing is answered any more after many answers at a time.
    init(idle: @escaping @Sendable () -> Void) { self.idle = idle }

    /// An answer begins.
    func begin() {
        state.withLock { state in
            state.answers += 1
            state.peak = max(state.peak, state.answers)
        }
    }

    /// An answer has ended.
    func end() {
        let isIdle = state.withLock { state in
            state.answers -= 1
            guard state.answers == 0, state.peak >= Self.many else { return false }
            state.peak = 0
            return true
        }
        if isIdle { idle() }
    }
}

/// Why a server does not come up.
package enum ServerError: Error, Sendable, Equatable {
    /// The directory to serve cannot be opened.
    case cannotOpen(directory: String, reason: String)
    /// The address cannot be listened on.
    case cannotListen(address: String, port: Int, reason: String)

    /// What the process should exit with.
    package var status: ExitStatus {
        switch self {
        case .cannotOpen: .noInput
        case .cannotListen: .unavailable
        }
    }

    /// One line for people.
    package var message: String {
        switch self {
        case .cannotOpen(let directory, let reason): "Cannot serve \(escaped(directory)): \(reason)."
        case .cannotListen(let address, let port, let reason):
            "Cannot listen on \(escaped(address)) port \(port): \(reason). Choose another with --port or --bind; "
                + "--port 0 picks a free one."
        }
    }
}
