import SyncCurl
import SyncModel
import SyncPlugins
import SyncSystem

/// What resolvers made of a source's URL.
struct Resolution {
    /// The URL to ask instead; `nil` if it stays.
    var replacement: (url: CurlURL, headers: [HeaderField], resolver: String)?
    /// Resolved and not sent yet. Resolved too early, it may expire before its turn.
    fileprivate var isAhead = true
}

/// Asks resolvers about requests before they are sent, in batches, on other threads.
final class ResolverDesk {
    /// A request waiting for resolvers.
    private struct Entry {
        let piece: Piece
        let ticket: UInt64
        let priority: Int
        let sequence: UInt64

        var isWaiting: Bool { !piece.transfer.hasEnded && piece.life.isWaiting(since: ticket) }
    }

    /// What becomes of a request.
    enum Outcome {
        case goesOn(Piece, isUrgent: Bool)
        case cancelled(Piece, String)
    }

    private let resolvers: [ConfiguredResolver]
    private let deadline: Duration
    private let router: Router
    private let announcer: Announcer
    private let agenda: Agenda
    private let inbox: Inbox
    private var queue = Heap<Entry> {
        $0.priority != $1.priority ? $0.priority > $1.priority : $0.sequence < $1.sequence
    }
    /// Running questions, by number.
    private var batches: [UInt64: [(entry: Entry, request: ResolverRequest)]] = [:]
    /// Sources resolved ahead of their request.
    private var ahead = 0
    private var lastNumber: UInt64 = 0
    /// Questions in a row without a timely answer.
    private var silences = 0

    /// Most requests in one question.
    private static let batchSize = 256
    /// Most questions at a time.
    private static let mostBatches = 2
    /// Most requests resolved before their turn.
    private static let lookAhead = 512
    /// After this many questions in a row without a timely answer, resolvers are not asked any more.
    private static let mostSilences = 3

    init(
        _ configuration: TransportConfiguration,
        router: Router,
        announcer: Announcer,
        agenda: Agenda,
        inbox: Inbox
    ) {
        resolvers = configuration.resolvers
        deadline = configuration.pluginDeadline
        self.router = router
        self.announcer = announcer
        self.agenda = agenda
        self.inbox = inbox
    }

    /// Whether there are resolvers.
    var isOpen: Bool { !resolvers.isEmpty }

    func isWaiting(for number: UInt64) -> Bool { batches[number] != nil }

    private func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// The question that a piece has to wait for; `nil` if it may be queued.
    private func question(of piece: Piece) -> ResolverRequest? {
        guard !resolvers.isEmpty, silences < Self.mostSilences else { return nil }
        let range = piece.end.map { piece.position..<max(piece.position, $0) }
        if let chain = piece.chain {
            guard let status = piece.unresolvedRedirect else { return nil }
            return ResolverRequest(
                url: chain.current.text,
                original: chain.original.text,
                range: range,
                reason: .redirect(status: status)
            )
        }
        let source = piece.source
        if let resolution = source.resolution {
            guard let end = resolution.replacement.flatMap({ LinkExpiry.ofURL($0.url) }),
                end <= agenda.unixTime
            else { return nil }
        }
        let url = router.rewritten(source.url)?.url ?? source.url
        guard resolvers.contains(where: { $0.scope.covers(url) }) else { return nil }
        let reason = source.refused.map { ResolverRequest.Reason.expired(status: $0) }
        return ResolverRequest(
            url: url.text,
            original: source.url.text,
            range: range,
            reason: reason ?? .start
        )
    }

    /// Makes a piece wait for resolvers if they must be asked.
    ///
    /// - Returns: Whether it waits.
    func mustWait(_ piece: Piece, priority: Int) -> Bool {
        guard isOpen, question(of: piece) != nil else {
            piece.unresolvedRedirect = nil
            return false
        }
        piece.move(to: .waiting(.resolver))
        queue.insert(
            Entry(piece: piece, ticket: piece.ticket, priority: priority, sequence: nextNumber())
        )
        return true
    }

    /// Asks about the next requests.
    ///
    /// - Returns: What need not be asked about any more.
    func ask() -> [Outcome] {
        var unneeded: [Outcome] = []
        while !queue.isEmpty, batches.count < Self.mostBatches, ahead < Self.lookAhead {
            var batch: [(entry: Entry, request: ResolverRequest)] = []
            while batch.count < Self.batchSize, let entry = queue.popFirst() {
                guard entry.isWaiting else { continue }
                guard let request = question(of: entry.piece) else {
                    unneeded.append(.goesOn(entry.piece, isUrgent: entry.priority == Int.max))
                    continue
                }
                batch.append((entry, request))
            }
            guard !batch.isEmpty else { break }
            let number = nextNumber()
            batches[number] = batch
            agenda.add(.resolverDeadline(number), at: agenda.now + deadline)
            // Without a thread no resolver is asked, and the deadline ends the wait.
            let requests = batch.map(\.request)
            _ = try? WorkerThread(name: "resolve") { [resolvers, inbox] in
                let answer = resolvers.resolve(requests)
                inbox.post(.resolved(number, answer.resolved, answer.failures))
            }
        }
        return unneeded
    }

    /// Resolvers have not answered in time: requests are sent as they are (S54).
    func passDeadline(of number: UInt64) -> [Outcome] {
        guard let batch = batches[number] else { return [] }
        silences += 1
        let names = resolvers.map(\.name).joined(separator: ", ")
        let text = "no answer within \(deadline); requests are sent as they are"
        let failure = PluginError(plugin: names, code: .timedOut, message: text)
        return finish(number, batch.map { Resolved(url: $0.request.url) }, [failure])
    }

    /// Resolvers have answered.
    func take(_ number: UInt64, _ answers: [Resolved], _ failures: [PluginError]) -> [Outcome] {
        guard batches[number] != nil else { return [] }  // Too late.
        silences = 0
        return finish(number, answers, failures)
    }

    private func finish(_ number: UInt64, _ answers: [Resolved], _ failures: [PluginError]) -> [Outcome] {
        guard let batch = batches.removeValue(forKey: number) else { return [] }
        for failure in failures { announcer.events(.pluginFailed(.resolver, failure)) }
        return zip(batch, answers).compactMap { item, answer in
            item.entry.isWaiting ? take(answer, for: item.entry) : nil
        }
    }

    private func take(_ answer: Resolved, for entry: Entry) -> Outcome {
        let piece = entry.piece
        if let (resolver, reason) = answer.cancelled {
            return .cancelled(piece, "plugin \(resolver) cancelled the request: \(reason)")
        }
        var replacement: (url: CurlURL, headers: [HeaderField], resolver: String)?
        if let resolver = answer.resolver, let url = try? CurlURL(answer.url) {
            replacement = (url, answer.headers, resolver)
        }
        if var chain = piece.chain {
            piece.unresolvedRedirect = nil
            if let replacement {
                let by = TransferEvent.Rewriter.resolver(replacement.resolver)
                announcer.hop(.rewrite(by), from: chain.current, to: replacement.url, of: piece, chain.hops)
                chain.replace(with: replacement.url, headers: replacement.headers)
                piece.chain = chain
            }
        } else {
            leaveAhead(&piece.transfer.sources[piece.sourceIndex])
            piece.transfer.sources[piece.sourceIndex].resolution = Resolution(replacement: replacement)
            piece.transfer.sources[piece.sourceIndex].refused = nil
            ahead += 1
        }
        return .goesOn(piece, isUrgent: entry.priority == Int.max)
    }

    /// A source's resolution is used, or no longer needed.
    func leaveAhead(_ source: inout Source) {
        guard source.resolution?.isAhead == true else { return }
        source.resolution?.isAhead = false
        ahead -= 1
    }

    /// A resolver's target refused the request: resolvers are asked again.
    func expire(_ source: inout Source, after fault: Fault) {
        guard case .status(let status) = fault.kind, source.resolution?.replacement != nil else { return }
        leaveAhead(&source)
        source.resolution = nil
        source.refused = status
    }
}

@available(*, unavailable)
extension ResolverDesk: Sendable {}
