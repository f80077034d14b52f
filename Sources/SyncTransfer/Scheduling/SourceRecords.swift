package import SyncSystem

/// What a process knows about sources, for the next process: passed in as ``TransportConfiguration/sources``, taken
/// out with ``CurlTransport/takeSources()``. Redirects are recorded separately, see ``RedirectMemory``.
package struct SourceRecords: Equatable, Sendable {
    /// Scores of origins, by ``Origin/description``.
    package var scores: [String: HostScore] = [:]
    /// Penalised URLs, without a query, with the end of the penalty in **seconds** since 1970.
    package var penalised: [String: Int64] = [:]

    package init() {}
}

/// Records of sources, passed from process to process: `sources` in the state directory.
///
/// One line per origin: `origin`, successes, failures, bytes a second of a connection, a good number of connections (0
/// if not measured), `redirects` or `direct`, when noted in seconds since 1970, the origin. One line per penalised URL:
/// `aside`, the end of the penalty, the URL. If two processes write at the same time, the later one wins for an origin
/// that both have used. If the file is lost, everything is measured anew.
extension SourceRecords {
    private typealias Noted = (score: HostScore, time: Int64)
    /// Most lines of each kind, the latest first.
    private static let capacity = 1_000
    private static let header = "sources 1"
    /// **Seconds** for which successes and failures count: a server that failed last night may have recovered.
    package static let longestPenalty: Int64 = RedirectMemory.longestLife
    /// **Seconds** after which an origin is forgotten: 90 days.
    private static let longestMemory: Int64 = 90 * 86_400

    /// Reads the records that still count at a time in **seconds** since 1970.
    package init(from stateDirectory: String, now: Int64) {
        let (noted, penalised) = Self.lines(stateDirectory, now)
        self.penalised = penalised
        scores = noted.mapValues { noted in
            var score = noted.score
            if now - noted.time >= Self.longestPenalty { (score.successes, score.failures) = (0, 0) }
            return score
        }
    }

    /// Adds this process's records to the recorded ones.
    ///
    /// - Throws: ``FileError``; the recorded ones are then unchanged.
    package func add(to stateDirectory: String, now: Int64) throws(FileError) {
        var (noted, penalised) = Self.lines(stateDirectory, now)
        for (origin, score) in scores { noted[origin] = (score, now) }
        penalised.merge(self.penalised) { max($0, $1) }
        let origins = noted.sorted { ($1.value.time, $0.key) < ($0.value.time, $1.key) }
        let urls = penalised.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        try keep(
            origins.prefix(Self.capacity).map { Self.line($0.key, $0.value) }
                + urls.prefix(Self.capacity).map { "aside \($0.value) \($0.key)" }, in: "\(stateDirectory)/sources",
            Self.header)
    }

    private static func lines(_ directory: String, _ now: Int64) -> (
        noted: [String: Noted], penalised: [String: Int64]
    ) {
        var (noted, penalised): ([String: Noted], [String: Int64]) = ([:], [:])
        for words in keptLines("\(directory)/sources", header).prefix(2 * capacity) {
            if words.count == 3, words[0] == "aside", let end = Int64(words[1]), end > now,
                (try? CurlURL(words[2])) != nil
            {
                penalised[words[2]] = end
            } else if let (origin, one) = Self.noted(words), one.time <= now, now - one.time < longestMemory {
                noted[origin] = one
            }
        }
        return (noted, penalised)
    }

    private static func line(_ origin: String, _ noted: Noted) -> String {
        let score = noted.score
        return [
            "origin", "\(score.successes)", "\(score.failures)", "\(Int64(min(max(score.rate ?? 0, 0), 1e15)))",
            "\(score.connections ?? 0)", score.redirects ? "redirects" : "direct", "\(noted.time)", origin,
        ].joined(separator: " ")
    }

    private static func noted(_ words: [String]) -> (String, Noted)? {
        guard words.count == 8, words[0] == "origin", let successes = count(words[1]), let failures = count(words[2]),
            let rate = Int64(words[3]), let connections = Int(words[4]), ["redirects", "direct"].contains(words[5]),
            let time = Int64(words[6]), time >= 0
        else { return nil }
        var score = HostScore()
        (score.successes, score.failures, score.redirects) = (successes, failures, words[5] == "redirects")
        score.rate = rate > 0 ? Double(rate) : nil
        score.connections = (1...1_000).contains(connections) ? connections : nil
        return (words[7], (score, time))
    }

    private static func count(_ word: String) -> Double? {
        Double(word).flatMap { (0...1_000).contains($0) ? $0 : nil }
    }
}
