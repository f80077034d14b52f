import SyncModel

/// Measurements for people and for programs.
enum Report {
    static func table(_ measurements: [Measurement]) -> String {
        var lines = ["| piece | a run | ms, median (min–max) | rate | counts of a run |", "|---|--:|--:|--:|---|"]
        for one in measurements {
            let times =
                one.seconds.isEmpty
                ? "–" : "\(ms(one.median)) (\(ms(one.seconds.first ?? 0))–\(ms(one.seconds.last ?? 0)))"
            lines.append(
                "| \(one.benchmark.name) | \(work(one.benchmark)) | \(times) | \(rate(one)) | \(counts(one)) |")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// One line a measurement.
    static func json(_ one: Measurement) -> String {
        JSONLine.object { line in
            line.field("benchmark", one.benchmark.name)
            line.field("debug", isDebug)
            line.key("seconds")
            line.array { for second in one.seconds { $0.raw(String(second)) } }
            line.key("counts")
            line.object {
                for (name, value) in one.counts.sorted(by: { $0.key < $1.key }) {
                    $0.key(name)
                    $0.raw(String(value))
                }
            }
            line.key("broken")
            line.array { for text in one.broken { $0.value(text) } }
        }.text
    }

    private static func ms(_ seconds: Double) -> String { shown(seconds * 1000) }

    private static func work(_ benchmark: Benchmark) -> String {
        switch benchmark.unit {
        case .bytes: "\(shown(benchmark.work / 1_048_576)) MiB"
        case .things(let name): "\(shown(benchmark.work)) \(name)"
        }
    }

    private static func rate(_ one: Measurement) -> String {
        guard one.median > 0 else { return "–" }
        switch one.benchmark.unit {
        case .bytes: return "\(shown(one.benchmark.work / 1_048_576 / one.median)) MiB/s"
        case .things(let name): return "\(shown(one.benchmark.work / one.median)) \(name)/s"
        }
    }

    private static func counts(_ one: Measurement) -> String {
        one.counts.sorted { $0.key < $1.key }.map { name, value in
            let limit = one.benchmark.limits.first { $0.count == name }
            return "\(shown(value)) \(name)" + (limit.map { " (≤ \(shown($0.range.upperBound)))" } ?? "")
        }.joined(separator: ", ")
    }
}
