import SyncCurl
import SyncPlugins

/// What time it is for the worker, and what is to happen when.
///
/// One look at the clock a turn: whatever happens in one turn happens at one time.
final class Agenda {
    /// Something to do. What has changed since is skipped when its time comes.
    enum Entry {
        case requeue(Piece, ticket: UInt64)
        case release(HostState)
        case patience(HostState)
        case deadline(TransferID)
        case resolverDeadline(UInt64)
        case credentialDeadline(Origin, UInt64)
    }

    private typealias Timer = (at: Duration, entry: Entry)

    private let clock: TransportClock
    /// Since any fixed point.
    private(set) var now: Duration
    private var timers = Heap<Timer> { $0.at < $1.at }

    init(_ clock: TransportClock) {
        self.clock = clock
        now = clock.now()
    }

    /// **Seconds** since 1970.
    var unixTime: Int64 { clock.unixTime() }

    /// A turn begins, or libcurl has worked.
    func lookAtClock() { now = clock.now() }

    func add(_ entry: Entry, at time: Duration) { timers.insert((time, entry)) }

    /// When the next entry is due.
    var next: Duration? { timers.first?.at }

    /// The next entry that is due.
    func takeDue() -> Entry? {
        guard let first = timers.first, first.at <= now else { return nil }
        return timers.popFirst()?.entry
    }

    /// Sweeps out, now and then, what has ended long before its time: O(1) an entry.
    func tidy(transfers: Int, keeping isLive: (Entry, Duration) -> Bool) {
        guard timers.count > 1024, timers.count > 4 * transfers else { return }
        for timer in timers.removeAll() where isLive(timer.entry, timer.at) { timers.insert(timer) }
    }
}

@available(*, unavailable)
extension Agenda: Sendable {}
