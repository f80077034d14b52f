import HTTPTypes
import NIOCore
import NIOHTTPTypes
import Synchronization

/// The connections of a server: when there are as many as may be, the one that has waited longest for its client makes
/// room, so that nobody can take every place by saying nothing.
final class Connections: Sendable {
    private struct State {
        var places: [ObjectIdentifier: Place] = [:]
        var clock: UInt64 = 0
    }

    private struct Place {
        let channel: any Channel
        /// When it began to wait for its client; `nil` while the agent works for it.
        var waitsSince: UInt64?
    }

    private let state = Mutex(State())
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// A connection is there.
    func add(_ channel: any Channel) {
        let victim: (any Channel)? = state.withLock { state in
            let victim = Self.room(in: &state, limit: limit - 1)
            state.clock += 1
            state.places[ObjectIdentifier(channel)] = Place(channel: channel, waitsSince: state.clock)
            return victim
        }
        victim?.close(promise: nil)
    }

    /// The agent works for it from here on.
    func isAtWork(_ channel: any Channel) {
        state.withLock { $0.places[ObjectIdentifier(channel)]?.waitsSince = nil }
    }

    /// It waits for its client from here on. Where every place was at work, the first that is not makes room.
    func isWaiting(_ channel: any Channel) {
        let victim: (any Channel)? = state.withLock { state in
            state.clock += 1
            state.places[ObjectIdentifier(channel)]?.waitsSince = state.clock
            return Self.room(in: &state, limit: limit)
        }
        victim?.close(promise: nil)
    }

    /// The connection that has waited longest, where there are `limit` of them; it counts no more.
    private static func room(in state: inout State, limit: Int) -> (any Channel)? {
        guard state.places.count >= limit else { return nil }
        let oldest = state.places.filter { $0.value.waitsSince != nil }
            .min { $0.value.waitsSince ?? 0 < $1.value.waitsSince ?? 0 }
        return oldest.flatMap { state.places.removeValue(forKey: $0.key)?.channel }
    }

    func remove(_ channel: any Channel) {
        state.withLock { _ = $0.places.removeValue(forKey: ObjectIdentifier(channel)) }
    }
}

/// What a client has begun it must end: a request that has not come whole, or an answer that has not been taken, within
/// ``ControlServer/Options/clientTimeout`` closes its connection. A connection on which nothing has come of a request
/// may wait longer, and a stream of events may be read as slowly as one likes.
final class RequestDeadlines: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let connections: Connections
    private let timeout: TimeAmount
    /// Of this kind of thing: a request that comes, an answer that goes.
    private var deadline: Scheduled<Void>?
    /// Requests whose head is there and whose answer is not out.
    private var open = 0
    /// Whether a request has come in part.
    private var isReceiving = false
    /// Whether something has come that is no request.
    private var isBroken = false

    init(_ connections: Connections, timeout: TimeAmount) {
        self.connections = connections
        self.timeout = timeout
    }

    func handlerAdded(context: ChannelHandlerContext) { connections.add(context.channel) }

    func handlerRemoved(context: ChannelHandlerContext) { forget(context) }

    func channelInactive(context: ChannelHandlerContext) {
        forget(context)
        context.fireChannelInactive()
    }

    private func forget(_ context: ChannelHandlerContext) {
        end()
        connections.remove(context.channel)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head:
            open += 1
            isReceiving = true
            begin(context)
        case .body: break
        case .end:
            isReceiving = false
            end()
            connections.isAtWork(context.channel)
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // Bytes have come that are no head yet.
        if open == 0 { begin(context) }
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // What came is no request: the client is told, and nothing more is read.
        isBroken = true
        begin(context)
        context.fireErrorCaught(error)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(let head):
            // Streams have no length.
            if head.headerFields[.contentLength] != nil { begin(context) }
        case .body: break
        case .end:
            let promise = promise ?? context.eventLoop.makePromise(of: Void.self)
            let me = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
            promise.futureResult.whenSuccess { me.value.handler.isAnswered(me.value.context) }
            return context.write(data, promise: promise)
        }
        context.write(data, promise: promise)
    }

    private func isAnswered(_ context: ChannelHandlerContext) {
        open = max(0, open - 1)
        guard context.channel.isActive, !isReceiving, !isBroken else { return }
        end()
        if open == 0 { connections.isWaiting(context.channel) }
    }

    /// The client has a moment from here, unless it runs already.
    private func begin(_ context: ChannelHandlerContext) {
        guard deadline == nil else { return }
        let channel = context.channel
        deadline = context.eventLoop.scheduleTask(in: timeout) { channel.close(promise: nil) }
    }

    private func end() {
        deadline?.cancel()
        deadline = nil
    }
}
