import SyncModel

/// A fault and its circumstances.
struct PieceFailure {
    var fault: Fault
    /// The next wanted **byte**.
    var position: UInt64
    /// Whether the URL that failed came from a redirect, a rule or the redirect memory.
    var hasMoved = false
    /// Whether another credential will replace the refused one.
    var isCredentialRenewed = false
    /// One-time remedies already used on the source.
    var strikes: Set<Remedy> = []
    /// Whether this transfer no longer asks the source.
    var isSourceSpent = false
    /// Whether other sources are left, and whether one of them can be asked at once.
    var hasOtherSource = false
    var isOtherSourceReady = false
    /// Whether the transfer has only this source.
    var isOnlySource = true
    /// Whether the piece has received too little for too long, see ``Pace``.
    var isTooSlow: Bool
    var attempts: Int
}

/// What to do for a piece after a fault. The actions of a list are carried out in order.
enum PieceAction: Equatable {
    /// Join the exchange that receives the whole object, or else ask again.
    case joinOther
    /// Ask again, ahead of all requests that have not started: at the URL of the last request, or at the original URL
    /// if `anew`.
    case ask(anew: Bool)
    /// Ask again after a wait. The original URL is asked, too, if the link of the last request has expired by then.
    case retry(anew: Bool, after: PieceDelay)
    /// Ask again once the host can be reached.
    case awaitConnectivity
    /// Give the transfer up.
    case fail
    /// Forget the remembered redirect.
    case forgetRedirect
    /// Discard the resolution, so that resolvers are asked again.
    case expireResolution
    /// Note that this one-time remedy was used on the source.
    case strike(Remedy)
    /// Put the source after all others for a while, without reporting that.
    case postponeSource
    /// Put the source after all others because it failed. Lowers its score, and reports that if there are others.
    case penaliseSource
    /// Stop asking the source in this transfer.
    case dropSource
    /// The host is at fault.
    case recordHostFault
    /// Make failed requests wait for the host. `times` is this piece's failures in a row, 0 after progress.
    case backOff(times: Int)
    /// Start nothing at the host for this many **seconds**, as it requested.
    case holdHost(Int64)
}

/// How long a piece waits.
enum PieceDelay: Equatable {
    case none
    /// The delay scheduled for the piece's own failures.
    case own
    /// The delay that ``PieceAction/backOff(times:)`` determined.
    case backOff
}

/// The life of one piece: its state, its failures, and its next step. Pure: the worker reports what happened and
/// carries out the returned actions. ``PieceState/after(_:)`` is the state table.
struct PieceMachine: Equatable {
    private(set) var state = PieceState.queued
    /// Raised by every change, so that holders of an older ticket know that theirs is void.
    private(set) var ticket: UInt64 = 0
    /// Attempts in a row that received nothing.
    private(set) var failures = 0
    /// Refusals in a row by the target of a redirect.
    private(set) var refusals = 0
    /// Whether the piece has already retried at once after a broken connection; the next time it waits.
    private(set) var hasRetriedAtOnce = false
    private(set) var lastFault: Fault?
    /// The furthest **byte** that has been the next wanted one when progress was measured. A sink that begins again has
    /// made none before it gets further than that, or a server that always breaks off would be asked for ever.
    private(set) var mark: UInt64

    /// Most fresh redirects in a row that are requested because the target refuses: one for an expired link, one for
    /// clocks and caches. A target that refuses a third time has another reason.
    static let mostRefusals = 2

    init(position: UInt64) { mark = position }

    /// Applies an input. An impossible input changes nothing, and stops builds with assertions, such as tests.
    ///
    /// - Returns: The ticket that is valid from now on.
    @discardableResult mutating func take(_ input: PieceInput) -> UInt64 {
        switch state.after(input) {
        case .to(let next): (state, ticket) = (next, ticket &+ 1)
        case .stays: break
        case .refused: assertionFailure("\(input) while \(state)")
        }
        return ticket
    }

    /// Whether the piece has been waiting since it got this ticket.
    func isWaiting(since ticket: UInt64) -> Bool {
        guard ticket == self.ticket, case .waiting = state else { return false }
        return true
    }

    /// Whether the piece has been queued since it got this ticket.
    func isQueued(since ticket: UInt64) -> Bool { ticket == self.ticket && state == .queued }

    /// Handles the end of an exchange that was not a redirect.
    ///
    /// - Parameters:
    ///   - own: Why this piece wanted no more of the exchange; others may.
    ///   - fault: The fault of the exchange.
    ///   - isAccepted: Whether the answer fits the request.
    ///   - position: The next wanted **byte**.
    ///   - end: One past the last wanted **byte**; `nil` while the length is unknown.
    ///   - isFullLength: Whether everything arrived that the answer's head announced.
    ///   - isTooSlow: Whether the piece has received too little for too long, see ``Pace``.
    /// - Returns: Whether the piece is complete. If not, the rest is requested at the same URL.
    /// - Throws: The fault to decide about.
    mutating func ended(
        own: Fault?, fault: Fault?, isAccepted: Bool, position: UInt64, end: UInt64?, isFullLength: Bool,
        isTooSlow: Bool
    ) throws(Fault) -> Bool {
        if let own { throw own }
        let isComplete = end == position
        if let fault, !(isComplete && isAccepted && fault.kind != .tooLarge) { throw fault }
        if isComplete || end == nil { return true }
        guard isFullLength, position > mark else { throw Fault(.broken, "the body ended early") }
        guard !isTooSlow else { throw Fault(.slow, "each response is too short") }
        // The server sent less than asked for, as it may: RFC 9110 §15.3.7.
        failures = 0
        mark = position
        return false
    }

    /// Decides how to go on after a fault: again, at another source, later, or not at all.
    mutating func failed(_ failure: PieceFailure) -> [PieceAction] {
        guard state != .ended else { return [] }
        ticket &+= 1
        let fault = failure.fault
        guard fault.kind != .superseded else { return [.joinOther] }
        lastFault = fault
        let progress = failure.position - min(mark, failure.position)
        if progress > 0 { (failures, refusals) = (0, 0) }
        mark = max(mark, failure.position)
        let isInterruption = (fault.kind == .broken || fault.kind == .idle) && progress > 0
        let isRedirectBad = failure.hasMoved && !isInterruption && fault.kind != .stopped
        return (isRedirectBad ? [.forgetRedirect] : []) + remedy(failure, isInterruption: isInterruption)
    }

    private mutating func remedy(_ failure: PieceFailure, isInterruption: Bool) -> [PieceAction] {
        if failure.isCredentialRenewed { return [.ask(anew: true)] }
        let remedy = failure.fault.remedy(redirected: failure.hasMoved)
        switch remedy {
        case .waitForConnectivity: return [.awaitConnectivity]
        case .again where isInterruption:
            defer { hasRetriedAtOnce = true }
            guard hasRetriedAtOnce else { return again(failure) ?? [.retry(anew: false, after: .none)] }
            return [.backOff(times: 0)] + (again(failure) ?? [.retry(anew: false, after: .backOff)])
        case .again: return switchOrWait(failure)
        case .againFromOriginal where refusals < Self.mostRefusals:
            refusals += 1
            return [.expireResolution] + (again(failure) ?? [.retry(anew: true, after: refusals == 1 ? .none : .own)])
        case .onceWithoutRange, .onceUncached, .once:
            guard !failure.strikes.contains(remedy) else { return leaveSource(failure) }
            return [.strike(remedy)] + (again(failure) ?? [.retry(anew: true, after: .own)])
        case .againFromOriginal, .nextSource: return leaveSource(failure)
        case .fail, .joinOther: return [.fail]
        }
    }

    /// Counts an attempt.
    ///
    /// - Returns: The actions left after the last attempt; `nil` if another attempt is allowed.
    private mutating func again(_ failure: PieceFailure) -> [PieceAction]? {
        failures += 1
        return failures < failure.attempts && !failure.isTooSlow ? nil : [.fail]
    }

    /// Uses another source at once if one is not penalised, and otherwise retries this source after a wait.
    private mutating func switchOrWait(_ failure: PieceFailure) -> [PieceAction] {
        let penalty: [PieceAction] = failure.isOnlySource ? [] : [.penaliseSource]
        if failure.isOtherSourceReady { return penalty + (again(failure) ?? [.ask(anew: true)]) }
        guard let seconds = failure.fault.retryAfter else {
            let wait = PieceAction.backOff(times: failures + 1)
            return penalty + [.recordHostFault, wait] + (again(failure) ?? [.retry(anew: false, after: .backOff)])
        }
        // The server named a time, so no other request goes there earlier either.
        return penalty + (again(failure) ?? [.holdHost(seconds), .ask(anew: false)])
    }

    private func leaveSource(_ failure: PieceFailure) -> [PieceAction] {
        let isRangeless = failure.fault.kind == .noRanges
        let hasSource = failure.hasOtherSource || isRangeless && !failure.isSourceSpent
        return (isRangeless ? [.postponeSource] : [.dropSource, .penaliseSource]) + [
            hasSource ? .ask(anew: true) : .fail
        ]
    }
}
