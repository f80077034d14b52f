import CMicroHTTPD
import CPosix
import SyncSystem

/// The thread that accepts connections, gives them to libmicrohttpd with their first bytes, and lets those go that take too long.
///
/// libmicrohttpd does not tell when a request begins to come, only when its first line is whole: who sends half a line would
/// keep a place for ever.
///
/// It sleeps in poll(2) until something comes or a deadline is due: a server that nobody asks does not wake.
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
    /// How long nobody is accepted after the process ran out of descriptors or memory.
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

    /// Has everything end, and waits for it.
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
            // libmicrohttpd does not know of it.
            if table.isSilent(connection) { close(connection) }
        }
        daemon.stop()
        let waiters = state.withLock { state in
            state.hasEnded = true
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Until a stop is asked for.
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

    /// Answers under way end, as long as they may.
    private func finish() {
        let end = ContinuousClock.now + limits.stopTimeout
        while ContinuousClock.now < end {
            let watch = table.watch
            guard !watch.isEmpty else { return }
            _ = wait(watch.connections, nil, until: watch.deadline.map { min($0, end) } ?? end)
            table.expire()
        }
    }

    /// Sleeps until something comes, then sees to the connections it has come on.
    ///
    /// - Returns: Whether there is a connection to accept.
    private func wait(
        _ watched: [(descriptor: Int32, isSilent: Bool)], _ listener: Int32?, until deadline: ContinuousClock.Instant?
    ) -> Bool {
        var polls = [pollfd(fd: bell.reader, events: Int16(POLLIN), revents: 0)]
        polls.append(pollfd(fd: listener ?? -1, events: Int16(POLLIN), revents: 0))
        // Where a client may go, bytes it sends do not matter.
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

    /// Gives a connection to libmicrohttpd, as soon as something is to be read there.
    private func handOver(_ connection: Connection) {
        let found = peek(connection.descriptor)
        if found == .nothing { return }
        let address = SocketAddress.filled { getpeername(connection.descriptor, $0, $1) == 0 }
        guard case .bytes = found, let address else { return close(connection) }
        table.beginsToAsk(connection)
        // Where that fails the descriptor is closed already.
        if !daemon.add(connection.descriptor, from: address) { table.remove(connection) }
    }

    private func close(_ connection: Connection) {
        table.remove(connection)
        CPosix.close(connection.descriptor)
    }

    /// Accepts everybody who waits, while there is room.
    ///
    /// - Returns: `false` when the process has no descriptors or memory for another.
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
