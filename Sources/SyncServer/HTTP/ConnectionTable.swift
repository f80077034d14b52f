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

    /// The request that is read or answered.
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

    /// Nothing on it falls asleep from here on, and what sleeps wakes.
    func cutOff() {
        let exchange = current.withLock { current in
            current.isCutOff = true
            return current.exchange
        }
        exchange?.cutOff()
    }
}

/// Every connection, with its phase and how long that may last: a connection that keeps others waiting is closed.
final class ConnectionTable: Sendable {
    private struct Entry {
        let connection: Connection
        /// Whether nothing has come on it yet; libmicrohttpd does not know of it.
        var isSilent = true
        /// Whether nothing is asked.
        var isIdle = true
        /// When it is cut off.
        var deadline: ContinuousClock.Instant?
        /// When it is looked whether the file that is sent is still as long as was promised.
        var fileCheck: ContinuousClock.Instant?
        /// When it began to wait for its client; `nil` while the server has something to do for it.
        var waitsSince: UInt64?
        /// Whether it has been cut off: it counts no more, and goes when its thread sees it.
        var isCut = false
        /// Whether it is told when the client goes.
        var isWatched = true
    }

    private struct State {
        var entries: [Int32: Entry] = [:]
        /// Those that are not cut off.
        var count = 0
        /// How many each address has, also of those on which nothing has come: libmicrohttpd does not count these.
        var addresses: [String: Int] = [:]
        var clock: UInt64 = 0
        /// When ``ConnectionTable/expire()`` is due at the latest.
        var nextDeadline: ContinuousClock.Instant?
        var isStopping = false
        /// Whether connections wait in the kernel's queue for a place.
        var isFull = false
    }

    private static let fileCheckInterval = Duration.seconds(1)

    private let state = Mutex(State())
    private let limits: HTTPServer.Limits
    /// Has the watching thread look again.
    private let wake: @Sendable () -> Void

    init(_ limits: HTTPServer.Limits, wake: @escaping @Sendable () -> Void) {
        self.limits = limits
        self.wake = wake
    }
}

// MARK: For the thread that accepts and watches

extension ConnectionTable {
    /// What to wait for: whether another connection may be accepted; those on which nothing has come, or whose client may go at
    /// any time; until when; and whether there are none at all.
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

    /// Takes a place for a connection, if need be that of the one that has waited longest for its client.
    ///
    /// - Returns: `false` when its address has all it may have.
    func add(_ connection: Connection) -> Bool {
        state.withLock { state in
            if let most = limits.maximumPerAddress {
                guard state.addresses[connection.client, default: 0] < most else { return false }
                state.addresses[connection.client, default: 0] += 1
            }
            // Somebody else's descriptor by now: libmicrohttpd has closed it without a word.
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

    /// The first bytes have come: libmicrohttpd gets it, and the request may take so long as a request may.
    func beginsToAsk(_ connection: Connection) {
        change(connection) { entry, state in
            (entry.isSilent, entry.isIdle) = (false, false)
            arm(&entry, limits.requestTimeout, in: &state)
        }
    }

    /// Whether nothing has come on a connection yet.
    func isSilent(_ connection: Connection) -> Bool {
        state.withLock { $0.entries[connection.descriptor]?.isSilent == true }
    }

    /// The client has gone, or says that no more comes: it is no longer looked for.
    ///
    /// With epoll(7) libmicrohttpd does not see an end that came together with bytes; what is no whole request in a moment
    /// will be none.
    func stopWatching(_ connection: Connection) {
        change(connection) { entry, state in
            entry.isWatched = false
            if !entry.isIdle, entry.waitsSince != nil {
                arm(&entry, min(.seconds(1), limits.requestTimeout), in: &state)
            }
        }
    }

    /// Cuts off whoever is over its time.
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

    /// Closes what has nothing to be answered, now and later.
    func stop() {
        state.withLock { state in
            state.isStopping = true
            for (descriptor, entry) in state.entries where entry.isIdle { cut(descriptor, in: &state) }
        }
    }

    /// Cuts everything off and says what it was.
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

    /// The head of a request is there; its body may take so long as a request may.
    func hasHead(_ connection: Connection) {
        change(connection) { entry, state in
            guard entry.isIdle else { return }
            entry.isIdle = false
            arm(&entry, limits.requestTimeout, in: &state)
        }
    }

    /// A request has come whole.
    func isAtWork(_ connection: Connection) {
        change(connection) { entry, _ in
            entry.isWatched = false
            entry.deadline = nil
            entry.waitsSince = nil
        }
    }

    /// An answer goes out; a stream's client is looked for, and it may be as slow as it likes.
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

    /// The kernel has all of the answer.
    func hasAnswered(_ connection: Connection) {
        change(connection) { entry, state in
            entry.isIdle = true
            entry.isWatched = false
            entry.fileCheck = nil
            state.clock += 1
            entry.waitsSince = state.clock
            arm(&entry, limits.idleTimeout, in: &state)
        }
        // An end that came with the request, which libmicrohttpd has not seen.
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

    /// It is closed.
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

    /// Has the watching thread wake at this time, or before.
    private func due(_ time: ContinuousClock.Instant, in state: inout State) {
        if let next = state.nextDeadline, next <= time { return }
        state.nextDeadline = time
        wake()
    }

    /// Lets the connection go that has waited longest, where there are `limit` of them.
    private func makeRoom(in state: inout State, limit: Int) {
        guard state.count >= limit else { return }
        let oldest = state.entries.filter { $0.value.waitsSince != nil && !$0.value.isCut }.min {
            $0.value.waitsSince ?? 0 < $1.value.waitsSince ?? 0
        }
        if let oldest { cut(oldest.key, in: &state) }
    }

    /// Ends both directions: whoever has the descriptor sees it and closes it. shutdown(2)
    ///
    /// Under the lock, and only while it is in the table: the number cannot be another connection's yet.
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
