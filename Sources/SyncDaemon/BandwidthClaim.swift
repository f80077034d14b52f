/// One run's claim to a share of the agent's rate limit.
struct BandwidthClaim: Sendable, Equatable {
    /// Twice the weight gets twice the rate.
    var weight: Double
    /// The run's own limit, in **bytes** a second; `nil` for none.
    var limit: UInt64?
    /// The last share, in **bytes** a second; `nil` for a run that has just started.
    var share: UInt64?
    /// The recent use of that share, in **bytes** a second.
    var used: UInt64 = 0

    /// The most that the run is given now.
    private func most(of total: UInt64) -> Double {
        let own = Double(min(limit ?? total, total))
        // A run that uses nearly all of its share would use more.
        guard let share, Double(used) < Double(share) * 0.8 else { return own }
        return min(own, max(Double(used) * 1.25, Double(total) / 50))
    }

    /// Divides the limit among the runs that transfer. Each gets its part by weight, never more than its own limit. A
    /// part that a run does not use goes to the others within seconds, and comes back as the run uses more.
    ///
    /// - Returns: **Bytes** a second for each claim, at least 1; together at most `total`, apart from that minimum.
    static func divide(_ total: UInt64, among claims: [BandwidthClaim]) -> [UInt64] {
        var shares = [Double](repeating: 0, count: claims.count)
        var left = Double(total)
        var open = Array(claims.indices)
        while !open.isEmpty {
            let weight = open.reduce(0) { $0 + max(claims[$1].weight, 0.001) }
            func part(_ index: Int) -> Double { left * max(claims[index].weight, 0.001) / weight }
            // Runs that want less than their part leave the rest to the others.
            let modest = open.filter { claims[$0].most(of: total) <= part($0) }
            guard !modest.isEmpty else {
                for index in open { shares[index] = part(index) }
                break
            }
            for index in modest { shares[index] = claims[index].most(of: total) }
            left = max(0, modest.reduce(left) { $0 - shares[$1] })
            open.removeAll { modest.contains($0) }
        }
        return shares.map { max(1, UInt64(exactly: $0.rounded(.down)) ?? total) }
    }
}
