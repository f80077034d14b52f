import CCurl
import SyncCurl
import SyncPlugins

extension CurlWorker {
    /// Sends the next request of a piece.
    func launch(_ piece: Piece, chain: RedirectChain, on host: HostState) {
        if piece.chain == nil { announce(chain, for: piece) }
        piece.chain = chain
        let transfer = piece.transfer
        transfer.lastURL = chain.current.text
        transfer.lastSource = piece.sourceIndex
        leaveAhead(&transfer.sources[piece.sourceIndex])
        transfer.sources[piece.sourceIndex].asked = host.origin
        watchSilence(of: host)
        piece.shownCredential = host.credential.version

        let source = transfer.sources[piece.sourceIndex]
        let isRangeless = wholeObjects.isKnown(source.url.text)
        let question = question(for: piece, chain: chain, wholeOnly: source.wholeOnly || isRangeless)
        let isProxied = configuration.proxy(for: chain.current.origin) != nil
        let plan = Exchange.Plan(
            kind: handleKind(for: chain, at: host, hasRange: question.first != nil),
            question: question,
            isBoundToVersion: question.first != nil && ifRange(for: piece) != nil,
            chain: chain,
            mayBeLocal: !chain.isFromPublic || chain.isByRule
                || configuration.redirects.privateTargets.covers(chain.current.origin.host),
            isProxied: isProxied,
            isSmall: isSmall(piece),
            startedAt: now,
            unixTime: configuration.clock.unixTime()
        )
        do throws(CurlError) {
            let easy = try takeHandle(plan.kind, of: host)
            let exchange = Exchange(easy: easy, host: host, piece: piece, plan: plan, worker: self)
            try prepare(easy, for: exchange, piece: piece, source: source)
            let code = curl_multi_add_handle(multi, easy.raw)
            guard code == CURLM_OK else {
                throw CurlError(detail: String(cString: curl_multi_strerror(code)))
            }
            running[ObjectIdentifier(exchange)] = exchange
            host.running += 1
            if plan.isSmall { host.runningSmall += 1 }
            piece.leaveQueue()
            piece.fault = nil
            piece.state = .running(exchange)
            if isRangeless { wholeObjects.begin(exchange, of: source.url.text) }
        } catch {
            settle(piece, fault: Fault(.libcurl, error.detail), chain: chain)
        }
    }

    /// Tells where another source, a rule or memory leads before it is asked there.
    private func announce(_ chain: RedirectChain, for piece: Piece) {
        piece.trail = []
        let asked = piece.askedSource ?? 0
        if asked != piece.sourceIndex {
            tell(.mirror, from: piece.transfer.sources[asked].url, to: chain.original, of: piece, hop: 0)
        }
        piece.askedSource = piece.sourceIndex
        let byRule = rules.apply(to: chain.original)
        if let (target, rule) = byRule {
            tell(.rewrite(.rule(rule)), from: chain.original, to: target, of: piece, hop: 0)
        }
        let resolved = piece.transfer.sources[piece.sourceIndex].resolution
        if let replacement = resolved?.replacement, replacement.url == chain.entry {
            let by = TransferEvent.Rewriter.resolver(replacement.resolver)
            tell(.rewrite(by), from: byRule?.url ?? chain.original, to: replacement.url, of: piece, hop: 0)
        }
        if chain.isRecalled, let status = chain.firstStatus {
            tell(.memory(status), from: chain.entry, to: chain.current, of: piece, hop: 1)
        }
    }

    private func question(for piece: Piece, chain: RedirectChain, wholeOnly: Bool) -> Question {
        let request = piece.transfer.request
        var question = Question(objectSize: request.objectSize)
        question.isElsewhere = chain.current.origin.host != chain.entry.origin.host
        question.mayBeWebPage =
            chain.original.path.hasSuffix(".html") || chain.original.path.hasSuffix(".htm")
        question.isConditional = request.knownValidator != nil && piece.position == 0 && request.range == nil
        let isWhole = piece.position == 0 && (piece.end == nil || piece.end == request.objectSize)
        if !wholeOnly, !isWhole {
            question.first = piece.position
            question.end = piece.end
        }
        return question
    }

    private func handleKind(for chain: RedirectChain, at host: HostState, hasRange: Bool) -> HandleKind {
        let http2 =
            switch configuration.http2 {
            case .never: false
            case .wholeObjects: !hasRange
            case .always: true
            }
        return HandleKind(
            credential: chain.current.isSigned ? 0 : host.credential.version,
            isAtHome: chain.isAtHome && configuration.homes?.contains(chain.original.origin) != false,
            http2: http2
        )
    }

    private func takeHandle(_ kind: HandleKind, of host: HostState) throws(CurlError) -> EasyHandle {
        if let easy = host.handles[kind]?.popLast() {
            idleHandles -= 1
            return easy
        }
        let easy = try EasyHandle()
        try easy.applyDefaults(
            configuration,
            kind: kind,
            origin: host.origin,
            credential: host.credential.kind
        )
        return easy
    }

    private func prepare(
        _ easy: EasyHandle,
        for exchange: Exchange,
        piece: Piece,
        source: Source
    ) throws(CurlError) {
        let question = exchange.plan.question
        let request = piece.transfer.request
        var headers = ["Accept-Encoding: identity"]  // R8.
        if let first = question.first {
            try easy.set(CURLOPT_RANGE, "\(first)-\(question.end.map { String($0 - 1) } ?? "")")
            if let known = ifRange(for: piece) { headers.append("If-Range: \(known)") }
        } else {
            try easy.set(CURLOPT_RANGE, nil)
        }
        if question.isConditional, let known = request.knownValidator {
            if let etag = known.etag { headers.append("If-None-Match: \(etag)") }
            if let date = known.lastModified { headers.append("If-Modified-Since: \(date)") }
        }
        if source.uncached || request.reload { headers.append("Cache-Control: no-cache") }
        if exchange.plan.kind.isAtHome { headers += configuration.headers }
        if exchange.plan.kind.credential != 0 { headers += exchange.host.credential.kind?.headers ?? [] }
        headers += exchange.plan.chain.ownHeaders.map { "\($0.name): \($0.value)" }
        // What came from an answer's head goes back into a request: never with a line end in it (V27).
        try easy.set(headers: headers.filter { !$0.utf8.contains { $0 < 0x20 || $0 == 0x7F } })
        try easy.set(CURLOPT_URL, exchange.plan.chain.current.text)
        easy.forgetMessage()
        try easy.attach(exchange)
    }
}

extension CurlWorker {
    /// What is known of the object's version at the source that is asked; mirrors have tags of their own.
    private func ifRange(for piece: Piece) -> String? {
        if let known = piece.ifRange, piece.ifRangeSource == piece.sourceIndex { return known }
        return piece.sourceIndex == 0 ? piece.transfer.request.validator?.strongETag : nil
    }
}

extension Validator {
    /// ``etag`` unless it is weak.
    var strongETag: String? {
        etag.flatMap { $0.hasPrefix("\"") && $0.hasSuffix("\"") && $0.utf8.count >= 2 ? $0 : nil }
    }
}
