/// How one origin has done so far.
package struct HostScore: Equatable, Sendable, Codable {
    /// Answers that brought what was asked; old ones count less.
    package var successes = 0.0
    /// Attempts that did not.
    package var failures = 0.0
    /// **Bytes** a second of one connection, smoothed; `nil` until measured.
    package var rate: Double?
    /// Connections at a time that served it well; `nil` until measured.
    package var connections: Int?

    /// Whether it has redirected first requests, and was not seen to have stopped that: then only one request of a
    /// directory asks where to go while nothing is known of it.
    package var redirects = false

    /// Nothing known.
    package init() {}

    /// Notes an exchange that ended well.
    ///
    /// - Parameters:
    ///   - bytes: Body **bytes**.
    ///   - time: From the request to the last of them.
    package mutating func addSuccess(bytes: UInt64, time: Duration) {
        age()
        successes += 1
        let seconds = time / .seconds(1)
        guard bytes >= 64 * 1024, seconds > 0 else { return }  // Short answers measure the round trip.
        let sample = Double(bytes) / seconds
        rate = rate.map { $0 * 0.75 + sample * 0.25 } ?? sample
    }

    /// Notes an attempt that failed; `weight` is more than one for a source that lied.
    package mutating func addFailure(weight: Double = 1) {
        age()
        failures += weight
    }

    /// Share of attempts that succeeded, 1 when there were none.
    package var reliability: Double { (successes + 1) / (successes + failures + 1) }

    private mutating func age() {
        guard successes + failures > 32 else { return }
        successes /= 2
        failures /= 2
    }
}

/// What is known about one origin, to be kept for the next process: given to it as
/// ``TransportConfiguration/hostRecords``, taken from this one with ``CurlTransport/hostRecords``.
///
/// Encoded, it holds an origin and numbers: no path, no query, no secret. What redirects taught is kept apart, see
/// ``LinkRecord``.
package struct HostRecord: Equatable, Sendable, Codable {
    /// As ``Origin/description``.
    package var origin: String
    /// How it has done.
    package var score: HostScore

    /// Makes a record.
    package init(origin: String, score: HostScore) {
        self.origin = origin
        self.score = score
    }
}

/// Which of several sources to ask: those not set back first, then by measured goodness, then as listed.
package struct Standings: Equatable, Sendable {
    private var scores: [Origin: HostScore] = [:]
    private var setBackUntil: [String: Duration] = [:]

    /// Everyone is equal, but for what an earlier process knew.
    package init(_ records: [HostRecord] = []) {
        for record in records {
            if let origin = try? CurlURL(record.origin).origin { scores[origin] = record.score }
        }
    }

    /// What is worth keeping for the next process.
    package var records: [HostRecord] {
        scores.map { HostRecord(origin: $0.key.description, score: $0.value) }
    }

    /// What is known about an origin.
    package subscript(origin: Origin) -> HostScore {
        get { scores[origin] ?? HostScore() }
        set { scores[origin] = newValue }
    }

    /// Asks a URL only after its mirrors until a time.
    package mutating func setBack(_ url: String, until time: Duration, now: Duration) {
        if setBackUntil.count >= 4096 { setBackUntil = setBackUntil.filter { $0.value > now } }
        setBackUntil[url] = time
    }

    /// Whether a URL is asked only after its mirrors.
    package func isSetBack(_ url: String, now: Duration) -> Bool {
        setBackUntil[url].map { $0 > now } ?? false
    }

    /// The best of the candidates; `nil` when there are none.
    ///
    /// - Parameters:
    ///   - candidates: Index and URL, in the manifest's order, and whether the host is out of reach now.
    ///   - now: For what is set back.
    /// - Returns: The index of the best.
    package func best(of candidates: [(index: Int, url: CurlURL, isOutOfReach: Bool)], now: Duration) -> Int?
    {
        guard candidates.count > 1 else { return candidates.first?.index }
        // A source that was never measured is taken for as fast as the best, so that the listed order holds.
        let fastest = candidates.compactMap { scores[$0.url.origin]?.rate }.max() ?? 1
        func rank(_ candidate: (index: Int, url: CurlURL, isOutOfReach: Bool)) -> (Int, Int, Double, Int) {
            let score = scores[candidate.url.origin] ?? HostScore()
            return (
                candidate.isOutOfReach ? 1 : 0, isSetBack(candidate.url.text, now: now) ? 1 : 0,
                -score.reliability * (score.rate ?? fastest), candidate.index
            )
        }
        return candidates.min { rank($0) < rank($1) }?.index
    }
}
