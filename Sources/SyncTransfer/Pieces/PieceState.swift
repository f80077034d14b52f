import SyncModel

/// Which exchange of a worker, counted from 1.
typealias ExchangeID = UInt64

/// Where a piece of a transfer is.
enum PieceState: Equatable {
    /// In a queue, or between two states within one call.
    case queued
    case waiting(PieceWait)
    /// Waits for another exchange with the whole object to end.
    case parked
    /// Part of an exchange.
    case running(ExchangeID)
    case ended
}

/// What a piece waits for.
enum PieceWait: Equatable {
    /// Its next attempt, at this time.
    case until(Duration)
    /// An answer of resolvers.
    case resolver
    /// The redirect of another request to the same place.
    case scout
    /// The record of where it goes next.
    case record
}

/// What can happen to a piece.
enum PieceInput: Equatable {
    /// It joins the queue of a host.
    case enqueued
    /// Its own request is sent.
    case started(ExchangeID)
    /// The body of another request serves it.
    case joined(ExchangeID)
    /// The only body of its object is already past its bytes.
    case missed
    /// It has to wait for this.
    case postponed(PieceWait)
    /// It is complete, or its transfer has been given up.
    case over
}

extension PieceState {
    /// Where an input leads: pure.
    ///
    /// ```
    ///                                           postponed
    ///         enqueued started joined  missed  until   resolver scout   record  over
    /// queued  queued   running running parked  waiting waiting  waiting waiting ended
    /// waiting queued   refused running parked  waiting waiting  refused refused ended
    /// parked  queued   refused running parked  waiting waiting  refused refused ended
    /// running queued   refused running parked  waiting waiting  refused refused ended
    /// ended   stays    stays   stays   stays   stays   stays    stays   stays   stays
    /// ```
    func after(_ input: PieceInput) -> Transition<PieceState> {
        if self == .ended { return .stays }
        return switch input {
        case .enqueued: .to(.queued)
        // Only a queue has a turn.
        case .started(let id): self == .queued ? .to(.running(id)) : .refused
        case .postponed(.scout) where self != .queued, .postponed(.record) where self != .queued: .refused
        // A body that has just begun serves whoever it can.
        case .joined(let id): .to(.running(id))
        // A source that may not be asked is a fault also while the piece waits.
        case .missed: .to(.parked)
        case .postponed(let wait): .to(.waiting(wait))
        case .over: .to(.ended)
        }
    }
}
