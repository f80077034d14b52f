import CMicroHTTPD
import SyncSystem

/// One request and its answer, as far as they have come.
///
/// Threads of libmicrohttpd read and write; a task may think of the answer meanwhile, and the connection sleeps.
final class ServerExchange: Sendable {
    private enum Step {
        case head
        case body
        /// A task thinks; the connection sleeps.
        case thinking
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
        /// Whether the server stops and waits for nobody.
        var isCutOff = false
        var stream: BodyStream?
        /// The file that is sent, and where its last **byte** must be. libmicrohttpd closes it after ``ServerExchange/end``.
        var file: (descriptor: Int32, end: UInt64)?
        var whenSent: (@Sendable (UInt64, Bool) -> Void)?
        /// **Bytes** that the body of the answer has, where that is known.
        var length: UInt64 = 0
        /// What the client had acknowledged on this connection before the answer began, in **bytes**.
        var acknowledged: UInt64 = 0
    }

    private let state = Mutex(State())
    let target: String
    /// **Bytes** of ``target`` as it came.
    let targetLength: Int

    init(target: String, length: Int) { (self.target, targetLength) = (target, length) }

    /// What libmicrohttpd is to do next.
    enum Next {
        /// Go on: there is nothing to say yet.
        case wait
        case answer(HTTPResponse)
        /// The request has come whole.
        case think(HTTPRequest)
    }

    /// The head is there.
    ///
    /// - Returns: `false` when it has been so already.
    func begin(_ request: () -> HTTPRequest) -> Bool {
        state.withLock { state in
            guard case .head = state.step else { return false }
            state.step = .body
            state.request = request()
            return true
        }
    }

    /// A piece of the body; what is past `limit` **bytes** is thrown away, and the rest with it.
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

    /// Nothing more comes, or the connection has been woken.
    func next() -> Next {
        state.withLock { state in
            switch state.step {
            case .body:
                guard var request = state.request.take() else { return .wait }
                request.body = state.isTooLong ? nil : state.body
                state.body = []
                return .think(request)
            case .ready(let response):
                state.step = .answering
                return .answer(response)
            case .head, .thinking, .answering, .over: return .wait
            }
        }
    }

    /// Puts the connection to sleep until the answer is there.
    ///
    /// - Parameter start: Runs what it is given in a task.
    /// - Returns: `false` where the server stops and nothing may fall asleep any more.
    func think(
        _ connection: Handle, start: (_ work: @escaping @Sendable () async -> Void) -> Void,
        _ think: @escaping @Sendable () async -> HTTPResponse
    ) -> Bool {
        let isAsleep = state.withLock { state in
            guard !state.isCutOff else { return false }
            state.connection = connection
            state.step = .thinking
            MHD_suspend_connection(connection.raw)
            return true
        }
        guard isAsleep else { return false }
        start {
            let response = await think()
            self.complete(response)
            if case .stream(let stream, let write) = response.body { await write(stream) }
        }
        return true
    }

    private func complete(_ response: HTTPResponse) {
        let isTaken = state.withLock { state in
            guard case .thinking = state.step, let connection = state.connection else { return false }
            state.step = .ready(response)
            MHD_resume_connection(connection.raw)
            return true
        }
        if !isTaken { response.leave() }
    }

    private static let unavailable = HTTPResponse(status: 503)

    /// The answer is handed over, of a file with its descriptor; `acknowledged` is what the client has acknowledged on
    /// the connection until now.
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

    /// Whether the file that is sent has become shorter than was promised: libmicrohttpd would wait for the rest.
    var isFileTooShort: Bool {
        state.withLock { state in
            guard case .answering = state.step, let file = state.file else { return false }
            return status(file.descriptor).map { $0.size < file.end } ?? true
        }
    }

    /// The client has gone: a stream ends.
    func clientIsGone() { state.withLock(\.stream)?.cutOff() }

    /// The server waits no longer: whatever sleeps wakes, and nothing falls asleep any more.
    func cutOff() {
        let stream = state.withLock { state -> BodyStream? in
            state.isCutOff = true
            guard case .thinking = state.step, let connection = state.connection else { return state.stream }
            state.step = .ready(Self.unavailable)
            MHD_resume_connection(connection.raw)
            return nil
        }
        stream?.cutOff()
    }

    /// libmicrohttpd is done with it: everything is with the kernel, or the connection has ended.
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
        if isComplete { return whenSent(state.length, true) }
        let now = acknowledged()
        whenSent(min(state.length, now > state.acknowledged ? now - state.acknowledged : 0), false)
    }
}

extension HTTPResponse {
    /// It is not sent.
    func leave() {
        if case .stream(let stream, _) = body { stream.leave() }
        whenSent?(0, false)
    }
}
