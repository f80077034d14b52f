import CCurl
import SyncModel
import SyncPlugins
import SyncSystem

/// Writes requests: range, headers, and no secret but those of the origin that gets the request.
extension TransportConfiguration {
    /// Plans the next request of a piece.
    ///
    /// - Parameters:
    ///   - isRangeless: Whether the server is known to send only whole objects.
    ///   - mayBeLocal: Whether a local address may answer.
    func plan(
        for piece: Piece, chain: RedirectChain, host: HostState, isRangeless: Bool, mayBeLocal: Bool, _ agenda: Agenda
    ) -> Exchange.Plan {
        let question = question(for: piece, chain: chain, wholeOnly: isRangeless || piece.source.wholeOnly)
        let kind = handleKind(
            for: chain, at: host, hasRange: question.first != nil && !question.isFirst,
            isLarge: question.objectSize ?? 0 > largeSize)
        let ownHeaders = chain.ownHeaders.map(\.name) + (kind.isAtHome ? headers : [])
        return Exchange.Plan(
            kind: kind, question: question, version: question.first == nil ? nil : ifRange(for: piece), chain: chain,
            mayBeLocal: mayBeLocal, proxy: proxy(for: chain.current.origin),
            showsCredentials: kind.credential != 0
                || ownHeaders.contains { $0.lowercased().hasPrefix("authorization") }, isSmall: isSmall(piece),
            startedAt: agenda.now, unixTime: agenda.unixTime)
    }

    /// Whether a piece uses the lane for small transfers.
    func isSmall(_ piece: Piece) -> Bool {
        (piece.remaining ?? piece.firstRange.map { $0.upperBound - $0.lowerBound } ?? piece.transfer.request.limit)
            <= smallSize
    }

    private func question(for piece: Piece, chain: RedirectChain, wholeOnly: Bool) -> Question {
        let request = piece.transfer.request
        var question = Question(objectSize: request.objectSize)
        question.isElsewhere = chain.current.origin.host != chain.entry.origin.host
        question.mayBeWebPage = chain.original.path.hasSuffix(".html") || chain.original.path.hasSuffix(".htm")
        question.isHeadOnly = request.isHeadOnly
        question.isConditional = request.knownValidator != nil && piece.position == 0 && request.range == nil
        let reachesEnd = piece.transfer.hasOpenEnd || piece.end == nil || piece.end == request.objectSize
        let isWhole = piece.position == 0 && reachesEnd
        if !wholeOnly, !request.isHeadOnly, let range = piece.firstRange {
            (question.first, question.end, question.isFirst) = (range.lowerBound, range.upperBound, true)
        } else if !wholeOnly, !isWhole, !request.isHeadOnly {
            question.first = piece.position
            question.end = piece.end
        }
        return question
    }

    private func handleKind(for chain: RedirectChain, at host: HostState, hasRange: Bool, isLarge: Bool) -> HandleKind {
        let http2 =
            switch self.http2 {
            case .never: false
            // A large object is divided among connections; streams of one connection would gain nothing.
            case .wholeObjects: !hasRange && !isLarge
            case .always: true
            }
        return HandleKind(
            credential: chain.current.isSigned ? 0 : host.credential.version,
            isAtHome: chain.isAtHome && homes?.contains(chain.original.origin) != false, http2: http2)
    }

    /// Sets an exchange's handle up for a piece.
    func write(_ exchange: Exchange, for piece: Piece) throws(CurlError) {
        let easy = exchange.easy
        let question = exchange.plan.question
        let request = piece.transfer.request
        var lines = ["Accept-Encoding: identity"]
        if let first = question.first {
            try easy.set(CURLOPT_RANGE, "\(first)-\(question.end.map { String($0 - 1) } ?? "")")
            if let version = exchange.plan.version { lines.append("If-Range: \(version)") }
        } else {
            try easy.set(CURLOPT_RANGE, nil)
        }
        // A handle is used for one request after another.
        try easy.set(question.isHeadOnly ? CURLOPT_NOBODY : CURLOPT_HTTPGET, 1)
        if let accepted = request.accepted { lines.append("Accept: \(accepted)") }
        if question.isConditional, let known = request.knownValidator {
            // Not both: some stores then compare only the date, which has a resolution of seconds and is the same after
            // a quick publish.
            if let etag = known.etag {
                lines.append("If-None-Match: \(etag)")
            } else if let date = known.lastModified {
                lines.append("If-Modified-Since: \(date)")
            }
        }
        if piece.source.uncached || request.reload { lines.append("Cache-Control: no-cache") }
        if exchange.plan.kind.isAtHome { lines += headers }
        if exchange.plan.kind.credential != 0 { lines += exchange.host.credential.kind?.headers ?? [] }
        lines += exchange.plan.chain.ownHeaders.map { "\($0.name): \($0.value)" }
        // Values from an earlier answer go into the request, but never with a line end.
        try easy.set(headers: lines.filter(\.isOneLine))
        try easy.set(CURLOPT_URL, exchange.plan.chain.current.text)
        easy.forgetMessage()
        try easy.attach(exchange)
    }

    /// The object's version at this source, if known. Each mirror has tags of its own.
    private func ifRange(for piece: Piece) -> String? {
        if let known = piece.ifRange, piece.ifRangeSource == piece.sourceIndex { return known }
        guard piece.source.place == 0, let etag = piece.transfer.request.validator?.etag else { return nil }
        return etag.isStrongETag ? etag : nil
    }
}
