package import SyncModel
package import SyncPlugins
import SyncSystem

/// Passes each transfer to the transport for its URLs. If that fails, passes it to the transport for its other URLs.
package final class RoutedTransport: Transport {
    private let routes: [(scope: URLScope, transport: any Transport)]
    private let others: any Transport
    private let policy: RedirectPolicy
    private let advise: @Sendable (TransferAdvice) -> String?
    private let state = Mutex(State())

    private struct State: Sendable {
        /// The route of each transfer, the sink that counts its bytes, and whether it is cancelled. ``others`` reports
        /// its own transfers, so those have no sink here.
        var owners: [TransferID: (route: Int, sink: CountingSink?, isCancelled: Bool)] = [:]
        var cancelledEarly = EarlyCancels()
    }

    /// - Parameters:
    ///   - routes: Asked in this order.
    ///   - others: The transport for URLs without a route.
    ///   - policy: The policy for what manifests may name. Routes for a whole scheme are held to it; a route whose
    ///     scope names an origin is exempt, since the configuration names it on purpose.
    ///   - advise: As ``TransportConfiguration/advise``.
    package init(
        _ routes: [(scope: URLScope, transport: any Transport)], others: any Transport,
        policy: RedirectPolicy = RedirectPolicy(),
        advise: @escaping @Sendable (TransferAdvice) -> String? = { _ in nil }
    ) {
        self.routes = routes
        self.others = others
        self.policy = policy
        self.advise = advise
    }

    /// The index of the route for a URL; the number of routes stands for ``others``.
    private func route(of url: String) -> Int { routes.firstIndex { $0.scope.covers(url) } ?? routes.count }

    private func transport(_ place: Int) -> any Transport { place < routes.count ? routes[place].transport : others }

    /// Why a route may not ask for a URL.
    private func refusal(of url: String, on route: Int, _ request: TransferRequest) -> Fault? {
        guard route < routes.count, let referrer = request.referrer else { return nil }
        guard let target = (try? CurlURL(url))?.origin else {
            let scheme = urlScheme(of: url) ?? ""
            guard urlScheme(of: referrer.url) != scheme, !routes[route].scope.names(url) else { return nil }
            return Fault(.policy, "the manifest was not fetched over \(scheme): and names \(redacted(url: url))")
        }
        guard !routes[route].scope.names(target) else { return nil }
        let source = Origin(naming: referrer)
        let isFromPublic = RedirectPolicy.isPublic(
            (source, referrer.isPublic), naming: target.host, hasAnsweredFromPublic: false)
        return policy.decide(from: source, to: target, isFromPublic: isFromPublic)
    }

    /// A request's URLs by route, in the order in which the routes first occur.
    private func legs(of request: TransferRequest) throws(TransferError) -> [(route: Int, places: [Int])] {
        var legs: [(route: Int, places: [Int])] = []
        var refused: TransferError?
        for (place, url) in request.urls.enumerated() {
            let route = route(of: url)
            if let fault = refusal(of: url, on: route, request) {
                refused = TransferError(code: fault.code, url: url, detail: fault.message(advise))
                continue
            }
            if let index = legs.firstIndex(where: { $0.route == route }) {
                legs[index].places.append(place)
            } else {
                legs.append((route, [place]))
            }
        }
        if legs.isEmpty, let refused { throw refused }
        return legs
    }

    package func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion) {
        do throws(TransferError) {
            let legs = try legs(of: request)
            guard !legs.isEmpty else { return others.start(request, sink: sink, completion: completion) }
            start(request, legs: legs[...], spent: 0, nil, sink: sink, completion: completion)
        } catch { completion(.failure(error)) }
    }

    private func start(
        _ request: TransferRequest, legs: ArraySlice<(route: Int, places: [Int])>, spent: Int,
        _ earlier: TransferError?, sink: any TransferSink, completion: @escaping TransferCompletion
    ) {
        guard let leg = legs.first else { return }
        let id = request.id
        var part = request
        part.urls = leg.places.map { request.urls[$0] }
        if request.isFirstRange, leg.route < routes.count { part.range = nil }  // A plugin's ranges are exact.
        let counting = leg.route < routes.count ? CountingSink(sink, of: part) : nil
        // A cancel may come before the first route, or between two.
        let isCancelled = state.withLock { state in
            let isCancelled = state.cancelledEarly.take(id) || state.owners[id]?.isCancelled == true
            state.owners[id] = isCancelled ? nil : (leg.route, counting, false)
            return isCancelled
        }
        guard !isCancelled else {
            var error =
                spent == 0 ? TransferError.cancelledEarly(request) : TransferError(.cancelled, "cancelled", of: request)
            error.requests = spent
            return completion(.failure(error))
        }
        transport(leg.route).start(part, sink: counting ?? sink) { [self] result in
            switch result {
            case .success(var report):
                state.withLock { $0.owners[id] = nil }
                report.requests += spent
                if leg.places.indices.contains(report.sourceIndex) {
                    report.sourceIndex = leg.places[report.sourceIndex]
                }
                completion(.success(report))
            case .failure(var error):
                let sum = spent + error.requests
                if error.code != .cancelled, error.code != .stoppedBySink {
                    error = error.orBetter(earlier)
                    if legs.count > 1 {
                        let rest = legs.dropFirst()
                        return start(request, legs: rest, spent: sum, error, sink: sink, completion: completion)
                    }
                }
                state.withLock { $0.owners[id] = nil }
                error.requests = sum
                completion(.failure(error))
            }
        }
    }

    package func resume(_ id: TransferID) {
        if let owner = state.withLock({ $0.owners[id] }) { transport(owner.route).resume(id) }
    }

    package func cancel(_ id: TransferID) {
        let route = state.withLock { state in
            if state.owners[id] == nil { state.cancelledEarly.insert(id) }
            state.owners[id]?.isCancelled = true
            return state.owners[id]?.route
        }
        if let route { transport(route).cancel(id) }
    }

    package func reportFault(url: String, reason: String) {
        transport(route(of: url)).reportFault(url: url, reason: reason)
    }

    package var totals: TransferTotals {
        var sum = others.totals
        for route in routes {
            let part = route.transport.totals
            sum.requests &+= part.requests
            sum.bytesReceived &+= part.bytesReceived
            sum.bytesDiscarded &+= part.bytesDiscarded
        }
        return sum
    }

    package func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)? {
        guard let rest = others.transferStatuses(limit: limit, at: now) else { return nil }
        let (routed, count) = state.withLock { state in
            let routed = state.owners.values.lazy.compactMap(\.sink)
            return (Array(routed.prefix(limit)), routed.count)
        }
        // Transfers of the other transport that only wait come after them.
        let place = rest.transfers.firstIndex { $0.state != .receiving } ?? rest.transfers.count
        let own = routed.map { $0.status(.receiving, at: now) }.sorted { $0.transfer < $1.transfer }
        let all = rest.transfers[..<place] + own + rest.transfers[place...]
        let told = Array(all.prefix(limit))
        return (told, rest.more + rest.transfers.count + count - told.count)
    }

    package func shutdown() {
        for route in routes { route.transport.shutdown() }
        others.shutdown()
    }
}

extension TransferError {
    /// The more telling of this error and an earlier one of the same transfer. An answer says more than silence, and
    /// the first answer more than later ones.
    fileprivate func orBetter(_ earlier: TransferError?) -> TransferError {
        guard let earlier, earlier.cause != .unreachable || cause == .unreachable else { return self }
        return earlier
    }
}
