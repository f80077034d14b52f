import SyncBenchmarkAllocations

/// What running a benchmark has shown.
struct Measurement: Sendable {
    let benchmark: Benchmark
    /// **Seconds** of one run in each sample, ascending; empty where only counts were wanted.
    var seconds: [Double] = []
    /// Of one run; `allocations` and `allocated KiB` among them.
    var counts: Benchmark.Counts = [:]

    var median: Double {
        guard !seconds.isEmpty else { return 0 }
        let middle = seconds.count / 2
        return seconds.count % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2
    }

    /// The limits that are broken, in words.
    var broken: [String] {
        benchmark.limits.compactMap { limit in
            guard let value = counts[limit.count] else { return "\(limit.count) was not counted" }
            guard !limit.range.contains(value) else { return nil }
            return
                "\(limit.count) is \(shown(value)), allowed \(shown(limit.range.lowerBound))–\(shown(limit.range.upperBound))"
        }
    }

    /// Warms up, counts one run, and takes samples of at least 20 ms each.
    static func of(_ benchmark: Benchmark, samples: Int) throws -> Measurement {
        var result = Measurement(benchmark: benchmark)
        let run = try benchmark.prepare()
        _ = try run()
        let (calls, bytes) = (sa_allocations(), sa_allocated_bytes())
        result.counts = try run()
        if sa_allocations_are_counted() != 0 {
            result.counts["allocations"] = Double(sa_allocations() &- calls)
            result.counts["allocated KiB"] = Double(sa_allocated_bytes() &- bytes) / 1024
        }
        guard samples > 0 else { return result }
        let once = try time { _ = try run() }
        let times = max(1, Int(0.02 / max(once, 1e-7)))
        for _ in 0..<samples {
            result.seconds.append(try time { for _ in 0..<times { _ = try run() } } / Double(times))
        }
        result.seconds.sort()
        return result
    }

    private static func time(_ body: () throws -> Void) rethrows -> Double {
        let start = ContinuousClock.now
        try body()
        return (ContinuousClock.now - start) / .seconds(1)
    }
}

/// A number as people read it: three digits, no more after the point than needed.
func shown(_ value: Double) -> String {
    if value >= 1000 || value == value.rounded() { return String(Int(value.rounded())) }
    let scale = value >= 100 ? 10.0 : value >= 10 ? 100.0 : 1000.0
    return String((value * scale).rounded() / scale)
}
