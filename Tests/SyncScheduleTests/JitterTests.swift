import SyncSchedule
import Testing

@Suite("Delays of machines", .timeLimit(.minutes(10)))
struct JitterTests {
    /// As systemd makes them, machine-id(5).
    private static let machines: [String] = {
        var random = Random(seed: 7)
        return (0..<10_000).map { _ in
            (0..<2).map { _ in
                let text = String(random.next(), radix: 16)
                return String(repeating: "0", count: 16 - text.count) + text
            }.joined()
        }
    }()

    @Test("Ten thousand machines spread evenly over half an hour [S136]")
    func spread() {
        var minutes = [Int](repeating: 0, count: 30)
        for machine in Self.machines {
            let delay = lateness(machine, "tower", most: 1_799)
            minutes[delay / 60] += 1
        }
        // 333 each; a binomial count is within 5 standard deviations (18) of that but once in a million.
        #expect(minutes.allSatisfy { (243...423).contains($0) }, "\(minutes)")
    }

    @Test("Machines that are numbered, as in a fleet of clones, spread as well")
    func numbered() {
        var tenths = [Int](repeating: 0, count: 10)
        for number in 0..<10_000 { tenths[lateness("render-\(number)", "tower", most: 9)] += 1 }
        #expect(tenths.allSatisfy { (850...1_150).contains($0) }, "\(tenths)")
    }

    @Test("A machine keeps its delay, and has another one for another schedule")
    func stable() {
        let machine = "3d1219c7c4c5404aaa1f6d2a48adfda4"
        let delay = lateness(machine, "tower", most: 1_800)
        #expect(delay == lateness(machine, "tower", most: 1_800))
        #expect(delay == 1_044, "the same in every version: a fleet must not move with an update")
        #expect(delay != lateness(machine, "maps", most: 1_800))
        #expect(lateness(machine, "tower", most: 0) == 0)
    }

    @Test("Both bounds occur")
    func bounds() {
        let delays = Set(Self.machines.map { lateness($0, "x", most: 3) })
        #expect(delays == [0, 1, 2, 3])
    }
}

/// **Seconds** that a machine begins later.
private func lateness(_ machine: String, _ schedule: String, most: Int) -> Int {
    var timing = ScheduleTiming(.every(minutes: 60))
    timing.jitter = most
    return timing.delay(machine: machine, schedule: schedule)
}
