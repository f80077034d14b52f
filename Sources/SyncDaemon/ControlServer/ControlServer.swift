package import Logging
package import SyncAgent
import SyncModel
import SyncServer
import SyncSystem

/// The agent's control API: HTTP/1.1 with JSON bodies on a Unix socket.
///
/// 1. The socket is made in a directory of this user alone and is readable for this user alone; besides, the kernel
///    names the user behind every connection (SO_PEERCRED, unix(7)), and only this user and root are answered.
/// 2. ``Route`` says what a request asks for, `AgentControl` does it, ``respond(to:)`` tells the answer.
/// 3. Events are a stream of lines that goes as fast as its reader: nothing but a bounded piece waits for it.
package struct ControlServer: Sendable {
    /// Absolute.
    package var socketPath: String
    /// Written into the lock beside the socket, for those who look whose it is.
    package var claim: String
    /// The program's version, told with every answer.
    package var version: String
    /// **Seconds** since 1970, for the date of every answer.
    package var now: @Sendable () -> Int64
    /// Most connections that may follow events: commands always find a place.
    package var maximumStreams = 48
    /// Longest time from the first byte of a request to its last, and of an answer that is no stream.
    package var clientTimeout: Duration = .seconds(5)
    let control: any AgentControl
    let logger: Logger
    let streams = EventStreams()
    /// The socket that ``run(listening:until:)`` has made; `nil` before.
    private let made = Monitor<FileStatus?>(nil)

    package init(
        of control: any AgentControl, socketPath: String, claim: String = "", version: String,
        now: @escaping @Sendable () -> Int64, logger: Logger
    ) {
        (self.control, self.socketPath, self.claim, self.version) = (control, socketPath, claim, version)
        (self.now, self.logger) = (now, logger)
    }

    /// Serves until `stop` returns or the task is cancelled, then ends streams, lets answers under way end within
    /// two seconds, and removes the socket if it is still its own.
    ///
    /// A lock beside the socket keeps other agents away from it; a socket that is there already belongs to nobody then.
    ///
    /// - Parameters:
    ///   - listening: Called once, when clients are answered.
    ///   - stop: Returns when the server is to stop.
    /// - Throws: ``ControlError`` where the socket cannot be had, with code `busy` while another agent has it.
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
        // While the agent works for all of them, others wait in the kernel's queue.
        limits.makesRoom = true
        limits.answerTimeout = clientTimeout
        let server = HTTPServer(at: .unix(path: socketPath), limits, .later { await respond(to: $0) })
        do throws(FileError) {
            try await server.run(
                listening: { _ in
                    // The rights that bind(2) has given to others go; the directory has kept them out until now.
                    _ = setMode(socketPath, 0o600)
                    made.change { $0 = socketFile }
                    await listening()
                },
                until: {
                    await stop()
                    // First: they never end by themselves.
                    streams.endAll()
                })
        } catch {
            throw ControlError(
                .failed, "Cannot listen on \(escaped(socketPath)): \(error.reason).", exitStatus: .cannotCreate)
        }
    }

    /// Whether the socket that this one has made is still there, and not another one in its place.
    package var hasSocket: Bool {
        guard let own = made.withLock({ $0 }), let found = socketFile else { return false }
        return found.isSameFile(as: own)
    }

    private var socketFile: FileStatus? {
        guard case .success(let found) = status(currentDirectory, socketPath) else { return nil }
        return found
    }
}
