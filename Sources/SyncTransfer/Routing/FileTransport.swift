import CPosix
import Dispatch
import Glibc
import SyncModel
package import SyncPlugins
import SyncSystem

/// Reads `file:` URLs: packs beside a local manifest. Sends no requests.
package final class FileTransport: Transport {
    private struct Waiting: Sendable {
        var request: TransferRequest
        var sink: any TransferSink
        var completion: @Sendable (Result<TransferReport, TransferError>) -> Void
    }

    private struct State: Sendable {
        var cancelled: Set<TransferID> = []
        var paused: [TransferID: Bool] = [:]
        var bytesReceived: UInt64 = 0
    }

    private let state = Mutex(State())
    private let queue = ThreadLane()

    /// **Bytes** read at a time.
    private static let step = 256 << 10

    /// Reads on a thread of its own.
    package init() {}

    package func start(
        _ request: TransferRequest,
        sink: any TransferSink,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    ) {
        guard !queue.add({ [self] in completion(read(request, into: sink)) }) else { return }
        let url = request.urls.first ?? ""
        completion(
            .failure(TransferError(code: .unreachable, url: url, detail: "the system has no more threads"))
        )
    }

    package func resume(_ id: TransferID) { state.withLock { $0.paused[id] = false } }

    package func cancel(_ id: TransferID) { state.withLock { _ = $0.cancelled.insert(id) } }

    package func blame(url: String, reason: String) {}

    package var totals: TransferTotals {
        var totals = TransferTotals()
        totals.bytesReceived = state.withLock(\.bytesReceived)
        return totals
    }

    package func shutdown() { queue.drain() }

    private func read(
        _ request: TransferRequest,
        into sink: any TransferSink
    ) -> Result<TransferReport, TransferError> {
        let url = request.urls.first ?? ""
        func failed(_ code: TransferError.Code, _ detail: String) -> Result<TransferReport, TransferError> {
            .failure(TransferError(code: code, url: url, detail: detail))
        }
        guard let name = path(ofFileURL: url) else { return failed(.misuse, "not the URL of a file") }
        // It may be a FIFO without a writer, or a device.
        let raw = (name.map(CChar.init(bitPattern:)) + [0]).withUnsafeBufferPointer {
            sa_openat(AT_FDCWD, $0.baseAddress, O_RDONLY | O_NONBLOCK, 0)
        }
        guard raw >= 0 else { return failed(.badStatus(404), errnoText) }
        defer { close(raw) }
        var status = stat()
        guard fstat(raw, &status) == 0, let size = UInt64(exactly: status.st_size) else {
            return failed(.badAnswer, errnoText)
        }
        guard status.st_mode & S_IFMT == S_IFREG else { return failed(.badAnswer, "not a regular file") }
        if let expected = request.objectSize, expected != size {
            return failed(.badAnswer, "has \(size) bytes, the manifest says \(expected)")
        }
        let head = ResponseHead(status: 200, objectSize: size)
        let end = min(request.range?.upperBound ?? size, size)
        let begin = sink.begin(head)
        var offset = begin
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.step, alignment: 64)
        defer { buffer.deallocate() }
        while offset < end {
            if isCancelled(request.id) { return failed(.cancelled, "cancelled") }
            let wanted = Int(min(UInt64(buffer.count), end - offset))
            guard let position = off_t(exactly: offset) else { return failed(.badAnswer, "too large") }
            let count = pread(raw, buffer.baseAddress, wanted, position)
            guard count > 0 else { return failed(.badAnswer, "ends at byte \(offset)") }
            let taken = offset - begin
            guard taken < request.limit else {
                return failed(.tooLarge, "has more than \(request.limit) bytes")
            }
            let room = Int(clamping: request.limit - taken)
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<min(count, room)])
            switch deliver(bytes, at: offset, of: request.id, to: sink) {
            case .taken: break
            case .stop: return failed(.stoppedBySink, "stopped")
            case .paused: return failed(.cancelled, "cancelled")
            }
            offset += UInt64(bytes.count)
            state.withLock { $0.bytesReceived += UInt64(bytes.count) }
        }
        let bytes = end &- (request.range?.lowerBound ?? 0)
        return .success(
            TransferReport(response: head, sourceIndex: 0, currentURL: url, requests: 0, bytesReceived: bytes)
        )
    }

    /// Offers bytes until they are taken; `.paused` only if cancelled meanwhile.
    private func deliver(
        _ bytes: UnsafeRawBufferPointer,
        at offset: UInt64,
        of id: TransferID,
        to sink: any TransferSink
    ) -> SinkOutcome {
        while true {
            state.withLock { $0.paused[id] = true }
            let outcome = sink.receive(bytes, at: offset)
            guard case .paused = outcome else { return outcome }
            while state.withLock({ $0.paused[id] ?? false }) {
                if isCancelled(id) { return .paused }
                usleep(500)  // Local and rare: the workers are behind, not the disk.
            }
        }
    }

    private func isCancelled(_ id: TransferID) -> Bool { state.withLock { $0.cancelled.contains(id) } }
}

/// Runs work one after another on its own thread, which exists only while there is work.
private final class ThreadLane: Sendable {
    private struct State: Sendable {
        var waiting: [@Sendable () -> Void] = []
        var isRunning = false
    }

    private let state = Mutex(State())
    /// Entered while there is a thread.
    private let running = DispatchGroup()

    /// - Returns: Whether `work` will run: it cannot if no thread can be created, F095.
    func add(_ work: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            state.waiting.append(work)
            if state.isRunning { return true }
            running.enter()
            state.isRunning = (try? WorkerThread(name: "local") { [self] in run() }) != nil
            if !state.isRunning {
                state.waiting.removeAll()
                running.leave()
            }
            return state.isRunning
        }
    }

    /// Waits until everything added has run.
    func drain() { running.wait() }

    private func run() {
        while let work = next() { work() }
        running.leave()
    }

    private func next() -> (@Sendable () -> Void)? {
        state.withLock { state in
            state.isRunning = !state.waiting.isEmpty
            return state.waiting.isEmpty ? nil : state.waiting.removeFirst()
        }
    }
}
