import Foundation
import SyncBenchmarkAllocations

/// Measures the inner pieces of syncagent one by one.
@main enum Entry {
    private static let usage = """
        usage: syncagent-benchmarks [--filter TEXT] [--samples N] [--counts] [--json] [--list]

          --filter TEXT   only pieces whose name contains TEXT
          --samples N     samples of at least 20 ms each (default 12)
          --counts        no times, only the counts that have limits
          --json          one JSON line a piece instead of a table

        Exit status: 0; 1 when a count is outside its limits; 64 for a wrong command line. Times are never judged.

        """

    private static let all = ByteBenchmarks.all + ManifestBenchmarks.all + IndexBenchmarks.all + UnpackBenchmark.all
    private static let pullCalls = "pull-calls"

    private struct Options {
        var filter = ""
        var samples = 12
        var isJSON = false
        var isList = false
        /// Run this one so many times and do nothing else: what strace looks at.
        var alone: (name: String, times: Int)?
    }

    static func main() {
        guard let options = options(Array(CommandLine.arguments.dropFirst())) else {
            FileHandle.standardError.write(Data(usage.utf8))
            exit(64)
        }
        do { exit(try run(options) ? 0 : 1) } catch {
            tell("error: \(error)")
            exit(1)
        }
    }

    private static func options(_ arguments: [String]) -> Options? {
        var options = Options()
        var rest = arguments[...]
        while let word = rest.popFirst() {
            switch word {
            case "--json": options.isJSON = true
            case "--list": options.isList = true
            case "--counts": options.samples = 0
            case "--filter":
                guard let text = rest.popFirst() else { return nil }
                options.filter = text
            case "--samples":
                guard let number = rest.popFirst().flatMap(Int.init), (1...1000).contains(number) else { return nil }
                options.samples = number
            case "--alone":
                guard let name = rest.popFirst(), let times = rest.popFirst().flatMap(Int.init) else { return nil }
                options.alone = (name, times)
            default: return nil
            }
        }
        return options
    }

    /// Whether every count is within its limits.
    private static func run(_ options: Options) throws -> Bool {
        if let (name, times) = options.alone {
            guard let benchmark = all.first(where: { $0.name == name }) else { return false }
            let run = try benchmark.prepare()
            for _ in 0..<times { _ = try run() }
            return true
        }
        let names = (all.map(\.name) + [pullCalls]).filter { options.filter.isEmpty || $0.contains(options.filter) }
        if options.isList {
            put(names.joined(separator: "\n") + "\n")
            return true
        }
        if sa_allocations_are_counted() == 0 { tell("SKIPPED: counting allocations needs glibc") }
        if SystemCalls.strace == nil { tell("SKIPPED: counting system calls needs strace that may trace") }
        var measurements: [Measurement] = []
        for benchmark in all where names.contains(benchmark.name) {
            var one = try Measurement.of(counted(benchmark), samples: options.samples)
            if benchmark.limits.contains(where: { $0.count == "system calls" }), SystemCalls.strace != nil {
                one.counts["system calls"] = try systemCalls(of: benchmark)
            }
            measurements.append(one)
            if options.isJSON { put(Report.json(one) + "\n") }
        }
        if names.contains(pullCalls) {
            if PullCalls.isPossible {
                let benchmark = Benchmark(pullCalls, unit: .things("pulls"), work: 4, limits: PullCalls.limits) {
                    { [:] }
                }
                let one = Measurement(benchmark: benchmark, counts: try PullCalls.counts())
                measurements.append(one)
                if options.isJSON { put(Report.json(one) + "\n") }
            } else {
                tell("SKIPPED: \(pullCalls) needs strace, and \(PullCalls.program)")
            }
        }
        if !options.isJSON { put(Report.table(measurements)) }
        for one in measurements { for text in one.broken { tell("BROKEN: \(one.benchmark.name): \(text)") } }
        return measurements.allSatisfy { $0.broken.isEmpty } && !measurements.isEmpty
    }

    /// The benchmark without limits on what cannot be counted here.
    private static func counted(_ benchmark: Benchmark) -> Benchmark {
        let limits = benchmark.limits.filter { limit in
            (SystemCalls.strace != nil || limit.count != "system calls")
                && (sa_allocations_are_counted() != 0 || !limit.count.hasPrefix("allocations"))
        }
        return Benchmark(
            benchmark.name, unit: benchmark.unit, work: benchmark.work, limits: limits, prepare: benchmark.prepare)
    }

    /// Of one run: what 11 runs call more than one run, divided by ten. Each is the least of three counts, since a call of
    /// the allocator's or the loader's that comes only now and then can add one, and never takes one away.
    private static func systemCalls(of benchmark: Benchmark) throws -> Double {
        let program = CommandLine.arguments.first ?? ""
        let least = try [1, 11].map { times in
            try (0..<3).map { _ in
                try SystemCalls.count(program, ["--alone", benchmark.name, String(times)])?.values.reduce(0, +) ?? 0
            }.min() ?? 0
        }
        return Double(least[1] - least[0]) / 10
    }

    private static func put(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }
    private static func tell(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }
}
