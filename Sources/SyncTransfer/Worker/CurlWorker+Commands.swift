import CCurl
import SyncCurl
import SyncPlugins

extension CurlWorker {
    func handle(_ command: Command) {
        switch command {
        case .start(let request, let sink, let completion): start(request, sink: sink, completion: completion)
        case .resume(let id): resume(id)
        case .cancel(let id): cancel(id)
        case .blame(let url, _): blame(url)
        case .resolved(let number, let answers, let failures): resolved(number, answers, failures)
        case .provided(let origin, let number, let answer): provided(origin, number, answer)
        case .describe(let limit, let tell): tell(describe(limit: limit))
        case .setWaiting(let deadline, let patience):
            (configuration.resourceDeadline, configuration.patience) = (deadline, patience)
        case .setRateLimit(let rate):
            throttle.setRate(rate, now: now)
            if rate == nil { releaseThrottled() }
        }
    }

    private func start(
        _ request: TransferRequest,
        sink: any TransferSink,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    ) {
        func refuse(_ code: TransferError.Code, _ detail: String) {
            completion(
                .failure(TransferError(code: code, url: request.urls.first ?? "", detail: detail))
            )
        }
        guard transfers[request.id] == nil else {
            return refuse(.misuse, "transfer \(request.id) exists already")
        }
        guard !cancelledEarly.remove(request.id) else {
            return refuse(.cancelled, "cancelled before its start")
        }

        var sources: [Source] = []
        for text in request.urls {
            do {
                sources.append(Source(url: try CurlURL(text)))
            } catch {
                return refuse(.misuse, error.description)
            }
        }
        guard !sources.isEmpty else { return refuse(.misuse, "a transfer without a URL") }

        let transfer = Transfer(
            request: request,
            deadline: now + configuration.resourceDeadline,
            completion: completion
        )
        transfer.sources = sources
        transfer.lastURL = sources[0].url.text
        let piece = Piece(
            transfer: transfer,
            sink: sink,
            start: request.range?.lowerBound ?? 0,
            end: request.range?.upperBound ?? request.objectSize
        )
        transfer.pieces = [piece]
        transfer.openPieces = 1
        transfers[request.id] = transfer
        if request.range != nil { wholeObjects.add(piece) }
        timers.insert(Timer(at: transfer.deadline, action: .deadline(request.id)))
        if let range = request.range, range.isEmpty {
            end(piece)  // Nothing is wanted, so nothing is asked.
        } else {
            enqueue(piece)
        }
    }

    private func resume(_ id: TransferID) {
        guard let transfer = transfers[id] else { return }
        for piece in transfer.pieces {
            guard case .running(let exchange) = piece.state, exchange.isPaused else { continue }
            exchange.isPaused = false
            unpause(exchange)
        }
    }

    private func cancel(_ id: TransferID) {
        guard let transfer = transfers[id] else {
            cancelledEarly.insert(id)
            return
        }
        let last = lastFault(of: transfer)?.detail
        abandon(transfer, code: .cancelled, detail: last ?? "cancelled before there was an answer")
    }

    /// A source lied: others are asked first for a while.
    private func blame(_ url: String) {
        guard let parsed = try? CurlURL(url) else { return }  // A URL that was never asked: nobody to blame.
        standings.setBack(parsed.text, until: now + configuration.setBack, now: now)
        standings[parsed.origin].addFailure(weight: 4)
        // Wherever it has led: the next request finds out anew.
        memory.forget(parsed)
        if let rewritten = rules.apply(to: parsed)?.url { memory.forget(rewritten) }
    }

    /// The time of a transfer is up.
    func passDeadline(of transfer: Transfer) {
        let fault = lastFault(of: transfer)
        abandon(
            transfer,
            code: fault.map(\.code) ?? .timedOut,
            detail: "not done within \(configuration.resourceDeadline); last: \(fault?.detail ?? "under way")"
        )
    }

    func endEverything() {
        for transfer in Array(transfers.values) {
            abandon(transfer, code: .cancelled, detail: "the transport has ended")
        }
        hosts = [:]
    }

    /// libcurl's multi handle itself is broken: nothing can go on.
    func failAll(_ detail: String) {
        for transfer in Array(transfers.values) { abandon(transfer, code: .misuse, detail: detail) }
    }
}

/// Transfers cancelled before they were started. A cancel that comes after the end looks the same, so only the
/// latest are remembered.
struct EarlyCancels {
    private var ids: Set<TransferID> = []
    private var order: [TransferID] = []
    private var oldest = 0
    private let capacity = 4096

    mutating func insert(_ id: TransferID) {
        guard ids.insert(id).inserted else { return }
        if order.count < capacity {
            order.append(id)
        } else {
            ids.remove(order[oldest])
            order[oldest] = id
            oldest = (oldest + 1) % capacity
        }
    }

    mutating func remove(_ id: TransferID) -> Bool { ids.remove(id) != nil }
}
