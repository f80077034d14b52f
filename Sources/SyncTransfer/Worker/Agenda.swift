import SyncPlugins
import SyncSystem

/// The worker's clock and timers.
///
/// The clock is read once a turn, so everything in one turn happens at the same time.
final class Agenda {
    /// The action of a timer. Does nothing if its subject has changed since.
    enum Entry {
        case requeue(Piece, ticket: UInt64)
        case release(HostState)
        case patience(HostState)
        case deadline(TransferID)
        /// Check whether to go on waiting for a source after another has answered.
        case besideAnswer(TransferID)
        case resolverDeadline(UInt64)
        case credentialDeadline(Origin, UInt64)
    }

    private typealias Timer = (at: Duration, entry: Entry)

    private let clock: TransportClock
    /// Time since any fixed point.
    private(set) var now: Duration
    private var timers = Heap<Timer> { $0.at < $1.at }

    init(_ clock: TransportClock) {
        self.clock = clock
        now = clock.now()
    }

    /// **Seconds** since 1970.
    var unixTime: Int64 { clock.unixTime() }

    /// Reads the clock. To be called at the start of a turn and after libcurl has worked.
    func readClock() { now = clock.now() }

    func add(_ entry: Entry, at time: Duration) { timers.insert((time, entry)) }

    var next: Duration? { timers.first?.at }

    /// The next entry that is due.
    func takeDue() -> Entry? {
        guard let first = timers.first, first.at <= now else { return nil }
        return timers.popFirst()?.entry
    }

    /// Removes, now and then, timers that have lost their purpose long before their time: O(1) per entry.
    func tidy(transfers: Int, keeping isLive: (Entry, Duration) -> Bool) {
        guard timers.count > 1024, timers.count > 4 * transfers else { return }
        for timer in timers.removeAll() where isLive(timer.entry, timer.at) { timers.insert(timer) }
    }
}
