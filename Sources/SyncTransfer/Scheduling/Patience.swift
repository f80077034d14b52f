/// How long to wait for servers that deliver nothing: down, silent, failing, or behind a log-in page. A wait that a
/// server asks for does not count.
package struct Patience: Sendable, Equatable {
    /// Before the first answer from any host.
    package var firstContact: Duration
    /// After it.
    package var silence: Duration

    /// For a person who is waiting.
    package static let ofPerson = Patience(firstContact: .seconds(10), silence: .seconds(60))

    package init(_ both: Duration) { (firstContact, silence) = (both, both) }

    package init(firstContact: Duration, silence: Duration) {
        self.firstContact = firstContact
        self.silence = silence
    }
}

/// How long one host has been silent.
struct HostSilence {
    /// Since when it has delivered nothing although asked; `nil` if it is not being asked.
    fileprivate(set) var since: Duration?
    /// Since when it has had no request: the end of the last exchange, or of the last wait that it caused.
    fileprivate var idleSince: Duration = .zero
    /// When it is looked at next; timers for another time are void.
    var lookAt: Duration?

    /// Until then it is busy, or a wait that it caused is under way.
    mutating func isBusy(until time: Duration) { idleSince = max(idleSince, time) }

    /// An exchange has ended.
    mutating func isIdle(from now: Duration) { idleSince = now }

    /// A wait that the server asked for does not count.
    mutating func excuse(until time: Duration) { if let before = since { since = max(before, time) } }

    /// So much time does not count: nobody was there to receive anything.
    mutating func excuse(for time: Duration) {
        since = since.map { $0 + time }
        idleSince += time
    }

    /// It delivers: from now on a new silence is measured, if it is still being asked.
    mutating func restart(isAsked: Bool, now: Duration) { since = isAsked ? now : nil }
}

/// Finds hosts that have been silent beyond patience. Each host has one timer; nothing here runs per byte.
struct SilenceWatch {
    /// `nil` for no limit.
    var patience: Patience?
    /// Whether any host has answered yet.
    private var hasContact = false

    init(_ patience: Patience?) { self.patience = patience }

    /// How long a host may be silent at present; `nil` for no limit.
    var limit: Duration? { patience.map { hasContact ? $0.silence : $0.firstContact } }

    /// Notes that a host is about to be asked.
    ///
    /// - Returns: When it is to be looked at; `nil` when that is arranged.
    func begin(_ host: HostState, now: Duration) -> Duration? {
        // A host that was not asked was not silent; after a long time without requests it starts anew.
        let idle = host.running == 0 ? max(.zero, now - max(host.silence.idleSince, host.backoff.until)) : .zero
        let isNew = idle >= max(limit ?? .zero, .seconds(1))
        let since = isNew ? now : host.silence.since.map { min(now, $0 + idle) } ?? now
        host.silence.since = since
        host.silence.isBusy(until: now)
        guard let limit, host.silence.lookAt == nil else { return nil }
        let time = max(now, since + limit)
        host.silence.lookAt = time
        return time
    }

    /// The time to look may have come.
    ///
    /// - Returns: Whether the host has been silent for too long; else when it is to be looked at again, if it is.
    func look(at host: HostState, now: Duration) -> (isSilent: Bool, again: Duration?) {
        guard let time = host.silence.lookAt, time <= now else { return (false, nil) }
        host.silence.lookAt = nil
        guard let limit, let since = host.silence.since else { return (false, nil) }
        guard since + limit > now else { return (true, nil) }
        host.silence.lookAt = since + limit
        return (false, since + limit)
    }

    /// A host has delivered something.
    mutating func gaveSomething(_ host: HostState, now: Duration) {
        hasContact = true
        host.backoff.succeeded()
        host.silence.restart(isAsked: host.running > 0, now: now)
    }

    /// A host has refused a request.
    mutating func answeredBadly(_ host: HostState, _ fault: Fault) {
        hasContact = true
        // A server in trouble delivers nothing; any other answer is final.
        if fault.remedy() != .again { host.silence.since = nil }
    }

    /// - Parameter most: How long it may be silent, if that is less than patience allows.
    func isSilent(_ host: HostState?, for most: Duration? = nil, now: Duration) -> Bool {
        guard let limit = [limit, most].compactMap(\.self).min(), let since = host?.silence.since else { return false }
        return now - since >= limit
    }

    /// The time until a host is out of patience; `nil` for never.
    func left(of host: HostState, now: Duration) -> Duration? {
        guard let limit, let since = host.silence.since else { return nil }
        return max(.zero, since + limit - now)
    }
}
