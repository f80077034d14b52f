package import Logging
package import SyncAgent
import SyncModel
import SyncServer
import SyncSystem

/// The agent's control API: HTTP/1.1 with JSON bodies on a Unix socket.
///
/// 1. The socket is in a directory accessible only to this user, and is itself accessible only to this user. In
/// addition,
///    the kernel names the user behind every connection (SO_PEERCRED, unix(7)), and only this user and root are
///    answered.
/// 2. ``answer(routed:)`` parses the request, `AgentControl` carries it out, ``respond(to:)`` writes the response.
/// 3. Events are a stream of lines that is as fast as its reader. Only a bounded part of it is buffered.
package struct ControlServer: Sendable {
    /// The path of the socket, absolute.
    package var socketPath: String
    /// The text written into the lock beside the socket, which names its owner.
    package var claim: String
    /// The program's version, sent with every response.
    package var version: String
    /// **Seconds** since 1970, for the date of every response.
    package var now: @Sendable () -> Int64
    /// Most connections that may follow events. It leaves room for commands.
    package var maximumStreams = 48
    /// Longest time from the first byte of a request to its last, and of a response that is not a stream.
    package var clientTimeout: Duration = .seconds(5)
    let control: any AgentControl
    let logger: Logger
    /// The open event streams, and whether the server is stopping.
    let streams = Monitor((open: [ObjectIdentifier: BodyStream](), isStopping: false))
    /// The socket that ``run(listening:until:)`` has created; `nil` before.
    private let made = Monitor<FileStatus?>(nil)

    package init(
        of control: any AgentControl, socketPath: String, claim: String = "", version: String,
        now: @escaping @Sendable () -> Int64, logger: Logger
    ) {
        (self.control, self.socketPath, self.claim, self.version) = (control, socketPath, claim, version)
        (self.now, self.logger) = (now, logger)
    }

    /// Serves until `stop` returns or the task is cancelled. Then ends streams, gives running responses two seconds to
    /// end, and removes the socket if it is still its own.
    ///
    /// A lock beside the socket keeps other agents away, so a socket that already exists is a dead agent's.
    ///
    /// - Parameters:
    ///   - listening: Called once, when clients are answered.
    ///   - stop: Returns when the server is to stop.
    /// - Throws: ``ControlError`` if the socket cannot be created, with code `busy` while another agent has it.
    package func run(listening: @escaping @Sendable () async -> Void, until stop: @escaping @Sendable () async -> Void)
        async throws
    {
        let lock = try prepareSocket()
        defer {
            if hasSocket { removeFile(socketPath) }
            withExtendedLifetime(lock) {}
        }

        var limits = HTTPServer.Limits(
            maximumConnections: 64, idleTimeout: .seconds(60), requestTimeout: clientTimeout,
            bodyLength: Self.bodyLimit, stopTimeout: .seconds(2), threads: 1)
        // While the agent works for all of these connections, others wait in the kernel's queue.
        limits.makesRoom = true
        limits.answerTimeout = clientTimeout
        let server = HTTPServer(at: .unix(path: socketPath), limits, .later { await respond(to: $0) })
        do throws(FileError) {
            try await server.run(
                listening: { _ in
                    // Removes the permissions that bind(2) has given to others; until now the directory has kept them
                    // out.
                    _ = setMode(socketPath, 0o600)
                    made.change { $0 = socketFile }
                    await listening()
                },
                until: {
                    await stop()
                    // Streams first: they never end by themselves.
                    endStreams()
                })
        } catch {
            throw ControlError(
                .failed, "Cannot listen on \(escaped(socketPath)): \(error.reason).", exitStatus: .cannotCreate)
        }
    }

    /// Whether the socket that this server has created is still there, and not another one in its place.
    package var hasSocket: Bool {
        guard let own = made.withLock({ $0 }), let found = socketFile else { return false }
        return found.isSameFile(as: own)
    }

    private var socketFile: FileStatus? {
        guard case .success(let found) = status(currentDirectory, socketPath) else { return nil }
        return found
    }
}
