import SyncContent
import SyncModel
import SyncPlugins
import SyncSystem

/// A transport without a network: objects by URL, one transfer at a time, with faults on cue.
final class MemoryTransport: Transport {
    /// What a URL answers.
    enum Answer: Sendable {
        case bytes([UInt8])
        case fail(TransferError.Code)
        /// So many **bytes** of the wanted range, then the failure.
        case cut(after: Int, TransferError.Code)
        /// So many **bytes** of the wanted range, then nothing until the transfer is cancelled.
        case stall(after: Int)
    }

    /// One request as it was asked.
    struct Asked: Sendable, Equatable {
        var url: String
        var range: Range<UInt64>?
        var reload: Bool
    }

    private struct Job: Sendable {
        var request: TransferRequest
        var sink: any TransferSink
        var completion: @Sendable (Result<TransferReport, TransferError>) -> Void
    }

    private struct State: Sendable {
        var objects: [String: [UInt8]] = [:]
        var answers: [String: [Answer]] = [:]
        var queue: [Job] = []
        var asked: [Asked] = []
        var referrers: [String: TransferRequest.Referrer] = [:]
        var isPublic: Bool?
        var faulty: [String] = []
        var resumed: Set<TransferID> = []
        var cancelled: Set<TransferID> = []
        var totals = TransferTotals()
        var isShut = false
        var onBytes: (@Sendable (_ total: UInt64) -> Void)?
    }
    private let state = Monitor(State())
    private let thread: Monitor<WorkerThread?> = Monitor(nil)
    private static let piece = 16_384

    init() {
        // Without a thread nothing is answered, and every test says so.
        let started = try? WorkerThread(name: "memory") { [state] in Self.work(state) }
        thread.withLock { $0 = started }
    }

    deinit { state.change { $0.isShut = true } }

    // MARK: Script

    /// Serves bytes at a URL.
    func serve(_ bytes: [UInt8], at url: String) { state.withLock { $0.objects[url] = bytes } }

    /// What is served at a URL.
    func object(at url: String) -> [UInt8]? { state.withLock { $0.objects[url] } }

    /// Serves nothing at a URL any more.
    func remove(_ url: String) { state.withLock { $0.objects[url] = nil } }

    /// Answers the next requests to a URL in this order; after them the object is served.
    func script(_ url: String, _ answers: Answer...) { state.withLock { $0.answers[url] = answers } }

    /// Called on the transport's thread with all body **bytes** so far, after each piece.
    func onBytes(_ body: @escaping @Sendable (UInt64) -> Void) { state.withLock { $0.onBytes = body } }

    /// Every request so far.
    var asked: [Asked] { state.withLock(\.asked) }

    /// Who named a URL that was asked; `nil` for the user.
    func referrer(of url: String) -> TransferRequest.Referrer? { state.withLock { $0.referrers[url] } }

    /// Whether answers come from a public address; `nil` says nothing.
    func answer(fromPublic isPublic: Bool?) { state.withLock { $0.isPublic = isPublic } }

    /// URLs that were blamed.
    var faulty: [String] { state.withLock(\.faulty) }

    /// Forgets what was asked and blamed.
    func forget() {
        state.withLock {
            $0.asked = []
            $0.faulty = []
        }
    }

    // MARK: Transport

    func start(
        _ request: TransferRequest, sink: any TransferSink,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    ) { state.change { $0.queue.append(Job(request: request, sink: sink, completion: completion)) } }

    func resume(_ id: TransferID) { state.change { _ = $0.resumed.insert(id) } }

    func cancel(_ id: TransferID) { state.change { _ = $0.cancelled.insert(id) } }

    func reportFault(url: String, reason: String) { state.withLock { $0.faulty.append(url) } }

    var totals: TransferTotals { state.withLock(\.totals) }

    func shutdown() {
        state.change { $0.isShut = true }
        thread.withLock { $0 }?.join()
    }

    // MARK: Work

    private static func work(_ state: Monitor<State>) {
        while true {
            let job: Job?? = state.wait { state -> Job?? in
                if !state.queue.isEmpty { return .some(state.queue.removeFirst()) }
                return state.isShut ? .some(nil) : nil
            }
            guard let job, let job else { return }
            job.completion(run(job, state))
        }
    }

    private static func run(_ job: Job, _ state: Monitor<State>) -> Result<TransferReport, TransferError> {
        let faulty = state.withLock(\.faulty)
        let urls = job.request.urls
        // Blamed sources are asked last, as a transport has to.
        let order = urls.indices.sorted {
            (faulty.contains(urls[$0]) ? 1 : 0, $0) < (faulty.contains(urls[$1]) ? 1 : 0, $1)
        }
        var last = TransferError(code: .misuse, url: "", detail: "no URL")
        for index in order {
            switch ask(urls[index], index, job, state) {
            case .success(let report): return .success(report)
            case .failure(let error):
                last = error
                if error.code == .cancelled || error.code == .stoppedBySink { return .failure(error) }
            }
        }
        return .failure(last)
    }

    private static func ask(_ url: String, _ index: Int, _ job: Job, _ state: Monitor<State>) -> Result<
        TransferReport, TransferError
    > {
        let request = job.request
        func failed(_ code: TransferError.Code) -> Result<TransferReport, TransferError> {
            .failure(TransferError(code: code, url: url, detail: code.name, requests: 1))
        }
        if state.withLock({ $0.cancelled.contains(request.id) }) { return failed(.cancelled) }
        let (object, answer) = state.withLock { state -> ([UInt8]?, Answer?) in
            state.asked.append(Asked(url: url, range: request.range, reload: request.reload))
            state.referrers[url] = request.referrer
            state.totals.requests += 1
            let scripted = state.answers[url]?.isEmpty == false ? state.answers[url]?.removeFirst() : nil
            return (state.objects[url], scripted)
        }
        if case .fail(let code) = answer { return failed(code) }
        var bytes = object
        if case .bytes(let other) = answer { bytes = other }
        guard let bytes else { return failed(.badStatus(404)) }
        let etag = etag(bytes)
        var head = ResponseHead(
            status: 200, objectSize: UInt64(bytes.count), validator: Validator(etag: etag), source: url)
        if request.knownValidator?.etag == etag {
            head.status = 304
            return .success(report(head, index, url, 0, state))
        }
        var wanted = request.range ?? 0..<UInt64(bytes.count)
        if request.range != nil { head.status = 206 }
        head.bodyOffset = wanted.lowerBound
        let start = job.sink.begin(head)
        guard wanted.contains(start) || start == wanted.upperBound, wanted.upperBound <= UInt64(bytes.count) else {
            return failed(.badAnswer)
        }
        wanted = start..<wanted.upperBound
        var limit = wanted.length
        if case .cut(let after, _) = answer { limit = min(limit, UInt64(after)) }
        if case .stall(let after) = answer { limit = min(limit, UInt64(after)) }
        if let code = send(bytes, wanted.lowerBound..<(wanted.lowerBound + limit), job, state) { return failed(code) }
        if case .cut(_, let code) = answer { return failed(code) }
        if case .stall = answer {
            state.wait { $0.cancelled.contains(request.id) ? true : nil }
            return failed(.cancelled)
        }
        return .success(report(head, index, url, wanted.length, state))
    }

    /// Sends a range piece by piece; waits while the sink has paused.
    private static func send(_ bytes: [UInt8], _ range: Range<UInt64>, _ job: Job, _ state: Monitor<State>)
        -> TransferError.Code?
    {
        let id = job.request.id
        var offset = range.lowerBound
        while offset < range.upperBound {
            let end = min(offset + UInt64(piece), range.upperBound)
            state.withLock { _ = $0.resumed.remove(id) }
            switch bytes[Int(offset)..<Int(end)].withUnsafeBytes({ job.sink.receive($0, at: offset) }) {
            case .stop: return .stoppedBySink
            case .paused: state.wait { $0.resumed.contains(id) || $0.cancelled.contains(id) ? true : nil }
            case .taken:
                let (total, listener) = state.withLock { state in
                    state.totals.bytesReceived += end - offset
                    return (state.totals.bytesReceived, state.onBytes)
                }
                offset = end
                listener?(total)
            }
            if state.withLock({ $0.cancelled.contains(id) }) { return .cancelled }
        }
        return nil
    }

    private static func report(
        _ head: ResponseHead, _ index: Int, _ url: String, _ count: UInt64, _ state: Monitor<State>
    ) -> TransferReport {
        TransferReport(
            response: head, sourceIndex: index, currentURL: url, requests: 1, bytesReceived: count,
            isPublic: state.withLock(\.isPublic))
    }

    private static func etag(_ bytes: [UInt8]) -> String {
        let digest = try? bytes.withUnsafeBytes { try sha256($0) }
        return "\"\(digest?.hex.prefix(16) ?? "none")\""
    }
}

extension Range<UInt64> { fileprivate var length: UInt64 { upperBound - lowerBound } }
