import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
import ServiceLifecycle
package import SyncControl
import SyncModel

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

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
        /// Most connections at a time; others wait in the kernel's queue.
        package var maximumClients = 64
        /// Most of them that may follow events: commands always find a place.
        package var maximumStreams = 48
        /// **Seconds** until a connection on which nothing is asked is closed.
        package var idleTimeout: Int64 = 60
        /// How long answers under way may take after a stop.
        package var stopTimeout: Duration = .seconds(2)

        package init(socketPath: String, version: String) {
            self.socketPath = socketPath
            self.version = version
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
    package func run(
        listening: @escaping @Sendable () async -> Void,
        until stop: @escaping @Sendable () async -> Void
    ) async throws {
        let place = try SocketPlace(path: options.socketPath)
        try place.prepare()
        defer { place.remove() }

        let streams = EventStreams(limit: options.maximumStreams)
        let quiet = Logger(label: "control") { _ in SwiftLogNoOpLogHandler() }
        let application = Application(
            responder: ControlResponder(
                control: control,
                version: options.version,
                streams: streams,
                logger: logger
            ),
            server: .http1(configuration: .init(idleTimeout: .seconds(options.idleTimeout))),
            configuration: ApplicationConfiguration(
                address: .unixDomainSocket(path: options.socketPath),
                availableConnectionsDelegate: MaximumAvailableConnections(options.maximumClients)
            ),
            onServerRunning: { _ in
                place.protect()
                await listening()
            },
            logger: quiet
        )
        let watch = StopWatch(streams: streams, stop: stop)
        var configuration = ServiceGroupConfiguration(
            services: [
                .init(service: application),
                .init(service: watch, successTerminationBehavior: .gracefullyShutdownGroup),
            ],
            logger: quiet
        )
        configuration.maximumGracefulShutdownDuration = options.stopTimeout
        do {
            try await ServiceGroup(configuration: configuration).run()
        } catch let error as IOError {
            throw ControlServerError.cannotListen(
                path: options.socketPath,
                reason: String(cString: strerror(error.errnoCode))
            )
        } catch let error as ServiceGroupError {
            logger.debug("control API stopped late: \(error)")
        }
    }
}

/// Ends the group it runs in when it is told to; streams first, since they never end by themselves.
private struct StopWatch: Service {
    let streams: EventStreams
    let stop: @Sendable () async -> Void

    func run() async {
        await stop()
        streams.endAll()
    }
}
