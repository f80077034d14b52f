/// What became of a run's files: the numbers of the contract's last line.
public struct FileCounts: Sendable, Equatable, Codable {
    /// Entries that were selected.
    public var total = 0
    /// Fetched and put in place.
    public var installed = 0
    /// There already.
    public var unchanged = 0
    /// Made from bytes that were here already.
    public var reused = 0
    /// Pruned.
    public var removed = 0
    /// Not in place.
    public var failed = 0

    /// Starts at nothing.
    public init() {}

    /// An object with all of them, in the contract's order.
    package func write(to line: inout JSONLine) {
        line.object {
            $0.field("total", total)
            $0.field("installed", installed)
            $0.field("unchanged", unchanged)
            $0.field("reused", reused)
            $0.field("removed", removed)
            $0.field("failed", failed)
        }
    }
}

/// What a run's files weigh, in **bytes**.
public struct ByteCounts: Sendable, Equatable, Codable {
    /// Of all selected files.
    public var total: UInt64 = 0
    /// Body bytes that came over the network.
    public var received: UInt64 = 0
    /// Taken from what was here already.
    public var reused: UInt64 = 0

    /// Starts at nothing.
    public init() {}

    /// An object with all of them, in the contract's order.
    package func write(to line: inout JSONLine) {
        line.object {
            $0.field("total", total)
            $0.field("received", received)
            $0.field("reused", reused)
        }
    }
}

/// The numbers of a run's last line.
package struct RunCounts: Sendable, Equatable, Codable {
    package var files = FileCounts()
    package var bytes = ByteCounts()
    /// Every HTTP request sent.
    package var requests: UInt64 = 0

    package init() {}
}

/// What a pull is doing, where progress is told.
public enum PullPhase: String, Sendable, Codable {
    /// It fetches the manifest, or reads it.
    case finding
    /// It looks at what is in the destination, and hashes what no record speaks for.
    case looking
    /// It brings what is missing.
    case fetching
    /// All of it is here, and is to be shown later. Nothing is transferred any more.
    case waiting
}
