import SyncCurl
import SyncPlugins

/// Which requests find out for others where a place redirects to.
///
/// Spans of one pack and files of one directory are redirected alike, and start at the same time: without this, sixteen
/// spans are redirected sixteen times. Nobody waits at an origin that has never redirected.
struct Scouts {
    /// A first request to a place, and who waits for its answer.
    struct Flight {
        var waiting: [(piece: Piece, ticket: UInt64)] = []
    }

    var flights: [String: Flight] = [:]
    /// Directories and URLs whose answer helped nobody else: not redirected, or with a lesson that may not be kept.
    private var useless: Set<String> = []

    private static let capacity = 4096

    /// What is worth finding out about a URL: where its directory is, or else where it is itself.
    func key(for entry: CurlURL) -> String? {
        guard useless.count < Self.capacity else { return nil }
        let directory = String(entry.directory)
        // A signature is for one object.
        if entry.query == nil, !useless.contains(directory) { return directory }
        return useless.contains(entry.text) ? nil : entry.text
    }

    mutating func giveUp(on key: String) { useless.insert(key) }
}

extension CurlWorker {
    /// Lets a piece wait for the answer that another request to the same place is about to get, or makes it the one
    /// that others wait for.
    ///
    /// - Returns: Whether the piece waits. It does so for one answer's head, and for ``longestWait`` at most.
    func waitsForScout(_ piece: Piece, _ chain: RedirectChain) -> Bool {
        guard piece.chain == nil, chain.hops == 0, piece.scoutKey == nil,
            let key = scouts.key(for: chain.entry)
        else { return false }
        guard scouts.flights[key] != nil else {
            piece.scoutKey = key
            scouts.flights[key] = Scouts.Flight()
            return false
        }
        guard standings[chain.entry.origin].redirects, !piece.hasWaited else { return false }
        piece.hasWaited = true
        piece.leaveQueue()
        piece.state = .waiting
        scouts.flights[key]?.waiting.append((piece, piece.ticket))
        timers.insert(Timer(at: now + Self.longestWait, action: .requeue(piece, ticket: piece.ticket)))
        return true
    }

    /// Some redirects of a far server.
    private static let longestWait: Duration = .seconds(5)

    /// Called by an exchange inside libcurl: nothing happens before libcurl has returned.
    func scoutReturns(_ piece: Piece, from exchange: Exchange) {
        returnedScouts.append((piece, exchange.plan.chain))
    }

    /// Those who waited for a good answer go where it was found.
    func welcomeScouts() {
        guard !returnedScouts.isEmpty else { return }
        let returned = returnedScouts
        returnedScouts = []
        for (piece, chain) in returned {
            guard let key = piece.scoutKey else { continue }
            learn(chain)
            if chain.hops == 0 || !memory.isTaught(key) {
                scouts.giveUp(on: key)
                // Whoever waited in vain is the proof that it redirects no more.
                if chain.hops == 0, scouts.flights[key]?.waiting.isEmpty == false {
                    standings[chain.entry.origin].redirects = false
                }
            }
            endScouting(piece, hasAnswer: true)
        }
    }

    /// A piece finds out nothing for others any more: it has an answer, or has failed.
    func endScouting(_ piece: Piece, hasAnswer: Bool = false) {
        guard let key = piece.scoutKey else { return }
        piece.scoutKey = nil
        for (other, ticket) in scouts.flights.removeValue(forKey: key)?.waiting ?? [] {
            guard other.ticket == ticket, case .waiting = other.state else { continue }
            // What failed once is not waited for again.
            if hasAnswer { other.hasWaited = false }
            enqueue(other)
        }
    }
}
