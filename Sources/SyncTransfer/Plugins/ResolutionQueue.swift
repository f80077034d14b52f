import SyncModel
import SyncPlugins
import SyncSystem

/// Asks resolvers about requests before they are sent, in batches, on other threads.
final class ResolutionQueue {
    /// A request waiting for resolvers.
    private struct Entry {
        let piece: Piece
        let ticket: UInt64
        let priority: Int
        let sequence: UInt64

        var isWaiting: Bool { !piece.transfer.hasEnded && piece.machine.isWaiting(since: ticket) }
    }

    /// A resolver's link that has expired or was refused, and the URL in the manifest that it was for.
    private struct OldLink: Hashable {
        let original: String
        let link: String
    }

    private typealias Question = (entry: Entry, request: ResolverRequest, old: OldLink?)

    /// A piece that need not wait any more, and why it may not go on.
    typealias Outcome = (piece: Piece, isUrgent: Bool, refusal: TransferError?)

    private let resolvers: [ConfiguredResolver]
    private let deadline: Duration
    private let events: @Sendable (TransferEvent) -> Void
    private let router: Router
    private let agenda: Agenda
    private let inbox: Inbox
    private var queue = Heap<Entry> {
        $0.priority != $1.priority ? $0.priority > $1.priority : $0.sequence < $1.sequence
    }
    /// Running questions, by number.
    private var batches: [UInt64: [Question]] = [:]
    /// Requests that wait for the answer to another request with the same old link, by that link.
    private var sharers: [OldLink: [Entry]] = [:]
    /// The links that replaced old ones: other requests with the same old link need not ask.
    private var renewed: [OldLink: (link: ResolvedLink, expires: Int64?)] = [:]
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
    /// Most renewed links that are remembered; a forgotten link is requested again.
    private static let mostRenewed = 4096
    /// Longest time for an answer without which nothing can be sent.
    private static let longest = Duration.seconds(900)
    /// After this many questions in a row without a timely answer, resolvers are not asked any more.
    private static let mostSilences = 3

    init(_ configuration: TransportConfiguration, _ router: Router, _ agenda: Agenda, _ inbox: Inbox) {
        events = configuration.events
        resolvers = configuration.resolvers
        deadline = configuration.pluginDeadline
        self.router = router
        self.agenda = agenda
        self.inbox = inbox
    }

    var isOpen: Bool { !resolvers.isEmpty }

    func isWaiting(for number: UInt64) -> Bool { batches[number] != nil }

    private func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// The question whose answer a piece has to wait for; `nil` if the piece may be queued.
    private func question(of piece: Piece) -> ResolverRequest? {
        guard !resolvers.isEmpty, silences < Self.mostSilences || resolvers.mustAnswer(piece.source.url.text) else {
            return nil
        }
        let range = piece.end.map { piece.position..<max(piece.position, $0) }
        if let chain = piece.chain {
            guard let status = piece.unresolvedRedirect,
                resolvers.contains(where: { $0.scope.covers(chain.current) })
            else { return nil }
            return ResolverRequest(
                url: chain.current.text, original: chain.original.text, range: range, reason: .redirect(status: status))
        }
        let source = piece.source
        if let resolution = source.resolution {
            guard let end = resolution.expires, end <= agenda.unixTime else { return nil }
        }
        let url = router.rewritten(source.url)
        guard resolvers.contains(where: { $0.scope.covers(url) }) else { return nil }
        let reason = source.refused.map { ResolverRequest.Reason.expired(status: $0.status) } ?? .start
        return ResolverRequest(url: url.text, original: source.url.text, range: range, reason: reason)
    }

    /// The link that a piece needs to have replaced.
    private func oldLink(of piece: Piece) -> OldLink? {
        let source = piece.source
        guard piece.chain == nil, let link = source.resolution?.link?.url ?? source.refused?.link else {
            return nil
        }
        return OldLink(original: source.url.text, link: link.text)
    }

    /// The question that remains after a piece has taken over the link that another request got for the same old link.
    private func questionLeft(of piece: Piece) -> ResolverRequest? {
        guard let question = question(of: piece), let old = oldLink(of: piece) else { return question(of: piece) }
        // A renewed link may have been renewed itself; only the newest is of use.
        var (link, seen, newest) = (old.link, Set([old.link]), (link: ResolvedLink, expires: Int64?)?.none)
        while let next = renewed[OldLink(original: old.original, link: link)] {
            // If a resolver gives the same links in a cycle, it is asked.
            guard seen.insert(next.link.url.text).inserted else { return question }
            (newest, link) = (next, next.link.url.text)
        }
        guard let newest else { return question }
        resolve(piece, newest.link, expires: newest.expires)
        return self.question(of: piece)
    }

    /// Makes a piece wait for resolvers if they must be asked. Returns `false` if it need not wait.
    func mustWait(_ piece: Piece, priority: Int) -> Bool {
        guard isOpen, questionLeft(of: piece) != nil else {
            piece.unresolvedRedirect = nil
            return false
        }
        let ticket = piece.take(.postponed(.resolver))
        queue.insert(Entry(piece: piece, ticket: ticket, priority: priority, sequence: nextNumber()))
        return true
    }

    /// Asks about the next requests. Returns the pieces that no longer need an answer.
    func ask() -> [Outcome] {
        var unneeded: [Outcome] = []
        while !queue.isEmpty, batches.count < Self.mostBatches, ahead < Self.lookAhead {
            var batch: [Question] = []
            while batch.count < Self.batchSize, let entry = queue.popFirst() {
                guard entry.isWaiting else { continue }
                guard let request = questionLeft(of: entry.piece) else {
                    unneeded.append((entry.piece, entry.priority == Int.max, nil))
                    continue
                }
                let old = oldLink(of: entry.piece)
                if let old {
                    // One request asks for all requests with the same old link.
                    if sharers[old]?.append(entry) != nil { continue }
                    sharers[old] = []
                }
                batch.append((entry, request, old))
            }
            if !batch.isEmpty { ask(batch) }
        }
        return unneeded
    }

    private func ask(_ batch: [Question]) {
        let number = nextNumber()
        batches[number] = batch
        let requests = batch.map(\.request)
        // Who must answer has deadlines of its own.
        let longest = requests.contains { resolvers.mustAnswer($0.url) } ? max(deadline, Self.longest) : deadline
        agenda.add(.resolverDeadline(number), at: agenda.now + longest)
        do throws(ThreadError) {
            try WorkerThread(name: "resolve") { [resolvers, inbox] in
                let answer = resolvers.resolve(requests)
                inbox.post(.resolved(number, answer.answers, answer.failures))
            }
        } catch {
            let failure = failure(.unavailable, "\(error)")
            inbox.post(.resolved(number, resolvers.unanswered(requests, failure), [failure]))
        }
    }

    private func failure(_ code: PluginError.Code, _ message: String) -> PluginError {
        PluginError(plugin: resolvers.map(\.name).joined(separator: ", "), code: code, message: message)
    }

    /// Resolvers have not answered in time: requests are sent as they are, if that makes sense.
    func passDeadline(of number: UInt64) -> [Outcome] {
        guard let batch = batches[number] else { return [] }
        silences += 1
        let failure = failure(.timedOut, "no answer in time")
        return finish(number, resolvers.unanswered(batch.map(\.request), failure), [failure])
    }

    /// Handles an answer of resolvers.
    func take(_ number: UInt64, _ answers: [ResolverAnswer], _ failures: [PluginError]) -> [Outcome] {
        guard batches[number] != nil else { return [] }  // Too late.
        silences = 0
        return finish(number, answers, failures)
    }

    private func finish(_ number: UInt64, _ answers: [ResolverAnswer], _ failures: [PluginError]) -> [Outcome] {
        guard let batch = batches.removeValue(forKey: number) else { return [] }
        for failure in failures { events(.pluginFailed(.resolver, failure)) }
        return zip(batch, answers).flatMap { question, answer in
            var entries = [question.entry]
            if let old = question.old { entries += sharers.removeValue(forKey: old) ?? [] }
            let waiting = entries.filter(\.isWaiting)
            let link: ResolvedLink?
            do throws(TransferError) { link = try answer.get() } catch {
                return waiting.map { entry -> Outcome in (entry.piece, entry.priority == Int.max, error) }
            }
            // A link that had expired when it came is used all the same: clocks differ, and asking again at once would
            // never end.
            let expires = link?.url.expiry.flatMap { $0 > agenda.unixTime ? $0 : nil }
            // The same link again is of no use to other requests.
            if let link, let old = question.old, link.url.text != old.link {
                if renewed.count >= Self.mostRenewed { renewed = [:] }
                renewed[old] = (link, expires)
            }
            return waiting.map { entry -> Outcome in
                take(link, expires: expires, for: entry.piece)
                return (entry.piece, entry.priority == Int.max, nil)
            }
        }
    }

    private func take(_ link: ResolvedLink?, expires: Int64?, for piece: Piece) {
        guard var chain = piece.chain else { return resolve(piece, link, expires: expires) }
        piece.unresolvedRedirect = nil
        guard let link else { return }
        router.announce(
            Hop(
                .resolver(link.resolver), from: redacted(chain.current), to: redacted(link.url), number: chain.hops),
            of: piece)
        chain.replace(with: link.url, headers: link.headers)
        piece.chain = chain
    }

    private func resolve(_ piece: Piece, _ link: ResolvedLink?, expires: Int64?) {
        let index = piece.sourceIndex
        leaveAhead(&piece.transfer.sources[index])
        piece.transfer.sources[index].resolution = (link, expires)
        piece.transfer.sources[index].isAhead = true
        piece.transfer.sources[index].refused = nil
        ahead += 1
    }

    /// Notes that a source's resolution is used, or no longer needed.
    func leaveAhead(_ source: inout Source) {
        guard source.isAhead else { return }
        source.isAhead = false
        ahead -= 1
    }

    /// Discards a resolution whose target refused the request, so that another is requested. Does nothing if the source
    /// has another one already.
    func expire(_ source: inout Source, _ chain: RedirectChain, after fault: Fault) {
        guard case .status(let status) = fault.kind, let link = source.resolution?.link?.url, link == chain.entry
        else { return }
        leaveAhead(&source)
        source.resolution = nil
        source.refused = (status, link)
    }
}
