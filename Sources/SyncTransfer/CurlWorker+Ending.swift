import CCurl
import SyncPlugins

extension CurlWorker {
    /// Takes an exchange out of libcurl and decides about each of its pieces.
    func finish(_ exchange: Exchange, result: CURLcode) {
        guard running.removeValue(forKey: ObjectIdentifier(exchange)) != nil else { return }
        let fault = fault(of: exchange, result: result)
        release(exchange)
        let host = exchange.host
        if exchange.isConnected { host.connectivityFailures = 0 }

        let pieces = exchange.pieces
        for (index, piece) in pieces.enumerated() {
            if index == 0 {
                piece.transfer.requests += exchange.requests
                piece.transfer.bytesReceived += exchange.received
            }
            if exchange.answeredFromPublic { piece.originIsPublic = true }
            if exchange.isConnected { piece.connectivityFailures = 0 }
            if piece.transfer.hasEnded { continue }
            if exchange.verdict == .redirect {
                followRedirect(piece, exchange)
            } else if let fault, !(piece.isComplete && fault.kind != .tooLarge) {
                settle(piece, fault: fault, chain: exchange.chain)
            } else if piece.isComplete || piece.end == nil {
                standings[exchange.host.origin].addSuccess(bytes: exchange.received, time: now - exchange.startedAt)
                end(piece)
            } else {
                settle(piece, fault: Fault(.broken, "the body ended early"), chain: exchange.chain)
            }
        }
        list(host)
    }

    /// Gives back the slot and the handle. libcurl closes a connection that was in the middle of a body.
    private func release(_ exchange: Exchange) {
        running.removeValue(forKey: ObjectIdentifier(exchange))
        let host = exchange.host
        host.running -= 1
        if exchange.isSmall { host.runningSmall -= 1 }
        _ = curl_multi_remove_handle(multi, exchange.easy.raw)
        do {
            try exchange.easy.attach(nil)
            if (host.handles[exchange.kind]?.count ?? 0) < configuration.connectionsPerHost {
                host.handles[exchange.kind, default: []].append(exchange.easy)
            }
        } catch {
            // A handle that refuses a pointer is not used again.
        }
    }

    private func followRedirect(_ piece: Piece, _ exchange: Exchange) {
        var chain = exchange.chain
        let from = chain.current
        switch chain.redirected(to: exchange.headers.location, policy: configuration.redirects) {
        case .follow(let target):
            if exchange.answeredFromPublic, isRefusedByName(target) {
                let detail = "a redirect to the private address \(target.origin.host)"
                return settle(piece, fault: Fault(.policy, detail), chain: exchange.chain)
            }
            configuration.events(
                .redirected(
                    piece.transfer.id,
                    status: exchange.headers.status,
                    from: redacted(from),
                    to: redacted(target),
                    hop: chain.hops
                )
            )
            piece.chain = chain
            enqueue(piece, isUrgent: true)
        case .refuse(let refusal): settle(piece, fault: refusal.fault, chain: exchange.chain)
        }
    }

    /// A target that is private by its very name is refused before anything connects.
    private func isRefusedByName(_ target: CurlURL) -> Bool {
        let host = target.origin.host
        guard !configuration.redirects.privateTargets.covers(host) else { return false }
        return AddressScope(literal: host) == .local || host == "localhost" || host.hasSuffix(".localhost")
    }

    /// Decides after a fault: again, elsewhere, later, or not at all.
    func settle(_ piece: Piece, fault: Fault, chain: RedirectChain) {
        let transfer = piece.transfer
        guard !transfer.hasEnded else { return }
        piece.lastFault = fault
        piece.leaveQueue()
        let progress = piece.position - min(piece.positionAtFailure, piece.position)
        if progress >= configuration.retry.progress { piece.failures = 0 }
        piece.positionAtFailure = piece.position

        let redirected = chain.current != chain.original
        let remedy = RetryTable.remedy(for: fault.kind, redirected: redirected)
        var source: Source {
            get { transfer.sources[piece.sourceIndex] }
            set { transfer.sources[piece.sourceIndex] = newValue }
        }
        switch remedy {
        case .waitForConnectivity:
            piece.chain = nil
            waitForConnectivity(piece, fault: fault, url: chain.current)
        case .again: retry(piece, fault: fault, from: piece.chain)
        case .againFromOriginal: retry(piece, fault: fault, from: nil)
        case .onceWithoutRange where source.strikes.insert(.withoutRange).inserted:
            source.wholeOnly = true
            retry(piece, fault: fault, from: nil)
        case .onceUncached where source.strikes.insert(.uncached).inserted:
            source.uncached = true
            retry(piece, fault: fault, from: nil)
        case .once where source.strikes.insert(.again).inserted:
            retry(piece, fault: fault, from: nil)
        case .onceWithoutRange, .onceUncached, .once, .nextSource: leaveSource(piece, fault: fault, chain: chain)
        case .fail: fail(piece, fault: fault)
        }
    }

    private func retry(_ piece: Piece, fault: Fault, from chain: RedirectChain?) {
        piece.failures += 1
        guard piece.failures < configuration.retry.attempts else { return fail(piece, fault: fault) }
        piece.chain = chain
        let wait =
            fault.retryAfter.map(configuration.retry.wait(retryAfter:))
            ?? configuration.retry.wait(failures: piece.failures, random: configuration.random())
        configuration.events(
            .retrying(piece.transfer.id, reason: fault.detail, attempt: piece.failures + 1, after: wait)
        )
        sleep(piece, for: wait)
    }

    func sleep(_ piece: Piece, for wait: Duration) {
        piece.state = .waiting
        timers.insert(Timer(at: now + wait, action: .requeue(piece, ticket: piece.ticket)))
    }

    private func waitForConnectivity(_ piece: Piece, fault: Fault, url: CurlURL) {
        let host = host(for: url.origin)
        if host.connectivityFailures == 0 || host.gate.map({ $0 <= now }) ?? true {
            host.connectivityFailures += 1
            let wait = configuration.retry.connectivityWait(
                failures: host.connectivityFailures,
                random: configuration.random()
            )
            host.gate = now + wait
            timers.insert(Timer(at: now + wait, action: .openGate(host)))
        }
        configuration.events(
            .waitingForConnectivity(piece.transfer.id, url: redacted(url), reason: fault.detail)
        )
        enqueue(piece, isUrgent: true)
    }

    func openGate(of host: HostState) {
        host.gate = nil
        list(host)
    }

    private func leaveSource(_ piece: Piece, fault: Fault, chain: RedirectChain) {
        let transfer = piece.transfer
        transfer.sources[piece.sourceIndex].isSpent = true
        piece.chain = nil
        standings.setBack(chain.original.text, until: now + configuration.setBack, now: now)
        standings[chain.original.origin].addFailure()
        guard transfer.sources.contains(where: { !$0.isSpent }) else { return fail(piece, fault: fault) }
        configuration.events(
            .sourceSetBack(transfer.id, url: redacted(chain.original), reason: fault.detail)
        )
        enqueue(piece, isUrgent: true)
    }

    private func fail(_ piece: Piece, fault: Fault) {
        abandon(piece.transfer, code: fault.code, detail: fault.detail)
    }

    /// A piece has everything it wanted.
    func end(_ piece: Piece) {
        piece.leaveQueue()
        piece.state = .ended
        let transfer = piece.transfer
        transfer.openPieces -= 1
        guard transfer.openPieces == 0, !transfer.hasEnded else { return }
        transfer.hasEnded = true
        transfers.removeValue(forKey: transfer.id)
        transfer.completion(
            .success(
                TransferReport(
                    response: transfer.lastHead,
                    sourceIndex: transfer.lastSource,
                    currentURL: transfer.lastURL,
                    requests: transfer.requests,
                    bytesReceived: transfer.bytesReceived
                )
            )
        )
    }

    /// Ends a transfer with all its pieces, wherever they are.
    func abandon(_ transfer: Transfer, code: TransferError.Code, detail: String) {
        guard !transfer.hasEnded else { return }
        transfer.hasEnded = true
        transfers.removeValue(forKey: transfer.id)
        for piece in transfer.pieces {
            if case .running(let exchange) = piece.state, running[ObjectIdentifier(exchange)] != nil {
                transfer.requests += exchange.requests
                transfer.bytesReceived += exchange.received
                release(exchange)
                list(exchange.host)
            }
            piece.leaveQueue()
            piece.state = .ended
        }
        transfer.completion(
            .failure(
                TransferError(code: code, url: transfer.lastURL, detail: detail, requests: transfer.requests)
            )
        )
    }
}
