package import Logging
package import SyncAgent
package import SyncModel
import SyncServer

/// The agent's control API: HTTP/1.1 with JSON bodies on a Unix socket.
///
/// 1. The socket is made in a directory of this user alone and is readable for this user alone; besides, the kernel
///    names the user behind every connection (SO_PEERCRED, unix(7)), and only this user and root are answered.
/// 2. ``Route`` says what a request asks for, `AgentControl` does it, ``ControlResponder`` tells the answer.
/// 3. Events are a stream of lines that goes as fast as its reader: nothing but a bounded piece waits for it.
package struct ControlServer: Sendable {
    /// Where and how to serve; everything is decided before it starts.
    package struct Options: Sendable {
        /// Absolute.
        package var socketPath: String
        /// The program's version, told with every answer.
        package var version: String
        /// **Seconds** since 1970, for the date of every answer.
        package var now: @Sendable () -> Int64
        /// Most connections at a time. Before they are taken up, the one that has waited longest for its client is
        /// closed; while the agent works for all of them, others wait in the kernel's queue.
        package var maximumClients = 64
        /// Most of them that may follow events: commands always find a place.
        package var maximumStreams = 48
        /// **Seconds** until a connection on which nothing is asked is closed.
        package var idleTimeout: Int64 = 60
        /// Longest time from the first byte of a request to its last, and of an answer that is no stream.
        package var clientTimeout: Duration = .seconds(5)
        /// How long answers under way may take after a stop.
        package var stopTimeout: Duration = .seconds(2)

        package init(socketPath: String, version: String, now: @escaping @Sendable () -> Int64) {
            self.socketPath = socketPath
            self.version = version
            self.now = now
        }
    }

    private let options: Options
    private let control: any AgentControl
    private let logger: Logger

    package init(_ options: Options, control: any AgentControl, logger: Logger) {
        self.options = options
        self.control = control
        self.logger = logger
    }

    /// Serves until `stop` returns or the task is cancelled, then ends streams, lets answers under way end within
    /// ``Options/stopTimeout``, and removes the socket.
    ///
    /// The caller holds the agent's lock, so that a socket that is there already belongs to nobody.
    ///
    /// - Parameters:
    ///   - listening: Called once, when clients are answered.
    ///   - stop: Returns when the server is to stop.
    /// - Throws: ``ControlServerError``.
    package func run(listening: @escaping @Sendable () async -> Void, until stop: @escaping @Sendable () async -> Void)
        async throws
    {
        let place = try SocketPlace(path: options.socketPath)
        try place.prepare()
        defer { place.remove() }

        let streams = EventStreams(limit: options.maximumStreams)
        let responder = ControlResponder(
            control: control, version: options.version, now: options.now, streams: streams, logger: logger)
        var limits = HTTPServer.Limits(
            maximumConnections: options.maximumClients, idleTimeout: .seconds(options.idleTimeout),
            requestTimeout: options.clientTimeout, bodyLength: ControlResponder.bodyLimit,
            stopTimeout: options.stopTimeout, threads: 1)
        limits.makesRoom = true
        limits.answerTimeout = options.clientTimeout
        let server = HTTPServer(at: .unix(path: options.socketPath), limits, .later { await responder.respond(to: $0) })
        do throws(HTTPServerError) {
            try await server.run(
                listening: { _ in
                    place.protect()
                    await listening()
                },
                until: {
                    await stop()
                    // First: they never end by themselves.
                    streams.endAll()
                })
        } catch { throw ControlServerError.cannotListen(path: options.socketPath, reason: error.reason) }
    }
}

/// Why the control API does not come up.
package enum ControlServerError: Error, Sendable, Equatable {
    /// A socket's path has at most 107 bytes, unix(7).
    case pathTooLong(String)
    /// The directory for the socket cannot be made or is not this user's.
    case badDirectory(path: String, reason: String)
    /// Something that is not a socket stands in the way.
    case inTheWay(path: String)
    case cannotListen(path: String, reason: String)

    /// What the process should exit with.
    package var status: ExitStatus {
        switch self {
        case .pathTooLong: .configuration
        case .badDirectory, .inTheWay, .cannotListen: .cannotCreate
        }
    }

    /// One line for people.
    package var message: String {
        switch self {
        case .pathTooLong(let path):
            "The socket's path is longer than 107 bytes: \(escaped(path)). Set XDG_RUNTIME_DIR, or XDG_STATE_HOME, "
                + "to a shorter directory."
        case .badDirectory(let path, let reason): "Cannot use \(escaped(path)) for the socket: \(reason)."
        case .inTheWay(let path): "\(escaped(path)) is in the way: it is not a socket. Move it elsewhere."
        case .cannotListen(let path, let reason): "Cannot listen on \(escaped(path)): \(reason)."
        }
    }
}
