package import SyncModel
package import SyncStore

/// What sessions did since some time: everything a person or a program is told in the morning.
///
/// All text in it that came from outside is as it came, except URLs, which are without user, password and query:
/// whoever shows it escapes it. Times are **milliseconds** since 1970.
package struct MorningReport: Sendable, Equatable {
    /// Of the program.
    package var version: String
    /// The machine's name; `nil` when it does not matter.
    package var host: String?
    package var generated: Int64
    /// What happened earlier is only in ``SessionReport/nights``.
    package var since: Int64
    /// Those that need somebody first, then by name.
    package var sessions: [SessionReport]
    /// What will soon stop pulls, and who can do what about it: one line each.
    package var warnings: [String] = []

    package init(version: String, host: String?, generated: Int64, since: Int64, sessions: [SessionReport]) {
        (self.version, self.host, self.generated, self.since) = (version, host, generated, since)
        self.sessions = sessions.sorted { ($0.verdict, $0.session) < ($1.verdict, $1.session) }
    }

    /// Sessions that need attention.
    package var needingAttention: Int { sessions.count { $0.verdict.needsAttention } }

    /// How many sessions there are, and how many of them need attention.
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

/// What is to be thought of a session; the worst first.
package enum Verdict: Int, Sendable, Comparable, CaseIterable {
    /// Nothing was brought in place.
    case failed
    /// Something is missing, stopped or late.
    case attention
    /// It is under way, or waits for what will come by itself.
    case working
    /// Everything is in place.
    case ok
    /// Nothing has happened.
    case quiet

    package static func < (a: Verdict, b: Verdict) -> Bool { a.rawValue < b.rawValue }

    /// Whether it is worth getting up for.
    package var needsAttention: Bool { self == .failed || self == .attention }

    package var word: String { "\(self)" }
}

package struct SessionReport: Sendable, Equatable {
    package var session: String
    package var label: String?
    package var project: String
    /// Absolute.
    package var destination: String
    package var verdict: Verdict
    /// One line: what it came to.
    package var headline: String
    package var state: SessionState
    /// Whether its open run says `running` although no process works on it.
    package var isInterrupted = false
    /// Why it waits or is paused.
    package var reason: RestReason?
    /// Not to go on earlier.
    package var until: Int64?
    /// When it will run next by its schedule.
    package var next: Int64?
    /// When every file was in place last.
    package var lastSuccess: Int64?
    /// Runs that did something since ``MorningReport/since``, oldest first.
    package var runs: [RunReport] = []
    /// Sums of ``runs``, as far as it lies in the time.
    package var amounts = Amounts()
    /// Who sent the bytes, most first.
    package var origins: [OriginAmount] = []
    /// **Bytes** of transfers that were cut off, where several servers took part.
    package var otherBytes: UInt64 = 0
    /// Where files were put in place: first parts of paths, most bytes first.
    package var directories: [DirectoryAmount] = []
    /// Groups of the latest run, `all` left out.
    package var groups: [StoredGroup] = []
    package var problems: [Problem] = []
    package var waits: [Wait] = []
    /// Those that ran or are owed; of their arguments only the program is told.
    package var hooks: [StoredHook] = []
    /// Up to thirty, oldest first; nights in which nothing happened between others are there with zeros.
    package var nights: [Night] = []
    /// Whether events of the time are no longer kept, so that details may be missing.
    package var isIncomplete = false

    package init(session: String, project: String, destination: String) {
        (self.session, self.project, self.destination) = (session, project, destination)
        verdict = .quiet
        headline = ""
        state = .idle
    }

    /// Files of the last manifest that were right before anything was done in the time of the report.
    package var filesHere: Int {
        guard let counts = runs.last(where: { $0.result != nil })?.counts.files else { return 0 }
        let rest = counts.total.saturatingSubtract(amounts.placed).saturatingSubtract(counts.failed)
        return max(0, min(counts.unchanged, rest))
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
    /// **Bytes** that were taken from what was here.
    package var reusedBytes: UInt64 = 0
    package var requests: UInt64 = 0
    /// **Milliseconds** of work, waiting for the network included.
    package var elapsed: Int64 = 0

    package init() {}

    /// Files that were put in place.
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

/// One run: as it is on record, and what was done for it within the time of the report.
@dynamicMemberLookup package struct RunReport: Sendable, Equatable {
    let stored: StoredRun
    /// Whether it says `running` although no process works on it.
    package var isInterrupted = false
    package var amounts = Amounts()
    /// When work on it ended: several when it was stopped between.
    package var work: [WorkPiece] = []

    package subscript<Value>(dynamicMember field: KeyPath<StoredRun, Value>) -> Value { stored[keyPath: field] }

    /// Path or URL of its manifest, without secrets.
    var shownManifest: String { stored.location.contains("://") ? redacted(url: stored.location) : stored.location }
}

/// What one process did for a run, from taking it up to its end or a stop.
package struct WorkPiece: Sendable, Equatable {
    package var ended: Int64
    package var amounts: Amounts
    /// Why it stopped before the run's end.
    package var stop: RestReason?

    package var began: Int64 { ended.saturatingSubtract(amounts.elapsed) }

    /// What was done for a run, also where its events are gone.
    static func of(_ run: StoredRun, _ known: [String: [WorkPiece]]) -> [WorkPiece] {
        if let pieces = known[run.identifier] { return pieces }
        guard let started = run.started, let ended = run.finished ?? run.pausedAt else { return [] }
        var amounts = Amounts()
        let (files, bytes) = (run.counts.files, run.counts.bytes)
        (amounts.installed, amounts.reused) = (files.installed, files.reused)
        (amounts.removed, amounts.failed) = (files.removed, files.failed)
        (amounts.received, amounts.reusedBytes, amounts.requests) = (bytes.received, bytes.reused, run.counts.requests)
        amounts.elapsed = max(0, ended.saturatingSubtract(started))
        return [WorkPiece(ended: ended, amounts: amounts, stop: run.finished == nil ? run.reason : nil)]
    }
}

/// What one server sent.
package struct OriginAmount: Sendable, Equatable {
    /// `https://host:port`, no port when it is the scheme's own.
    package var origin: String
    package var requests: UInt64 = 0
    /// **Bytes** of bodies.
    package var bytes: UInt64 = 0
    package var transfers = 0
    package var failed = 0
    /// The servers that led there, by redirects, rules or as its mirror.
    package var via: [String] = []
}

/// Files put in place below one directory.
package struct DirectoryAmount: Sendable, Equatable {
    /// The first part of their paths; `.` for files that are in none, `nil` for all the directories not listed.
    package var path: String?
    package var files: Int
    /// **Bytes** of the files, unpacked.
    package var bytes: UInt64
}

/// Time in which a run could not go on.
package struct Wait: Sendable, Equatable {
    /// A condition, ``RestReason/connectivity`` or ``RestReason/retry``.
    package var cause: RestReason
    /// For people.
    package var detail: String
    package var from: Int64
    /// `nil` while it lasts.
    package var to: Int64?
    /// How often; one for a condition.
    package var count = 1
    /// **Milliseconds** in all, up to the report.
    package var elapsed: Int64 = 0
}

/// One night, all its runs together.
package struct Night: Sendable, Equatable {
    /// The date of its morning: `2026-11-21`.
    package var date: String
    /// `Nov 21`.
    package var label: String
    /// Runs that were worked on.
    package var runs = 0
    /// The worst result of runs that ended; `nil` when none did.
    package var result: RunResult?
    package var amounts = Amounts()
}

extension Night {
    /// Whether no run ended, and one was worked on.
    var isStopped: Bool { runs > 0 && result == nil }
    /// Whether something of it is worth a look.
    var isMarked: Bool { isStopped || result.map { $0 != .ok } ?? false }
}

extension StoredHook {
    /// The program, or a webhook's URL without what secrets may be in.
    package var shownProgram: String {
        let first = arguments.first ?? ""
        // The path of a webhook is often its secret.
        return urlOrigin(first).map { "\($0)/…" } ?? (first.contains("://") ? redacted(url: first) : first)
    }

    /// **Milliseconds** that the last attempt took.
    var elapsed: Int64? {
        guard let started, let finished else { return nil }
        return max(0, finished.saturatingSubtract(started))
    }
}
