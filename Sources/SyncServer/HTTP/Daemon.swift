import CMicroHTTPD
import SyncSystem

/// libmicrohttpd's threads, and the handlers of their callbacks.
///
/// Their arguments are checked, never trusted: an unknown connection is refused.
final class Daemon: Sendable {
    let table: ConnectionTable
    fileprivate let answering: HTTPServer.Answering
    fileprivate let limits: HTTPServer.Limits
    /// Runs work in a task.
    fileprivate let start: @Sendable (_ work: @escaping @Sendable () async -> Void) -> Void
    /// `nil` until its threads have started.
    private let handle = Mutex(Handle?.none)

    /// Starts the threads; the instance must live until ``stop()`` has returned.
    ///
    /// - Throws: If there is not enough memory, or the limit on threads is reached.
    init(
        _ table: ConnectionTable, _ answering: HTTPServer.Answering, _ limits: HTTPServer.Limits,
        start: @escaping @Sendable (_ work: @escaping @Sendable () async -> Void) -> Void
    ) throws(FileError) {
        (self.table, self.answering, self.limits, self.start) = (table, answering, limits, start)
        let stall = limits.stallTimeout.map { UInt32(clamping: $0.components.seconds + 1) } ?? 0
        let raw = sa_http_start(
            UInt32(clamping: max(1, limits.threads)),
            // Connections that have been cut off take a moment to be closed.
            UInt32(clamping: min(max(0, limits.maximumConnections), 1 << 20) * 2 + 256),
            stall, answer, begun, completed, changed,
            Unmanaged.passUnretained(self).toOpaque())
        guard let raw else { throw .last("start", "a server") }
        handle.withLock { $0 = Handle(raw: raw) }
    }

    /// Passes a connection on; on failure, it has been closed.
    func add(_ descriptor: Int32, from address: SocketAddress) -> Bool {
        guard let raw = handle.withLock(\.self)?.raw else { return false }
        return address.withSockaddr { MHD_add_connection(raw, descriptor, $0, $1) == .YES }
    }

    /// Closes every connection and waits for the threads. No connection may be suspended.
    func stop() { if let raw = handle.withLock({ $0.take() })?.raw { MHD_stop_daemon(raw) } }

    fileprivate static func from(_ context: UnsafeMutableRawPointer?) -> Daemon? {
        context.map { Unmanaged<Daemon>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Passes the answer on; `.NO` closes the connection.
    fileprivate func send(
        _ response: HTTPResponse, _ exchange: ServerExchange, _ connection: Connection, _ raw: OpaquePointer
    ) -> MHD_Result {
        guard let (message, length, file) = response.message(on: Handle(raw: raw)) else {
            response.leave()
            return .NO
        }
        defer { MHD_destroy_response(message) }
        response.headers.forEach { MHD_add_response_header(message, $0, $1) }
        var isStream = false
        if case .stream = response.body { isStream = true }
        let acknowledged = response.whenSent == nil ? 0 : sa_http_acknowledged(connection.descriptor)
        exchange.answers(response, file: file, length: length, acknowledged: acknowledged)
        table.answers(connection, isStream: isStream, isFile: file != nil)
        return MHD_queue_response(raw, UInt32(clamping: response.status), message)
    }
}

extension HTTPResponse {
    /// The response in libmicrohttpd's form, the body's length in **bytes**, 0 for a stream, and the descriptor of a
    /// file.
    fileprivate func message(on connection: Handle) -> (OpaquePointer, UInt64, Int32?)? {
        switch body {
        case .bytes(let bytes): return Self.message(bytes).map { ($0, UInt64(bytes.count), nil) }
        case .file(_, let range) where range.isEmpty: return Self.message([]).map { ($0, 0, nil) }
        case .file(let file, let range):
            let raw = file.take()
            guard raw >= 0 else { return nil }
            let length = range.upperBound - range.lowerBound
            guard let message = MHD_create_response_from_fd_at_offset64(length, raw, range.lowerBound) else {
                _ = OpenFile(owning: raw)
                return nil
            }
            return (message, length, raw)
        case .stream(let stream, _):
            stream.attach(connection)
            let context = Unmanaged.passRetained(stream).toOpaque()
            let length = stream.length.map { Int64(clamping: $0) } ?? -1
            // A long one moves in larger blocks.
            let block = length > 64 << 10 ? 64 << 10 : 16 << 10
            guard let message = sa_http_stream(length, block, readStream, context, forgetStream) else {
                Unmanaged<BodyStream>.fromOpaque(context).release()
                return nil
            }
            return (message, 0, nil)
        }
    }

    private static func message(_ bytes: [UInt8]) -> OpaquePointer? {
        var bytes = bytes
        return bytes.withUnsafeMutableBytes {
            MHD_create_response_from_buffer($0.count, $0.baseAddress, .RESPMEM_MUST_COPY)
        }
    }
}

// MARK: Callbacks

private let readStream: MHD_ContentReaderCallback = { context, _, target, most in
    guard let context, let target else { return SA_HTTP_END }
    let stream = Unmanaged<BodyStream>.fromOpaque(context).takeUnretainedValue()
    return stream.read(into: UnsafeMutableRawBufferPointer(start: target, count: most))
}

private let forgetStream: MHD_ContentReaderFreeCallback = { context in
    if let context { Unmanaged<BodyStream>.fromOpaque(context).release() }
}

/// The connection of a handle.
private func connection(of raw: OpaquePointer?) -> Connection? {
    guard let raw, let context = sa_http_context(raw) else { return nil }
    return Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue()
}

/// A connection was taken up, or has been closed.
private let changed: MHD_NotifyConnectionCallback = { context, raw, place, event in
    guard let daemon = Daemon.from(context), let raw, let place else { return }
    switch event {
    case .CONNECTION_NOTIFY_STARTED:
        guard let connection = daemon.table.connection(sa_http_descriptor(raw)) else { return }
        place.pointee = Unmanaged.passRetained(connection).toOpaque()
    case .CONNECTION_NOTIFY_CLOSED:
        guard let held = place.pointee else { return }
        place.pointee = nil
        daemon.table.remove(Unmanaged<Connection>.fromOpaque(held).takeRetainedValue())
    @unknown default: return
    }
}

/// The first line of a request has arrived.
private let begun: sa_http_begun = { _, target, raw in
    let text = target.map { String(cString: $0) } ?? ""
    connection(of: raw)?.exchange = ServerExchange(target: text, length: target.map { strlen($0) } ?? 0)
    return nil
}

/// Called for the head; then for each piece of the body; then at its end; then after the connection was resumed.
private let answer: MHD_AccessHandlerCallback = { context, raw, target, method, version, bytes, count, _ in
    guard let daemon = Daemon.from(context), let raw, let connection = connection(of: raw),
        let exchange = connection.exchange, let count
    else { return .NO }
    var objection: String?
    let isFirst = exchange.begin {
        let lines = lines(of: raw)
        let isWhole = sa_http_first_line_is_whole(method, target, exchange.targetLength, version) != 0
        let request = HTTPRequest(
            method: method.map { String(cString: $0) } ?? "", target: exchange.target, headers: lines.fields, body: [],
            client: connection.client, peerUser: connection.peerUser)
        objection = request.objection(
            version: version.map { String(cString: $0) } ?? "", isWhole: isWhole && lines.areWhole)
        return request
    }
    if isFirst {
        daemon.table.hasHead(connection)
        guard let objection else { return .YES }
        // At once, because the end of its body is unknown.
        return daemon.send(HTTPResponse(refusing: objection), exchange, connection, raw)
    }
    if count.pointee > 0 {
        exchange.take(
            UnsafeRawBufferPointer(start: bytes, count: bytes == nil ? 0 : count.pointee),
            limit: daemon.limits.bodyLength)
        count.pointee = 0
        return .YES
    }
    switch exchange.next() {
    case .wait: return .YES
    case .answer(let response): return daemon.send(response, exchange, connection, raw)
    case .respond(let request):
        daemon.table.isAtWork(connection)
        switch daemon.answering {
        case .atOnce(let respond): return daemon.send(respond(request), exchange, connection, raw)
        case .later(let respond):
            let handle = Handle(raw: raw)
            guard exchange.respond(handle, start: daemon.start, { await respond(request) }) else {
                return daemon.send(HTTPResponse(status: 503), exchange, connection, raw)
            }
            return .YES
        }
    }
}

/// The answer is in the kernel, or the connection has ended before.
private let completed: MHD_RequestCompletedCallback = { context, raw, _, reason in
    guard let daemon = Daemon.from(context), let connection = connection(of: raw) else { return }
    let exchange = connection.exchange
    connection.exchange = nil
    exchange?.end(isComplete: reason == .REQUEST_TERMINATED_COMPLETED_OK) {
        sa_http_acknowledged(connection.descriptor)
    }
    daemon.table.hasAnswered(connection)
}

/// The lines of a request's head, and whether each was received exactly as given here.
private typealias HeadLines = (fields: HTTPFields, areWhole: Bool)

private func lines(of raw: OpaquePointer) -> HeadLines {
    var lines: HeadLines = ([:], true)
    withUnsafeMutablePointer(to: &lines) { target in
        _ = MHD_get_connection_values_n(
            raw, .HEADER_KIND,
            { context, _, name, nameLength, value, valueLength in
                guard let context else { return .YES }
                let lines = context.assumingMemoryBound(to: HeadLines.self)
                guard let name else {
                    lines.pointee.areWhole = false
                    return .YES
                }
                lines.pointee.fields.append(
                    HTTPFields.Name(String(cString: name)), value.map { String(cString: $0) } ?? "")
                if sa_http_line_is_whole(name, nameLength, value, valueLength) == 0 { lines.pointee.areWhole = false }
                return .YES
            }, target)
    }
    return lines
}
