import CMicroHTTPD

/// libmicrohttpd's threads, and what is done when they call.
///
/// What comes from them is looked at, never trusted: a connection that nobody knows is refused.
final class Daemon: Sendable {
    private let handle: Handle

    private init(_ raw: OpaquePointer) { handle = Handle(raw: raw) }

    /// Starts the threads; `service` must live until ``stop()`` has returned.
    ///
    /// - Returns: `nil` where there is no memory, or no more threads are allowed.
    static func start(for service: Service, _ limits: HTTPServer.Limits) -> Daemon? {
        let stall = limits.stallTimeout.map { UInt32(clamping: $0.components.seconds + 1) } ?? 0
        let raw = sa_http_start(
            UInt32(clamping: max(1, limits.threads)),
            // Those that have been let go take a moment to be closed.
            UInt32(clamping: min(max(0, limits.maximumConnections), 1 << 20) * 2 + 256), stall, answer, begun,
            completed, changed, Unmanaged.passUnretained(service).toOpaque())
        return raw.map(Daemon.init)
    }

    /// Hands a connection over; where that fails it has been closed.
    func add(_ descriptor: Int32, from address: SocketAddress) -> Bool {
        address.withSockaddr { pointer, length in MHD_add_connection(handle.raw, descriptor, pointer, length) == .YES }
    }

    /// Closes every connection and waits for the threads. Nothing may sleep any more.
    func stop() { MHD_stop_daemon(handle.raw) }
}

/// What the callbacks of a ``Daemon`` need.
final class Service: Sendable {
    let table: ConnectionTable
    let answering: HTTPServer.Answering
    let limits: HTTPServer.Limits
    /// Runs what it is given in a task.
    let start: @Sendable (_ work: @escaping @Sendable () async -> Void) -> Void

    init(
        table: ConnectionTable, answering: HTTPServer.Answering, limits: HTTPServer.Limits,
        start: @escaping @Sendable (_ work: @escaping @Sendable () async -> Void) -> Void
    ) {
        self.start = start
        self.table = table
        self.answering = answering
        self.limits = limits
    }

    fileprivate static func from(_ context: UnsafeMutableRawPointer?) -> Service? {
        context.map { Unmanaged<Service>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Hands the answer over; `.NO` closes the connection.
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
    /// libmicrohttpd's form of it, the body's length in **bytes** where it is known, and the descriptor of a file.
    fileprivate func message(on connection: Handle) -> (OpaquePointer, UInt64, Int32?)? {
        switch body {
        case .none: return Self.message([]).map { ($0, 0, nil) }
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
            guard let message = sa_http_stream(16 << 10, readStream, context, forgetStream) else {
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

/// The connection that belongs to a handle.
private func connection(of raw: OpaquePointer?) -> Connection? {
    guard let raw, let context = sa_http_context(raw) else { return nil }
    return Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue()
}

/// A connection is taken up, or has been closed.
private let changed: MHD_NotifyConnectionCallback = { context, raw, place, event in
    guard let service = Service.from(context), let raw, let place else { return }
    switch event {
    case .CONNECTION_NOTIFY_STARTED:
        guard let connection = service.table.connection(sa_http_descriptor(raw)) else { return }
        place.pointee = Unmanaged.passRetained(connection).toOpaque()
    case .CONNECTION_NOTIFY_CLOSED:
        guard let held = place.pointee else { return }
        place.pointee = nil
        service.table.remove(Unmanaged<Connection>.fromOpaque(held).takeRetainedValue())
    @unknown default: return
    }
}

/// The first line of a request is there.
private let begun: sa_http_begun = { _, target, raw in
    let text = target.map { String(cString: $0) } ?? ""
    connection(of: raw)?.exchange = ServerExchange(target: text, length: target.map { strlen($0) } ?? 0)
    return nil
}

/// The head is there; then each piece of the body; then that there is no more; then that the connection was woken.
private let answer: MHD_AccessHandlerCallback = { context, raw, target, method, version, bytes, count, _ in
    guard let service = Service.from(context), let raw, let connection = connection(of: raw),
        let exchange = connection.exchange, let count
    else { return .NO }
    var objection: String?
    let isFirst = exchange.begin {
        let lines = lines(of: raw)
        let isWhole = sa_http_first_line_is_whole(method, target, exchange.targetLength, version) != 0
        let head = RequestHead(
            method: method.map { String(cString: $0) } ?? "", target: exchange.target,
            version: version.map { String(cString: $0) } ?? "", fields: lines.fields, isWhole: isWhole && lines.areWhole
        )
        objection = head.objection
        return HTTPRequest(
            method: head.method, target: head.target, headers: head.fields, body: .bytes([]), client: connection.client,
            peerUser: connection.peerUser)
    }
    if isFirst {
        service.table.hasHead(connection)
        guard let objection else { return .YES }
        // At once: where its body ends is not known.
        return service.send(HTTPResponse(refusing: objection), exchange, connection, raw)
    }
    if count.pointee > 0 {
        exchange.take(
            UnsafeRawBufferPointer(start: bytes, count: bytes == nil ? 0 : count.pointee),
            limit: service.limits.bodyLength)
        count.pointee = 0
        return .YES
    }
    switch exchange.next() {
    case .wait: return .YES
    case .answer(let response): return service.send(response, exchange, connection, raw)
    case .think(let request):
        service.table.isAtWork(connection)
        switch service.answering {
        case .atOnce(let respond): return service.send(respond(request), exchange, connection, raw)
        case .later(let respond):
            let handle = Handle(raw: raw)
            guard exchange.think(handle, start: service.start, { await respond(request) }) else {
                return service.send(HTTPResponse(status: 503), exchange, connection, raw)
            }
            return .YES
        }
    }
}

/// The answer is with the kernel, or the connection has ended before.
private let completed: MHD_RequestCompletedCallback = { context, raw, _, reason in
    guard let service = Service.from(context), let connection = connection(of: raw) else { return }
    let exchange = connection.exchange
    connection.exchange = nil
    exchange?.end(isComplete: reason == .REQUEST_TERMINATED_COMPLETED_OK) {
        sa_http_acknowledged(connection.descriptor)
    }
    service.table.hasAnswered(connection)
}

/// The lines of a request's head, and whether each came as it is told here.
private struct HeadLines {
    var fields: HTTPFields = [:]
    var areWhole = true
}

private func lines(of raw: OpaquePointer) -> HeadLines {
    var lines = HeadLines()
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
