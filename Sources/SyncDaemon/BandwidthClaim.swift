/// What one run has a claim to of a limit on the rate of everything an agent does.
struct BandwidthClaim: Sendable, Equatable {
    /// Twice the weight gets twice the rate.
    var weight: Double
    /// Its own limit, in **bytes** a second; `nil` for none.
    var limit: UInt64?
    /// What it was given last, in **bytes** a second; `nil` for a run that has just started.
    var share: UInt64?
    /// What it has used of that lately, in **bytes** a second.
    var used: UInt64 = 0

    /// The most that it is given now.
    private func most(of total: UInt64) -> Double {
        let own = Double(min(limit ?? total, total))
        // A run that uses nearly all of its share would use more.
        guard let share, Double(used) < Double(share) * 0.8 else { return own }
        return min(own, max(Double(used) * 1.25, Double(total) / 50))
    }

    /// Shares the limit among the runs that transfer. Each gets its part by weight, never more than its own limit. What one
    /// does not use goes to the others within seconds, and comes back as it uses more.
    ///
    /// - Returns: **Bytes** a second for each claim, at least 1; together `total` at most, apart from that one.
    static func divide(_ total: UInt64, among claims: [BandwidthClaim]) -> [UInt64] {
        var shares = [Double](repeating: 0, count: claims.count)
        var left = Double(total)
        var open = Array(claims.indices)
        while !open.isEmpty {
            let weight = open.reduce(0) { $0 + max(claims[$1].weight, 0.001) }
            func part(_ index: Int) -> Double { left * max(claims[index].weight, 0.001) / weight }
            // Those that want less than their part leave the rest of it to the others.
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
