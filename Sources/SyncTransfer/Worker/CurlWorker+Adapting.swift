import SyncPlugins

extension CurlWorker {
    /// Adds what an exchange has received since the last look to its host's goodput.
    func measure(_ exchange: Exchange) {
        let bytes = exchange.bodyBytes - exchange.measuredBytes
        exchange.host.measuredBytes += bytes
        exchange.measuredBytes = exchange.bodyBytes
        exchange.rate(bytes, now: now)
    }

    /// Notes what a connection has brought that has ended, and is free for what others need long for.
    func noteRate(of exchange: Exchange) {
        let time = (now - exchange.plan.startedAt) / .seconds(1)
        guard exchange.bodyBytes >= configuration.minimumSplit, time > 0 else { return }
        let rate = Double(exchange.bodyBytes) / time
        exchange.host.bestRate = max(exchange.host.bestRate * 0.9, rate)
        exchange.host.freeRates.append(rate)
        if exchange.host.freeRates.count > configuration.connectionsPerHost {
            exchange.host.freeRates.removeFirst()
        }
    }

    /// Gives every host with traffic its measurement, once an interval.
    func adapt() {
        for host in hosts.values where host.running > 0 {
            let hasMore = !host.queue.isEmpty || host.hasDivisible
            host.hasDivisible = false
            let isSaturated = host.running >= host.adaptive.limit && hasMore
            if !isSaturated { host.wasSaturated = false }
            if isSaturated, host.wasSaturated, now > host.seen.at {
                let bytes = host.measuredBytes - min(host.seen.bytes, host.measuredBytes)
                host.adaptive.saw(goodput: Double(bytes) / ((now - host.seen.at) / .seconds(1)))
            }
            host.seen = (host.measuredBytes, now)
            let time = now - host.measuredSince
            guard time >= AdaptiveLimit.interval else { continue }
            host.goodput = Double(host.measuredBytes) / (time / .seconds(1))
            if configuration.adaptive, host.wasSaturated, throttle.rate == nil {
                host.adaptive.measured(goodput: host.goodput, now: now)
                keepProven(of: host)
                list(host)
            }
            (host.measuredBytes, host.seen.bytes) = (0, 0)
            host.measuredSince = now
            host.wasSaturated = isSaturated
        }
    }

    /// The server or the path says that it is too much (429, 503, reset, silence): half of it.
    ///
    /// An object that fails again and again says something about itself, not about the load.
    func noteLoad(after exchange: Exchange, _ fault: Fault?) {
        guard exchange.pieces.contains(where: { $0.failures == 0 }) else { return }
        let host = exchange.host
        // Whoever names a time has said what helps: that is kept to (RFC 9110 section 10.2.3).
        guard fault?.retryAfter == nil else { return }
        switch fault?.kind {
        case .status(429), .status(503), .idle, .slow, .broken:
            host.adaptive.penalise(now: now)
            keepProven(of: host)
        default: break
        }
    }

    /// Keeps how many connections serve a host well. What a cap of the user's own allows says nothing about that.
    private func keepProven(of host: HostState) {
        let proven = host.adaptive.proven
        guard proven < configuration.connectionsPerHost || proven >= configuration.initialConnections else {
            return
        }
        standings[host.origin].connections = proven
    }
}
