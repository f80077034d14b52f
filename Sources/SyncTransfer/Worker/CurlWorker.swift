import CCurl
import SyncCurl
import SyncModel
import SyncPlugins

/// The one thread that talks to libcurl: owns every handle and all state of the transfers.
///
/// A turn of the loop: take commands, fire timers, start what may start, let libcurl work, end what has ended,
/// sleep in `curl_multi_poll(3)`. The files `CurlWorker+….swift` have one step each.
final class CurlWorker {
    let multi: UnsafeMutableRawPointer
    var configuration: TransportConfiguration
    let inbox: Inbox
    let counters: Counters
    let throttle: Throttle
    let rules: RewriteRules
    let resolvers: [ConfiguredResolver]
    let providers: [ConfiguredCredentialProvider]
    let network = NetworkChanges()

    var transfers: [TransferID: Transfer] = [:]
    /// Asked to end before they were started.
    var cancelledEarly = EarlyCancels()
    var hosts: [Origin: HostState] = [:]
    /// Hosts that may start something, by the highest priority that waits there.
    var startable = Heap<(priority: Int, host: HostState)> { $0.priority > $1.priority }
    var running: [ObjectIdentifier: Exchange] = [:]
    var timers = Heap<Timer> { $0.at < $1.at }
    var standings: Standings
    var memory: RedirectMemory
    /// The version of ``memory`` that was published last.
    private var publishedMemory = 0
    /// ``standings`` as they were published last.
    private var publishedStandings: Standings
    var scouts = Scouts()
    var resolving = Resolving()
    /// Pieces whose answer others wait for, with where it came from.
    var returnedScouts: [(piece: Piece, chain: RedirectChain)] = []
    var wholeObjects = WholeObjects()
    /// Whether anything has answered yet.
    var hasContact = false
    /// Exchanges of which some pieces are done and others not.
    var reapable: [Exchange] = []
    var now: Duration
    /// Handles kept by all hosts for their next request.
    var idleHandles = 0
    private var sweepAt: Duration = .zero
    private var publishAt: Duration = .zero

    /// Something to do at a time. A piece is skipped when its ticket has changed since.
    struct Timer {
        enum Action {
            case requeue(Piece, ticket: UInt64)
            case openGate(HostState)
            case patience(HostState)
            case deadline(TransferID)
            case resolverDeadline(UInt64)
            case credentialDeadline(Origin, UInt64)
        }
        let at: Duration
        let action: Action
    }

    init(
        multi: UnsafeMutableRawPointer,
        configuration: TransportConfiguration,
        inbox: Inbox,
        counters: Counters
    ) {
        self.multi = multi
        self.configuration = configuration
        self.inbox = inbox
        self.counters = counters
        now = configuration.clock.now()
        throttle = Throttle(rate: configuration.rateLimit, now: now)
        rules = RewriteRules(configuration.rewriteRules)
        resolvers = configuration.resolvers
        providers = configuration.credentialProviders
        standings = Standings(configuration.sources, now: now, unixTime: configuration.clock.unixTime())
        publishedStandings = standings
        memory = RedirectMemory(configuration.links)
        _ = sa_curl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, configuration.connections + 8)
        _ = sa_curl_multi_set_long(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, configuration.connections)
    }

    /// Works until the inbox is closed; then ends every transfer and frees libcurl's handles.
    func run() {
        while true {
            let (commands, isOpen) = inbox.takeAll()
            now = configuration.clock.now()
            for command in commands { handle(command) }
            guard isOpen else { break }

            fireTimers()
            resumeThrottled()
            askResolvers()
            startWhatMayStart()
            let ended = letLibcurlWork()
            now = configuration.clock.now()
            reap()
            sweep()
            if ended { startWhatMayStart() }
            sleep(atMost: ended || mayStartMore ? 0 : pollTimeout())
        }
        endEverything()
        publish()
        inbox.end()
        curl_multi_cleanup(multi)
    }

    /// - Returns: Whether an exchange ended.
    private func letLibcurlWork() -> Bool {
        var active: Int32 = 0
        let code = curl_multi_perform(multi, &active)
        welcomeScouts()
        var ended = false
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let raw = message.pointee.easy_handle else { continue }
            let result = sa_curl_message_result(message)
            var pointer: UnsafeMutableRawPointer?
            guard sa_curl_get_pointer(raw, CURLINFO_PRIVATE, &pointer) == CURLE_OK,
                let exchange = exchange(pointer)
            else { continue }
            finish(exchange, result: result)
            ended = true
        }
        if code != CURLM_OK { failAll(String(cString: curl_multi_strerror(code))) }
        return ended
    }

    private func sleep(atMost milliseconds: Int32) {
        guard let descriptor = network.descriptor else {
            _ = curl_multi_poll(multi, nil, 0, milliseconds, nil)
            return
        }
        var extra = curl_waitfd(fd: descriptor, events: Int16(CURL_WAIT_POLLIN), revents: 0)
        _ = curl_multi_poll(multi, &extra, 1, milliseconds, nil)
        if extra.revents != 0, network.takeChange() { networkDidChange() }
    }

    /// Looks at every running exchange, some times a second: for one that has gone silent, and for goodput.
    private func sweep() {
        guard now >= sweepAt else { return }
        sweepAt = now + sweepInterval
        for exchange in Array(running.values) {
            measure(exchange)
            if exchange.isConnected { wasReached(exchange.host, byAnswer: exchange.isAccepted) }
            if exchange.isAccepted { learn(from: exchange) }
            if hasRanges(exchange) { exchange.host.givesRanges = true }
            if !exchange.host.hasDivisible { exchange.host.hasDivisible = splittable(exchange) != nil }
            if exchange.activity != exchange.activitySeen || exchange.isPaused || exchange.isThrottled {
                exchange.activitySeen = exchange.activity
                exchange.activeAt = now
                if exchange.isAccepted { gaveSomething(exchange.host) }
            } else if exchange.isServed, now - exchange.activeAt >= sweepInterval {
                finish(exchange, result: CURLE_OK)
            } else if exchange.isConnected, now - exchange.activeAt >= configuration.idleTimeout {
                giveUp(exchange, Fault(.idle, "no byte for \(configuration.idleTimeout)"))
            }
            if running[ObjectIdentifier(exchange)] != nil, let fault = slowness(of: exchange) {
                giveUp(exchange, fault)
            }
        }
        adapt()
        splitSlowest()
        handOver()
        guard now >= publishAt else { return }
        publishAt = now + .milliseconds(250)
        publish()
    }

    /// Leaves what the next process should know.
    private func publish() {
        if standings != publishedStandings {
            publishedStandings = standings
            inbox.publish(standings.records(now: now, unixTime: configuration.clock.unixTime()))
        }
        guard memory.version != publishedMemory else { return }
        publishedMemory = memory.version
        inbox.publish(memory.records(now: configuration.clock.unixTime()))
    }

    /// What is wrong with an exchange that brings next to nothing: it holds its slot, or the run, for days (V50).
    ///
    /// On a link where all are slow nobody is too slow: that would only break what works (F052). So the run as a whole
    /// has to be slow, or the others far faster.
    private func slowness(of exchange: Exchange) -> Fault? {
        let (limit, total) = (Double(configuration.speedLimit), counters.totals.bytesReceived)
        guard limit > 0,
            let (rate, all) = exchange.takeRates(total: total, over: configuration.speedTime, now: now),
            rate < limit, all < limit || rate * 16 < all / Double(running.count)
        else { return nil }
        let (least, time) = (ByteCount(configuration.speedLimit), configuration.speedTime)
        return Fault(.slow, "less than \(least) a second for \(time)")
    }

    private func giveUp(_ exchange: Exchange, _ fault: Fault) {
        exchange.fault = exchange.fault ?? fault
        finish(exchange, result: CURLE_OPERATION_TIMEDOUT)
    }

    private var sweepInterval: Duration { min(.milliseconds(100), configuration.idleTimeout / 4) }

    /// **Milliseconds** to sleep at most; libcurl's own timers shorten it further.
    private func pollTimeout() -> Int32 {
        var wait = Duration.seconds(60)
        if let next = timers.first { wait = min(wait, next.at - now) }
        if !running.isEmpty { wait = min(wait, sweepAt - now) }
        if throttle.rate != nil, running.values.contains(where: { $0.isThrottled }) {
            wait = min(wait, max(throttle.wait, .milliseconds(1)))
        }
        return Int32(max(0, min(60_000, (wait / .milliseconds(1)).rounded(.up))))
    }

    private func fireTimers() {
        while let next = timers.first, next.at <= now {
            _ = timers.popFirst()
            switch next.action {
            case .requeue(let piece, let ticket):
                if piece.ticket == ticket, case .waiting = piece.state { enqueue(piece) }
            case .openGate(let host):
                if let gate = host.gate, gate <= now { openGate(of: host) }
            case .patience(let host): lookAtSilence(of: host)
            case .deadline(let id):
                if let transfer = transfers[id], transfer.deadline <= now { passDeadline(of: transfer) }
            case .resolverDeadline(let number): passResolverDeadline(number)
            case .credentialDeadline(let origin, let number): passCredentialDeadline(origin, number)
            }
        }
        // Timers of what has ended long before its deadline are swept out now and then: O(1) a timer.
        guard timers.count > 1024, timers.count > 4 * transfers.count else { return }
        for timer in timers.removeAll() where isLive(timer) { timers.insert(timer) }
    }

    private func isLive(_ timer: Timer) -> Bool {
        switch timer.action {
        case .requeue(let piece, let ticket): piece.ticket == ticket
        case .openGate(let host): host.gate == timer.at
        case .patience: true
        case .deadline(let id): transfers[id] != nil
        case .resolverDeadline(let number): resolving.batches[number] != nil
        case .credentialDeadline(let origin, let number): hosts[origin]?.credential.state == .asking(number)
        }
    }

    private func resumeThrottled() {
        guard throttle.rate != nil else { return }
        throttle.fill(now: now)
        guard throttle.hasTokens else { return }
        releaseThrottled()
    }

    /// Lets everyone go on who waits for the rate limit; whoever finds the bucket empty waits again.
    func releaseThrottled() {
        for exchange in Array(running.values) where exchange.isThrottled {
            exchange.isThrottled = false
            unpause(exchange)
        }
    }

    /// `curl_easy_pause(3)`: can call the write callback before it returns.
    func unpause(_ exchange: Exchange) {
        guard !exchange.isPaused, !exchange.isThrottled else { return }
        exchange.activeAt = now
        _ = curl_easy_pause(exchange.easy.raw, CURLPAUSE_CONT)
    }
}

@available(*, unavailable)
extension CurlWorker: Sendable {}
