package import SyncModel
package import SyncStore

/// A report on what sessions did since a given time, for people and programs in the morning.
///
/// External text is unchanged, except that URLs lack user, password and query: whoever displays it must escape it.
/// Times are **milliseconds** since 1970.
package struct MorningReport: Sendable {
    /// The version of the program.
    package var version: String
    /// The host name; `nil` if it does not matter.
    package var host: String?
    package var generated: Int64
    /// The beginning of the period; earlier events only appear in ``SessionReport/nights``.
    package var since: Int64
    /// Sorted by verdict, those that need attention first, then by name.
    package var sessions: [SessionReport]
    /// Warnings of what will soon stop pulls, with a remedy: one line each.
    package var warnings: [String] = []

    package init(version: String, host: String?, generated: Int64, since: Int64, sessions: [SessionReport]) {
        (self.version, self.host, self.generated, self.since) = (version, host, generated, since)
        self.sessions = sessions.sorted { ($0.verdict, $0.session) < ($1.verdict, $1.session) }
    }

    /// Number of sessions that need attention.
    package var needingAttention: Int { sessions.count { $0.verdict.needsAttention } }

    /// The number of sessions, and how many of them need attention.
    var summary: String {
        let state =
            switch needingAttention {
            case 0: "nothing needs attention"
            case 1: "1 needs attention"
            default: "\(Figures.grouped(needingAttention)) need attention"
            }
        return "\(Figures.count(sessions.count, "session")), \(state)"
    }
}

/// The verdict on a session; the worst first.
package enum Verdict: Int, Sendable, Comparable, CaseIterable {
    /// Nothing was installed.
    case failed
    /// Something is missing, stopped or late.
    case attention
    /// It is in progress, or waits for something that will come without help.
    case working
    /// Everything is in place.
    case ok
    /// Nothing has happened.
    case quiet

    package static func < (a: Verdict, b: Verdict) -> Bool { a.rawValue < b.rawValue }

    /// Whether a person should look at it.
    package var needsAttention: Bool { self == .failed || self == .attention }

    package var word: String { "\(self)" }
}

package struct SessionReport: Sendable {
    package var session: String
    package var label: String?
    package var project: String
    /// Absolute.
    package var destination: String
    package var verdict: Verdict
    /// The outcome in one line.
    package var headline: String
    package var state: SessionState
    /// Whether its open run is recorded as `running` although no process works on it.
    package var isInterrupted = false
    /// Why it waits or is paused.
    package var reason: RestReason?
    /// It does not continue earlier.
    package var until: Int64?
    /// Its next scheduled run.
    package var next: Int64?
    /// When every file was last in place.
    package var lastSuccess: Int64?
    /// Runs with activity since ``MorningReport/since``, oldest first.
    package var runs: [RunReport] = []
    /// Sums over ``runs``, within the period.
    package var amounts = Amounts()
    /// Servers by bytes sent, most first.
    package var origins: [OriginAmount] = []
    /// **Bytes** of transfers that were cut off, if several servers took part.
    package var otherBytes: UInt64 = 0
    /// Directories of installed files: first parts of paths, most bytes first.
    package var directories: [DirectoryAmount] = []
    /// Groups of the latest run, without `all`.
    package var groups: [StoredGroup] = []
    package var problems: [Problem] = []
    package var waits: [Wait] = []
    /// Hooks that ran or are owed; of their arguments, only the program is reported.
    package var hooks: [StoredHook] = []
    /// Up to thirty, oldest first; nights without activity in between have zeros.
    package var nights: [Night] = []
    /// Whether events of the period have been pruned, so that details may be missing.
    package var isIncomplete = false

    package init(session: String, project: String, destination: String) {
        (self.session, self.project, self.destination) = (session, project, destination)
        verdict = .quiet
        headline = ""
        state = .idle
    }

    /// Files of the last manifest that were already correct before the period's work.
    package var filesHere: Int {
        guard let counts = runs.last(where: { $0.result != nil })?.counts.files else { return 0 }
        let rest = counts.total.saturatingSubtract(amounts.placed).saturatingSubtract(counts.failed)
        return max(0, min(counts.unchanged, rest))
    }

    /// `1.85 MiB/s`, over the pieces of work whose time is known: how long a killed process worked is not. `nil` if
    /// nothing came in them.
    var rate: String? {
        var timed = Amounts()
        for piece in runs.flatMap(\.work) where piece.amounts.elapsed > 0 { timed += piece.amounts }
        return Figures.rate(timed.received, timed.elapsed)
    }
}

/// Sums over some work.
package struct Amounts: Sendable, Equatable {
    package var installed = 0
    package var reused = 0
    package var removed = 0
    package var failed = 0
    /// **Bytes**.
    package var received: UInt64 = 0
    /// **Bytes** taken from local data.
    package var reusedBytes: UInt64 = 0
    package var requests: UInt64 = 0
    /// **Milliseconds** of work, including waits for the network.
    package var elapsed: Int64 = 0

    package init() {}

    /// Installed files.
    package var placed: Int { installed.saturatingAdd(reused) }

    package static func += (a: inout Amounts, b: Amounts) {
        a.installed = a.installed.saturatingAdd(b.installed)
        a.reused = a.reused.saturatingAdd(b.reused)
        a.removed = a.removed.saturatingAdd(b.removed)
        a.failed = a.failed.saturatingAdd(b.failed)
        a.received = a.received.saturatingAdd(b.received)
        a.reusedBytes = a.reusedBytes.saturatingAdd(b.reusedBytes)
        a.requests = a.requests.saturatingAdd(b.requests)
        a.elapsed = a.elapsed.saturatingAdd(b.elapsed)
    }
}

/// One run: its record, and the work on it within the period.
@dynamicMemberLookup package struct RunReport: Sendable, Equatable {
    let stored: StoredRun
    /// Whether it is recorded as `running` although no process works on it.
    package var isInterrupted = false
    package var amounts = Amounts()
    /// Pieces of work; several if it was stopped in between.
    package var work: [WorkPiece] = []

    package subscript<Value>(dynamicMember field: KeyPath<StoredRun, Value>) -> Value { stored[keyPath: field] }

    /// Path or URL of its manifest, without secrets.
    var shownManifest: String { stored.location.contains("://") ? redacted(url: stored.location) : stored.location }
}

/// The work of one process on a run, from taking it up to its end or a stop.
package struct WorkPiece: Sendable, Equatable {
    package var ended: Int64
    package var amounts: Amounts
    /// Why it stopped before the run's end.
    package var stop: RestReason?

    /// **Milliseconds** that it waited for the time of the switch; no work.
    package var waited: Int64 = 0

    package var began: Int64 { ended.saturatingSubtract(amounts.elapsed).saturatingSubtract(waited) }

    /// The work on a run, even if its events have been pruned.
    static func of(_ run: StoredRun, _ known: [String: [WorkPiece]]) -> [WorkPiece] {
        if let pieces = known[run.identifier] { return pieces }
        guard let started = run.started, let ended = run.finished ?? run.pausedAt else { return [] }
        var amounts = Amounts()
        let (files, bytes) = (run.counts.files, run.counts.bytes)
        (amounts.installed, amounts.reused) = (files.installed, files.reused)
        (amounts.removed, amounts.failed) = (files.removed, files.failed)
        (amounts.received, amounts.reusedBytes, amounts.requests) = (bytes.received, bytes.reused, run.counts.requests)
        let waited = run.counts.waited ?? 0
        amounts.elapsed = max(0, ended.saturatingSubtract(started).saturatingSubtract(waited))
        let stop = run.finished == nil ? run.reason : nil
        return [WorkPiece(ended: ended, amounts: amounts, stop: stop, waited: waited)]
    }
}

/// The traffic with one server.
package struct OriginAmount: Sendable, Equatable {
    /// `https://host:port`, without the scheme's default port.
    package var origin: String
    package var requests: UInt64 = 0
    /// **Bytes** of bodies.
    package var bytes: UInt64 = 0
    package var transfers = 0
    package var failed = 0
    /// The servers that led there, by redirects, rules or as mirrors.
    package var via: [String] = []
}

/// Installed files below one directory: the first part of their paths, which is `.` for files at the top level and `nil`
/// for all directories not listed; their number, and the **bytes** of the unpacked files.
package typealias DirectoryAmount = (path: String?, files: Int, bytes: UInt64)

/// A time in which a run could not continue.
package struct Wait: Sendable, Equatable {
    /// A condition, ``RestReason/connectivity`` or ``RestReason/retry``.
    package var cause: RestReason
    /// For people.
    package var detail: String
    package var from: Int64
    /// `nil` while it lasts.
    package var to: Int64?
    /// Number of occurrences; one for a condition.
    package var count = 1
    /// **Milliseconds** up to the report in which there was such a wait.
    package var elapsed: Int64 = 0
}

/// One night, with all its runs.
package struct Night: Sendable, Equatable {
    /// The date of its morning: `2026-11-21`.
    package var date: String
    /// `Nov 21`.
    package var label: String
    /// Runs with work in it.
    package var runs = 0
    /// The worst result of runs that ended; `nil` if none did.
    package var result: RunResult?
    package var amounts = Amounts()
}

extension Night {
    /// Whether no run ended although there was work.
    var isStopped: Bool { runs > 0 && result == nil }
    /// Whether the night is marked in charts: it was stopped, or its result is not ok.
    var isMarked: Bool { isStopped || result.map { $0 != .ok } ?? false }
}

extension StoredHook {
    /// The program, or a webhook's URL without parts that may contain secrets.
    package var shownProgram: String {
        let first = arguments.first ?? ""
        // The path of a webhook is often the secret.
        return urlOrigin(first).map { "\($0)/…" } ?? (first.contains("://") ? redacted(url: first) : first)
    }

    /// How its last attempt ended, and whether there is to be another one; for people, not escaped.
    ///
    /// - Parameter time: How long the attempt took, if that belongs to the words.
    func words(time: String = "") -> String {
        let ordinal = attempt > 1 ? ", attempt \(attempt)" : ""
        if state == .running { return "running\(ordinal)" }
        // Of an attempt whose process was lost, no end is known; a replay has yet to begin.
        let end = finished == nil || ended == Self.replayed ? nil : ended.map { $0 + time + ordinal }
        let words = [end, state == .pending ? "still owed" : nil].compactMap(\.self)
        return words.isEmpty ? state.rawValue : words.joined(separator: "; ")
    }

    /// **Milliseconds** of the last attempt.
    var elapsed: Int64? {
        guard let started, let finished else { return nil }
        return max(0, finished.saturatingSubtract(started))
    }
}
