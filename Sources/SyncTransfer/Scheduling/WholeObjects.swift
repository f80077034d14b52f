import SyncCurl

/// Objects that a server gives only whole, and who still wants some of them.
///
/// A server without ranges must not cost the object once for each span of it: one body serves every piece that
/// wants something behind its current offset; the others wait for the next.
struct WholeObjects {
    /// URLs that answered 200 to a range.
    private var rangeless: Set<String> = []
    private var bodies: [String: Exchange] = [:]
    private var parked: [String: [Piece]] = [:]
    /// Open pieces that want a range, by each of their sources' URLs.
    private var wanting: [String: [ObjectIdentifier: Piece]] = [:]

    func isKnown(_ url: String) -> Bool { rangeless.contains(url) }

    /// The exchange that brings the whole object now.
    func body(of url: String) -> Exchange? { bodies[url] }

    mutating func add(_ piece: Piece) {
        for source in piece.transfer.sources {
            wanting[source.url.text, default: [:]][ObjectIdentifier(piece)] = piece
        }
    }

    mutating func forget(_ transfer: Transfer) {
        for piece in transfer.pieces {
            for source in transfer.sources {
                let url = source.url.text
                wanting[url]?[ObjectIdentifier(piece)] = nil
                if wanting[url]?.isEmpty == true { wanting[url] = nil }
            }
        }
    }

    /// Everyone who wants a range of the object and has not ended.
    func pieces(wanting url: String) -> [Piece] { wanting[url].map { Array($0.values) } ?? [] }

    mutating func begin(_ exchange: Exchange, of url: String) {
        if rangeless.count >= 4096 { rangeless = [] }  // Learnt again at the price of one answer each.
        rangeless.insert(url)
        bodies[url] = exchange
    }

    /// Ends a body. Whoever could not be served by it is returned.
    mutating func end(_ exchange: Exchange, of url: String) -> [Piece] {
        guard bodies[url] === exchange else { return [] }
        bodies[url] = nil
        return parked.removeValue(forKey: url) ?? []
    }

    mutating func park(_ piece: Piece, until url: String) { parked[url, default: []].append(piece) }
}
