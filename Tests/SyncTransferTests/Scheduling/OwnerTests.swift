import SyncPlugins
import SyncSystem
import Testing

@testable import SyncTransfer

/// What the worker asks, each by itself: nothing here opens a socket.
@Suite("Owners of the worker's state", .timeLimit(.minutes(10)))
struct OwnerTests {
    private final class Sink: TransferSink {
        func begin(_ head: ResponseHead) -> UInt64 { 0 }
        func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome { .taken }
        func interrupted() {}
    }

    private final class Time: Sendable { let now = Mutex(Duration.zero) }

    private static func configuration(
        _ time: Time = Time(), _ change: (inout TransportConfiguration) -> Void = { _ in }
    ) -> TransportConfiguration {
        var configuration = TransportConfiguration(
            clock: TransportClock(now: { time.now.withLock { $0 } }, unixTime: { 1000 }), random: { 0 })
        change(&configuration)
        return configuration
    }

    private static func piece(_ urls: String..., size: UInt64? = 100, referrer: TransferRequest.Referrer? = nil) throws
        -> Piece
    {
        var request = TransferRequest(id: TransferID(rawValue: 1), urls: urls, objectSize: size, limit: 1000)
        request.referrer = referrer
        let transfer = try Transfer(request: request, sink: Sink(), deadline: .seconds(9)) { _ in }
        return try #require(transfer.pieces.first)
    }

    private static func host(_ load: HostLoad = HostLoad(start: 2, ceiling: 8, isAdaptive: true)) -> HostState {
        let origin = Origin(scheme: "https", host: "a.example", port: 443)
        return HostState(origin: origin, load: load, credential: HostCredential())
    }

    // MARK: - Router

    @Test("A rule comes first, then what redirects taught; a manifest is always asked for where it is [S77]")
    func routes() throws {
        let rule = try RewriteRule("https://old.example/ https://new.example/")
        let router = Router(Self.configuration { $0.rewriteRules = [rule] })
        let byRule = try Self.piece("https://old.example/p")
        #expect(try router.route(of: byRule).current.text == "https://new.example/p")
        #expect(try router.route(of: byRule).isByRule)

        let piece = try Self.piece("https://a.example/p")
        let chain = try router.follow(
            headers(location: "https://cdn.example/p"), from: try router.route(of: piece), isPublic: false, for: piece)
        #expect(piece.trail.map(\.to) == ["https://cdn.example/p"] && piece.hasNewHop)
        router.learn(chain)
        #expect(try router.route(of: piece).current.text == "https://cdn.example/p")
        #expect(try router.route(of: try Self.piece("https://a.example/p", size: nil)).hops == 0)
        #expect(router.takeChanges()?.isKnown("https://a.example/p") == true)
        #expect(router.takeChanges() == nil, "nothing new")
        router.forget(try CurlURL("https://a.example/p"))
        #expect(try router.route(of: piece).current.text == "https://a.example/p")
    }

    private func headers(location: String) -> ResponseHeaders {
        var headers = ResponseHeaders()
        (headers.status, headers.location) = (302, location)
        return headers
    }

    @Test("What a public server leads to, or names, may not be private by its name [V29]")
    func privateTargets() throws {
        let router = Router(Self.configuration())
        let piece = try Self.piece("https://a.example/p")
        for isPublic in [true, false] {
            let start = try router.route(of: piece)
            let local = headers(location: "https://127.0.0.1/p")
            do throws(Fault) {
                _ = try router.follow(local, from: start, isPublic: isPublic, for: piece)
                #expect(!isPublic)
            } catch { #expect(isPublic && error.kind == .policy) }
        }
        let referrer = TransferRequest.Referrer(url: "https://a.example/m", isPublic: true)
        let named = try Self.piece("https://127.0.0.1/p", referrer: referrer)
        let refusal = #expect(throws: Fault.self) { try router.route(of: named) }
        #expect(refusal?.kind == .policy)
        let own = try Self.piece("https://127.0.0.1/p")
        #expect(try router.route(of: own).current == own.source.url, "the user's own wish")
    }

    // MARK: - Patience

    @Test("Ten seconds until anything answers, sixty after that; time in which nobody asks does not count [S51]")
    func patience() {
        var watch = SilenceWatch(.ofPerson)
        let host = Self.host()
        func at(_ seconds: Int) -> Duration { .seconds(seconds) }
        /// It is asked, and refuses at once.
        func ask(_ time: Int) {
            _ = watch.begin(host, now: at(time))
            host.silence.isIdle(from: at(time))
        }
        #expect(watch.begin(host, now: at(100)) == at(110))
        // Under way for four seconds, and then for five nobody wants anything of it.
        host.silence.isIdle(from: at(104))
        ask(109)
        #expect(!watch.isSilent(host, now: at(114)) && watch.isSilent(host, now: at(115)))
        // Waiting on its account counts.
        host.silence.isBusy(until: at(116))
        ask(116)
        #expect(watch.isSilent(host, now: at(116)))
        // Given up: who comes soon is told at once, after as long without a word it is tried anew.
        ask(125)
        #expect(watch.isSilent(host, now: at(125)))
        ask(135)
        #expect(!watch.isSilent(host, now: at(144)) && watch.isSilent(host, now: at(145)))

        let other = Self.host()
        watch.delivered(other, now: at(145))
        #expect(!watch.isSilent(host, now: at(194)) && watch.isSilent(host, now: at(195)))
        host.silence.isBusy(until: at(195))
        ask(250)
        #expect(watch.isSilent(host, now: at(250)), "55 s are less than the patience")
        ask(310)
        #expect(!watch.isSilent(host, now: at(369)) && watch.isSilent(host, now: at(370)))
    }

    // MARK: - Scouts

    private func chain(_ piece: Piece) -> RedirectChain { RedirectChain(original: piece.source.url) }

    @Test("One request finds out for the others of its directory, where the origin has redirected before")
    func scouts() throws {
        var scouts = Scouts()
        let pieces = try ["d/1", "d/2", "e/1", "d/3"].map { try Self.piece("https://a.example/" + $0) }
        var waits: [Bool] = []
        for (index, redirects) in [(0, true), (1, false), (1, true), (2, true)] {
            waits.append(scouts.mustWait(pieces[index], chain(pieces[index]), redirects: redirects))
        }
        #expect(waits == [false, false, true, false], "the first asks; nobody waits where none redirects")
        #expect(pieces[1].state == .waiting(.scout))
        let key = try #require(pieces[0].scoutKey)
        let isProof = scouts.judge(key, chain(pieces[0]), isKnown: false)
        #expect(isProof, "it was waited for, and there was no redirect")
        let (told, again) = (scouts.end(pieces[0], hasAnswer: true), scouts.end(pieces[0]))
        #expect(told.map { $0 === pieces[1] } == [true] && again.isEmpty)
        _ = scouts.mustWait(pieces[3], chain(pieces[3]), redirects: true)
        #expect(pieces[3].scoutKey == "https://a.example/d/3", "the directory helped nobody")
    }

    @Test("Who has gone elsewhere is not told that a scout is back")
    func scoutsOfOthers() throws {
        var scouts = Scouts()
        let (first, second) = (try Self.piece("https://a.example/d/1"), try Self.piece("https://a.example/d/2"))
        _ = scouts.mustWait(first, chain(first), redirects: true)
        _ = scouts.mustWait(second, chain(second), redirects: true)
        second.take(.enqueued)
        let told = scouts.end(first)
        #expect(told.isEmpty)
    }

    // MARK: - Patience

    @Test("A host is silent from its first question on, and no more once it gives something")
    func silence() {
        var watch = SilenceWatch(Patience(firstContact: .seconds(10), silence: .seconds(60)))
        let host = Self.host()
        #expect(!watch.isSilent(host, now: .seconds(99)), "nobody has asked it")
        #expect(watch.begin(host, now: .seconds(100)) == .seconds(110))
        host.running = 1
        #expect(watch.begin(host, now: .seconds(101)) == nil, "one timer a host")
        #expect(!watch.isSilent(host, now: .seconds(109)) && watch.isSilent(host, now: .seconds(110)))
        #expect(watch.left(of: host, now: .seconds(104)) == .seconds(6))
        watch.delivered(host, now: .seconds(105))
        #expect(watch.check(host, now: .seconds(110)) == (false, .seconds(165)), "what has answered has more time")
        host.silence.exclude(until: .seconds(200))
        #expect(!watch.isSilent(host, now: .seconds(259)), "it asked for a pause itself")
        #expect(watch.check(host, now: .seconds(260)).isSilent, "nothing came for a minute")
    }

    @Test("A refusal is a last word, trouble is none; without patience nobody is silent")
    func lastWords() {
        var watch = SilenceWatch(Patience(.seconds(10)))
        for (kind, isSilent) in [(Fault.Kind.status(503), true), (.status(404), false)] {
            let host = Self.host()
            _ = watch.begin(host, now: .zero)
            watch.refused(host, Fault(kind, ""))
            #expect(watch.isSilent(host, now: .seconds(10)) == isSilent, "\(kind)")
        }
        let endless = SilenceWatch(nil)
        let host = Self.host()
        #expect(endless.begin(host, now: .zero) == nil)
        #expect(!endless.isSilent(host, now: .seconds(1_000_000)))
    }

    // MARK: - Hosts

    @Test("A host out of reach, or shut, gets one request at a time; one that asked for a pause gets none")
    func turns() throws {
        let host = Self.host()
        #expect(!host.mayStart(now: .zero), "nothing waits")
        host.queue.insert((try Self.piece("https://a.example/"), 0), priority: 0, isSmall: true)
        #expect(host.limit == 2 && host.mayStart(now: .zero))
        host.notBefore = .seconds(1)
        #expect(!host.mayStart(now: .milliseconds(999)) && host.mayStart(now: .seconds(1)))
        host.connectivityFailures = 3
        #expect(host.limit == 1)
        #expect(host.wasReached(byAnswer: false) && host.limit == 2)
        host.lastFault = Fault(.captivePortal, "")
        #expect(!host.wasReached(byAnswer: false) && host.limit == 1, "a log-in page takes an answer")
        #expect(!host.wasReached(byAnswer: true) && host.limit == 2)
    }

    @Test("Where the number of connections does not follow the goodput, it is the ceiling")
    func fixedLoad() {
        var load = HostLoad(start: 2, ceiling: 8, isAdaptive: false)
        #expect(load.connections(running: 0) == 8)
        load.penalise(now: .seconds(1))
        #expect(load.connections(running: 7) == 8)
    }

    @Test("The rate of whoever has become free last is used once, and the best is kept")
    func freeRates() {
        var load = HostLoad(start: 2, ceiling: 2, isAdaptive: true)
        for rate in [10.0, 30, 20] { load.noteFree(rate: rate) }
        #expect(load.bestRate == 27)
        let taken = (0..<3).map { _ in load.takeFreeRate() }
        #expect(taken == [20, 30, nil])
    }

    // MARK: - Time

    @Test("What is due is done in its order; what has ended before its time is swept out")
    func agenda() {
        let time = Time()
        let agenda = Agenda(Self.configuration(time).clock)
        for id in 1...2000 { agenda.add(.deadline(TransferID(rawValue: UInt64(id))), at: .seconds(5000 - id)) }
        #expect(agenda.next == .seconds(3000) && agenda.takeDue() == nil)
        agenda.tidy(transfers: 2) { entry, at in
            if case .deadline(let id) = entry { id.rawValue <= 2 && at > .zero } else { false }
        }
        #expect(agenda.next == .seconds(4998))
        time.now.withLock { $0 = .seconds(4999) }
        #expect(agenda.now == .zero, "one look at the clock a turn")
        agenda.readClock()
        var due: [UInt64] = []
        while case .deadline(let id)? = agenda.takeDue() { due.append(id.rawValue) }
        #expect(due == [2, 1] && agenda.next == nil)
    }
}
