package import SyncModel
package import SyncPlugins
import SyncSystem

/// Reads `file:` URLs: packs beside a local manifest. Sends no requests.
///
/// Its thread exists only while there is something to read.
package final class FileTransport: Transport {
    private typealias Job = (request: TransferRequest, sink: CountingSink, completion: TransferCompletion)

    private struct State: Sendable {
        /// The transfers that have come since ``next`` was filled.
        var waiting: [Job] = []
        /// The next transfers, in reverse.
        var next: [Job] = []
        /// The transfer that is being read.
        var current: Job?
        /// Transfers that have not ended, and what was requested for each.
        var open: [TransferID: (isCancelled: Bool, isPaused: Bool)] = [:]
        var cancelledEarly = EarlyCancels()
        var isShutDown = false
        /// `nil` while there is nothing to read.
        var thread: WorkerThread?
        var bytesReceived: UInt64 = 0

        func hasEnded(_ id: TransferID) -> Bool { isShutDown || open[id]?.isCancelled != false }
    }

    private let state = Monitor(State())

    /// **Bytes** read at a time.
    private static let step: UInt64 = 256 << 10

    package init() {}

    package func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion) {
        let refusal = state.withLock { state -> TransferError? in
            if state.isShutDown { return .ended(request) }
            if state.open[request.id] != nil { return .duplicate(request) }
            if state.cancelledEarly.take(request.id) { return .cancelledEarly(request) }
            do throws(ThreadError) {
                if state.thread == nil { state.thread = try WorkerThread(name: "local") { [self] in run() } }
            } catch { return TransferError(.unreachable, "\(error)", of: request) }
            state.open[request.id] = (false, false)
            let sink = CountingSink(sink, of: request)
            state.waiting.append((request, sink, completion))
            return nil
        }
        if let refusal { completion(.failure(refusal)) }
    }

    package func resume(_ id: TransferID) { state.change { $0.open[id]?.isPaused = false } }

    package func cancel(_ id: TransferID) {
        state.change { state in
            if state.open[id] == nil { state.cancelledEarly.insert(id) }
            state.open[id]?.isCancelled = true
        }
    }

    package func reportFault(url: String, reason: String) {}

    package var totals: TransferTotals {
        var totals = TransferTotals()
        totals.bytesReceived = state.withLock(\.bytesReceived)
        return totals
    }

    package func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)? {
        let (current, waiting, count) = state.withLock { state in
            let waiting = Array(state.next.suffix(limit).reversed()) + state.waiting.prefix(limit)
            return (state.current, waiting, state.next.count + state.waiting.count)
        }
        let told =
            [current?.sink.status(.receiving, at: now)].compactMap(\.self)
            + waiting.map { $0.sink.status(.queued, at: now) }
        let all = count + (current == nil ? 0 : 1)
        return (Array(told.prefix(limit)), all - min(limit, all))
    }

    /// As ``CurlTransport/shutdown()``.
    package func shutdown() {
        let thread = state.change { state in
            state.isShutDown = true
            return state.thread
        }
        if let thread, !thread.isCurrent { thread.join() }
    }

    // MARK: - On its thread

    private func run() {
        while let job = takeNext() {
            let result = read(job.request, into: job.sink)
            state.withLock { state in
                state.open[job.request.id] = nil
                state.current = nil
            }
            job.completion(result)
        }
    }

    private func takeNext() -> Job? {
        state.withLock { state in
            if state.next.isEmpty { (state.next, state.waiting) = (state.waiting.reversed(), []) }
            let job = state.next.popLast()
            if job == nil { state.thread = nil }
            state.current = job
            return job
        }
    }

    /// Reads the first file that can be delivered.
    private func read(_ request: TransferRequest, into sink: any TransferSink) -> Result<TransferReport, TransferError>
    {
        var failure: TransferError?
        for place in request.urls.indices {
            do throws(TransferError) { return .success(try read(request, place, into: sink)) } catch {
                // An unreadable file is worth reporting more than a missing one.
                if failure == nil || error.code != .badStatus(404) { failure = error }
                if error.code == .cancelled || error.code == .stoppedBySink { break }
            }
        }
        return .failure(failure ?? TransferError(.misuse, "a transfer without a URL", of: request))
    }

    private func read(_ request: TransferRequest, _ place: Int, into sink: any TransferSink) throws(TransferError)
        -> TransferReport
    {
        let url = request.urls[place]
        func error(_ code: TransferError.Code, _ detail: String, cause: FailureCause? = nil) -> TransferError {
            var error = TransferError(code: code, url: url, detail: detail)
            if let cause { error.cause = cause }
            return error
        }
        if state.withLock({ $0.hasEnded(request.id) }) { throw error(.cancelled, "cancelled") }
        guard let name = path(ofFileURL: url) else { throw error(.misuse, "not the URL of a file") }
        // The path may name a FIFO without a writer, or a device.
        guard let file = Descriptor(opening: name.map(CChar.init(bitPattern:)) + [0], .nonBlocking) else {
            let code = Errno.last
            switch code {
            // No server caused this, and credentials do not help.
            case .permissionDenied, .notPermitted:
                throw error(.badStatus(403), "it cannot be read: \(code)", cause: .other)
            case .noSuchFileOrDirectory, .notDirectory, .tooManySymbolicLinkLevels, .fileNameTooLong:
                throw error(.badStatus(404), "\(code)")
            case .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory:
                throw error(.unreachable, "it cannot be opened: \(code)")
            default: throw error(.misuse, "it cannot be opened: \(code)")
            }
        }
        guard let status = status(file.raw) else { throw error(.badAnswer, errnoText) }
        guard status.kind == .file else { throw error(.badAnswer, "not a regular file") }
        if let expected = request.objectSize, expected != status.size {
            var other = error(.badAnswer, "has \(status.size) bytes, but the manifest says \(expected)")
            other.isOtherSize = true
            throw other
        }
        var range = request.range ?? 0..<status.size
        // The size is known here, and a part costs no less than the whole.
        if request.isFirstRange { range = range.lowerBound..<max(range.lowerBound, status.size) }
        guard range.isEmpty || range.upperBound <= status.size else {
            throw error(.badAnswer, "has \(status.size) bytes, but \(range.upperBound) are needed")
        }
        guard range.upperBound - range.lowerBound <= request.limit else {
            throw error(.tooLarge, "more than the \(request.limit) bytes allowed")
        }
        let head = ResponseHead(status: 200, objectSize: status.size, source: url)
        let begin = min(max(sink.begin(head), range.lowerBound), range.upperBound)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(Self.step), alignment: 64)
        defer { buffer.deallocate() }
        var offset = begin
        while offset < range.upperBound {
            let part = UnsafeMutableRawBufferPointer(
                rebasing: buffer[..<Int(min(Self.step, range.upperBound - offset))])
            let count = readFully(file.raw, into: part, at: offset)
            guard count >= 0 else { throw error(.badAnswer, "cannot be read: \(errnoText)") }
            guard count == part.count else { throw error(.badAnswer, "has become shorter") }
            switch deliver(UnsafeRawBufferPointer(part), at: offset, of: request.id, to: sink) {
            case .taken: offset += UInt64(count)
            case .stop: throw error(.stoppedBySink, "stopped")
            case .paused: throw error(.cancelled, "cancelled")
            }
            state.withLock { $0.bytesReceived &+= UInt64(count) }
        }
        return TransferReport(
            response: head, sourceIndex: place, currentURL: url, requests: 0, bytesReceived: offset - begin)
    }

    /// Offers bytes until the sink takes them; `.paused` only if the transfer has been cancelled.
    private func deliver(
        _ bytes: UnsafeRawBufferPointer, at offset: UInt64, of id: TransferID, to sink: any TransferSink
    ) -> SinkOutcome {
        while true {
            let hasEnded = state.withLock { state in
                state.open[id]?.isPaused = true
                return state.hasEnded(id)
            }
            if hasEnded { return .paused }
            let outcome = sink.receive(bytes, at: offset)
            guard case .paused = outcome else { return outcome }
            state.wait { $0.hasEnded(id) || $0.open[id]?.isPaused == false ? true : nil }
        }
    }
}
