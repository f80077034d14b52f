import SyncModel
import SyncPlugins
import SyncSystem

extension TransferPump {
    // MARK: Head

    func begin(_ transfer: PluginTransfer, _ attempt: TransferAttempt, _ value: JSONValue) {
        guard attempt.head == nil else { return }
        let request = transfer.request
        let isPart = transfer.isPart
        func refuse(_ detail: String) { fail(transfer, attempt, .badAnswer, detail, requests: 1) }

        guard var head = ResponseHead(value) else { return refuse("the plugin's transport.head is malformed") }
        if head.status == 304, isPart || request.knownValidator?.isEmpty ?? true {
            return refuse("304 in reply to an unconditional request")
        }
        if head.status == 206, !isPart { return refuse("206 for a request for the whole object") }
        if let told = head.objectSize, let expected = request.objectSize, told != expected {
            transfer.isOtherSize = true
            return refuse("the object has \(told) bytes, expected \(expected)")
        }
        if head.bodyOffset > transfer.start { return refuse("a part that begins too late, at byte \(head.bodyOffset)") }
        if head.status == 206, let before = transfer.validator?.etag, let tag = head.validator.etag, before != tag {
            return refuse("a part of another version of the object")
        }
        attempt.head = head
        attempt.lastByte = now
        if head.status != 304 { transfer.validator = head.validator.isEmpty ? nil : head.validator }
        head.source = transfer.request.urls[attempt.source]
        let wanted = transfer.sink.begin(head)
        transfer.wanted = wanted
        attempt.position = head.bodyOffset
        attempt.end = head.status == 304 ? 0 : request.range?.upperBound ?? head.objectSize ?? request.objectSize
        if let size = head.objectSize, let end = attempt.end { attempt.end = min(end, size) }
        guard wanted >= head.bodyOffset || head.status == 304 else {
            // The sink has dropped what it had.
            return fail(transfer, attempt, .unreachable, "restarted from an earlier byte", requests: 1)
        }
        if let end = attempt.end, wanted >= end { attempt.isBodyOver = true }
    }

    // MARK: Body

    /// Moves bytes from the pipe to the sink, at most a few pieces, so that other transfers get their turn.
    func pump(_ transfer: PluginTransfer, _ attempt: TransferAttempt) {
        var pieces = 0
        while pieces < 16, takePiece(transfer, attempt) { pieces += 1 }
        if transfer.attempt === attempt, attempt.isBodyOver { endIfComplete(transfer, attempt) }
    }

    /// Reads a piece from the pipe; `false` if there is none now, or none is wanted.
    private func takePiece(_ transfer: PluginTransfer, _ attempt: TransferAttempt) -> Bool {
        guard transfer.attempt === attempt, !attempt.isPaused, !attempt.isBodyOver else { return false }
        switch readSome(attempt.reader, into: buffer) {
        case .nothing: return false
        case .ended, .failed:
            // Its writer has closed it: poll(2) does not wake for a pipe that was never opened.
            attempt.isBodyOver = true
        case .bytes(let count):
            attempt.lastSign = now
            attempt.lastByte = now
            attempt.received += UInt64(count)
            transfer.received += UInt64(count)
            totals.withLock { $0.bytesReceived += UInt64(count) }
            deliver(transfer, attempt, UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
        return true
    }

    /// Passes bytes at ``TransferAttempt/position`` to the sink, without those it has and those beyond the end or
    /// limit.
    private func deliver(_ transfer: PluginTransfer, _ attempt: TransferAttempt, _ piece: UnsafeRawBufferPointer) {
        var bytes = piece
        var isLast = false
        if let end = attempt.end {
            let room = end > attempt.position ? end - attempt.position : 0
            if UInt64(bytes.count) >= room {
                isLast = true
                bytes = UnsafeRawBufferPointer(rebasing: bytes[..<Int(room)])
            }
        }
        let room = transfer.hardEnd - min(attempt.position, transfer.hardEnd)
        if UInt64(bytes.count) > room {
            bytes = UnsafeRawBufferPointer(rebasing: bytes[..<Int(room)])
            guard offer(transfer, attempt, bytes) else { return }
            finish(transfer, .tooLarge, "more than \(transfer.request.limit) bytes")
            return
        }
        if isLast { attempt.isBodyOver = true }
        _ = offer(transfer, attempt, bytes)
    }

    /// Offers bytes at the attempt's position; `false` if the transfer ended. Bytes that are not accepted are kept.
    private func offer(_ transfer: PluginTransfer, _ attempt: TransferAttempt, _ piece: UnsafeRawBufferPointer) -> Bool
    {
        var bytes = piece
        let wanted = transfer.wanted ?? attempt.position
        if wanted > attempt.position {
            let skipped = min(UInt64(bytes.count), wanted - attempt.position)
            attempt.position += skipped
            bytes = UnsafeRawBufferPointer(rebasing: bytes[Int(skipped)...])
        }
        guard !bytes.isEmpty else { return true }
        switch transfer.sink.receive(bytes, at: attempt.position) {
        case .taken:
            attempt.position += UInt64(bytes.count)
            transfer.wanted = attempt.position
            return true
        case .paused:
            attempt.held = Array(bytes)
            attempt.isPaused = true
            return true
        case .stop:
            finish(transfer, .stoppedBySink, "the receiver ended the transfer")
            return false
        }
    }

    func offerHeld(_ transfer: PluginTransfer, _ attempt: TransferAttempt) {
        let held = attempt.held
        attempt.held = []
        guard held.withUnsafeBytes({ offer(transfer, attempt, $0) }), !attempt.isPaused else { return }
        if attempt.answer != nil || attempt.isBodyOver { endIfComplete(transfer, attempt) }
    }

    // MARK: End

    /// Ends an attempt once its body and its answer are complete.
    func endIfComplete(_ transfer: PluginTransfer, _ attempt: TransferAttempt) {
        guard !attempt.isPaused else { return }
        if attempt.isBodyOver { attempt.closePipe() }
        guard let answer = attempt.answer else { return }
        // Reads what is still in the pipe after the answer.
        if attempt.head != nil { while takePiece(transfer, attempt) {} }
        guard transfer.attempt === attempt, !attempt.isPaused else { return }
        let isComplete = isComplete(transfer, attempt)
        switch answer {
        case .success(.success(let value)):
            if attempt.head == nil {
                fail(transfer, attempt, .badAnswer, "an answer without transport.head", requests: 1)
            } else if !attempt.isBodyOver {
                return  // A writer is still open.
            } else if attempt.end == nil || isComplete {
                succeed(transfer, attempt, value)
            } else {
                let requests = value.sentRequests ?? 1
                fail(transfer, attempt, .unreachable, "the body ends at byte \(attempt.position)", requests: requests)
            }
        case .success(.failure(let error)):
            if isComplete {
                succeed(transfer, attempt, error.data)
            } else {
                let requests = error.data.sentRequests ?? 1
                fail(transfer, attempt, TransferError.Code(error), error.text, requests: requests)
            }
        case .failure(let error):
            fail(transfer, attempt, error.code == .timedOut ? .timedOut : .unreachable, error.description, requests: 0)
        }
    }

    /// Whether the sink has everything, from this attempt or earlier ones.
    private func isComplete(_ transfer: PluginTransfer, _ attempt: TransferAttempt) -> Bool {
        guard attempt.head != nil, let end = attempt.end else { return false }
        return max(attempt.position, transfer.wanted ?? 0) >= end
    }

    func succeed(_ transfer: PluginTransfer, _ attempt: TransferAttempt, _ value: JSONValue) {
        guard let head = attempt.head else { return }
        count(transfer, value.sentRequests ?? 1)
        let url = transfer.request.urls[attempt.source]
        let place = value.finalURL ?? url
        remember(place, of: url)
        leave(transfer, attempt)
        transfers[transfer.request.id] = nil
        transfer.completion(
            .success(
                TransferReport(
                    response: head, sourceIndex: attempt.source, currentURL: place, requests: transfer.requests,
                    bytesReceived: transfer.received)))
    }

    /// Ends a failed attempt: the transfer is retried or fails.
    func fail(
        _ transfer: PluginTransfer, _ attempt: TransferAttempt, _ code: TransferError.Code, _ detail: String,
        requests: Int
    ) {
        count(transfer, requests)
        leave(transfer, attempt)
        again(transfer, attempt.source, code, detail)
    }

    /// Retries a transfer after a failure of one of its URLs, or fails it.
    func again(_ transfer: PluginTransfer, _ source: Int, _ code: TransferError.Code, _ detail: String) {
        transfer.failures += 1
        let isTransient = code.isTransient
        if isTransient {
            transfer.failuresOfSource[source, default: 0] += 1
        } else {
            transfer.deadSources.insert(source)
        }
        guard transfer.failures < retries.most, transfer.deadSources.count < transfer.request.urls.count else {
            finish(transfer, code, detail)
            return
        }
        // Another source is tried at once, the same one after a delay.
        let hasOther = transfer.request.urls.indices.contains {
            !transfer.deadSources.contains($0) && transfer.failuresOfSource[$0] == nil
        }
        var delay = Duration.zero
        if !hasOther {
            delay = retries.firstDelay
            for _ in 1..<max(1, min(transfer.failures, 30)) { delay = min(retries.longestDelay, delay * 2) }
        }
        transfer.notBefore = now + delay
        queue.append(transfer.request.id)
        events(
            .retrying(
                transfer.request.id, url: redacted(url: transfer.request.urls[source]), reason: detail,
                attempt: transfer.failures + 1, after: delay))
    }

    func count(_ transfer: PluginTransfer, _ requests: Int) {
        transfer.requests += requests
        totals.withLock { $0.requests += UInt64(requests) }
    }
}
