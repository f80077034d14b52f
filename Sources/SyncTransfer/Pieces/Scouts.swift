import SyncSystem

/// Requests that find out for other pieces where a place redirects to.
///
/// Spans of one pack, and files of one directory, are redirected alike and start together. Without scouts, sixteen
/// spans would be redirected sixteen times. No piece waits at an origin that has never redirected.
struct Scouts {
    /// Pieces waiting for the first answer, by place.
    private var flights: [String: [(piece: Piece, ticket: UInt64)]] = [:]
    /// Directories and URLs whose answer is of no use to other pieces: not redirected, or not to be remembered.
    private var useless: Set<String> = []

    private static let capacity = 4096
    /// How long a piece waits at most: several redirects of a far server.
    static let longestWait: Duration = .seconds(5)

    /// The place that an answer applies to: the directory, or else the URL itself.
    private func key(for entry: CurlURL) -> String? {
        guard useless.count < Self.capacity else { return nil }
        let directory = String(entry.directory)
        // A signed URL is for one object.
        if entry.query == nil, !useless.contains(directory) { return directory }
        return useless.contains(entry.text) ? nil : entry.text
    }

    /// Makes a piece wait for the answer of another request to the same place, or makes it the scout.
    /// `redirects` tells whether the piece's origin has redirected before.
    ///
    /// - Returns: Whether the piece waits. It waits for one answer's head, and for ``longestWait`` at most.
    mutating func mustWait(_ piece: Piece, _ chain: RedirectChain, redirects: @autoclosure () -> Bool) -> Bool {
        guard piece.chain == nil, chain.hops == 0, piece.scoutKey == nil, let key = key(for: chain.entry) else {
            return false
        }
        guard flights[key] != nil else {
            piece.scoutKey = key
            flights[key] = []
            return false
        }
        guard redirects(), !piece.hasWaited else { return false }
        piece.hasWaited = true
        flights[key]?.append((piece, piece.take(.postponed(.scout))))
        return true
    }

    /// Evaluates a scout's answer, after its entry has been stored.
    ///
    /// - Returns: Whether the answer proves that its origin no longer redirects, so that other pieces waited in vain.
    mutating func judge(_ key: String, _ chain: RedirectChain, isKnown: Bool) -> Bool {
        guard chain.hops == 0 || !isKnown else { return false }
        useless.insert(key)
        return chain.hops == 0 && flights[key]?.isEmpty == false
    }

    /// Ends a piece's time as a scout: it has an answer or has failed. Returns the pieces that have waited for it.
    mutating func end(_ piece: Piece, hasAnswer: Bool = false) -> [Piece] {
        guard let key = piece.scoutKey else { return [] }
        piece.scoutKey = nil
        guard let waiting = flights.removeValue(forKey: key), !waiting.isEmpty else { return [] }
        return waiting.compactMap { other, ticket in
            guard other.machine.isWaiting(since: ticket) else { return nil }
            // A piece whose scout has failed does not wait for another one.
            if hasAnswer { other.hasWaited = false }
            return other
        }
    }
}
