import CCurl
import SyncModel
import SyncPlugins
import SyncSystem

/// The only thread that calls libcurl.
///
/// A turn of its loop: take commands, run due timers, start requests, let libcurl work, handle ended exchanges, sleep
/// in `curl_multi_poll(3)`. ``Dispatcher`` decides which request is next, and what follows from an answer.
final class CurlWorker {
    private let configuration: TransportConfiguration
    private let inbox: Inbox
    private let dispatcher: Dispatcher
    private var cancelledEarly = EarlyCancels()
    private var publishedHealth: SourceHealth
    private var sweepAt: Duration = .zero
    private var publishAt: Duration = .zero

    private var agenda: Agenda { dispatcher.agenda }
    private var now: Duration { dispatcher.agenda.now }
    private var pool: ExchangePool { dispatcher.pool }
    private var router: Router { dispatcher.router }

    init(
        _ multi: MultiHandle, _ configuration: TransportConfiguration, _ inbox: Inbox, _ counters: Counters
    ) {
        self.configuration = configuration
        self.inbox = inbox
        dispatcher = Dispatcher(multi, configuration, inbox, counters)
        publishedHealth = dispatcher.health
    }

    // MARK: - The loop

    /// Works until the inbox is closed, then ends every transfer.
    func run() {
        var (turned, asked) = (now, Duration.zero)
        while true {
            let (commands, isOpen) = inbox.takeAll()
            agenda.readClock()
            dispatcher.wasAway(for: now - turned - asked)
            turned = now
            for command in commands { handle(command) }
            guard isOpen else { break }

            while let entry = agenda.takeDue() { handle(entry) }
            agenda.tidy(transfers: dispatcher.transfers.count) { isLive($0, at: $1) }
            pool.fillThrottle(now: now)
            handle(dispatcher.resolving.ask())
            dispatcher.startWhatMayStart()
            let ended = letLibcurlWork()
            agenda.readClock()
            dispatcher.reap()
            sweep()
            if ended { dispatcher.startWhatMayStart() }
            let wait = ended || dispatcher.mayStartMore ? 0 : pollTimeout()
            asked = .milliseconds(Int64(wait))
            if pool.sleep(atMost: wait) { dispatcher.networkDidChange() }
        }
        dispatcher.abandonAll(.cancelled, "the transport has ended")
        dispatcher.dropHosts()
        publish()
        inbox.end()
    }

    /// - Returns: Whether an exchange ended.
    private func letLibcurlWork() -> Bool {
        let problem = pool.perform()
        dispatcher.enqueueScouted()
        var ended = false
        while let (exchange, result) = pool.takeEnded() {
            finish(exchange, result)
            ended = true
        }
        // libcurl's multi handle itself is broken, so nothing can go on.
        if let problem { dispatcher.abandonAll(.misuse, problem) }
        return ended
    }

    /// Takes an exchange out of libcurl. The dispatcher decides about its pieces.
    private func finish(_ exchange: Exchange, _ result: CURLcode) {
        guard pool.isRunning(exchange) else { return }
        let fault = Fault(of: exchange, result: result)
        exchange.measure(now: now)
        pool.release(exchange, now: now)
        exchange.account()
        dispatcher.endWholeObject(of: exchange)
        if exchange.isConnected { dispatcher.wasReached(exchange.host, byAnswer: exchange.isAccepted) }
        dispatcher.finish(exchange, fault: fault)
        dispatcher.list(exchange.host)
    }

    private func giveUp(_ exchange: Exchange, _ fault: Fault) {
        exchange.fault = exchange.fault ?? fault
        finish(exchange, CURLE_OPERATION_TIMEDOUT)
    }

    private var sweepInterval: Duration { min(.milliseconds(100), configuration.idleTimeout / 4) }

    /// The longest sleep in **milliseconds**; libcurl's own timers may shorten it.
    private func pollTimeout() -> Int32 {
        var wait = Duration.seconds(60)
        if let next = agenda.next { wait = min(wait, next - now) }
        if !pool.running.isEmpty { wait = min(wait, sweepAt - now) }
        if let rest = pool.throttleWait { wait = min(wait, rest) }
        return Int32(max(0, min(60_000, (wait / .milliseconds(1)).rounded(.up))))
    }

    /// Checks every running exchange several times a second for silence and speed.
    private func sweep() {
        guard now >= sweepAt else { return }
        sweepAt = now + sweepInterval
        for exchange in Array(pool.running.values) {
            let host = exchange.host
            exchange.measure(now: now)
            if exchange.isConnected { dispatcher.wasReached(host, byAnswer: exchange.isAccepted) }
            if exchange.isAccepted { router.learn(from: exchange) }
            if exchange.isAnswered { dispatcher.obeyRateLimit(of: host) }
            if exchange.hasRanges { host.givesRanges = true }
            if !host.hasDivisible { host.hasDivisible = dispatcher.splittable(exchange) != nil }
            if exchange.takeActivity(now: now) {
                if exchange.isAccepted { dispatcher.silence.delivered(host, now: now) }
            } else if exchange.isServed, now - exchange.activeAt >= sweepInterval {
                finish(exchange, CURLE_OK)
            } else if exchange.isConnected, now - exchange.activeAt >= configuration.idleTimeout {
                giveUp(exchange, Fault(.idle, "no byte for \(configuration.idleTimeout)"))
            }
            if pool.isRunning(exchange), let fault = slowness(of: exchange) { giveUp(exchange, fault) }
        }
        adapt()
        split()
        guard now >= publishAt else { return }
        publishAt = now + .milliseconds(250)
        publish()
    }

    /// The fault of an exchange so slow that it would hold its slot, or the run, for days.
    ///
    /// On a link where everything is slow, nothing is too slow: breaking a transfer there would gain nothing. So
    /// either the whole run has to be slow, or the others far faster.
    private func slowness(of exchange: Exchange) -> Fault? {
        let (limit, total) = (Double(configuration.speedLimit), dispatcher.counters.totals.bytesReceived)
        guard limit > 0, let (rate, all) = exchange.takeRates(total: total, over: configuration.speedTime, now: now),
            rate < limit, all < limit || rate * 16 < all / Double(pool.running.count)
        else { return nil }
        let (least, time) = (ByteCount(configuration.speedLimit), configuration.speedTime)
        return Fault(.slow, "less than \(least) per second for \(time)")
    }

    private func adapt() {
        for host in dispatcher.hosts.values where host.running > 0 {
            let hasMore = !host.queue.isEmpty || host.hasDivisible
            host.hasDivisible = false
            let isFree = pool.throttle.rate == nil
            guard host.load.measure(running: host.running, hasMore: hasMore, isFree: isFree, now: now) else { continue }
            dispatcher.keepProven(of: host)
            dispatcher.list(host)
        }
    }

    /// Gives the tails of slow pieces to idle connections when nothing is queued.
    private func split() {
        guard pool.throttle.rate == nil, !dispatcher.hasStartable else { return }
        var room = pool.room
        while room > 0, let tail = dispatcher.cutSlowest() {
            dispatcher.queue(tail: tail)
            room -= 1
        }
        room = pool.room
        guard pool.throttle.rate == nil, !dispatcher.hasStartable, room > 0 else { return }
        for exchange in Array(pool.running.values) where room > 0 {
            guard let tail = dispatcher.handOver(exchange) else { continue }
            dispatcher.queue(tail: tail)
            room -= 1
        }
    }

    private func publish() {
        if dispatcher.health != publishedHealth {
            publishedHealth = dispatcher.health
            inbox.publish(publishedHealth.records(now: now, unixTime: agenda.unixTime))
        }
        if let changes = router.takeChanges() { inbox.publish(changes) }
    }

    // MARK: - What comes in

    private func handle(_ command: Command) {
        switch command {
        case .start(let request, let sink, let completion): start(request, sink: sink, completion: completion)
        case .resume(let id):
            for piece in dispatcher.transfers[id]?.pieces ?? [] {
                if case .running(let id) = piece.state, let exchange = pool.running[id] {
                    pool.resume(exchange, now: now)
                }
            }
        case .cancel(let id):
            guard let transfer = dispatcher.transfers[id] else { return cancelledEarly.insert(id) }
            let last = dispatcher.lastFault(of: transfer)?.detail
            dispatcher.abandon(transfer, transfer.error(.cancelled, last ?? "cancelled before there was an answer"))
        case .reportFault(let url, _): reportFault(url)
        case .resolved(let number, let answers, let failures):
            handle(dispatcher.resolving.take(number, answers, failures))
        case .recorded(let number): dispatcher.isRecorded(number)
        case .provided(let origin, let number, let answer):
            if dispatcher.credentials.take(answer, number, for: dispatcher.hosts[origin]) {
                credentialIsKnown(for: origin)
            }
        case .describe(let limit, let time, let tell): tell(dispatcher.statuses(limit: limit, at: time))
        case .setWaiting(let deadline, let patience):
            dispatcher.longest = deadline
            dispatcher.setPatience(patience)
        case .setRateLimit(let rate): pool.setRate(rate, now: now)
        }
    }

    private func handle(_ entry: Agenda.Entry) {
        switch entry {
        case .requeue(let piece, let ticket): if piece.machine.isWaiting(since: ticket) { dispatcher.enqueue(piece) }
        case .release(let host): if let time = host.notBefore, time <= now { dispatcher.release(host) }
        case .patience(let host): dispatcher.checkSilence(of: host)
        case .deadline(let id):
            guard let transfer = dispatcher.transfers[id], transfer.deadline <= now else { return }
            let fault = dispatcher.lastFault(of: transfer)
            let last = "last: \(fault?.detail ?? "under way")"
            let detail = "not done within \(dispatcher.longest); \(last)"
            dispatcher.abandon(transfer, transfer.error(fault?.code ?? .timedOut, detail, fault))
        case .besideAnswer(let id):
            if let transfer = dispatcher.transfers[id] { dispatcher.checkSilentSources(transfer) }
        case .resolverDeadline(let number): handle(dispatcher.resolving.passDeadline(of: number))
        case .credentialDeadline(let origin, let number):
            if dispatcher.credentials.passDeadline(of: dispatcher.hosts[origin], number) {
                credentialIsKnown(for: origin)
            }
        }
    }

    private func isLive(_ entry: Agenda.Entry, at time: Duration) -> Bool {
        switch entry {
        case .requeue(let piece, let ticket): piece.ticket == ticket
        case .release(let host): host.notBefore == time
        case .patience(let host): host.silence.checkAt == time
        case .deadline(let id), .besideAnswer(let id): dispatcher.transfers[id] != nil
        case .resolverDeadline(let number): dispatcher.resolving.isWaiting(for: number)
        case .credentialDeadline(let origin, let number):
            dispatcher.credentials.isWaiting(dispatcher.hosts[origin], for: number)
        }
    }

    private func handle(_ outcomes: [ResolutionQueue.Outcome]) {
        for (piece, isUrgent, refusal) in outcomes {
            guard let refusal else {
                dispatcher.enqueue(piece, isUrgent: isUrgent)
                continue
            }
            var error = piece.transfer.error(refusal.code, refusal.detail)
            error.cause = refusal.cause
            dispatcher.abandon(piece.transfer, error)
        }
    }

    private func credentialIsKnown(for origin: Origin) {
        guard let host = dispatcher.hosts[origin] else { return }
        pool.dropHandles(of: host)
        dispatcher.list(host)
    }

    private func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion) {
        do throws(TransferError) {
            guard dispatcher.transfers[request.id] == nil else { throw .duplicate(request) }
            guard !cancelledEarly.take(request.id) else { throw .cancelledEarly(request) }
            let deadline = now + dispatcher.longest
            dispatcher.add(try Transfer(request: request, sink: sink, deadline: deadline, completion: completion))
        } catch { completion(.failure(error)) }
    }

    /// Handles a source that sent wrong bytes: the others come first for a while.
    private func reportFault(_ url: String) {
        guard let parsed = try? CurlURL(url) else { return }  // A URL that was never requested.
        dispatcher.penalise(parsed)
        dispatcher.health[parsed.origin].addFailure(weight: 4)
        // The next request follows the redirects anew.
        router.forgetAll(of: parsed)
    }
}
