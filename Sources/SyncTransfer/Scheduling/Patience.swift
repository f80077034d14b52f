/// How long to wait for servers that give nothing of what they are asked for: dead, silent, out of order, or with a
/// log-in page before them. A wait that a server asks for itself does not count.
package struct Patience: Sendable, Equatable {
    /// While nothing has answered yet.
    package var firstContact: Duration
    /// Once something has.
    package var silence: Duration

    /// For somebody who waits for it.
    package static let ofPerson = Patience(firstContact: .seconds(10), silence: .seconds(60))

    /// Both the same.
    package init(_ both: Duration) { (firstContact, silence) = (both, both) }

    /// See the properties.
    package init(firstContact: Duration, silence: Duration) {
        self.firstContact = firstContact
        self.silence = silence
    }
}

/// How long one host has given nothing.
struct HostSilence {
    /// Since when it has given nothing of what it is asked for; `nil` while it is asked for nothing.
    fileprivate(set) var since: Duration?
    /// Since when nobody could have asked it and did not: the end of the last exchange, or of the last wait for it.
    fileprivate var idleSince: Duration = .zero
    /// Whether a timer looks at ``since``.
    fileprivate var isWatched = false

    /// It does something, or waits for something, until then.
    mutating func isBusy(until time: Duration) { idleSince = max(idleSince, time) }

    /// An exchange has ended.
    mutating func isIdle(from now: Duration) { idleSince = now }

    /// A wait that the server asked for does not count.
    mutating func excuse(until time: Duration) {
        if let before = since { since = max(before, time) }
    }

    /// It does what it is asked for.
    mutating func restart(isAsked: Bool, now: Duration) { since = isAsked ? now : nil }
}

/// Knows which hosts have been silent for as long as anybody waits. A host is looked at by one timer, whatever is asked of it;
/// nothing here is done for each byte.
struct SilenceWatch {
    /// `nil` for no end.
    var patience: Patience?
    /// Whether anything has answered yet.
    private var hasContact = false

    init(_ patience: Patience?) { self.patience = patience }

    /// How long anybody waits now.
    var limit: Duration? { patience.map { hasContact ? $0.silence : $0.firstContact } }

    /// What a timer finds.
    enum Finding {
        case silent
        case lookAgain(at: Duration)
        case nothing
    }

    /// A host is about to be asked.
    ///
    /// - Returns: When it is to be looked at; `nil` when that is arranged.
    func begin(_ host: HostState, now: Duration) -> Duration? {
        guard let limit else { return nil }
        // Whoever was not asked was not silent meanwhile, and counts as new when that was long.
        let idle =
            host.running == 0 ? max(.zero, now - max(host.silence.idleSince, host.backoff.until)) : .zero
        let isNew = idle >= max(limit, .seconds(1))
        let since = isNew ? now : host.silence.since.map { min(now, $0 + idle) } ?? now
        host.silence.since = since
        host.silence.isBusy(until: now)
        guard !host.silence.isWatched else { return nil }
        host.silence.isWatched = true
        return max(now, since + limit)
    }

    /// The time to look has come.
    func look(at host: HostState, now: Duration) -> Finding {
        host.silence.isWatched = false
        guard let limit, let since = host.silence.since else { return .nothing }
        guard since + limit > now else { return .silent }
        host.silence.isWatched = true
        return .lookAgain(at: since + limit)
    }

    /// A host has given some of what it was asked for.
    mutating func gaveSomething(_ host: HostState, now: Duration) {
        hasContact = true
        host.backoff.succeeded()
        host.silence.restart(isAsked: host.running > 0, now: now)
    }

    /// A host has refused what it was asked for.
    mutating func answeredBadly(_ host: HostState, _ fault: Fault) {
        hasContact = true
        // A server in trouble gives nothing; any other answer is its last word.
        if RetryTable.remedy(for: fault.kind, redirected: false) != .again { host.silence.since = nil }
    }

    func isSilent(_ host: HostState?, now: Duration) -> Bool {
        guard let limit, let since = host?.silence.since else { return false }
        return now - since >= limit
    }

    /// When a host's time is up, from now; `nil` for never.
    func left(of host: HostState, now: Duration) -> Duration? {
        guard let limit, let since = host.silence.since else { return nil }
        return max(.zero, since + limit - now)
    }
}
