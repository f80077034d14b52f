/// Which exchange of a worker, counted from 1.
struct ExchangeID: Hashable {
    let number: UInt64
}

/// Where a piece of a transfer is.
enum PieceState: Equatable {
    /// In a queue, or between two states within one call.
    case queued
    case waiting(PieceWait)
    /// Waits for the end of another exchange that has the whole object.
    case parked
    /// Part of an exchange.
    case running(ExchangeID)
    case ended
}

/// What a piece waits for.
enum PieceWait: Equatable {
    /// Its next attempt, at this time.
    case until(Duration)
    /// What resolvers say.
    case resolver
    /// Where another request to the same place is redirected.
    case scout
}

/// How an exchange ended, for one of its pieces.
struct PieceEnding {
    /// Why this piece wanted no more of it, although others may.
    var own: Fault?
    /// What was wrong with it.
    var fault: Fault?
    /// Whether it answered the question.
    var isAccepted: Bool
    /// The next wanted **byte**, and one past the last; `nil` while nobody has said how long the object is.
    var position: UInt64
    var end: UInt64?
    /// Whether everything came that the answer's head told.
    var isAsTold: Bool
    /// New **bytes** that make it a success.
    var leastProgress: UInt64
}

/// A fault, and what is known around it.
struct PieceFailure {
    var fault: Fault
    /// The next wanted **byte**.
    var position: UInt64
    /// Whether the URL that failed came from a redirect, a rule or memory.
    var hasMoved = false
    /// Whether another credential will be shown, in place of one that was refused.
    var isCredentialRenewed = false
    /// Remedies that the source has had.
    var strikes: Set<RetryTable.Strike> = []
    /// Whether the source is asked no more anyway.
    var isSourceSpent = false
    /// Other sources that are not spent, and whether one of them can be asked at once.
    var hasOtherSource = false
    var isOtherSourceReady = false
    /// Whether the transfer has only this source.
    var isOnlySource = true
    /// New **bytes** since the last failure that make it the first one again.
    var leastProgress: UInt64
    var attempts: Int
}

/// What is to be done for a piece. Those of one list are done in their order.
enum PieceAction: Equatable {
    /// Everything is here, and what was learnt on the way is good.
    case complete
    /// Decide about a fault.
    case settle(Fault)
    /// Be served by the exchange that has the whole object; else ask again.
    case joinOther
    /// Ask again, ahead of everything that has not started.
    case ask(PieceRoute)
    /// Ask again after a wait.
    case retry(PieceRoute, after: PieceDelay)
    /// Ask again when something answers there.
    case awaitConnectivity
    /// Give the transfer up.
    case fail
    /// Where the place had led is no good any more.
    case forgetLesson
    /// Ask resolvers again.
    case expireResolution
    /// The source has had this remedy.
    case strike(RetryTable.Strike)
    /// Ask the source only after the others for a while.
    case postponeSource
    /// The same, since it failed, and tell it.
    case penaliseSource
    /// Ask the source no more.
    case dropSource
    /// The host is at fault.
    case blameHost
    /// Those that have failed at the host wait for it; `times` in a row for this piece, 0 when it was brought further.
    case backOff(times: Int)
    /// Nothing starts at the host for so many **seconds**, which it named.
    case holdHost(Int64)
}

/// Where the next request begins.
enum PieceRoute: Equatable {
    /// At the original URL.
    case original
    /// Where the last one went.
    case same
    /// The same, unless that link has expired.
    case sameWhileGood
}

/// How long a piece waits.
enum PieceDelay: Equatable {
    case none
    /// By the schedule, for its own failures.
    case own
    /// As ``PieceAction/backOff(times:)`` has just said.
    case backOff
}

/// The life of one piece: where it is, how often it has failed, and what comes next. Pure: the worker brings what
/// happened and does what is returned.
///
/// Every living state can follow every other: an answer under way can serve whoever waits, and a fault can send
/// anyone anywhere. Nothing follows ``PieceState/ended``.
struct PieceMachine: Equatable {
    private(set) var state = PieceState.queued
    /// Raised by everything that happens, so that whoever has kept an older one knows that it does not count any more.
    private(set) var ticket: UInt64 = 0
    /// Attempts in a row without progress.
    private(set) var failures = 0
    /// Refusals in a row by what a redirect led to.
    private(set) var refusals = 0
    /// Whether it has gone on at once after a connection that broke: the next time it waits.
    private(set) var wasTakenUp = false
    private(set) var lastFault: Fault?
    /// The next wanted **byte** when progress was measured last.
    private(set) var mark: UInt64

    /// Times in a row that a fresh redirect is asked for when its target refuses: once for a link that has expired,
    /// once for clocks and caches. A target that refuses a third time does so for a reason.
    static let mostRefusals = 2

    /// - Parameter position: The first wanted **byte**.
    init(position: UInt64) { mark = position }

    /// Goes to another state.
    mutating func move(to next: PieceState) {
        guard state != .ended else { return }
        state = next
        ticket &+= 1
    }

    /// Whether it waits, and has done so since it got a ticket.
    func isWaiting(since ticket: UInt64) -> Bool {
        guard ticket == self.ticket, case .waiting = state else { return false }
        return true
    }

    /// Whether it is in a queue, and has been since it got a ticket.
    func isQueued(since ticket: UInt64) -> Bool { ticket == self.ticket && state == .queued }

    /// Decides about the end of an exchange that was no redirect.
    mutating func ended(_ ending: PieceEnding) -> PieceAction {
        if let own = ending.own { return .settle(own) }
        let isComplete = ending.end == ending.position
        if let fault = ending.fault, !(isComplete && ending.isAccepted && fault.kind != .tooLarge) {
            return .settle(fault)
        }
        if isComplete || ending.end == nil { return .complete }
        guard ending.isAsTold, ending.position - min(mark, ending.position) >= ending.leastProgress else {
            return .settle(Fault(.broken, "the body ended early"))
        }
        // The server gives less at a time than was asked for, as it may: RFC 9110 §15.3.7.
        failures = 0
        mark = ending.position
        return .ask(.same)
    }

    /// Decides after a fault: again, elsewhere, later, or not at all.
    mutating func failed(_ failure: PieceFailure) -> [PieceAction] {
        guard state != .ended else { return [] }
        ticket &+= 1
        let fault = failure.fault
        guard fault.kind != .superseded else { return [.joinOther] }
        lastFault = fault
        let progress = failure.position - min(mark, failure.position)
        if progress >= failure.leastProgress { failures = 0 }
        if progress > 0 { refusals = 0 }
        mark = failure.position
        let isInterruption = (fault.kind == .broken || fault.kind == .idle) && progress > 0
        let isLessonBad = failure.hasMoved && !isInterruption && fault.kind != .stopped
        return (isLessonBad ? [.forgetLesson] : []) + remedy(failure, isInterruption: isInterruption)
    }

    private mutating func remedy(_ failure: PieceFailure, isInterruption: Bool) -> [PieceAction] {
        if failure.isCredentialRenewed { return [.ask(.original)] }
        switch RetryTable.remedy(for: failure.fault.kind, redirected: failure.hasMoved) {
        case .waitForConnectivity: return [.awaitConnectivity]
        case .again where isInterruption:
            defer { wasTakenUp = true }
            guard wasTakenUp else { return again(failure) ?? [.retry(.sameWhileGood, after: .none)] }
            return [.backOff(times: 0)] + (again(failure) ?? [.retry(.sameWhileGood, after: .backOff)])
        case .again: return elsewhereOrLater(failure)
        case .againFromOriginal where refusals < Self.mostRefusals:
            refusals += 1
            return [.expireResolution]
                + (again(failure) ?? [.retry(.original, after: refusals == 1 ? .none : .own)])
        case .onceWithoutRange where !failure.strikes.contains(.withoutRange):
            return once(.withoutRange, failure)
        case .onceUncached where !failure.strikes.contains(.uncached): return once(.uncached, failure)
        case .once where !failure.strikes.contains(.again): return once(.again, failure)
        case .onceWithoutRange, .onceUncached, .once, .againFromOriginal, .nextSource: return leave(failure)
        case .fail, .joinOther: return [.fail]
        }
    }

    /// Counts an attempt.
    ///
    /// - Returns: What is left when it was the last one; `nil` for another one.
    private mutating func again(_ failure: PieceFailure) -> [PieceAction]? {
        failures += 1
        return failures < failure.attempts ? nil : [.fail]
    }

    private mutating func once(_ strike: RetryTable.Strike, _ failure: PieceFailure) -> [PieceAction] {
        [.strike(strike)] + (again(failure) ?? [.retry(.original, after: .own)])
    }

    /// Another source at once if there is one that is not penalised; else this one after a wait.
    private mutating func elsewhereOrLater(_ failure: PieceFailure) -> [PieceAction] {
        let penalty: [PieceAction] = failure.isOnlySource ? [] : [.penaliseSource]
        if failure.isOtherSourceReady { return penalty + (again(failure) ?? [.ask(.original)]) }
        guard let seconds = failure.fault.retryAfter else {
            let wait = PieceAction.backOff(times: failures + 1)
            return penalty + [.blameHost, wait]
                + (again(failure) ?? [.retry(.sameWhileGood, after: .backOff)])
        }
        // The server named a time: nobody else bothers it before then either.
        return penalty + (again(failure) ?? [.holdHost(seconds), .ask(.same)])
    }

    private func leave(_ failure: PieceFailure) -> [PieceAction] {
        let isRangeless = failure.fault.kind == .noRanges
        let hasSource = failure.hasOtherSource || isRangeless && !failure.isSourceSpent
        return (isRangeless ? [.postponeSource] : [.dropSource, .penaliseSource])
            + [hasSource ? .ask(.original) : .fail]
    }
}
