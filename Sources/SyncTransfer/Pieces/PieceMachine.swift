import SyncModel

/// A fault and its circumstances.
struct PieceFailure {
    var fault: Fault
    /// The next wanted **byte**.
    var position: UInt64
    /// Whether the URL that failed came from a redirect, a rule or memory.
    var hasMoved = false
    /// Whether another credential will replace the refused one.
    var isCredentialRenewed = false
    /// Remedies already used on the source.
    var strikes: Set<Remedy> = []
    /// Whether the source is not asked any more in any case.
    var isSourceSpent = false
    /// Whether other sources are left, and whether one of them can be asked at once.
    var hasOtherSource = false
    var isOtherSourceReady = false
    /// Whether the transfer has only this source.
    var isOnlySource = true
    /// Whether it has brought too little for too long, see ``Pace``.
    var isTooSlow: Bool
    var attempts: Int
}

/// What to do for a piece after a fault. The actions of one list are done in order.
enum PieceAction: Equatable {
    /// Be served by the exchange with the whole object, or else ask again.
    case joinOther
    /// Ask again, ahead of everything that has not started: at the URL of the last request, or, `anew`, at the original one.
    case ask(anew: Bool)
    /// Ask again after a wait; also at the original URL if the link of the last request has expired by then.
    case retry(anew: Bool, after: PieceDelay)
    /// Ask again once the host can be reached.
    case awaitConnectivity
    /// Give the transfer up.
    case fail
    /// What was remembered of redirects is no longer good.
    case forgetLesson
    /// Ask resolvers again.
    case expireResolution
    /// Note that this remedy was used on the source.
    case strike(Remedy)
    /// Ask the source only after the others for a while, without reporting that.
    case postponeSource
    /// The same because it failed: lowers its score, and reports it if there are other sources.
    case penaliseSource
    /// Ask the source no more in this transfer.
    case dropSource
    /// The host is at fault.
    case blameHost
    /// Failed requests wait for the host; `times` is this piece's failures in a row, 0 after progress.
    case backOff(times: Int)
    /// Start nothing at the host for this many **seconds**, as it asked.
    case holdHost(Int64)
}

/// How long a piece waits.
enum PieceDelay: Equatable {
    case none
    /// As scheduled for its own failures.
    case own
    /// As ``PieceAction/backOff(times:)`` determined.
    case backOff
}

/// The life of one piece: its state, its failures, and what comes next. Pure: the worker reports what happened and
/// carries out the returned actions. ``PieceState/after(_:)`` is the table of states.
struct PieceMachine: Equatable {
    private(set) var state = PieceState.queued
    /// Raised by every change, so that holders of an older ticket know that it is void.
    private(set) var ticket: UInt64 = 0
    /// Attempts in a row that brought nothing.
    private(set) var failures = 0
    /// Refusals in a row by the target of a redirect.
    private(set) var refusals = 0
    /// Whether it has retried at once after a broken connection; the next time it waits.
    private(set) var wasTakenUp = false
    private(set) var lastFault: Fault?
    /// The next wanted **byte** when progress was measured last.
    private(set) var mark: UInt64

    /// Most fresh redirects in a row that are asked for because the target refuses: one for an expired link, one for
    /// clocks and caches. A target that refuses a third time has another reason.
    static let mostRefusals = 2

    init(position: UInt64) { mark = position }

    /// Takes what has happened. What cannot happen changes nothing, and stops builds with assertions: tests.
    ///
    /// - Returns: The ticket that is good from now on.
    @discardableResult mutating func take(_ input: PieceInput) -> UInt64 {
        switch state.after(input) {
        case .to(let next): (state, ticket) = (next, ticket &+ 1)
        case .stays: break
        case .refused: assertionFailure("\(input) while \(state)")
        }
        return ticket
    }

    /// Whether it has been waiting since it got this ticket.
    func isWaiting(since ticket: UInt64) -> Bool {
        guard ticket == self.ticket, case .waiting = state else { return false }
        return true
    }

    /// Whether it has been queued since it got this ticket.
    func isQueued(since ticket: UInt64) -> Bool { ticket == self.ticket && state == .queued }

    /// Takes the end of an exchange that was no redirect.
    ///
    /// - Parameters:
    ///   - own: Why this piece wanted no more of it; others may.
    ///   - fault: What was wrong with it.
    ///   - isAccepted: Whether it answered the question.
    ///   - position: The next wanted **byte**.
    ///   - end: One past the last wanted **byte**; `nil` while the length is unknown.
    ///   - isAsTold: Whether everything arrived that the answer's head announced.
    ///   - isTooSlow: Whether the piece has brought too little for too long, see ``Pace``.
    /// - Returns: Whether it is complete. If not, the rest is asked for at the same URL.
    /// - Throws: The fault to decide about.
    mutating func ended(
        own: Fault?, fault: Fault?, isAccepted: Bool, position: UInt64, end: UInt64?, isAsTold: Bool, isTooSlow: Bool
    ) throws(Fault) -> Bool {
        if let own { throw own }
        let isComplete = end == position
        if let fault, !(isComplete && isAccepted && fault.kind != .tooLarge) { throw fault }
        if isComplete || end == nil { return true }
        guard isAsTold, position > mark else { throw Fault(.broken, "the body ended early") }
        guard !isTooSlow else { throw Fault(.slow, "each response is too short") }
        // The server sent less than asked for, as it may: RFC 9110 §15.3.7.
        failures = 0
        mark = position
        return false
    }

    /// Decides after a fault: again, elsewhere, later, or not at all.
    mutating func failed(_ failure: PieceFailure) -> [PieceAction] {
        guard state != .ended else { return [] }
        ticket &+= 1
        let fault = failure.fault
        guard fault.kind != .superseded else { return [.joinOther] }
        lastFault = fault
        let progress = failure.position - min(mark, failure.position)
        if progress > 0 { (failures, refusals) = (0, 0) }
        mark = failure.position
        let isInterruption = (fault.kind == .broken || fault.kind == .idle) && progress > 0
        let isLessonBad = failure.hasMoved && !isInterruption && fault.kind != .stopped
        return (isLessonBad ? [.forgetLesson] : []) + remedy(failure, isInterruption: isInterruption)
    }

    private mutating func remedy(_ failure: PieceFailure, isInterruption: Bool) -> [PieceAction] {
        if failure.isCredentialRenewed { return [.ask(anew: true)] }
        let remedy = failure.fault.remedy(redirected: failure.hasMoved)
        switch remedy {
        case .waitForConnectivity: return [.awaitConnectivity]
        case .again where isInterruption:
            defer { wasTakenUp = true }
            guard wasTakenUp else { return again(failure) ?? [.retry(anew: false, after: .none)] }
            return [.backOff(times: 0)] + (again(failure) ?? [.retry(anew: false, after: .backOff)])
        case .again: return elsewhereOrLater(failure)
        case .againFromOriginal where refusals < Self.mostRefusals:
            refusals += 1
            return [.expireResolution] + (again(failure) ?? [.retry(anew: true, after: refusals == 1 ? .none : .own)])
        case .onceWithoutRange, .onceUncached, .once:
            guard !failure.strikes.contains(remedy) else { return leave(failure) }
            return [.strike(remedy)] + (again(failure) ?? [.retry(anew: true, after: .own)])
        case .againFromOriginal, .nextSource: return leave(failure)
        case .fail, .joinOther: return [.fail]
        }
    }

    /// Counts an attempt.
    ///
    /// - Returns: What is left when it was the last one; `nil` for another one.
    private mutating func again(_ failure: PieceFailure) -> [PieceAction]? {
        failures += 1
        return failures < failure.attempts && !failure.isTooSlow ? nil : [.fail]
    }

    /// Another source at once if there is one that is not penalised; otherwise this one after a wait.
    private mutating func elsewhereOrLater(_ failure: PieceFailure) -> [PieceAction] {
        let penalty: [PieceAction] = failure.isOnlySource ? [] : [.penaliseSource]
        if failure.isOtherSourceReady { return penalty + (again(failure) ?? [.ask(anew: true)]) }
        guard let seconds = failure.fault.retryAfter else {
            let wait = PieceAction.backOff(times: failures + 1)
            return penalty + [.blameHost, wait] + (again(failure) ?? [.retry(anew: false, after: .backOff)])
        }
        // The server named a time: no other request goes there before it either.
        return penalty + (again(failure) ?? [.holdHost(seconds), .ask(anew: false)])
    }

    private func leave(_ failure: PieceFailure) -> [PieceAction] {
        let isRangeless = failure.fault.kind == .noRanges
        let hasSource = failure.hasOtherSource || isRangeless && !failure.isSourceSpent
        return (isRangeless ? [.postponeSource] : [.dropSource, .penaliseSource]) + [
            hasSource ? .ask(anew: true) : .fail
        ]
    }
}
