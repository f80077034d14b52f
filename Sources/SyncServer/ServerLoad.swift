import HummingbirdCore
import NIOCore
import Synchronization

/// What is under way, and the shares that follow from it: all answers together hold a bounded piece of memory, and no
/// address takes all connections.
final class ServerLoad: Sendable {
    private struct State {
        var answers = 0
        /// Most answers at a time since memory was given back.
        var peak = 0
        var addresses: [String: Int] = [:]
    }
    private let state = Mutex(State())
    private let perAddress: Int
    private let idle: @Sendable () -> Void

    /// **Bytes** that are read and written at a time: a thread hop costs some 10 µs, and this many bytes some 50 µs.
    private static let longestChunk = 256 << 10
    private static let shortestChunk = 8 << 10
    /// **Bytes** that new pieces of all answers may have together.
    private static let chunks = 16 << 20
    /// So many answers at a time leave memory behind that is worth giving back.
    private static let many = 32

    /// - Parameters:
    ///   - perAddress: Most connections of one address.
    ///   - idle: Called when nothing is answered any more after many answers at a time.
    init(perAddress: Int, idle: @escaping @Sendable () -> Void) {
        self.perAddress = perAddress
        self.idle = idle
    }

    /// An answer begins.
    func begin() {
        state.withLock { state in
            state.answers += 1
            state.peak = max(state.peak, state.answers)
        }
    }

    /// An answer has ended.
    func end() {
        let isIdle = state.withLock { state in
            state.answers -= 1
            guard state.answers == 0, state.peak >= Self.many else { return false }
            state.peak = 0
            return true
        }
        if isIdle { idle() }
    }

    /// The next piece of an answer in **bytes**, and whether the one after it may be read already.
    var share: (bytes: Int, readsAhead: Bool) {
        let answers = state.withLock(\.answers)
        let bytes = min(Self.longestChunk, max(Self.shortestChunk, Self.chunks / max(1, answers)))
        return (bytes, answers * 2 * Self.longestChunk <= Self.chunks)
    }

    /// Takes a place for a connection; `false` when its address has all it may have.
    fileprivate func open(_ address: String) -> Bool {
        state.withLock { state in
            let count = state.addresses[address, default: 0]
            guard count < perAddress else { return false }
            state.addresses[address] = count + 1
            return true
        }
    }

    fileprivate func close(_ address: String) {
        state.withLock { state in
            let count = state.addresses[address, default: 0] - 1
            state.addresses[address] = count > 0 ? count : nil
        }
    }
}

/// Closes a connection at once whose address has as many as it may have.
final class AddressGate: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = Any

    private let load: ServerLoad

    init(_ load: ServerLoad) { self.load = load }

    func handlerAdded(context: ChannelHandlerContext) {
        guard let address = context.remoteAddress?.ipAddress else { return }
        guard load.open(address) else { return context.close(promise: nil) }
        context.channel.closeFuture.whenComplete { [load] _ in load.close(address) }
    }
}

@available(*, unavailable)
extension AddressGate: Sendable {}
