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
    package func run(
        listening: @escaping @Sendable () async -> Void,
        until stop: @escaping @Sendable () async -> Void
    ) async throws {
        let place = try SocketPlace(path: options.socketPath)
        try place.prepare()
        defer { place.remove() }

        let streams = EventStreams(limit: options.maximumStreams)
        let quiet = Logger(label: "control") { _ in SwiftLogNoOpLogHandler() }
        let responder = ControlResponder(
            control: control,
            version: options.version,
            now: options.now,
            streams: streams,
            logger: logger
        )
        let connections = Connections(limit: options.maximumClients)
        let timeout = TimeAmount(options.clientTimeout)
        // Not Hummingbird's Application: its clock for the Date field wakes the process every second, for ever.
        let listener = try HTTPServerBuilder.http1(
            configuration: .init(
                additionalChannelHandlers: [RequestDeadlines(connections, timeout: timeout)],
                idleTimeout: .seconds(options.idleTimeout)
            )
        ).buildServer(
            configuration: ServerConfiguration(
                address: .unixDomainSocket(path: options.socketPath),
                availableConnectionsDelegate: MaximumAvailableConnections(options.maximumClients)
            ),
            eventLoopGroup: EventLoopGroupProvider.singleton.eventLoopGroup,
            logger: quiet,
            responder: { request, writer, channel in
                let response = await responder.respond(to: request, on: channel)
                try await writer.write(response: response.head, body: response.body)
            },
            onServerRunning: { _ in
                place.protect()
                await listening()
            }
        )
        let watch = StopWatch(streams: streams, stop: stop)
        var configuration = ServiceGroupConfiguration(
            services: [
                .init(service: listener),
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
