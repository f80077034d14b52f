import Synchronization

/// What a ``FaultServer`` has seen and sent, request by request. Safe to read at any time from any thread.
public final class ByteLog: Sendable {
    /// One request and what became of its answer.
    public struct Entry: Sendable {
        /// The request as it came.
        public let request: ServedRequest
        /// When the request had been read.
        public let received: ContinuousClock.Instant
        /// The status sent; 0 when no head went out.
        public internal(set) var status = 0
        /// Body **bytes** that the system took from the server; framing does not count.
        public internal(set) var bytesSent = 0
        /// When the answer was over; `nil` while it is not.
        public internal(set) var ended: ContinuousClock.Instant?
        /// How the answer ended.
        public internal(set) var end = End.open
    }

    /// How an answer ended.
    public enum End: Sendable, Equatable {
        /// Not yet.
        case open
        /// All bytes are out.
        case complete
        /// The script closed the connection.
        case dropped
        /// The script reset the connection or the stream.
        case reset
        /// The client went first.
        case abandoned
        /// The server was stopped.
        case stopped
    }

    private struct State {
        var entries: [Entry] = []
        var perPath: [String: Int] = [:]
        var connections = 0
        var failedHandshakes = 0
        var openConnections = 0
        var mostConnections = 0
        var openRequests = 0
        var mostRequests = 0
    }
    private let state = Mutex(State())

    init() {}

    // MARK: Questions

    /// Every request so far, in the order of arrival.
    public var entries: [Entry] { state.withLock { $0.entries } }

    /// Requests to a path, whatever their query.
    public func requests(to path: String) -> [Entry] { entries.filter { $0.request.path == path } }

    /// Number of requests so far.
    public var requestCount: Int { state.withLock { $0.entries.count } }

    /// Body **bytes** sent so far, over all requests.
    public var bytesSent: Int { state.withLock { $0.entries.reduce(0) { $0 + $1.bytesSent } } }

    /// Body **bytes** sent for a path, whatever its query.
    public func bytesSent(to path: String) -> Int { requests(to: path).reduce(0) { $0 + $1.bytesSent } }

    /// Number of connections taken so far.
    public var connectionCount: Int { state.withLock { $0.connections } }

    /// Number of connections that ended before TLS was agreed on.
    public var failedHandshakes: Int { state.withLock { $0.failedHandshakes } }

    /// Most connections that were open at a time.
    public var maximumConcurrentConnections: Int { state.withLock { $0.mostConnections } }

    /// Most requests that were being answered at a time.
    public var maximumConcurrentRequests: Int { state.withLock { $0.mostRequests } }

    /// Values of a header over all requests that had it.
    public func values(of header: String) -> [String] { entries.compactMap { $0.request.header(header) } }

    /// One line a request, for a failing test.
    public var description: String {
        entries.map { entry in
            let range = entry.request.header("range").map { " [\($0)]" } ?? ""
            return "#\(entry.request.ordinal) c\(entry.request.connection) \(entry.request.method) "
                + "\(entry.request.target)\(range) -> \(entry.status), \(entry.bytesSent) B, \(entry.end)"
        }.joined(separator: "\n")
    }

    // MARK: Notes of the server

    func connectionOpened() -> Int {
        state.withLock {
            $0.connections += 1
            $0.openConnections += 1
            $0.mostConnections = max($0.mostConnections, $0.openConnections)
            return $0.connections
        }
    }

    func handshakeFailed() { state.withLock { $0.failedHandshakes += 1 } }

    func connectionClosed() { state.withLock { $0.openConnections -= 1 } }

    /// Takes a request; `make` gets its ordinal. Returns it with both ordinals, and the entry's index.
    func requestReceived(_ make: (_ ordinal: Int) -> ServedRequest?) -> (ServedRequest, Int)? {
        state.withLock { state in
            guard var request = make(state.entries.count + 1) else { return nil }
            let nth = (state.perPath[request.path] ?? 0) + 1
            state.perPath[request.path] = nth
            request.ordinalAtPath = nth
            state.entries.append(Entry(request: request, received: .now))
            state.openRequests += 1
            state.mostRequests = max(state.mostRequests, state.openRequests)
            return (request, state.entries.count - 1)
        }
    }

    func headSent(_ index: Int, status: Int) { state.withLock { $0.entries[index].status = status } }

    func bodySent(_ index: Int, _ count: Int) { state.withLock { $0.entries[index].bytesSent += count } }

    func ended(_ index: Int, _ end: End) {
        state.withLock {
            guard $0.entries[index].ended == nil else { return }
            $0.entries[index].ended = .now
            $0.entries[index].end = end
            $0.openRequests -= 1
        }
    }
}
