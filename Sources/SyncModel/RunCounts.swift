/// The counts of a run's files in the contract's last line.
public struct FileCounts: Sendable, Equatable, Codable {
    /// Entries that were selected.
    public var total = 0
    /// Fetched and installed.
    public var installed = 0
    /// Already in place.
    public var unchanged = 0
    /// Made from local bytes.
    public var reused = 0
    /// Pruned.
    public var removed = 0
    /// Not in place.
    public var failed = 0

    /// All counts are zero.
    public init() {}

    /// Writes an object with all of them, in the contract's order.
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

/// The sizes of a run's files, in **bytes**.
public struct ByteCounts: Sendable, Equatable, Codable {
    /// The size of all selected files.
    public var total: UInt64 = 0
    /// Body bytes that came over the network.
    public var received: UInt64 = 0
    /// Taken from local data.
    public var reused: UInt64 = 0

    /// All sizes are zero.
    public init() {}

    /// Writes an object with all of them, in the contract's order.
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
    /// **Milliseconds** for which everything was there and was not to be shown yet; `nil` for none.
    package var waited: Int64?

    package init() {}
}

/// The phase of a pull, in progress reports.
public enum PullPhase: String, Sendable, Codable {
    /// It fetches or parses the manifest.
    case finding
    /// It examines the destination, and hashes files that have no valid record.
    case looking
    /// It fetches what is missing.
    case fetching
    /// The set is complete and will be shown later. Nothing more is transferred.
    case waiting
}
