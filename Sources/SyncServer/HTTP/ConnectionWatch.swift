import CMicroHTTPD
import CPosix
import SyncSystem

/// The thread that accepts connections, passes them to libmicrohttpd with their first bytes, and enforces deadlines.
///
/// libmicrohttpd does not report when a request begins to arrive, only when its first line is complete: a client that
/// sends half a line would occupy a connection forever.
///
/// It sleeps in poll(2) until there is activity or a deadline: an unused server does not wake up.
final class ConnectionWatch: Sendable {
    private struct State {
        var listener: SharedDescriptor?
        var isStopping = false
        var hasEnded = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    let port: Int?
    private let state: Mutex<State>
    private let listener: Int32
    private let limits: HTTPServer.Limits
    private let bell = WakePipe()
    private let table: ConnectionTable
    private let daemon: Daemon

    /// Bytes of an answer that the kernel may hold unsent.
    private static let unsent: Int32 = 128 << 10
    /// How long accepting pauses after the process ran out of descriptors or memory.
    private static let pause = Duration.milliseconds(100)

    init(
        _ address: HTTPServer.Address, _ limits: HTTPServer.Limits, _ answering: HTTPServer.Answering,
        start: @escaping @Sendable (_ work: @escaping @Sendable () async -> Void) -> Void
    ) throws(FileError) {
        let (socket, port) = try listeningSocket(at: address)
        (listener, self.port) = (socket.raw, port)
        state = Mutex(State(listener: socket))
        self.limits = limits
        guard bell.reader >= 0 else { throw .last("start", "a server") }
        table = ConnectionTable(limits) { [bell] in bell.wake() }
        daemon = try Daemon(table, answering, limits, start: start)
    }

    /// Starts the thread.
    func start() throws(FileError) {
        do throws(ThreadError) { try WorkerThread(name: "http-watch") { self.run() } } catch {
            daemon.stop()
            throw FileError(step: "start", path: "a server", remark: error.description)
        }
    }

    /// Stops everything, and waits for the end.
    func stop() async {
        state.withLock { $0.isStopping = true }
        bell.wake()
        await withCheckedContinuation { continuation in
            let hasEnded = state.withLock { state in
                if !state.hasEnded { state.waiters.append(continuation) }
                return state.hasEnded
            }
            if hasEnded { continuation.resume() }
        }
    }

    private func run() {
        serve()
        // Closes the port.
        state.withLock { $0.listener = nil }
        table.stop()
        finish()
        for connection in table.cutAll() {
            connection.cutOff()
            // libmicrohttpd does not know it.
            if table.isSilent(connection) { close(connection) }
        }
        daemon.stop()
        let waiters = state.withLock { state in
            state.hasEnded = true
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Serves until a stop is requested.
    private func serve() {
        var resumesAt: ContinuousClock.Instant?
        while !state.withLock({ $0.isStopping }) {
            let watch = table.watch
            if let time = resumesAt, time <= .now { resumesAt = nil }
            let accepts = watch.hasRoom && resumesAt == nil
            let deadline = [watch.deadline, resumesAt].compactMap(\.self).min()
            let isKnocked = wait(watch.connections, accepts ? listener : nil, until: deadline)
            table.expire()
            if isKnocked, !acceptAll() { resumesAt = .now + Self.pause }
        }
    }

    /// Waits for answers in progress, within the stop timeout.
    private func finish() {
        let end = ContinuousClock.now + limits.stopTimeout
        while ContinuousClock.now < end {
            let watch = table.watch
            guard !watch.isEmpty else { return }
            _ = wait(watch.connections, nil, until: watch.deadline.map { min($0, end) } ?? end)
            table.expire()
        }
    }

    /// Sleeps until there is activity, then handles the connections concerned.
    ///
    /// - Returns: Whether there is a connection to accept.
    private func wait(
        _ watched: [(descriptor: Int32, isSilent: Bool)], _ listener: Int32?, until deadline: ContinuousClock.Instant?
    ) -> Bool {
        var polls = [pollfd(fd: bell.reader, events: Int16(POLLIN), revents: 0)]
        polls.append(pollfd(fd: listener ?? -1, events: Int16(POLLIN), revents: 0))
        // Where only the client's departure matters, incoming bytes are ignored.
        polls += watched.map { pollfd(fd: $0, events: $1 ? Int16(POLLIN) : SA_POLL_GONE, revents: 0) }
        var timeout: Int32 = -1
        if let deadline {
            let left = max(.zero, deadline - .now)
            timeout = Int32(clamping: left.components.seconds) > 3_600 ? 3_600_000 : Int32(left / .milliseconds(1)) + 1
        }
        guard poll(&polls, nfds_t(polls.count), timeout) > 0 else { return false }
        if polls[0].revents != 0 { bell.drain() }
        for found in polls.dropFirst(2) where found.revents != 0 {
            guard let connection = table.connection(found.fd) else { continue }
            if table.isSilent(connection) {
                handOver(connection)
            } else {
                table.stopWatching(connection)
                connection.exchange?.clientIsGone()
            }
        }
        return polls[1].revents != 0
    }

    /// Passes a connection to libmicrohttpd once there is something to read.
    private func handOver(_ connection: Connection) {
        let found = peek(connection.descriptor)
        if found == .nothing { return }
        let address = SocketAddress.filled { getpeername(connection.descriptor, $0, $1) == 0 }
        guard case .bytes = found, let address else { return close(connection) }
        table.requestBegan(connection)
        // On failure, the descriptor has already been closed.
        if !daemon.add(connection.descriptor, from: address) { table.remove(connection) }
    }

    private func close(_ connection: Connection) {
        table.remove(connection)
        CPosix.close(connection.descriptor)
    }

    /// Accepts all waiting connections, while there is room.
    ///
    /// - Returns: `false` if the process lacks descriptors or memory for another.
    private func acceptAll() -> Bool {
        repeat {
            var client = "-"
            var descriptor: Int32 = -1
            let address = SocketAddress.filled { pointer, length in
                descriptor = sa_http_accept(listener, pointer, length)
                return descriptor >= 0
            }
            guard let address else {
                return ![.tooManyOpenFiles, .tooManyOpenFilesInSystem, .noBufferSpace, .noMemory].contains(Errno.last)
            }
            if let host = address.host {
                client = host
                sa_http_bound_unsent(descriptor, Self.unsent)
            }
            let peer = port == nil ? peerUser(of: descriptor) : nil
            let connection = Connection(descriptor: descriptor, client: client, peerUser: peer)
            if table.add(connection) { handOver(connection) } else { CPosix.close(descriptor) }
        } while table.hasRoom
        return true
    }
}
