import Synchronization

/// A clock that stands still until a test moves it.
public final class TestClock: Sendable {
    private let now: Mutex<Duration>

    /// Starts at a time since an unnamed beginning.
    public init(elapsed: Duration = .zero) { now = Mutex(elapsed) }

    /// Time since the beginning.
    public var elapsed: Duration { now.withLock { $0 } }

    /// Time since the beginning, in **milliseconds**: as milliseconds since 1970 where one is wanted.
    public var milliseconds: Int64 {
        let parts = elapsed.components
        return parts.seconds * 1_000 + parts.attoseconds / 1_000_000_000_000_000
    }

    /// Moves the clock; a negative step is a wall clock set back.
    public func advance(by step: Duration) { now.withLock { $0 += step } }
}
