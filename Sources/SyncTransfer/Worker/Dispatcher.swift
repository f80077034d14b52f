import SyncModel
import SyncPlugins
import SyncSystem

/// Decides which request goes next; owns every transfer and every host.
///
/// A piece waits in its host's queue until there is room. Each other kind of wait has its own owner: resolvers,
/// credentials, scouts, a body that is already arriving.
final class Dispatcher {
    let configuration: TransportConfiguration
    let counters: Counters
    let agenda: Agenda
    let pool: ExchangePool
    let router: Router
    let credentials: CredentialBroker
    let resolving: ResolutionQueue
    private let inbox: Inbox
    /// Pieces that wait until their next hop is recorded, by the number of the question.
    private var unrecorded: [UInt64: (piece: Piece, ticket: UInt64)] = [:]
    private var recordsAsked: UInt64 = 0

    private(set) var transfers: [TransferID: Transfer] = [:]
    private(set) var hosts: [Origin: HostState] = [:]
    /// Hosts that may start a request, by their highest queued priority.
    private var startable = Heap<(priority: Int, host: HostState)> { $0.priority > $1.priority }
    var health: SourceHealth
    var silence: SilenceWatch
    var scouts = Scouts()
    var wholeObjects = WholeObjects()
    /// Exchanges with pieces that are done while others are not, or whose answer other pieces wait for.
    private var reapable: [Exchange] = []
    var longest: Duration

    /// Most queue pops before libcurl gets its turn again.
    private static let mostTurns = 512
    /// The longest turn that is not an absence: a loaded machine may take as long.
    private static let shortAbsence = Duration.seconds(5)

    var now: Duration { agenda.now }

    init(
        _ multi: MultiHandle, _ configuration: TransportConfiguration, _ inbox: Inbox, _ counters: Counters
    ) {
        self.configuration = configuration
        self.counters = counters
        self.inbox = inbox
        agenda = Agenda(configuration.clock)
        pool = ExchangePool(multi: multi, configuration: configuration, now: agenda.now)
        router = Router(configuration)
        credentials = CredentialBroker(configuration, agenda: agenda, inbox: inbox)
        resolving = ResolutionQueue(configuration, router, agenda, inbox)
        health = SourceHealth(configuration.sources, now: agenda.now, unixTime: agenda.unixTime)
        silence = SilenceWatch(configuration.patience)
        longest = configuration.resourceDeadline
    }

    // MARK: - Transfers

    func add(_ transfer: Transfer) {
        let range = transfer.request.range
        transfers[transfer.id] = transfer
        if range != nil { transfer.pieces.forEach { wholeObjects.add($0) } }
        agenda.add(.deadline(transfer.id), at: transfer.deadline)
        for piece in transfer.pieces {
            // An empty range needs no request.
            if range?.isEmpty == true { complete(piece) } else { enqueue(piece) }
        }
    }

    func complete(_ piece: Piece) {
        piece.take(.over)
        endScouting(piece)
        let transfer = piece.transfer
        transfer.openPieces -= 1
        guard transfer.openPieces == 0, !transfer.hasEnded else { return }
        close(transfer)
        transfer.succeed()
    }

    func abandon(_ transfer: Transfer, _ error: TransferError) {
        guard !transfer.hasEnded else { return }
        close(transfer)
        for piece in transfer.pieces {
            if case .running(let id) = piece.state, let exchange = pool.running[id] { detach(piece, from: exchange) }
            piece.take(.over)
            endScouting(piece)
        }
        transfer.fail(error)
    }

    func abandonAll(_ code: TransferError.Code, _ detail: String) {
        for transfer in Array(transfers.values) { abandon(transfer, transfer.error(code, detail)) }
    }

    private func close(_ transfer: Transfer) {
        transfer.close()
        transfers.removeValue(forKey: transfer.id)
        wholeObjects.forget(transfer)
        for index in transfer.sources.indices { resolving.leaveAhead(&transfer.sources[index]) }
    }

    /// Takes a piece out of an exchange, which continues if it serves others.
    private func detach(_ piece: Piece, from exchange: Exchange) {
        guard exchange.remove(piece) else {
            // This piece may be the one that paused the exchange.
            return pool.resume(exchange, now: now)
        }
        pool.release(exchange, now: now)
        endWholeObject(of: exchange)
        list(exchange.host)
    }

    // MARK: - Queues

    /// Queues a piece at the host of its next request, and takes it out of any other queue. An urgent piece goes before
    /// all others, since it has already been started.
    func enqueue(_ piece: Piece, isUrgent: Bool = false) {
        guard !piece.transfer.hasEnded else { return }
        // Work in progress goes first; what has failed repeatedly goes last.
        let ordinary = isUrgent ? Int.max : piece.transfer.request.priority
        let priority = piece.machine.failures > 1 ? Int.min : ordinary
        guard let chain = route(piece, priority: priority) else { return }
        let host = host(for: chain.current.origin)
        host.queue.insert(
            (piece, piece.take(.enqueued)), priority: priority, isSmall: configuration.isSmall(piece),
            length: piece.remaining ?? 0)
        if piece.transfer.sources.count > 1 { host.movable += 1 }
        list(host)
        // A piece that joins the queue has no patience of its own: the host's silence goes on, and is watched.
        if host.isOutOfReach, host.notBefore != nil, host.silence.since != nil { watchSilence(of: host) }
        announcePause(of: host)
    }

    /// Decides where the next request of a piece goes: which source, what resolvers say, where rules and memory lead.
    /// Called when the piece is queued and again at its turn, since the answer may have changed.
    ///
    /// - Returns: `nil` if the piece has to wait for resolvers, or has failed because it may not go there.
    private func route(_ piece: Piece, priority: Int) -> RedirectChain? {
        if piece.chain == nil { chooseSource(for: piece) }
        guard !resolving.mustWait(piece, priority: priority) else { return nil }
        do throws(Fault) { return try router.route(of: piece) } catch {
            piece.transfer.report.currentURL = piece.source.url.text
            recover(piece, fault: error, chain: RedirectChain(original: piece.source.url))
            return nil
        }
    }

    private func chooseSource(for piece: Piece) {
        let sources = piece.transfer.sources
        guard sources.count > 1 else { return }
        let candidates = sources.indices.filter { !sources[$0].isSpent }.map { index in
            let url = sources[index].url
            return (index: index, url: url, isOutOfReach: hosts[url.origin]?.isOutOfReach ?? false)
        }
        if let best = health.best(of: candidates, now: now) { piece.sourceIndex = best }
    }

    func host(for origin: Origin) -> HostState {
        if let host = hosts[origin] { return host }
        let load = HostLoad(
            start: health[origin].connections ?? configuration.initialConnections,
            ceiling: configuration.connectionsPerHost, isAdaptive: configuration.adaptive)
        let host = HostState(origin: origin, load: load, credential: credentials.credential(for: origin))
        hosts[origin] = host
        return host
    }

    func dropHosts() { hosts = [:] }

    func list(_ host: HostState) {
        guard !host.isListed, host.mayStart(now: now), !credentials.mustWait(host),
            let priority = host.queue.topPriority
        else { return }
        host.isListed = true
        startable.insert((priority, host))
    }

    /// Whether some host has something to start.
    var hasStartable: Bool { !startable.isEmpty }

    /// Whether another turn would start more at once.
    var mayStartMore: Bool { hasStartable && pool.room > 0 }

    /// Starts queued pieces while there is room. O(log *n*) for each start.
    func startWhatMayStart() {
        var turns = 0
        while pool.room > 0, turns < Self.mostTurns, let (_, host) = startable.popFirst() {
            turns += 1
            host.isListed = false
            guard host.mayStart(now: now), !credentials.mustWait(host) else { continue }
            let next = host.queue.popFirst(
                runningSmall: host.runningSmall, runningLarge: host.running - host.runningSmall)
            if let (piece, ticket) = next {
                if piece.transfer.sources.count > 1 { host.movable -= 1 }
                if piece.machine.isQueued(since: ticket) { start(piece, on: host) }
            }
            list(host)
        }
    }

    private func start(_ piece: Piece, on host: HostState) {
        guard let chain = route(piece, priority: Int.max) else { return }
        guard chain.current.origin == host.origin else { return enqueue(piece) }
        if scouts.mustWait(piece, chain, redirects: health[chain.entry.origin].redirects) {
            return agenda.add(.requeue(piece, ticket: piece.ticket), at: now + Scouts.longestWait)
        }
        guard !wholeObjects.join(piece) else { return }
        let isRangeless = wholeObjects.isKnown(piece.source.url.text)
        if pool.throttle.rate == nil, !isRangeless, let tail = shorten(piece, on: host) { queue(tail: tail) }
        launch(piece, chain: chain, on: host, isRangeless: isRangeless)
    }

    private func launch(_ piece: Piece, chain: RedirectChain, on host: HostState, isRangeless: Bool) {
        if piece.chain == nil { router.announceBeginning(of: chain, for: piece) }
        piece.chain = chain
        guard !mustWaitForRecord(piece) else { return }
        let transfer = piece.transfer
        transfer.report.currentURL = chain.current.text
        resolving.leaveAhead(&transfer.sources[piece.sourceIndex])
        transfer.sources[piece.sourceIndex].asked = host.origin
        watchSilence(of: host)
        piece.shownCredential = host.credential.answers
        let plan = configuration.plan(
            for: piece, chain: chain, host: host, isRangeless: isRangeless, mayBeLocal: router.mayBeLocal(chain), agenda
        )
        do throws(CurlError) {
            let easy = try pool.takeHandle(plan.kind, of: host)
            let id = pool.nextID()
            let exchange = Exchange(id, easy: easy, host: host, piece: piece, plan: plan, dispatcher: self)
            try configuration.write(exchange, for: piece)
            if !transfer.isReported { configuration.events(.asked(transfer.id)) }
            transfer.isReported = true
            try pool.send(exchange)
            piece.fault = nil
            piece.take(.started(id))
            if isRangeless { wholeObjects.begin(exchange, of: piece.source.url.text) }
        } catch { recover(piece, fault: Fault(.libcurl, error.detail), chain: chain) }
    }

    /// Makes a piece wait until the hops before its next request are recorded; other transfers go on meanwhile.
    private func mustWaitForRecord(_ piece: Piece) -> Bool {
        guard piece.hasNewHop else { return false }
        piece.hasNewHop = false
        recordsAsked += 1
        let number = recordsAsked
        unrecorded[number] = (piece, piece.take(.postponed(.record)))
        if configuration.awaitRecord({ [inbox] in inbox.post(.recorded(number)) }) { return true }
        unrecorded[number] = nil
        piece.take(.enqueued)
        return false
    }

    /// Continues the piece whose hops are now recorded.
    func isRecorded(_ number: UInt64) {
        guard let (piece, ticket) = unrecorded.removeValue(forKey: number) else { return }
        if piece.machine.isWaiting(since: ticket) { enqueue(piece, isUrgent: true) }
    }

    /// Queues a tail that has become a piece of its own.
    func queue(tail: Piece) {
        wholeObjects.add(tail)
        enqueue(tail, isUrgent: true)
    }

    // MARK: - Hosts

    /// Holds requests to a host until `time`, since it asked for a pause or is unreachable.
    func hold(_ host: HostState, until time: Duration) {
        guard time > host.notBefore ?? now else { return }
        host.notBefore = time
        host.silence.isBusy(until: time)
        agenda.add(.release(host), at: time)
        guard host.movable > 0 else { return }
        // Pieces with other sources are queued elsewhere, once.
        host.movable = 0
        for ((piece, ticket), priority) in host.queue.removeAll() where piece.machine.isQueued(since: ticket) {
            if piece.transfer.sources.count > 1 { piece.chain = nil }
            enqueue(piece, isUrgent: priority == Int.max)
        }
    }

    func release(_ host: HostState) {
        host.notBefore = nil
        list(host)
    }

    /// Tries unreachable hosts again at once after a change of addresses or routes.
    func networkDidChange() { for host in hosts.values where host.connectivityFailures > 0 { release(host) } }

    /// Handles a turn that took far too long: the process was stopped, or the machine slept. No host was silent or slow
    /// meanwhile, and the network may have changed.
    func wasAway(for time: Duration) {
        guard time > Self.shortAbsence else { return }
        for host in hosts.values { host.silence.exclude(for: time) }
        for exchange in pool.running.values { exchange.forgetSpeed() }
        networkDidChange()
    }

    func wasReached(_ host: HostState, byAnswer: Bool) { if host.wasReached(byAnswer: byAnswer) { list(host) } }

    /// Records how many connections serve a host well.
    func keepProven(of host: HostState) {
        guard let count = host.load.proven(initial: configuration.initialConnections) else { return }
        health[host.origin].connections = count
    }

    func penalise(_ url: CurlURL) { health.penalise(url.text, until: now + configuration.penalty, now: now) }

    // MARK: - Patience

    func setPatience(_ patience: Patience?) {
        silence.patience = patience
        for host in hosts.values where host.silence.since != nil {
            host.silence.checkAt = now
            checkSilence(of: host)
        }
    }

    private func watchSilence(of host: HostState) {
        if let time = silence.begin(host, now: now) { agenda.add(.patience(host), at: time) }
    }

    func checkSilence(of host: HostState) {
        let (isSilent, again) = silence.check(host, now: now)
        if let again { agenda.add(.patience(host), at: again) }
        guard isSilent else { return }
        for transfer in Array(transfers.values) where isOutOfPatience(transfer) { giveUp(transfer) }
    }

    /// Whether all remaining sources of a transfer have been silent for as long as patience allows, which is less once
    /// another source has answered.
    func isOutOfPatience(_ transfer: Transfer) -> Bool {
        let isAnswered = transfer.isAnswered
        guard silence.patience != nil || isAnswered else { return false }
        func isSilent(_ origin: Origin) -> Bool {
            // A host that has answered before gets the time that it would get alone.
            let isDead = hosts[origin].map { $0.isOutOfReach || $0.firstByte == nil } ?? false
            let most = isAnswered && isDead ? configuration.patienceBesideAnswer : nil
            return silence.isSilent(hosts[origin], for: most, now: now)
        }
        return transfer.sources.allSatisfy { source in
            source.isSpent || source.asked.map(isSilent) == true || isSilent(router.entry(of: source).origin)
        }
    }

    /// Checks, now and from time to time, whether the silent sources are worth waiting for after another has answered.
    func checkSilentSources(_ transfer: Transfer) {
        guard !transfer.hasEnded, transfer.isAnswered else { return }
        guard !isOutOfPatience(transfer) else { return giveUp(transfer) }
        agenda.add(.besideAnswer(transfer.id), at: now + configuration.patienceBesideAnswer)
    }

    /// Fails a transfer whose sources have been silent for too long.
    func giveUp(_ transfer: Transfer) {
        let fault = lastFault(of: transfer)
        let waiting = transfer.sources.filter { !$0.isSpent }
        let tried = waiting.map { $0.asked ?? router.entry(of: $0).origin }
        if transfer.isAnswered, let fault = transfer.sources.lazy.compactMap(\.left).first?.fault {
            let others = zip(waiting, tried).map { source, origin in
                (url: source.url.text, detail: hosts[origin]?.lastFault?.detail ?? "no answer")
            }
            return abandon(transfer, transfer.error(fault, configuration.advise, others: others))
        }
        var names: [String] = []
        for origin in tried where !names.contains(origin.description) { names.append(origin.description) }
        let time = (silence.limit ?? .zero).components.seconds
        let told = fault?.kind == .captivePortal ? fault?.message(configuration.advise) : fault?.detail
        let what = told ?? "no answer"
        let shown = names.prefix(3).joined(separator: ", ") + (names.count > 3 ? ", …" : "")
        let detail = time > 0 ? "\(what); nothing came from \(shown) for \(time) s" : what
        abandon(transfer, transfer.error(fault?.code ?? .timedOut, detail, fault))
    }

    /// The fault that last held a transfer up.
    func lastFault(of transfer: Transfer) -> Fault? {
        transfer.pieces.lazy.compactMap(\.machine.lastFault).first
            ?? transfer.pieces.first.flatMap { piece in
                (try? router.route(of: piece)).flatMap { hosts[$0.current.origin]?.lastFault }
            }
    }

    // MARK: - One request for many

    /// Notes that pieces want no more of an exchange, or that others may be waiting for its answer. Called inside
    /// libcurl, so nothing is done until libcurl returns.
    func reap(_ exchange: Exchange) { if reapable.last !== exchange { reapable.append(exchange) } }

    /// Queues the pieces that waited for a scout, once it has an answer.
    func enqueueScouted() {
        for exchange in reapable where exchange.isAccepted {
            let chain = exchange.plan.chain
            for piece in exchange.pieces {
                guard let key = piece.scoutKey else { continue }
                router.learn(chain)
                if scouts.judge(key, chain, isKnown: router.isKnown(key)) {
                    health[chain.entry.origin].redirects = false
                }
                for other in scouts.end(piece, hasAnswer: true) { enqueue(other) }
            }
        }
    }

    /// Takes pieces out of exchanges that have nothing more for them.
    func reap() {
        let exchanges = reapable
        reapable = []
        for exchange in exchanges where pool.isRunning(exchange) {
            for piece in exchange.takeServed() { conclude(piece, of: exchange, fault: nil) }
        }
    }

    /// Queues the pieces that waited for a scout's answer.
    func endScouting(_ piece: Piece) { for other in scouts.end(piece) { enqueue(other) } }

    /// Notes an answer with the whole object. Called inside libcurl, so it touches no other handle.
    func wholeBodyBegins(_ exchange: Exchange) {
        wholeObjects.bodyBegins(exchange) { !health.isPenalised($0, now: now) }
    }

    /// Ends a body: queues the pieces that it could not serve.
    func endWholeObject(of exchange: Exchange) { for piece in wholeObjects.end(exchange) { enqueue(piece) } }
}
