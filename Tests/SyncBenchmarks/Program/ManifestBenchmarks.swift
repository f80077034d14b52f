import SyncBenchmarkAllocations
import SyncContent
import SyncEngine
import SyncManifest
import SyncModel

/// What every file of a manifest goes through before a byte is fetched, and what is told of it.
enum ManifestBenchmarks {
    static let all = [decode, plan, planUpdate, events]

    private static let files = 20_000

    private static let decode = Benchmark(
        "manifest-decode", unit: .things("files"), work: Double(files),
        limits: [
            .most("allocations a file", 2.1, debug: 10), .most("held bytes a file", 190),
            .most("allocated KiB", 6_500, debug: 12_000),
        ]
    ) {
        let text = try SmallSet.imaginary(files: files).manifest
        return {
            let (before, calls) = (sa_bytes_in_use(), sa_allocations())
            let manifest = try ManifestAssembly(text, digest: .zero).finish()
            let held = Double(sa_bytes_in_use() &- before) / Double(files)
            guard manifest.files.count == files else { throw WrongResult("\(manifest.files.count) files read") }
            return [
                "held bytes a file": max(0, held), "text bytes a file": Double(text.count / files),
                "allocations a file": Double(sa_allocations() &- calls) / Double(files),
            ]
        }
    }

    private static let plan = Benchmark(
        "plan-all", unit: .things("files"), work: Double(files),
        limits: [
            .most("requests", 16), .most("allocations", 80, debug: 260_000),
            .most("allocated KiB", 3_600, debug: 14_000),
        ]
    ) { try planning { _ in true } }

    private static let planUpdate = Benchmark(
        "plan-1-percent", unit: .things("files"), work: Double(files / 100),
        limits: [.most("requests", 200), .most("allocations", 80, debug: 3_000)]
    ) { try planning { $0 % 100 == 0 } }

    private static func planning(_ isWanted: (Int) -> Bool) throws -> () throws -> Benchmark.Counts {
        let manifest = try ManifestAssembly(SmallSet.imaginary(files: files).manifest, digest: .zero).finish()
        let wanted = (0..<files).filter(isWanted)
        return {
            let plan = makePlan(manifest, wanted: wanted, rule: CoalescingRule())
            guard plan.slots.count == wanted.count else { throw WrongResult("\(plan.slots.count) slots planned") }
            return ["requests": Double(plan.requestCount), "gap KiB": Double(plan.gapBytes) / 1024]
        }
    }

    private static let events = Benchmark(
        "event-lines", unit: .things("lines"), work: 2000,
        limits: [.most("allocations a line", 10, debug: 100), .most("bytes a line", 186)]
    ) {
        let paths = (0..<2000).map(SmallSet.path)
        return {
            let before = sa_allocations()
            var bytes = 0
            for (index, path) in paths.enumerated() {
                let event = SyncEvent(
                    .taskInstalled, time: 1_790_000_000_000 + Int64(index), session: "org.example.benchmark",
                    run: "01890a5d"
                ) {
                    $0.field("path", path)
                    $0.field("size", 12_345)
                    $0.field("source", "network")
                }
                bytes += event.json.bytes.count
            }
            let allocations = Double(sa_allocations() &- before) / Double(paths.count)
            return ["bytes a line": Double(bytes / paths.count), "allocations a line": allocations]
        }
    }
}
