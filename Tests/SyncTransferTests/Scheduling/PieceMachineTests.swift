import Testing

@testable import SyncTransfer

@Suite("The life of one piece", .timeLimit(.minutes(10)))
struct PieceMachineTests {
    private func machine() -> PieceMachine {
        var machine = PieceMachine(position: 100)
        machine.take(.started(1))
        return machine
    }

    private func failure(_ kind: Fault.Kind, position: UInt64 = 100, retryAfter: Int64? = nil) -> PieceFailure {
        PieceFailure(
            fault: Fault(kind, "text", retryAfter: retryAfter), position: position, isTooSlow: false, attempts: 3)
    }

    // MARK: - States

    @Test("Nothing follows the end")
    func end() {
        var machine = machine()
        machine.take(.over)
        let before = machine
        machine.take(.enqueued)
        #expect(machine.failed(failure(.broken)) == [])
        #expect(machine == before)
    }

    @Test("A timer and a queue know whether what they hold is still theirs")
    func tickets() {
        var machine = PieceMachine(position: 100)
        let waiting = machine.take(.postponed(.scout))
        #expect(machine.isWaiting(since: waiting) && !machine.isQueued(since: waiting))
        let queued = machine.take(.enqueued)
        #expect(!machine.isWaiting(since: waiting) && !machine.isQueued(since: waiting))
        #expect(machine.isQueued(since: queued) && !machine.isWaiting(since: queued))
        let latest = machine.take(.enqueued)
        #expect(!machine.isQueued(since: queued), "it stands in another queue")
        #expect(machine.isQueued(since: latest))
        _ = machine.failed(failure(.broken))
        #expect(!machine.isQueued(since: latest), "something has been decided about it")
    }

    // MARK: - Ends

    /// Whether the piece is complete, or what is wrong.
    private typealias Ending = (inout PieceMachine) -> Result<Bool, Fault>

    private func ending(
        own: Fault? = nil, fault: Fault? = nil, isAccepted: Bool = true, position: UInt64 = 100, end: UInt64? = 200,
        isFullLength: Bool = false, isTooSlow: Bool = false
    ) -> Ending {
        { machine in
            do throws(Fault) {
                return .success(
                    try machine.ended(
                        own: own, fault: fault, isAccepted: isAccepted, position: position, end: end,
                        isFullLength: isFullLength, isTooSlow: isTooSlow))
            } catch { return .failure(error) }
        }
    }

    @Test("What the end of an answer means for one of its pieces")
    func ends() {
        let broken = Fault(.broken, "reset")
        let large = Fault(.tooLarge, "too much")
        let early = Result<Bool, Fault>.failure(Fault(.broken, "the body ended early"))
        let table: [(Ending, Result<Bool, Fault>, String)] = [
            (ending(position: 200), .success(true), "everything is here"),
            (ending(end: nil), .success(true), "nobody has said how long it is"),
            (ending(own: broken, position: 200), .failure(broken), "its own fault comes first"),
            (ending(own: large, fault: broken), .failure(large), "the same"),
            (ending(fault: broken), .failure(broken), "the exchange's"),
            (ending(fault: broken, position: 200), .success(true), "it had everything before that"),
            (ending(fault: large, position: 200), .failure(large), "then it is another object"),
            (
                ending(fault: broken, isAccepted: false, position: 200), .failure(broken),
                "that was no answer to the question"
            ),
            (ending(position: 150, isFullLength: true), .success(false), "the server gives less at a time (RFC 9110)"),
            (ending(position: 101, isFullLength: true), .success(false), "one byte is progress"),
            (ending(isFullLength: true), early, "nothing is none"),
            (
                ending(position: 101, isFullLength: true, isTooSlow: true),
                .failure(Fault(.slow, "each response is too short")), "one byte at a time takes too long"
            ), (ending(position: 150), early, "more was told"),
            (ending(position: 60, isFullLength: true), early, "a sink that went back has not got further"),
        ]
        for (ending, result, reason) in table {
            var machine = machine()
            #expect(ending(&machine) == result, "\(reason)")
        }
    }

    @Test("An answer that brought less than asked, as it may, is a success for the count of attempts")
    func shortAnswer() {
        var machine = machine()
        _ = machine.failed(failure(.malformed))
        #expect(machine.failures == 1)
        #expect(ending(position: 160, isFullLength: true)(&machine) == .success(false))
        #expect(machine.failures == 0)
        #expect(ending(position: 160, end: 400, isFullLength: true)(&machine) != .success(false), "nothing new")
    }

    // MARK: - Faults

    /// One fault of a piece with one source, at the original URL, without progress.
    @Test("What comes after a first fault, by the retry table [S51, F028]")
    func firstFaults() {
        let later: [PieceAction] = [.recordHostFault, .backOff(times: 1), .retry(anew: false, after: .backOff)]
        let leaving: [PieceAction] = [.dropSource, .penaliseSource, .fail]
        func once(_ strike: Remedy) -> [PieceAction] { [.strike(strike), .retry(anew: true, after: .own)] }
        let table: [(Fault.Kind, [PieceAction])] = [
            (.unreachable, [.awaitConnectivity]), (.captivePortal, [.awaitConnectivity]), (.idle, later),
            (.slow, later), (.broken, later), (.rewound, later), (.status(503), later), (.status(429), later),
            (.malformed, once(.once)), (.libcurl, once(.once)), (.wrongRange, once(.onceWithoutRange)),
            (.otherSize, once(.onceUncached)), (.tls, leaving), (.unwantedForm, leaving), (.redirect, leaving),
            (.policy, leaving), (.tooLarge, leaving), (.status(404), leaving), (.status(403), leaving),
            (.noRanges, [.postponeSource, .ask(anew: true)]), (.proxyAuthentication, [.fail]), (.stopped, [.fail]),
            (.superseded, [.joinOther]),
        ]
        for (kind, actions) in table {
            var machine = machine()
            #expect(machine.failed(failure(kind)) == actions, "\(kind)")
        }
    }

    @Test("A sink that begins again after each interruption makes no progress before it gets further than before")
    func rewound() {
        var machine = machine()
        var counts: [Int] = []
        for (kind, position) in [(Fault.Kind.broken, UInt64(150)), (.rewound, 100), (.broken, 150), (.broken, 160)] {
            _ = machine.failed(failure(kind, position: position))
            counts.append(machine.failures)
        }
        #expect(counts == [1, 2, 3, 1])
    }

    @Test("A remedy that helps once is used once a source, then the source is left")
    func strikes() {
        for (kind, strike) in [
            (Fault.Kind.malformed, Remedy.once), (.wrongRange, .onceWithoutRange), (.otherSize, .onceUncached),
        ] {
            var machine = machine()
            var failure = failure(kind)
            failure.strikes = [strike]
            failure.hasOtherSource = true
            #expect(machine.failed(failure) == [.dropSource, .penaliseSource, .ask(anew: true)], "\(kind)")
        }
    }

    @Test("The last source that is left without ranges is taken as it is, unless it is spent")
    func noRanges() {
        var failure = failure(.noRanges)
        failure.isSourceSpent = true
        var machine = machine()
        #expect(machine.failed(failure) == [.postponeSource, .fail])
        failure.hasOtherSource = true
        #expect(machine.failed(failure) == [.postponeSource, .ask(anew: true)])
    }

    @Test("A connection that broke after bytes is taken up at once, the next one after the host's wait")
    func interruptions() {
        var machine = machine()
        #expect(machine.failed(failure(.broken, position: 101)) == [.retry(anew: false, after: .none)])
        #expect(
            machine.failed(failure(.idle, position: 102)) == [
                .backOff(times: 0), .retry(anew: false, after: .backOff),
            ])
        for position in 103..<200 {
            let actions = machine.failed(failure(.broken, position: UInt64(position)))
            #expect(actions == [.backOff(times: 0), .retry(anew: false, after: .backOff)])
        }
        #expect(machine.failures == 1)
        var slow = failure(.broken, position: 200)
        slow.isTooSlow = true
        #expect(machine.failed(slow) == [.backOff(times: 0), .fail])
    }

    @Test("A link that refuses is asked for anew at once, then after a wait, then left [S74, F025]")
    func expiredLinks() {
        var machine = machine()
        var failure = failure(.status(403))
        failure.hasMoved = true
        failure.attempts = 9
        #expect(machine.failed(failure) == [.forgetRedirect, .expireResolution, .retry(anew: true, after: .none)])
        #expect(machine.failed(failure) == [.forgetRedirect, .expireResolution, .retry(anew: true, after: .own)])
        #expect(machine.failed(failure) == [.forgetRedirect, .dropSource, .penaliseSource, .fail])
        failure.position = 101
        #expect(machine.failed(failure).contains(.expireResolution), "the one before was good for something")
    }

    @Test("What a redirect taught is forgotten after a fault there, not after an interruption")
    func lessons() {
        for (kind, position, forgets) in [
            (Fault.Kind.broken, UInt64(100), true), (.broken, 101, false), (.idle, 101, false), (.slow, 101, true),
            (.stopped, 100, false), (.malformed, 100, true),
        ] {
            var machine = machine()
            var failure = failure(kind, position: position)
            failure.hasMoved = true
            #expect(machine.failed(failure).contains(.forgetRedirect) == forgets, "\(kind) at \(position)")
        }
    }

    @Test("Another credential is shown at once and is no attempt [F026]")
    func credentials() {
        var machine = machine()
        var failure = failure(.status(401))
        failure.isCredentialRenewed = true
        #expect(machine.failed(failure) == [.ask(anew: true)])
        #expect(machine.failures == 0)
    }

    @Test("A mirror that can be asked is asked at once; the source that failed is asked after it")
    func mirrors() {
        var machine = machine()
        var failure = failure(.status(503))
        failure.isOnlySource = false
        failure.isOtherSourceReady = true
        #expect(machine.failed(failure) == [.penaliseSource, .ask(anew: true)])
        failure.isOtherSourceReady = false
        #expect(
            machine.failed(failure) == [
                .penaliseSource, .recordHostFault, .backOff(times: 2), .retry(anew: false, after: .backOff),
            ])
        #expect(machine.failed(failure).last == .fail, "that was the last attempt")
    }

    @Test("A server that names a time is kept to it, by all who want something there [F029]")
    func retryAfter() {
        var machine = machine()
        let failure = failure(.status(503), retryAfter: 7)
        #expect(machine.failed(failure) == [.holdHost(7), .ask(anew: false)])
        #expect(machine.failed(failure) == [.holdHost(7), .ask(anew: false)])
        #expect(machine.failed(failure) == [.fail])
    }

    @Test("A refusal that names a time is a rate limit, and is waited for [F029]", arguments: [403, 413])
    func limited(status: Int) {
        for hasMoved in [false, true] {
            var machine = machine()
            var failure = failure(.status(status), retryAfter: 7)
            failure.hasMoved = hasMoved
            #expect(machine.failed(failure).suffix(2) == [.holdHost(7), .ask(anew: false)])
        }
    }

    @Test("Attempts count in a row: one new byte makes the next failure the first one")
    func attempts() {
        var machine = machine()
        _ = machine.failed(failure(.slow))
        _ = machine.failed(failure(.slow))
        #expect(machine.failures == 2)
        _ = machine.failed(failure(.slow, position: 101))
        #expect(machine.failures == 1)
        #expect(machine.lastFault?.kind == .slow)
    }

    @Test("Where nothing is reached, no attempt is counted, however often [S51]")
    func connectivity() {
        var machine = machine()
        for _ in 0..<20 { #expect(machine.failed(failure(.unreachable)) == [.awaitConnectivity]) }
        #expect(machine.failures == 0)
    }
}
