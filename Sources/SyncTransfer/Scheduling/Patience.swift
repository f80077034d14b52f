/// How long to wait for servers that deliver nothing: down, silent, failing, or behind a log-in page. A wait that a
/// server requests does not count.
package struct Patience: Sendable, Equatable {
    /// The limit before the first answer from any host.
    package var firstContact: Duration
    /// The limit after that.
    package var silence: Duration

    /// The patience when a person is waiting.
    package static let ofPerson = Patience(firstContact: .seconds(10), silence: .seconds(60))

    package init(_ both: Duration) { (firstContact, silence) = (both, both) }

    package init(firstContact: Duration, silence: Duration) {
        self.firstContact = firstContact
        self.silence = silence
    }
}

/// How long one host has been silent.
struct HostSilence {
    /// The start of the silence: the host has delivered nothing since, although requests were under way. `nil` if there
    /// are none.
    fileprivate(set) var since: Duration?
    /// The time since which the host has had no request: the end of the last exchange, or of the last wait it caused.
    fileprivate var idleSince: Duration = .zero
    /// The time of the next check; timers for another time are void.
    var checkAt: Duration?

    /// Notes that the host is busy, or that a wait it caused is under way, until `time`.
    mutating func isBusy(until time: Duration) { idleSince = max(idleSince, time) }

    /// Notes the end of an exchange.
    mutating func isIdle(from now: Duration) { idleSince = now }

    /// Excludes a wait that the server requested.
    mutating func exclude(until time: Duration) { if let before = since { since = max(before, time) } }

    /// Excludes a time in which this process could not receive anything.
    mutating func exclude(for time: Duration) {
        since = since.map { $0 + time }
        idleSince += time
    }

    /// Notes that the host delivers. A new silence is measured from now on, if requests are under way.
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

    /// Notes that a request to a host is about to be sent.
    ///
    /// - Returns: The time of the next check; `nil` if one is scheduled already.
    func begin(_ host: HostState, now: Duration) -> Duration? {
        // A host without requests was not silent; after a long time without any, its silence starts anew.
        let idle = host.running == 0 ? max(.zero, now - max(host.silence.idleSince, host.backoff.until)) : .zero
        let isNew = idle >= max(limit ?? .zero, .seconds(1))
        let since = isNew ? now : host.silence.since.map { min(now, $0 + idle) } ?? now
        host.silence.since = since
        host.silence.isBusy(until: now)
        guard let limit, host.silence.checkAt == nil else { return nil }
        let time = max(now, since + limit)
        host.silence.checkAt = time
        return time
    }

    /// Checks a host if it is time to.
    ///
    /// - Returns: Whether the host has been silent for too long; if not, the time of the next check, if there is one.
    func check(_ host: HostState, now: Duration) -> (isSilent: Bool, again: Duration?) {
        guard let time = host.silence.checkAt, time <= now else { return (false, nil) }
        host.silence.checkAt = nil
        guard let limit, let since = host.silence.since else { return (false, nil) }
        guard since + limit > now else { return (true, nil) }
        host.silence.checkAt = since + limit
        return (false, since + limit)
    }

    /// Notes that a host has delivered something.
    mutating func delivered(_ host: HostState, now: Duration) {
        hasContact = true
        host.backoff.succeeded()
        host.silence.restart(isAsked: host.running > 0, now: now)
    }

    /// Notes that a host has refused a request.
    mutating func refused(_ host: HostState, _ fault: Fault) {
        hasContact = true
        // A server in trouble delivers nothing, so its silence goes on; any other answer is final.
        if fault.remedy() != .again { host.silence.since = nil }
    }

    /// - Parameter most: How long the host may be silent, if that is less than patience allows.
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
