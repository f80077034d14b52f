import SyncModel
import SyncPlugins
import SyncSystem

/// Moves bodies from pipes to sinks, and schedules the transfers. Confined to one thread.
final class TransferPump {
    enum Command: Sendable {
        case start(TransferRequest, any TransferSink, TransferCompletion)
        case resume(TransferID)
        case cancel(TransferID)
        case reportFault(String)
        case stop
        /// A notification of the plugin about an attempt.
        case notified(TransferID, attempt: Int, String, JSONValue)
        case answered(TransferID, attempt: Int, Result<RPCAnswer, PluginError>)
        /// Number of transfers that the plugin handles at a time.
        case concurrency(Int)
    }

    let client: PluginClient
    let inbox: Inbox<Command>
    let totals: Monitor<TransferTotals>
    let retries: PluginTransport.Retries
    let events: @Sendable (TransferEvent) -> Void
    private let start = SuspendingClock().now

    /// All transfers that have not ended.
    var transfers: [TransferID: PluginTransfer] = [:]
    /// Transfers without an attempt, in the order of their starts.
    var queue: [TransferID] = []
    /// Transfers cancelled before their start. A cancel after the end looks the same, so only the latest are kept.
    private(set) var cancelledEarly: [TransferID] = []
    static let mostCancelledEarly = 1_024
    var running = 0
    private var concurrency = 8
    /// URLs whose bytes were wrong, and the original URL of each final URL.
    private var faulty: Set<String> = []
    private var origins: [String: String] = [:]
    private var attempts = 0
    /// Attempts whose pipe the plugin may be about to open: if it were closed now, it would wait forever for a reader.
    private var abandoned: [(attempt: TransferAttempt, due: Duration)] = []
    private var isStopping = false
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 64)

    init(
        _ client: PluginClient, _ inbox: Inbox<Command>, _ totals: Monitor<TransferTotals>,
        _ retries: PluginTransport.Retries, _ events: @escaping @Sendable (TransferEvent) -> Void
    ) {
        (self.client, self.inbox, self.totals, self.retries, self.events) = (client, inbox, totals, retries, events)
    }

    deinit { buffer.deallocate() }

    var now: Duration { SuspendingClock().now - start }
    var patience: Duration { client.configuration.limits.request }

    func run() {
        client.start(
            PluginRequest(method: PluginClient.describeMethod, parameters: JSONLine.object { _ in }) { [inbox] answer in
                guard case .success(.success(let value)) = answer,
                    let plugin = try? PluginDescription(value, for: .transport)
                else { return }
                inbox.post(.concurrency(plugin.concurrency))
            })
        while !isStopping {
            for command in inbox.takeAll() { take(command) }
            expire()
            launch()
            if !isStopping { wait() }
        }
        queue = []
        for transfer in transfers.values { finish(transfer, .cancelled, "the transport was shut down") }
    }

    // MARK: Commands

    private func take(_ command: Command) {
        switch command {
        case .start(let request, let sink, let completion):
            let transfer = PluginTransfer(request, sink, completion)
            if let early = cancelledEarly.firstIndex(of: request.id) {
                cancelledEarly.remove(at: early)
                finish(transfer, .cancelled, "cancelled before it began")
            } else {
                transfers[request.id] = transfer
                queue.append(request.id)
            }
        case .resume(let id):
            guard let transfer = transfers[id], let attempt = transfer.attempt, attempt.isPaused else { return }
            attempt.isPaused = false
            attempt.lastSign = now
            attempt.lastByte = now
            offerHeld(transfer, attempt)
        case .cancel(let id):
            if let transfer = transfers[id] {
                finish(transfer, .cancelled, "cancelled")
            } else {
                cancelledEarly = cancelledEarly.suffix(Self.mostCancelledEarly - 1) + [id]
            }
        case .reportFault(let url): faulty.insert(origins[url] ?? url)
        case .stop: isStopping = true
        case .concurrency(let number): concurrency = number
        case .notified(let id, let number, let method, let value):
            guard let (transfer, attempt) = current(id, number) else { return }
            attempt.lastSign = now
            if method == "transport.head" { begin(transfer, attempt, value) }
        case .answered(let id, let number, let answer):
            guard let (transfer, attempt) = current(id, number) else { return }
            attempt.answer = answer
            endIfComplete(transfer, attempt)
        }
    }

    /// The attempt that a message belongs to, unless it has ended.
    private func current(_ id: TransferID, _ number: Int) -> (PluginTransfer, TransferAttempt)? {
        guard let transfer = transfers[id], let attempt = transfer.attempt, attempt.number == number else { return nil }
        return (transfer, attempt)
    }

    // MARK: Launching

    private func launch() {
        let now = now
        while running < concurrency {
            var best: Int?
            for (index, id) in queue.enumerated() {
                guard let transfer = transfers[id], transfer.notBefore <= now else { continue }
                if let best, let other = transfers[queue[best]], other.request.priority >= transfer.request.priority {
                    continue
                }
                best = index
            }
            guard let best, let transfer = transfers[queue.remove(at: best)] else { return }
            fetch(transfer)
        }
    }

    private func fetch(_ transfer: PluginTransfer) {
        guard let source = transfer.nextSource(isBlamed: { faulty.contains($0) }) else {
            finish(transfer, .misuse, "it has no URL")
            return
        }
        let url = transfer.request.urls[source]
        if source != transfer.lastSource ?? 0 {
            let before = transfer.request.urls[transfer.lastSource ?? 0]
            events(.moved(transfer.request.id, Hop(.mirror, from: redacted(url: before), to: redacted(url: url))))
        }
        transfer.lastSource = source
        transfer.isOtherSize = false
        attempts += 1
        // The plugin may have to start first.
        let begins = now + client.configuration.limits.start
        let attempt: TransferAttempt
        do throws(PluginError) {
            attempt = try TransferAttempt(number: attempts, source: source, for: client, at: begins)
        } catch {
            // The system may temporarily lack descriptors.
            return again(transfer, source, .unreachable, error.description)
        }
        transfer.attempt = attempt
        running += 1
        let id = transfer.request.id
        attempt.id = client.start(
            PluginRequest(
                method: "transport.fetch", parameters: parameters(transfer, url, attempt.path),
                notified: { [inbox, number = attempts] method, value in
                    inbox.post(.notified(id, attempt: number, method, value))
                }, completion: { [inbox, number = attempts] in inbox.post(.answered(id, attempt: number, $0)) }))
    }

    private func parameters(_ transfer: PluginTransfer, _ url: String, _ path: String) -> JSONLine {
        let request = transfer.request
        return JSONLine.object { line in
            line.field("url", url)
            if transfer.isPart {
                line.array("range") { line in
                    line.value(transfer.start)
                    if let end = request.range?.upperBound { line.value(end) }
                }
                line.field("if_range", optional: Self.strong(transfer.validator ?? request.validator))
            } else if let known = request.knownValidator, !known.isEmpty {
                line.object("known") { line in
                    line.field("etag", optional: known.etag)
                    line.field("last_modified", optional: known.lastModified)
                }
            }
            line.field("object_size", optional: request.objectSize)
            line.field("limit", request.limit)
            if request.reload { line.field("reload", true) }
            line.field("into", path)
        }
    }

    /// The value for `If-Range`: RFC 9110, section 13.1.5.
    private static func strong(_ validator: Validator?) -> String? {
        if let etag = validator?.etag { return etag.hasPrefix("W/") ? nil : etag }
        return validator?.lastModified
    }

    // MARK: Waiting

    private func wait() {
        var entries = [PollEntry(inbox.pipe.reader)]
        var readers: [PluginTransfer] = []
        for transfer in transfers.values {
            guard let attempt = transfer.attempt, attempt.head != nil, !attempt.isPaused, !attempt.isBodyOver else {
                continue
            }
            readers.append(transfer)
            entries.append(PollEntry(attempt.reader))
        }
        for (attempt, _) in abandoned { entries.append(PollEntry(attempt.reader)) }
        guard waitForAny(of: &entries, atMost: timeToWait) else { return }
        if entries[0].isReady { inbox.pipe.drain() }
        for (index, transfer) in readers.enumerated() where entries[index + 1].isReady {
            if let attempt = transfer.attempt { pump(transfer, attempt) }
        }
        let opened = entries[(readers.count + 1)...].map(\.isReady)
        var index = 0
        abandoned.removeAll { _ in
            defer { index += 1 }
            return index < opened.count && opened[index]
        }
    }

    private var timeToWait: Int32 {
        var due: [Duration] = []
        for transfer in transfers.values {
            if let attempt = transfer.attempt {
                if !attempt.isPaused { due.append(self.due(attempt)) }
            } else if running < concurrency {
                due.append(transfer.notBefore)
            }
        }
        due += abandoned.map(\.due)
        if inbox.pipe.reader < 0 { due.append(now + WakePipe.tick) }
        guard let first = due.min() else { return -1 }
        return (first - now).pollMilliseconds
    }

    /// When an attempt times out: messages of the plugin count only as long as bytes arrive now and then.
    private func due(_ attempt: TransferAttempt) -> Duration {
        let most = client.configuration.limits.progressFactor - 1
        return min(attempt.lastSign, attempt.lastByte + patience * most) + patience
    }

    private func expire() {
        let now = now
        for transfer in transfers.values {
            guard let attempt = transfer.attempt, !attempt.isPaused, due(attempt) <= now else { continue }
            if attempt.isBodyOver, attempt.head != nil, attempt.end != nil {
                // Every byte has arrived; only the plugin's answer is missing.
                succeed(transfer, attempt, .null)
            } else {
                let time = Figures.period(patience.milliseconds)
                fail(transfer, attempt, .timedOut, "no byte within \(time)", requests: 1)
            }
        }
        abandoned.removeAll { $0.due <= now }
    }

    // MARK: Ends

    /// Ends an attempt; its pipe is closed once that is safe.
    func leave(_ transfer: PluginTransfer, _ attempt: TransferAttempt) {
        transfer.attempt = nil
        running -= 1
        attempt.removeName()
        if attempt.answer == nil, let id = attempt.id { client.cancel(id) }
        let isOpenedByPlugin = attempt.received > 0 || attempt.answer != nil
        if isOpenedByPlugin { attempt.closePipe() } else { abandoned.append((attempt, now + patience)) }
    }

    /// Ends a transfer without success.
    func finish(_ transfer: PluginTransfer, _ code: TransferError.Code, _ detail: String) {
        if let attempt = transfer.attempt {
            if attempt.head != nil { count(transfer, 1) }
            leave(transfer, attempt)
        }
        transfers[transfer.request.id] = nil
        queue.removeAll { $0 == transfer.request.id }
        let url = transfer.request.urls.isEmpty ? "" : transfer.request.urls[transfer.lastSource ?? 0]
        var error = TransferError(code: code, url: url, detail: detail, requests: transfer.requests)
        error.isOtherSize = transfer.isOtherSize
        transfer.completion(.failure(error))
    }

    /// Records the final URL of a URL, so that blame for it reaches the original.
    func remember(_ place: String, of url: String) {
        guard place != url else { return }
        if origins.count > 10_000 { origins.removeAll() }
        origins[place] = url
    }
}
