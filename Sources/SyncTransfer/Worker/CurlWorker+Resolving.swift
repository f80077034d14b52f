import SyncCurl
import SyncModel
import SyncPlugins
import SyncSystem

/// Requests that wait for a resolver's word.
struct Resolving {
    /// A request that resolvers are to be asked about.
    struct Entry {
        let piece: Piece
        let ticket: UInt64
        let priority: Int
        let sequence: UInt64
    }
    /// One question about many requests.
    struct Batch {
        let entries: [Entry]
        let requests: [ResolverRequest]
    }

    var queue = Heap<Entry> {
        $0.priority != $1.priority ? $0.priority > $1.priority : $0.sequence < $1.sequence
    }
    var batches: [UInt64: Batch] = [:]
    /// Resolved and not sent yet: what is resolved too early may have expired by its turn.
    var ahead = 0
    var nextNumber: UInt64 = 0
    /// Questions in a row without an answer in time.
    var silences = 0

    mutating func number() -> UInt64 {
        defer { nextNumber += 1 }
        return nextNumber
    }

    /// Most requests in one question.
    static let batchSize = 256
    /// Most questions at a time.
    static let mostBatches = 2
    /// Most requests that are resolved before their turn.
    static let lookAhead = 512
    /// Whoever has been silent so often is asked no more.
    static let mostSilences = 3
}

/// What resolvers have made of a source's URL.
struct Resolution {
    /// What is asked in its place; `nil` when it stays.
    var replacement: (url: CurlURL, headers: [HeaderField], resolver: String)?
    /// Counted in ``Resolving/ahead``.
    var isAhead = true
}

extension CurlWorker {
    /// The question to resolvers that a piece has to wait for; `nil` when it may go into a queue.
    private func question(of piece: Piece) -> ResolverRequest? {
        guard !resolvers.isEmpty, resolving.silences < Resolving.mostSilences else { return nil }
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
        let source = piece.transfer.sources[piece.sourceIndex]
        if let resolution = source.resolution {
            guard let end = resolution.replacement.flatMap({ LinkExpiry.ofURL($0.url) }),
                end <= configuration.clock.unixTime()
            else { return nil }
        }
        let url = rules.apply(to: source.url)?.url ?? source.url
        guard resolvers.contains(where: { $0.scope.covers(url) }) else { return nil }
        let reason = source.refused.map { ResolverRequest.Reason.expired(status: $0) }
        return ResolverRequest(
            url: url.text,
            original: source.url.text,
            range: range,
            reason: reason ?? .start
        )
    }

    /// Lets a piece wait until resolvers have answered, if they must be asked.
    ///
    /// - Returns: Whether it waits.
    func waitsForResolver(_ piece: Piece, priority: Int) -> Bool {
        guard question(of: piece) != nil else {
            piece.unresolvedRedirect = nil
            return false
        }
        piece.leaveQueue()
        piece.state = .waiting
        let number = resolving.number()
        resolving.queue.insert(
            Resolving.Entry(piece: piece, ticket: piece.ticket, priority: priority, sequence: number)
        )
        return true
    }

    /// Asks about what is next, many at a time, on other threads.
    func askResolvers() {
        while !resolving.queue.isEmpty, resolving.batches.count < Resolving.mostBatches,
            resolving.ahead < Resolving.lookAhead
        {
            var entries: [Resolving.Entry] = []
            var requests: [ResolverRequest] = []
            while entries.count < Resolving.batchSize, let entry = resolving.queue.popFirst() {
                guard isWaiting(entry) else { continue }
                guard let request = question(of: entry.piece) else {
                    enqueue(entry.piece, isUrgent: entry.priority == Int.max)
                    continue
                }
                entries.append(entry)
                requests.append(request)
            }
            guard !entries.isEmpty else { return }
            let number = resolving.number()
            resolving.batches[number] = Resolving.Batch(entries: entries, requests: requests)
            timers.insert(Timer(at: now + configuration.pluginDeadline, action: .resolverDeadline(number)))
            // Without a thread nobody is asked: the deadline comes.
            _ = try? WorkerThread(name: "resolve") { [resolvers, inbox, requests] in
                let answer = resolvers.resolve(requests)
                inbox.post(.resolved(number, answer.resolved, answer.failures))
            }
        }
    }

    private func isWaiting(_ entry: Resolving.Entry) -> Bool {
        guard entry.piece.ticket == entry.ticket, !entry.piece.transfer.hasEnded,
            case .waiting = entry.piece.state
        else { return false }
        return true
    }

    /// Nobody has answered in time: requests are sent as they are (S54).
    func passResolverDeadline(_ number: UInt64) {
        guard let batch = resolving.batches[number] else { return }
        resolving.silences += 1
        let names = resolvers.map(\.name).joined(separator: ", ")
        let text = "no answer within \(configuration.pluginDeadline); requests are sent as they are"
        let failure = PluginError(plugin: names, code: .timedOut, message: text)
        take(number, batch.requests.map { Resolved(url: $0.url) }, [failure])
    }

    /// Resolvers have answered.
    func resolved(_ number: UInt64, _ answers: [Resolved], _ failures: [PluginError]) {
        guard resolving.batches[number] != nil else { return }  // Too late.
        resolving.silences = 0
        take(number, answers, failures)
    }

    private func take(_ number: UInt64, _ answers: [Resolved], _ failures: [PluginError]) {
        guard let batch = resolving.batches.removeValue(forKey: number) else { return }
        for failure in failures { configuration.events(.pluginFailed(.resolver, failure)) }
        for ((entry, request), answer) in zip(zip(batch.entries, batch.requests), answers)
        where isWaiting(entry) {
            take(answer, to: request, for: entry)
        }
    }

    private func take(_ answer: Resolved, to request: ResolverRequest, for entry: Resolving.Entry) {
        let piece = entry.piece
        if let (resolver, reason) = answer.cancelled {
            let text = "plugin \(resolver) cancelled the request: \(reason)"
            return abandon(piece.transfer, code: .refusedByPolicy, detail: text, cause: .cancelled)
        }
        var replacement: (url: CurlURL, headers: [HeaderField], resolver: String)?
        if let resolver = answer.resolver, let url = try? CurlURL(answer.url) {
            replacement = (url, answer.headers, resolver)
        }
        if var chain = piece.chain {
            piece.unresolvedRedirect = nil
            if let replacement {
                let by = TransferEvent.Rewriter.resolver(replacement.resolver)
                tell(.rewrite(by), from: chain.current, to: replacement.url, of: piece, hop: chain.hops)
                chain.replace(with: replacement.url, headers: replacement.headers)
                piece.chain = chain
            }
        } else {
            leaveAhead(&piece.transfer.sources[piece.sourceIndex])
            piece.transfer.sources[piece.sourceIndex].resolution = Resolution(replacement: replacement)
            piece.transfer.sources[piece.sourceIndex].refused = nil
            resolving.ahead += 1
        }
        enqueue(piece, isUrgent: entry.priority == Int.max)
    }

    /// A source's resolution is used, or not needed any more.
    func leaveAhead(_ source: inout Source) {
        guard source.resolution?.isAhead == true else { return }
        source.resolution?.isAhead = false
        resolving.ahead -= 1
    }

    /// What a resolver led to was refused: it is asked again.
    func expireResolution(of piece: Piece, fault: Fault) {
        guard case .status(let status) = fault.kind,
            piece.transfer.sources[piece.sourceIndex].resolution?.replacement != nil
        else { return }
        leaveAhead(&piece.transfer.sources[piece.sourceIndex])
        piece.transfer.sources[piece.sourceIndex].resolution = nil
        piece.transfer.sources[piece.sourceIndex].refused = status
    }
}
