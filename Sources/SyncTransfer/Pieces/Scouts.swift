import SyncCurl

/// Which requests find out for others where a place redirects to.
///
/// Spans of one pack and files of one directory are redirected alike, and start at the same time: without this, sixteen
/// spans are redirected sixteen times. Nobody waits at an origin that has never redirected.
struct Scouts {
    /// Who waits for the answer to a first request to a place.
    private var flights: [String: [(piece: Piece, ticket: UInt64)]] = [:]
    /// Pieces whose answer others wait for, with where it came from.
    private var returned: [(piece: Piece, chain: RedirectChain)] = []
    /// Directories and URLs whose answer helped nobody else: not redirected, or with a lesson that may not be kept.
    private var useless: Set<String> = []

    private static let capacity = 4096
    /// Longest time that a piece waits: some redirects of a far server.
    static let longestWait: Duration = .seconds(5)

    /// What is worth finding out about a URL: where its directory is, or else where it is itself.
    private func key(for entry: CurlURL) -> String? {
        guard useless.count < Self.capacity else { return nil }
        let directory = String(entry.directory)
        // A signature is for one object.
        if entry.query == nil, !useless.contains(directory) { return directory }
        return useless.contains(entry.text) ? nil : entry.text
    }

    /// Lets a piece wait for the answer that another request to the same place is about to get, or makes it the one
    /// that others wait for.
    ///
    /// - Parameters:
    ///   - piece: About to be asked for.
    ///   - chain: Where.
    ///   - redirects: Whether its origin has redirected before.
    /// - Returns: Whether the piece waits. It does so for one answer's head, and for ``longestWait`` at most.
    mutating func mustWait(
        _ piece: Piece,
        _ chain: RedirectChain,
        redirects: @autoclosure () -> Bool
    ) -> Bool {
        guard piece.chain == nil, chain.hops == 0, piece.scoutKey == nil, let key = key(for: chain.entry)
        else { return false }
        guard flights[key] != nil else {
            piece.scoutKey = key
            flights[key] = []
            return false
        }
        guard redirects(), !piece.hasWaited else { return false }
        piece.hasWaited = true
        piece.move(to: .waiting(.scout))
        flights[key]?.append((piece, piece.ticket))
        return true
    }

    /// A piece has an answer. Called inside libcurl: nothing happens before ``takeReturned()``.
    mutating func returns(_ piece: Piece, _ chain: RedirectChain) { returned.append((piece, chain)) }

    mutating func takeReturned() -> [(piece: Piece, chain: RedirectChain)] {
        guard !returned.isEmpty else { return [] }
        defer { returned = [] }
        return returned
    }

    /// Judges an answer, once what it taught has been learnt.
    ///
    /// - Returns: Whether it proves that its origin redirects no more: others waited in vain.
    mutating func judge(_ key: String, _ chain: RedirectChain, isTaught: Bool) -> Bool {
        guard chain.hops == 0 || !isTaught else { return false }
        useless.insert(key)
        return chain.hops == 0 && flights[key]?.isEmpty == false
    }

    /// A piece finds out nothing for others any more: it has an answer, or has failed.
    ///
    /// - Returns: Who has waited for it.
    mutating func end(_ piece: Piece, hasAnswer: Bool = false) -> [Piece] {
        guard let key = piece.scoutKey else { return [] }
        piece.scoutKey = nil
        guard let waiting = flights.removeValue(forKey: key), !waiting.isEmpty else { return [] }
        return waiting.compactMap { other, ticket in
            guard other.life.isWaiting(since: ticket) else { return nil }
            // What failed once is not waited for again.
            if hasAnswer { other.hasWaited = false }
            return other
        }
    }
}
