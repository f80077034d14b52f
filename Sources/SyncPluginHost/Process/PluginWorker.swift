import SyncModel
import SyncPlugins
import SyncSystem

/// Manages one plugin: starts it, writes requests, reads answers, enforces deadlines, ends and restarts it.
///
/// Confined to one thread; other threads reach it through its ``Inbox``. The loop is: take commands, handle what is
/// due, wait in poll(2), read. It never waits for the plugin, so no plugin can delay a deadline.
final class PluginWorker {
    enum Command: Sendable {
        case request(Int64, PluginRequest)
        /// May arrive after the request has ended.
        case cancel(Int64)
        case close
    }

    enum Phase {
        /// No process.
        case absent
        /// `initialize` was sent.
        case starting
        /// It answers requests.
        case ready
        /// It has been asked to end, and then forced to, in steps that each last ``PluginLimits/shutdown``.
        case asked, inputClosed, terminated, killed
    }
    let configuration: PluginConfiguration
    let inbox: Inbox<Command>
    private let numbers: SharedCounter
    private let start = SuspendingClock().now

    var requests = RequestTable()
    var phase = Phase.absent
    var child: PluginChild?
    /// When ``phase`` times out, if it does.
    var phaseDue: Duration?
    var restart: RestartPolicy
    var isClosing = false
    var endReason: String?
    var givenUpReason = ""
    /// Whether the system lacked processes or memory at the last start.
    var lacksProcess = false

    var framing: LineFraming
    var errorLog: ErrorLog
    var unasked: Allowance
    var garbage = 0
    /// Since when requests have timed out without any message in between.
    var unansweredSince: Duration?
    /// Since when it had answered nothing, if it was ended for that.
    var hungSince: Duration?
    /// The answer to `initialize`.
    var description = JSONValue.null
    /// The number of the `initialize` or `shutdown` request that this process has not answered.
    var ownNumber: Int64?
    /// Output that the pipe has not accepted yet.
    var queue: [UInt8] = []
    var queueStart = 0
    /// When its first byte was queued.
    var queueBegan = Duration.zero
    /// Since when communication is impossible, and why.
    var broken: (since: Duration, reason: String)?
    var outputIsClosed = false
    var errorIsClosed = false

    init(_ configuration: PluginConfiguration, _ inbox: Inbox<Command>, _ numbers: SharedCounter) {
        (self.configuration, self.inbox, self.numbers) = (configuration, inbox, numbers)
        restart = configuration.restart
        framing = LineFraming(limit: configuration.limits.line)
        errorLog = ErrorLog(configuration.limits.errorLines)
        unasked = configuration.limits.unasked
    }

    var limits: PluginLimits { configuration.limits }

    /// Since the worker's start.
    var now: Duration { SuspendingClock().now - start }

    /// Runs until it is closed and no process is left.
    func run() {
        while true {
            for command in inbox.takeAll() { take(command) }
            expire()
            if isClosing, child == nil { break }
            if child == nil { startIfWanted() }
            if phase == .ready { sendWaiting() }
            flush()
            wait()
        }
        for request in requests.removeAll() { request.completion(.failure(cancelled)) }
    }

    // MARK: Commands

    private func take(_ command: Command) {
        switch command {
        case .request(let number, let request): add(number, request)
        case .cancel(let number):
            guard let entry = requests.abandon(number) else { return }
            if entry.isSent { write(RPCMessage.cancel(number)) }
            entry.completion(.failure(cancelled))
        case .close: close()
        }
    }

    private func add(_ number: Int64, _ request: PluginRequest) {
        if restart.recovered(at: now) { givenUpReason = "" }
        if restart.isGivenUp || isClosing {
            request.completion(.failure(isClosing ? cancelled : unavailable(givenUpReason)))
        } else if requests.count >= limits.requests {
            request.completion(.failure(unavailable("more than \(limits.requests) requests wait for it")))
        } else {
            // Bounds the wait, which includes the plugin's start.
            var request = request
            request.due = request.timeout.map { now + $0 + limits.start }
            requests.add(number, request)
        }
    }

    private func close() {
        guard !isClosing else { return }
        isClosing = true
        for request in requests.removeAll() { request.completion(.failure(cancelled)) }
        switch phase {
        case .absent, .asked, .inputClosed, .terminated, .killed: break
        case .starting: makeEnd(nil)
        case .ready:
            ask("shutdown", JSONLine.object { _ in })
            enter(.asked, for: limits.shutdown)
        }
    }

    // MARK: Writing

    func write(_ bytes: [UInt8]) { queue += bytes }

    /// Sends one of the worker's own requests.
    func ask(_ method: String, _ parameters: JSONLine) {
        let number = numbers.nextRequest()
        ownNumber = number
        write(RPCMessage.request(number, method, parameters))
    }

    private func sendWaiting() {
        if queue.isEmpty { queueBegan = now }
        for number in requests.unsent {
            guard let request = requests.pending[number] else { continue }
            requests.markSent(number, at: now, progressFactor: limits.progressFactor)
            if request.method == PluginClient.describeMethod {
                requests.answered(number)
                request.completion(.success(.success(description)))
                continue
            }
            let line = RPCMessage.request(number, request.method, request.parameters)
            let waits = queue.count - queueStart
            if line.count > limits.line || waits + line.count > limits.queue {
                requests.answered(number)
                let reason =
                    line.count > limits.line
                    ? "a request of \(line.count) bytes; a line has at most \(limits.line)"
                    : "it does not read its input; \(waits) bytes wait for it"
                request.completion(.failure(unavailable(reason)))
            } else {
                write(line)
            }
        }
    }

    func flush() {
        guard let child, child.input >= 0 else { return }
        while queueStart < queue.count {
            let count = queue[queueStart...].withUnsafeBytes { writeSome(child.input, $0) }
            guard count > 0 else {
                if count < 0, Errno.last == .brokenPipe {
                    child.closeInput()
                    broken = broken ?? (now, "it closed its input")
                    // It has not seen the queued requests.
                    hungSince = queueBegan
                }
                break
            }
            queueStart += count
        }
        if queueStart == queue.count {
            queue.removeAll(keepingCapacity: queue.count <= 64 << 10)
            queueStart = 0
        }
    }

    // MARK: Waiting

    private func wait() {
        let hasInput = queueStart < queue.count
        var entries = [
            PollEntry(inbox.pipe.reader), PollEntry(hasInput ? child?.input ?? -1 : -1, isForWriting: true),
            PollEntry(outputIsClosed ? -1 : child?.output ?? -1), PollEntry(errorIsClosed ? -1 : child?.error ?? -1),
            PollEntry(child?.program.ended ?? -1),
        ]
        guard waitForAny(of: &entries, atMost: timeToWait) else {
            checkForExit(false)
            return
        }
        if entries[0].isReady { inbox.pipe.drain() }
        if entries[3].isReady { readErrors() }
        if entries[2].isReady { readOutput() }
        checkForExit(entries[4].isReady)
    }

    private var timeToWait: Int32 {
        let now = now
        var due = [requests.nextDue, phaseDue].compactMap { $0 }
        if child == nil, requests.count > 0 { due.append(restart.notBefore) }
        if let since = unansweredSince { due.append(since + limits.grace) }
        // Without pidfd_open(2), or if communication is impossible, its exit is polled.
        if inbox.pipe.reader < 0 || child.map({ $0.program.ended < 0 || broken != nil }) ?? false {
            due.append(now + WakePipe.tick)
        }
        guard let first = due.min() else { return -1 }
        return first <= now ? 0 : (first - now).pollMilliseconds
    }

}

extension PluginWorker {
    /// Reads the available output, but only a limited number of pieces, so that a flood does not delay deadlines.
    func readOutput() {
        guard let child, !outputIsClosed else { return }
        withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { buffer in
            for _ in 0..<8 {
                let result = readSome(child.output, into: buffer)
                if result == .nothing { return }
                guard case .bytes(let count) = result else {
                    outputIsClosed = true
                    broken = broken ?? (now, "it closed its output")
                    return
                }
                let piece = UnsafeRawBufferPointer(rebasing: buffer[..<count])
                if phase == .killed { continue }  // Read to the end, but no longer trusted.
                let fits = framing.take(piece) { line in
                    handle(line)
                    return phase != .killed
                }
                if !fits { makeEnd("it wrote a line of more than \(limits.line) bytes") }
            }
        }
    }

    private func handle(_ line: UnsafeRawBufferPointer) {
        guard !line.isEmpty else { return useUnasked(0) }
        guard let message = RPCMessage(line: line) else {
            garbage += 1
            if garbage <= 3 {
                let text = escaped(String(decoding: line.prefix(120), as: UTF8.self))
                notify(.warning, "it wrote a line that is not a JSON-RPC message: \(text)")
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
            let name = escaped(String(method.prefix(60)))
            notifyLimited("it asked for '\(name)'; a plugin sends no requests", line.count)
        }
    }

    private func answered(_ number: Int64, _ answer: RPCAnswer, size: Int) {
        if number == ownNumber {
            ownNumber = nil
            switch phase {
            case .starting: initialized(answer)
            case .asked:
                child?.closeInput()
                enter(.inputClosed, for: limits.shutdown)
            case .absent, .ready, .inputClosed, .terminated, .killed: break
            }
            return
        }
        let (request, wasSent) = requests.answered(number)
        guard wasSent else {
            return notifyLimited("it answered a request that was not sent, or was answered before: \(number)", size)
        }
        unansweredSince = nil
        request?.completion(.success(answer))
    }

    private func notified(_ method: String, _ parameters: JSONValue, size: Int) {
        guard let number = parameters["id"]?.integer else {
            useUnasked(size)
            return
        }
        if method == "$/progress" {
            let time = requests.pending[number]?.timeout ?? .zero
            if requests.extend(number, by: time, at: now) { unansweredSince = nil }
            useUnasked(size)
            if let handler = requests.pending[number]?.notified { handler(method, parameters) }
        } else if let (handler, earlier) = requests.notified(number) {
            // A few are normal for each request; more count as unsolicited.
            if earlier >= Self.freeNotifications { useUnasked(size) }
            handler(method, parameters)
        } else {
            useUnasked(size)
        }
    }

    private static let freeNotifications = 4

    private func notifyLimited(_ text: String, _ size: Int) {
        if errorLog.mayNotify(at: now) { notify(.warning, text) }
        useUnasked(size)
    }

    /// Limits unsolicited output, however well formed.
    private func useUnasked(_ size: Int) { if !unasked.use(size + 64, at: now) { makeEnd("it floods its output") } }

    func readErrors() {
        guard let child, !errorIsClosed else { return }
        withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { buffer in
            for _ in 0..<8 {
                let result = readSome(child.error, into: buffer)
                if result == .nothing { return }
                guard case .bytes(let count) = result else {
                    errorIsClosed = true
                    return
                }
                errorLog.take(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: now) { notify(.output, $0) }
            }
        }
    }
}

/// Turns a plugin's standard error into few, short, harmless lines.
struct ErrorLog {
    /// Most **bytes** of a reported line.
    private static let longest = 1_000
    private var allowance: Allowance
    private var line: [UInt8] = []
    private var isCut = false
    private var dropped = 0

    init(_ allowance: Allowance) { self.allowance = allowance }

    mutating func mayNotify(at now: Duration) -> Bool { allowance.use(1, at: now) }

    mutating func take(_ bytes: UnsafeRawBufferPointer, at now: Duration, _ notify: (String) -> Void) {
        for piece in bytes.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
            if piece.offset > 0 { end(at: now, notify) }
            let room = Self.longest - line.count
            line.append(contentsOf: piece.element.prefix(room))
            if piece.element.count > room { isCut = true }
        }
    }

    /// Handles the end of the process: reports its last line, which may be unterminated, and the number of dropped
    /// lines.
    mutating func finish(at now: Duration, _ notify: (String) -> Void) {
        end(at: now, notify)
        notifyDropped(notify)
    }

    private mutating func end(at now: Duration, _ notify: (String) -> Void) {
        defer {
            line.removeAll(keepingCapacity: true)
            isCut = false
        }
        guard !line.isEmpty else { return }
        guard mayNotify(at: now) else {
            dropped += 1
            return
        }
        notifyDropped(notify)
        notify(escaped(String(decoding: line, as: UTF8.self)) + (isCut ? " …" : ""))
    }

    private mutating func notifyDropped(_ notify: (String) -> Void) {
        if dropped > 0 { notify("(\(dropped) lines left out)") }
        dropped = 0
    }
}
