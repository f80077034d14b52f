import CCurl
import SyncPlugins

extension CurlWorker {
    /// Puts a piece into the queue of the host that its next request goes to.
    ///
    /// - Parameter isUrgent: Goes before everything: it has been started already.
    func enqueue(_ piece: Piece, isUrgent: Bool = false) {
        guard !piece.transfer.hasEnded else { return }
        if piece.chain == nil { chooseSource(for: piece) }
        let host = host(for: nextURL(of: piece).origin)
        piece.leaveQueue()
        piece.state = .queued
        host.queue.insert(
            (piece, piece.ticket),
            priority: isUrgent ? Int.max : piece.transfer.request.priority,
            isSmall: isSmall(piece)
        )
        list(host)
    }

    private func chooseSource(for piece: Piece) {
        let sources = piece.transfer.sources
        guard sources.count > 1 else { return }
        let candidates = sources.indices.filter { !sources[$0].isSpent }.map { index in
            let url = sources[index].url
            return (index: index, url: url, isOutOfReach: (hosts[url.origin]?.connectivityFailures ?? 0) > 0)
        }
        if let best = standings.best(of: candidates, now: now) { piece.sourceIndex = best }
    }

    /// The URL that is asked next.
    func nextURL(of piece: Piece) -> CurlURL {
        if let chain = piece.chain { return chain.current }
        return piece.transfer.sources[piece.sourceIndex].url
    }

    func host(for origin: Origin) -> HostState {
        if let host = hosts[origin] { return host }
        let host = HostState(origin: origin)
        hosts[origin] = host
        return host
    }

    /// Notes that a host may start something, if it may.
    func list(_ host: HostState) {
        guard !host.isListed, mayStart(host), let priority = host.queue.topPriority else { return }
        host.isListed = true
        startable.insert((priority, host))
    }

    private func mayStart(_ host: HostState) -> Bool {
        guard !host.queue.isEmpty, host.running < limit(of: host) else { return false }
        return host.gate.map { $0 <= now } ?? true
    }

    func limit(of host: HostState) -> Int { configuration.connectionsPerHost }

    /// Starts queued pieces while there is room. O(log *n*) for each start.
    func startWhatMayStart() {
        while running.count < configuration.connections, let (_, host) = startable.popFirst() {
            host.isListed = false
            guard mayStart(host) else { continue }
            let next = host.queue.popFirst(
                runningSmall: host.runningSmall,
                runningLarge: host.running - host.runningSmall
            )
            if let (piece, ticket) = next, piece.ticket == ticket, case .queued = piece.state {
                if nextURL(of: piece).origin == host.origin {
                    launch(piece, on: host)
                } else {
                    enqueue(piece)
                }
            }
            list(host)
        }
    }

    func isSmall(_ piece: Piece) -> Bool {
        (piece.remaining ?? piece.transfer.request.limit) <= configuration.smallSize
    }

    /// Sends the next request of a piece.
    private func launch(_ piece: Piece, on host: HostState) {
        let transfer = piece.transfer
        let source = transfer.sources[piece.sourceIndex]
        let chain = piece.chain ?? RedirectChain(original: source.url)
        piece.chain = chain
        transfer.lastURL = chain.current.text
        transfer.lastSource = piece.sourceIndex

        let question = question(for: piece, source: source, chain: chain)
        let kind = handleKind(for: chain, hasRange: question.first != nil)
        do throws(CurlError) {
            let easy = try takeHandle(kind, of: host)
            let exchange = Exchange(
                easy: easy,
                kind: kind,
                host: host,
                piece: piece,
                question: question,
                chain: chain,
                mayBeLocal: mayBeLocal(piece, chain: chain),
                isSmall: isSmall(piece),
                startedAt: now,
                context: Exchange.Context(
                    counters: counters,
                    throttle: throttle,
                    maximumHeaderBytes: configuration.maximumHeaderBytes,
                    maximumHeaderCount: configuration.maximumHeaderCount,
                    unixTime: configuration.clock.unixTime()
                )
            )
            try prepare(easy, for: exchange, piece: piece, source: source)
            let code = curl_multi_add_handle(multi, easy.raw)
            guard code == CURLM_OK else { throw CurlError(detail: String(cString: curl_multi_strerror(code))) }
            running[ObjectIdentifier(exchange)] = exchange
            host.running += 1
            if exchange.isSmall { host.runningSmall += 1 }
            piece.leaveQueue()
            piece.state = .running(exchange)
        } catch {
            settle(piece, fault: Fault(.library, error.detail), chain: chain)
        }
    }

    private func question(for piece: Piece, source: Source, chain: RedirectChain) -> Question {
        let request = piece.transfer.request
        var question = Question(objectSize: request.objectSize)
        question.isElsewhere = chain.current.origin.host != chain.original.origin.host
        question.mayBeWebPage = chain.original.path.hasSuffix(".html") || chain.original.path.hasSuffix(".htm")
        question.isConditional = request.knownValidator != nil && piece.position == 0 && request.range == nil
        let isWhole = piece.position == 0 && (piece.end == nil || piece.end == request.objectSize)
        if !source.wholeOnly, !isWhole {
            question.first = piece.position
            question.end = piece.end
        }
        return question
    }

    private func handleKind(for chain: RedirectChain, hasRange: Bool) -> HandleKind {
        let http2 =
            switch configuration.http2 {
            case .never: false
            case .wholeObjects: !hasRange
            case .always: true
            }
        return HandleKind(
            hasCredentials: configuration.credentials[chain.current.origin] != nil && !chain.current.isSigned,
            isOriginal: chain.isAtOriginalOrigin,
            http2: http2
        )
    }

    private func mayBeLocal(_ piece: Piece, chain: RedirectChain) -> Bool {
        !piece.originIsPublic || configuration.redirects.privateTargets.covers(chain.current.origin.host)
    }

    private func takeHandle(_ kind: HandleKind, of host: HostState) throws(CurlError) -> EasyHandle {
        if let easy = host.handles[kind]?.popLast() { return easy }
        let easy = try EasyHandle()
        try easy.applyDefaults(configuration, kind: kind, origin: host.origin)
        return easy
    }

    private func prepare(
        _ easy: EasyHandle,
        for exchange: Exchange,
        piece: Piece,
        source: Source
    ) throws(CurlError) {
        let question = exchange.question
        var headers = ["Accept-Encoding: identity"]  // R8.
        if let first = question.first {
            try easy.set(CURLOPT_RANGE, "\(first)-\(question.end.map { String($0 - 1) } ?? "")")
            let known = piece.ifRange ?? piece.transfer.request.validator?.strongETag
            if let known { headers.append("If-Range: \(known)") }
        } else {
            try easy.set(CURLOPT_RANGE, nil)
        }
        if question.isConditional, let known = piece.transfer.request.knownValidator {
            if let etag = known.etag { headers.append("If-None-Match: \(etag)") }
            if let date = known.lastModified { headers.append("If-Modified-Since: \(date)") }
        }
        if source.uncached || piece.transfer.request.reload { headers.append("Cache-Control: no-cache") }
        if exchange.kind.isOriginal { headers += configuration.headers }
        if exchange.kind.hasCredentials {
            switch configuration.credentials[exchange.chain.current.origin] {
            case .bearer(let token): headers.append("Authorization: Bearer \(token)")
            case .sigV4(_, _, let token?, _, _): headers.append("X-Amz-Security-Token: \(token)")
            default: break
            }
        }
        try easy.set(headers: headers.filter { !$0.utf8.contains { $0 < 0x20 || $0 == 0x7F } })
        try easy.set(CURLOPT_URL, exchange.chain.current.text)
        easy.forgetMessage()
        try easy.attach(exchange)
    }
}

extension Validator {
    /// ``etag`` unless it is weak.
    var strongETag: String? {
        etag.flatMap { $0.hasPrefix("\"") && $0.hasSuffix("\"") && $0.utf8.count >= 2 ? $0 : nil }
    }
}
