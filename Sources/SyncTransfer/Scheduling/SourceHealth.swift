package import SyncSystem

/// The score of one origin.
package struct HostScore: Equatable, Sendable {
    /// Good answers; old ones count less.
    package var successes = 0.0
    /// Failed attempts; old ones count less.
    package var failures = 0.0
    /// **Bytes** a second of one connection, smoothed; `nil` until measured.
    package var rate: Double?
    /// A good number of connections; `nil` until measured.
    package var connections: Int?

    /// Whether the origin has redirected and has not been seen to stop. If so, only the first request for an unknown
    /// directory is sent, and others wait for its redirect.
    package var redirects = false

    package init() {}

    /// Notes a successful exchange, with its body's **bytes** and the time from the request to the last of them.
    package mutating func addSuccess(bytes: UInt64, time: Duration) {
        age()
        successes += 1
        let seconds = time / .seconds(1)
        guard bytes >= 64 * 1024, seconds > 0 else { return }  // Short answers measure the round trip.
        let sample = Double(bytes) / seconds
        rate = rate.map { $0 * 0.75 + sample * 0.25 } ?? sample
    }

    /// Notes a failed attempt; `weight` is more than one for wrong bytes.
    package mutating func addFailure(weight: Double = 1) {
        age()
        failures += weight
    }

    /// Share of successful attempts, 1 if there were no attempts.
    package var reliability: Double { (successes + 1) / (successes + failures + 1) }

    private mutating func age() {
        guard successes + failures > 32 else { return }
        successes /= 2
        failures /= 2
    }
}

/// Ranks sources: reachable ones first, then those not penalised, then by measured performance, then as listed.
package struct SourceHealth: Equatable, Sendable {
    private var scores: [Origin: HostScore] = [:]
    /// ``scores`` as an earlier process left them.
    private let given: [Origin: HostScore]
    private var penalisedUntil: [String: Duration] = [:]

    /// Starts from the records of an earlier process; both times are of the same moment.
    package init(_ records: SourceRecords = SourceRecords(), now: Duration = .zero, unixTime: Int64 = 0) {
        for (origin, score) in records.scores { if let origin = try? CurlURL(origin).origin { scores[origin] = score } }
        given = scores
        for (url, end) in records.penalised where end > unixTime {
            penalisedUntil[url] = now + .seconds(min(end - unixTime, 86_400))
        }
    }

    /// The changes since the start, for the next process. URLs with a query are left out: they may be secret.
    package func records(now: Duration, unixTime: Int64) -> SourceRecords {
        var records = SourceRecords()
        for (origin, score) in scores where given[origin] != score { records.scores[origin.description] = score }
        for (url, end) in penalisedUntil where end > now && !url.contains("?") {
            records.penalised[url] = unixTime + Int64(((end - now) / .seconds(1)).rounded(.up))
        }
        return records
    }

    package subscript(origin: Origin) -> HostScore {
        get { scores[origin] ?? HostScore() }
        set { scores[origin] = newValue }
    }

    private static let mostPenalised = 4096

    /// Penalises a URL: its mirrors come first until `time`.
    package mutating func penalise(_ url: String, until time: Duration, now: Duration) {
        if penalisedUntil.count >= Self.mostPenalised {
            penalisedUntil = penalisedUntil.filter { $0.value > now }
            // Learnt again for one failure each.
            if penalisedUntil.count >= Self.mostPenalised { penalisedUntil = [:] }
        }
        penalisedUntil[url] = time
    }

    package func isPenalised(_ url: String, now: Duration) -> Bool { penalisedUntil[url].map { $0 > now } ?? false }

    /// The index of the best candidate; `nil` if there are none. The candidates are in the manifest's order.
    package func best(of candidates: [(index: Int, url: CurlURL, isOutOfReach: Bool)], now: Duration) -> Int? {
        guard candidates.count > 1 else { return candidates.first?.index }
        // An unmeasured source counts as fast as the best, so that the listed order holds.
        let fastest = candidates.compactMap { scores[$0.url.origin]?.rate }.max() ?? 1
        func rank(_ candidate: (index: Int, url: CurlURL, isOutOfReach: Bool)) -> (Int, Int, Double, Int) {
            let score = scores[candidate.url.origin] ?? HostScore()
            return (
                candidate.isOutOfReach ? 1 : 0, isPenalised(candidate.url.text, now: now) ? 1 : 0,
                -score.reliability * (score.rate ?? fastest), candidate.index
            )
        }
        return candidates.min { rank($0) < rank($1) }?.index
    }
}
