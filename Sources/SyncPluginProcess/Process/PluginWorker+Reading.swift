import CPosix
import SyncModel
import SyncPlugins

extension PluginWorker {
    /// Reads what is there, at most some pieces, so that a flood does not keep deadlines waiting.
    func readOutput() {
        guard let child, !outputIsClosed else { return }
        withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { buffer in
            for _ in 0..<8 {
                let count = read(child.output, buffer.baseAddress, buffer.count)
                if count < 0, sa_errno() == EAGAIN || sa_errno() == EINTR { return }
                guard count > 0 else {
                    outputIsClosed = true
                    broken = broken ?? (now, "it closed its output")
                    return
                }
                let piece = UnsafeRawBufferPointer(rebasing: buffer[..<count])
                if case .ending(.killed) = phase { continue }  // Read to the end, but believed no more.
                let fits = framing.take(piece) { line in
                    handle(line)
                    if case .ending(.killed) = phase { return false }
                    return true
                }
                if !fits { makeEnd("it wrote a line of more than \(limits.line) bytes") }
            }
        }
    }

    private func handle(_ line: UnsafeRawBufferPointer) {
        guard let message = RPCMessage(line: line) else {
            garbage += 1
            if garbage <= 3 {
                let text = escaped(String(decoding: line.prefix(120), as: UTF8.self))
                tell(.warning, "it wrote a line that is not a JSON-RPC message: \(text)")
            }
            if garbage > limits.garbageLines {
                makeEnd("it wrote more than \(limits.garbageLines) lines that are not messages")
            } else {
                useUnasked(line.count)
            }
            return
        }
        switch message {
        case .answer(let number, let answer): answered(number, answer, size: line.count)
        case .notification(let method, let parameters): notified(method, parameters, size: line.count)
        case .request(let method):
            tell(.warning, "it asked for '\(escaped(String(method.prefix(60))))'; a plugin sends no requests")
            useUnasked(line.count)
        }
    }

    private func answered(_ number: Int64, _ answer: RPCAnswer, size: Int) {
        if number == ownNumber {
            ownNumber = 0
            switch phase {
            case .starting: initialized(answer)
            case .ending(.asked):
                child?.closeInput()
                enter(.ending(.inputClosed), for: limits.shutdown)
            case .absent, .ready, .ending: break
            }
            return
        }
        switch requests.answered(number) {
        case .caller(let request):
            unansweredSince = nil
            request.completion(.success(answer))
        case .nobodyAnyMore: unansweredSince = nil
        case .nobody:
            tellRarely("it answered a request that was not sent, or was answered before: \(number)", size)
        }
    }

    private func notified(_ method: String, _ parameters: JSONValue, size: Int) {
        guard let number = parameters["id"]?.integer else {
            useUnasked(size)
            return
        }
        if method == "$/progress" {
            let time = requests.pending[number]?.request.timeout ?? .zero
            if requests.extend(number, by: time, at: now) { unansweredSince = nil }
            useUnasked(size)
            if let told = requests.pending[number]?.request.notified { told(method, parameters) }
        } else if let (told, earlier) = requests.notified(number) {
            // A few belong to every request; more cost something.
            if earlier >= Self.freeNotifications { useUnasked(size) }
            told(method, parameters)
        } else {
            useUnasked(size)
        }
    }

    private static let freeNotifications = 4

    private func tellRarely(_ text: String, _ size: Int) {
        if errorLog.mayTell(at: now) { tell(.warning, text) }
        useUnasked(size)
    }

    /// Output that nobody asked for is bounded, however well formed.
    private func useUnasked(_ size: Int) {
        if !unasked.use(size + 64, at: now) { makeEnd("it floods its output") }
    }

    func readErrors() {
        guard let child, !errorIsClosed else { return }
        withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { buffer in
            for _ in 0..<8 {
                let count = read(child.error, buffer.baseAddress, buffer.count)
                if count < 0, sa_errno() == EAGAIN || sa_errno() == EINTR { return }
                guard count > 0 else {
                    errorIsClosed = true
                    return
                }
                errorLog.take(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: now) {
                    tell(.output, $0)
                }
            }
        }
    }
}

/// Turns what a plugin writes to standard error into few, short, harmless lines.
struct ErrorLog {
    /// Most **bytes** of a line that is told.
    private static let longest = 1_000
    private var allowance: Allowance
    private var line: [UInt8] = []
    private var isCut = false
    private var dropped = 0

    init(_ lines: (most: Int, perSecond: Int)) {
        allowance = Allowance(most: lines.most, perSecond: lines.perSecond)
    }

    /// Whether one more line may be told now.
    mutating func mayTell(at now: Duration) -> Bool { allowance.use(1, at: now) }

    mutating func take(_ bytes: UnsafeRawBufferPointer, at now: Duration, _ tell: (String) -> Void) {
        for piece in bytes.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
            if piece.offset > 0 { end(at: now, tell) }
            let room = Self.longest - line.count
            line.append(contentsOf: piece.element.prefix(room))
            if piece.element.count > room { isCut = true }
        }
    }

    private mutating func end(at now: Duration, _ tell: (String) -> Void) {
        defer {
            line.removeAll(keepingCapacity: true)
            isCut = false
        }
        guard !line.isEmpty else { return }
        guard mayTell(at: now) else {
            dropped += 1
            return
        }
        if dropped > 0 {
            tell("(\(dropped) lines left out)")
            dropped = 0
        }
        tell(escaped(String(decoding: line, as: UTF8.self)) + (isCut ? " …" : ""))
    }
}
