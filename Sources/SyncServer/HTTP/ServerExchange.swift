import CMicroHTTPD
import SyncSystem

/// One request with its answer, in any phase.
///
/// Threads of libmicrohttpd read and write; a task may compute the answer meanwhile, while the connection is suspended.
final class ServerExchange: Sendable {
    private enum Step {
        case head
        case body
        /// A task computes the answer; the connection is suspended.
        case responding
        case ready(HTTPResponse)
        /// The answer is libmicrohttpd's to send.
        case answering
        case over
    }

    private struct State {
        var step = Step.head
        var request: HTTPRequest?
        var body: [UInt8] = []
        var isTooLong = false
        var connection: Handle?
        /// Whether the server is stopping without waiting.
        var isCutOff = false
        var stream: BodyStream?
        /// The file that is being sent, and the required end of its **bytes**. libmicrohttpd closes it after
        /// ``ServerExchange/end(isComplete:acknowledged:)``.
        var file: (descriptor: Int32, end: UInt64)?
        var whenSent: (@Sendable (UInt64, Bool) -> Void)?
        /// **Bytes** of the answer's body; of a stream, what has been read of it counts.
        var length: UInt64 = 0
        /// **Bytes** that the client had acknowledged on this connection before the answer began.
        var acknowledged: UInt64 = 0
    }

    private let state = Mutex(State())
    let target: String
    /// **Bytes** of ``target`` as it came.
    let targetLength: Int

    init(target: String, length: Int) { (self.target, targetLength) = (target, length) }

    /// The next step for libmicrohttpd.
    enum Next {
        /// Continue: there is no answer yet.
        case wait
        case answer(HTTPResponse)
        /// The request is complete.
        case respond(HTTPRequest)
    }

    /// Handles the head.
    ///
    /// - Returns: `false` if that has already happened.
    func begin(_ request: () -> HTTPRequest) -> Bool {
        state.withLock { state in
            guard case .head = state.step else { return false }
            state.step = .body
            state.request = request()
            return true
        }
    }

    /// Adds a piece of the body; a body of more than `limit` **bytes** is discarded.
    func take(_ bytes: UnsafeRawBufferPointer, limit: Int) {
        state.withLock { state in
            guard !state.isTooLong, bytes.count <= limit - state.body.count else {
                state.isTooLong = true
                state.body = []
                return
            }
            state.body.append(contentsOf: bytes)
        }
    }

    /// Handles the end of the request, or a resumed connection.
    func next() -> Next {
        state.withLock { state in
            switch state.step {
            case .body:
                guard var request = state.request.take() else { return .wait }
                request.body = state.isTooLong ? nil : state.body
                state.body = []
                return .respond(request)
            case .ready(let response):
                state.step = .answering
                return .answer(response)
            case .head, .responding, .answering, .over: return .wait
            }
        }
    }

    /// Suspends the connection until the answer is ready.
    ///
    /// - Parameter start: Runs work in a task.
    /// - Returns: `false` if the server is stopping and connections may no longer be suspended.
    func respond(
        _ connection: Handle, start: (_ work: @escaping @Sendable () async -> Void) -> Void,
        _ respond: @escaping @Sendable () async -> HTTPResponse
    ) -> Bool {
        let isAsleep = state.withLock { state in
            guard !state.isCutOff else { return false }
            state.connection = connection
            state.step = .responding
            MHD_suspend_connection(connection.raw)
            return true
        }
        guard isAsleep else { return false }
        start {
            let response = await respond()
            self.complete(response)
            if case .stream(let stream, let write) = response.body { await write(stream) }
        }
        return true
    }

    private func complete(_ response: HTTPResponse) {
        let isTaken = state.withLock { state in
            guard case .responding = state.step, let connection = state.connection else { return false }
            state.step = .ready(response)
            MHD_resume_connection(connection.raw)
            return true
        }
        if !isTaken { response.leave() }
    }

    private static let unavailable = HTTPResponse(status: 503)

    /// The answer has been passed on, for a file with its descriptor; `acknowledged` is what the client has
    /// acknowledged on the connection so far.
    func answers(_ response: HTTPResponse, file: Int32?, length: UInt64, acknowledged: UInt64) {
        let stream = state.withLock { state -> BodyStream? in
            state.step = .answering
            state.whenSent = response.whenSent
            state.length = length
            if let file, case .file(_, let range) = response.body { state.file = (file, range.upperBound) }
            state.acknowledged = acknowledged
            if case .stream(let stream, _) = response.body { state.stream = stream }
            return state.isCutOff ? state.stream : nil
        }
        stream?.cutOff()
    }

    /// Whether the file that is being sent has become too short: libmicrohttpd would wait for the rest.
    var isFileTooShort: Bool {
        state.withLock { state in
            guard case .answering = state.step, let file = state.file else { return false }
            return status(file.descriptor).map { $0.size < file.end } ?? true
        }
    }

    /// The client is gone: a stream ends.
    func clientIsGone() { state.withLock(\.stream)?.cutOff() }

    /// The server no longer waits: resumes a suspended connection, and prevents further suspension.
    func cutOff() {
        let stream = state.withLock { state -> BodyStream? in
            state.isCutOff = true
            guard case .responding = state.step, let connection = state.connection else { return state.stream }
            state.step = .ready(Self.unavailable)
            MHD_resume_connection(connection.raw)
            return nil
        }
        stream?.cutOff()
    }

    /// libmicrohttpd is done with it: the kernel has everything, or the connection has ended.
    func end(isComplete: Bool, acknowledged: () -> UInt64) {
        let (state, unsaid) = state.withLock { state -> (State, HTTPResponse?) in
            let before = state
            var unsaid: HTTPResponse?
            if case .ready(let response) = state.step { unsaid = response }
            state.step = .over
            state.connection = nil
            state.stream = nil
            state.file = nil
            state.whenSent = nil
            return (before, unsaid)
        }
        unsaid?.leave()
        state.stream?.leave()
        guard let whenSent = state.whenSent else { return }
        let length = state.stream?.taken ?? state.length
        if isComplete { return whenSent(length, true) }
        let now = acknowledged()
        whenSent(min(length, now > state.acknowledged ? now - state.acknowledged : 0), false)
    }
}

extension HTTPResponse {
    /// Discards the answer unsent.
    func leave() {
        if case .stream(let stream, _) = body { stream.leave() }
        whenSent?(0, false)
    }
}
