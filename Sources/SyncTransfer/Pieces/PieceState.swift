import SyncModel

/// The number of an exchange of a worker, counted from 1.
typealias ExchangeID = UInt64

/// The state of a piece of a transfer.
enum PieceState: Equatable {
    /// In a queue, or between two states within one call.
    case queued
    case waiting(PieceWait)
    /// Waits for the end of another exchange that receives the whole object.
    case parked
    /// Part of an exchange.
    case running(ExchangeID)
    case ended
}

/// The reason for which a piece waits.
enum PieceWait: Equatable {
    /// Its next attempt, at this time.
    case until(Duration)
    /// An answer of resolvers.
    case resolver
    /// The redirect of another request to the same place.
    case scout
    /// The record of its next hop.
    case record
}

/// An input to the state of a piece.
enum PieceInput: Equatable {
    /// It joins the queue of a host.
    case enqueued
    /// Its own request is sent.
    case started(ExchangeID)
    /// The body of another request serves it.
    case joined(ExchangeID)
    /// The only body of its object is already past its bytes.
    case missed
    /// It has to wait, for this reason.
    case postponed(PieceWait)
    /// It is complete, or its transfer has been given up.
    case over
}

extension PieceState {
    /// The transition for an input. Pure.
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
        // Only a queued piece is started.
        case .started(let id): self == .queued ? .to(.running(id)) : .refused
        case .postponed(.scout) where self != .queued, .postponed(.record) where self != .queued: .refused
        // A body that has just begun serves every piece it can.
        case .joined(let id): .to(.running(id))
        case .missed: .to(.parked)
        // A fault may also come while the piece waits, as when its source may not be asked.
        case .postponed(let wait): .to(.waiting(wait))
        case .over: .to(.ended)
        }
    }
}
