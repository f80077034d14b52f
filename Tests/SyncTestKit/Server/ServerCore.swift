import Synchronization

import class SyncSystem.WorkerThread
import func SyncSystem.pauseThread

/// The threads and sockets of one ``FaultServer``.
///
/// One thread takes connections, one thread serves each connection. A thread owns its connection's socket;
/// others only shut it down to wake it, and only while it is in `connections`.
final class ServerCore: Sendable {
    let log = ByteLog()
    let script = FaultScript()
    /// Counts calls of ``FaultServer/releaseStalls()``.
    let stalls = Atomic<Int>(0)
    private let stopping = Atomic<Bool>(false)
    var isStopping: Bool { stopping.load(ordering: .sequentiallyConsistent) }

    let options: FaultServer.Options

    private struct State {
        /// For coming connections; `nil` for cleartext.
        var tls: TLSContext?
        var listener: Socket?
        var acceptThread: WorkerThread?
        /// A socket that only keeps the port while it is closed.
        var placeholder: Socket?
        var connections: [Int: Socket] = [:]
        var threads: [Int: WorkerThread] = [:]
        /// Connections whose threads only wait to be joined.
        var ended: [Int] = []
    }
    private let state = Mutex(State())

    init(_ options: FaultServer.Options) throws(TestKitError) {
        self.options = options
        if let tls = options.tls { try setTLS(tls) }
    }

    func setTLS(_ tls: ServerTLS) throws(TestKitError) {
        let context = try TLSContext(tls)
        state.withLock { $0.tls = context }
    }

    func listen(on socket: Socket) throws(TestKitError) {
        try socket.startListening()
        let thread = try startServerThread { [self] in takeConnections(socket) }
        state.withLock {
            $0.listener = socket
            $0.acceptThread = thread
        }
    }

    private func takeConnections(_ listener: Socket) {
        while let socket = listener.nextConnection() {
            guard !isStopping else {
                socket.close()
                continue
            }
            let id = log.connectionOpened()
            state.withLock { $0.connections[id] = socket }
            do {
                let thread = try startServerThread { [self] in
                    serve(socket, id)
                    socket.closeGently { !isStopping }
                    connectionEnded(id, socket)
                }
                state.withLock { $0.threads[id] = thread }
            } catch { connectionEnded(id, socket) }
            joinEnded()
        }
    }

    private func joinEnded() {
        let threads = state.withLock { state in
            defer { state.ended = [] }
            return state.ended.compactMap { state.threads.removeValue(forKey: $0) }
        }
        for thread in threads { thread.join() }
    }

    private func serve(_ socket: Socket, _ id: Int) {
        socket.sendWithoutDelay()
        switch script.nextConnectionFault() {
        case .serve:
            let tls = state.withLock { $0.tls }
            if let tls {
                guard let wire = tls.accept(socket) else { return log.handshakeFailed() }
                FaultConnection(wire: wire, id: id, core: self).run()
            } else {
                FaultConnection(wire: socket, id: id, core: self).run()
            }
        case .drop: break
        case .reset: socket.resetOnClose()
        case .ignore: _ = waitOut(socket, for: nil)
        }
    }

    private func connectionEnded(_ id: Int, _ socket: Socket) {
        // Out of the table before the descriptor can be another's.
        state.withLock { _ = $0.connections.removeValue(forKey: id) }
        socket.close()
        log.connectionClosed()
        state.withLock { $0.ended.append(id) }
    }

    /// Waits on a connection without reading: for `duration`, or until stalls are released when it is `nil`.
    ///
    /// - Returns: Whether the connection is still of use.
    func waitOut(_ socket: Socket, for duration: Duration?) -> Bool {
        let generation = stalls.load(ordering: .sequentiallyConsistent)
        let start = ContinuousClock.now
        while !isStopping {
            if socket.isAbandoned { return false }
            if let duration, ContinuousClock.now - start >= duration { return true }
            if duration == nil, stalls.load(ordering: .sequentiallyConsistent) != generation { return true }
            pauseThread(milliseconds: 2)
        }
        return false
    }

    func closePort(_ port: UInt16) throws(TestKitError) {
        let (listener, thread) = state.withLock { state in
            defer { (state.listener, state.acceptThread) = (nil, nil) }
            return (state.listener, state.acceptThread)
        }
        guard let listener else { return }
        listener.endBothWays()
        thread?.join()
        listener.close()
        let placeholder = try Socket.bound(port: port)
        state.withLock { state in
            state.placeholder = placeholder
            for socket in state.connections.values {
                socket.resetOnClose()
                socket.endBothWays()
            }
        }
    }

    func openPort() throws(TestKitError) {
        let socket = state.withLock { state in
            defer { state.placeholder = nil }
            return state.placeholder
        }
        if let socket { try listen(on: socket) }
    }

    func stop() {
        stopping.store(true, ordering: .sequentiallyConsistent)
        let (listener, acceptThread, placeholder) = state.withLock { state in
            defer { (state.listener, state.acceptThread, state.placeholder) = (nil, nil, nil) }
            return (state.listener, state.acceptThread, state.placeholder)
        }
        placeholder?.close()
        listener?.endBothWays()
        acceptThread?.join()
        listener?.close()
        let threads = state.withLock { state in
            for socket in state.connections.values { socket.endBothWays() }
            defer { state.threads = [:] }
            return state.threads.values
        }
        for thread in threads { thread.join() }
    }
}
