import SyncSystem

/// One accepted connection.
final class Connection: Sendable {
    let descriptor: Int32
    /// The client's IP address, `-` on a Unix socket.
    let client: String
    let peerUser: UInt32?
    private let current = Mutex((exchange: ServerExchange?.none, isCutOff: false))

    init(descriptor: Int32, client: String, peerUser: UInt32?) {
        self.descriptor = descriptor
        self.client = client
        self.peerUser = peerUser
    }

    /// The request that is being read or answered.
    var exchange: ServerExchange? {
        get { current.withLock { $0.exchange } }
        set {
            let isCutOff = current.withLock { current in
                current.exchange = newValue
                return current.isCutOff
            }
            if isCutOff { newValue?.cutOff() }
        }
    }

    /// Wakes the connection, and prevents it from being suspended again.
    func cutOff() {
        let exchange = current.withLock { current in
            current.isCutOff = true
            return current.exchange
        }
        exchange?.cutOff()
    }
}

/// All connections, with their phases and deadlines: a connection that blocks others is closed.
final class ConnectionTable: Sendable {
    private struct Entry {
        let connection: Connection
        /// Whether nothing has arrived on it yet; libmicrohttpd does not know it.
        var isSilent = true
        /// Whether there is no request on it.
        var isIdle = true
        /// When it is cut off.
        var deadline: ContinuousClock.Instant?
        /// When the size of the file that is being sent is checked again.
        var fileCheck: ContinuousClock.Instant?
        /// When it began to wait for its client; `nil` while the server works on it.
        var waitsSince: UInt64?
        /// Whether it has been cut off: it no longer counts, and is removed when its thread notices.
        var isCut = false
        /// Whether its client's departure is watched for.
        var isWatched = true
    }

    private struct State {
        var entries: [Int32: Entry] = [:]
        /// Number of connections that are not cut off.
        var count = 0
        /// Connections per address, including silent ones, which libmicrohttpd does not count.
        var addresses: [String: Int] = [:]
        var clock: UInt64 = 0
        /// The latest time at which ``ConnectionTable/expire()`` is due.
        var nextDeadline: ContinuousClock.Instant?
        var isStopping = false
        /// Whether connections must wait in the kernel's queue.
        var isFull = false
    }

    private static let fileCheckInterval = Duration.seconds(1)

    private let state = Mutex(State())
    private let limits: HTTPServer.Limits
    /// Wakes the watching thread.
    private let wake: @Sendable () -> Void

    init(_ limits: HTTPServer.Limits, wake: @escaping @Sendable () -> Void) {
        self.limits = limits
        self.wake = wake
    }
}

// MARK: For the thread that accepts and watches

extension ConnectionTable {
    /// What to wait for: whether another connection may be accepted; the connections that are silent or whose client
    /// may leave; the next deadline; and whether there are no connections.
    var watch:
        (
            hasRoom: Bool, connections: [(descriptor: Int32, isSilent: Bool)], deadline: ContinuousClock.Instant?,
            isEmpty: Bool
        )
    {
        state.withLock { state in
            state.isFull = !hasRoom(state)
            let watched = state.entries.values.lazy.filter(\.isWatched).map { ($0.connection.descriptor, $0.isSilent) }
            return (!state.isFull, Array(watched), state.nextDeadline, state.entries.isEmpty)
        }
    }

    /// Whether another connection may be accepted.
    var hasRoom: Bool { state.withLock { hasRoom($0) } }

    private func hasRoom(_ state: State) -> Bool {
        if state.count < limits.maximumConnections { return true }
        return limits.makesRoom && state.entries.values.contains { $0.waitsSince != nil && !$0.isCut }
    }

    /// Adds a connection, if necessary in place of the one that has waited longest for its client.
    ///
    /// - Returns: `false` if its address has reached its limit.
    func add(_ connection: Connection) -> Bool {
        state.withLock { state in
            if let most = limits.maximumPerAddress {
                guard state.addresses[connection.client, default: 0] < most else { return false }
                state.addresses[connection.client, default: 0] += 1
            }
            // The descriptor has been reused: libmicrohttpd has closed it without notice.
            forget(connection.descriptor, in: &state)
            if limits.makesRoom { makeRoom(in: &state, limit: limits.maximumConnections - 1) }
            state.clock += 1
            var entry = Entry(connection: connection)
            entry.waitsSince = state.clock
            arm(&entry, limits.idleTimeout, in: &state)
            state.entries[connection.descriptor] = entry
            state.count += 1
            return true
        }
    }

    /// The first bytes have arrived: libmicrohttpd takes the connection, and the request timeout begins.
    func requestBegan(_ connection: Connection) {
        change(connection) { entry, state in
            (entry.isSilent, entry.isIdle) = (false, false)
            arm(&entry, limits.requestTimeout, in: &state)
        }
    }

    /// Whether nothing has arrived on a connection yet.
    func isSilent(_ connection: Connection) -> Bool {
        state.withLock { $0.entries[connection.descriptor]?.isSilent == true }
    }

    /// The client is gone, or has finished sending: it is no longer watched.
    ///
    /// With epoll(7), libmicrohttpd does not notice an end that arrived together with bytes; a request that is not
    /// complete within a moment never will be.
    func stopWatching(_ connection: Connection) {
        change(connection) { entry, state in
            entry.isWatched = false
            if !entry.isIdle, entry.waitsSince != nil {
                arm(&entry, min(.seconds(1), limits.requestTimeout), in: &state)
            }
        }
    }

    /// Cuts off connections that have exceeded their time.
    func expire() {
        state.withLock { state in
            let now = ContinuousClock.now
            guard let next = state.nextDeadline, next <= now else { return }
            state.nextDeadline = nil
            for (descriptor, entry) in state.entries where !entry.isCut {
                var checks = entry.fileCheck
                if let check = checks, check <= now {
                    guard entry.connection.exchange?.isFileTooShort != true else {
                        cut(descriptor, in: &state)
                        continue
                    }
                    checks = now + Self.fileCheckInterval
                    state.entries[descriptor]?.fileCheck = checks
                }
                if let deadline = entry.deadline, deadline <= now {
                    cut(descriptor, in: &state)
                } else {
                    let times = [entry.deadline, checks, state.nextDeadline]
                    state.nextDeadline = times.compactMap(\.self).min()
                }
            }
        }
    }

    /// Closes idle connections, now and in the future.
    func stop() {
        state.withLock { state in
            state.isStopping = true
            for (descriptor, entry) in state.entries where entry.isIdle { cut(descriptor, in: &state) }
        }
    }

    /// Cuts off all connections and returns them.
    func cutAll() -> [Connection] {
        state.withLock { state in
            for descriptor in Array(state.entries.keys) { cut(descriptor, in: &state) }
            return state.entries.values.map(\.connection)
        }
    }
}

// MARK: For the threads that serve

extension ConnectionTable {
    /// The connection with this descriptor.
    func connection(_ descriptor: Int32) -> Connection? { state.withLock { $0.entries[descriptor]?.connection } }

    /// The head of a request has arrived; the request timeout begins for its body.
    func hasHead(_ connection: Connection) {
        change(connection) { entry, state in
            guard entry.isIdle else { return }
            entry.isIdle = false
            arm(&entry, limits.requestTimeout, in: &state)
        }
    }

    /// A request is complete.
    func isAtWork(_ connection: Connection) {
        change(connection) { entry, _ in
            entry.isWatched = false
            entry.deadline = nil
            entry.waitsSince = nil
        }
    }

    /// An answer is being sent; the client of a stream is watched, and may be slow.
    func answers(_ connection: Connection, isStream: Bool, isFile: Bool) {
        change(connection) { entry, state in
            if isStream {
                entry.isWatched = true
                wake()
            } else if let timeout = limits.answerTimeout {
                arm(&entry, timeout, in: &state)
            }
            if isFile {
                let check = ContinuousClock.now + Self.fileCheckInterval
                entry.fileCheck = check
                due(check, in: &state)
            }
        }
    }

    /// The kernel has the whole answer.
    func hasAnswered(_ connection: Connection) {
        change(connection) { entry, state in
            entry.isIdle = true
            entry.isWatched = false
            entry.fileCheck = nil
            state.clock += 1
            entry.waitsSince = state.clock
            arm(&entry, limits.idleTimeout, in: &state)
        }
        // An end that arrived with the request, which libmicrohttpd has not noticed.
        let isAtEnd = peek(connection.descriptor) == .ended
        state.withLock { state in
            if state.isStopping || isAtEnd {
                cut(connection.descriptor, in: &state)
            } else if limits.makesRoom {
                makeRoom(in: &state, limit: limits.maximumConnections)
                if state.isFull { wake() }
            }
        }
    }

    /// The connection is closed.
    func remove(_ connection: Connection) {
        let wakes = state.withLock { state in
            guard state.entries[connection.descriptor]?.connection === connection else { return false }
            forget(connection.descriptor, in: &state)
            return state.isFull || state.isStopping
        }
        if wakes { wake() }
    }
}

// MARK: Under the lock

extension ConnectionTable {
    private func change(_ connection: Connection, _ body: (inout Entry, inout State) -> Void) {
        state.withLock { state in
            guard var entry = state.entries[connection.descriptor], entry.connection === connection else { return }
            body(&entry, &state)
            state.entries[connection.descriptor] = entry
        }
    }

    private func arm(_ entry: inout Entry, _ time: Duration, in state: inout State) {
        let deadline = ContinuousClock.now + time
        entry.deadline = deadline
        due(deadline, in: &state)
    }

    /// Makes the watching thread wake at this time at the latest.
    private func due(_ time: ContinuousClock.Instant, in state: inout State) {
        if let next = state.nextDeadline, next <= time { return }
        state.nextDeadline = time
        wake()
    }

    /// Cuts off the connection that has waited longest, if there are `limit` of them.
    private func makeRoom(in state: inout State, limit: Int) {
        guard state.count >= limit else { return }
        let oldest = state.entries.filter { $0.value.waitsSince != nil && !$0.value.isCut }.min {
            $0.value.waitsSince ?? 0 < $1.value.waitsSince ?? 0
        }
        if let oldest { cut(oldest.key, in: &state) }
    }

    /// Ends both directions, so that the owner of the descriptor notices and closes it. shutdown(2)
    ///
    /// Under the lock, and only while it is in the table, so that the number cannot belong to another connection.
    private func cut(_ descriptor: Int32, in state: inout State) {
        guard state.entries[descriptor]?.isCut == false else { return }
        state.entries[descriptor]?.isCut = true
        state.count -= 1
        shutDown(descriptor)
    }

    private func forget(_ descriptor: Int32, in state: inout State) {
        guard let entry = state.entries.removeValue(forKey: descriptor) else { return }
        if !entry.isCut { state.count -= 1 }
        guard limits.maximumPerAddress != nil else { return }
        let left = state.addresses[entry.connection.client, default: 0] - 1
        state.addresses[entry.connection.client] = left > 0 ? left : nil
    }
}
