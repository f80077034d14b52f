import SyncPlugins
import SyncTestKit
import Testing

@testable import SyncSchedule

@Suite(.timeLimit(.minutes(10)))
struct LoadConditionTests {
    private func condition(_ root: TemporaryRoot, limit: Double = 1, cores: Int = 4) -> LoadCondition {
        var places = MachinePlaces()
        places.loadAverage = root.path("loadavg")
        places.ownThreads = root.path("task")
        places.cores = cores
        return LoadCondition(limit: limit, places: places)
    }

    @Test("Below the limit for each core, and flips are seen [S49 S133]")
    func limit() throws {
        let root = try TemporaryRoot()
        let condition = condition(root)
        for (load, expected) in [
            ("3.99", Verdict.ok), ("5.01", .blocked), ("4.00", .blocked), ("3.99", .ok), ("4.99", .ok),
            ("5.00", .blocked),
        ] {
            try root.write("\(load) 0.10 0.05 1/100 4711\n", to: "loadavg")
            #expect(try condition.verdict() == expected, "\(load)")
        }
    }

    @Test("What cannot be read is unknown [S49]", arguments: ["", "much 1 1", "-1 0 0", "nan 0 0"])
    func garbage(line: String) throws {
        let root = try TemporaryRoot()
        try root.write(line, to: "loadavg")
        #expect(try condition(root).verdict() == .unknown)
    }

    @Test("Threads that run or wait for a disk are counted, whatever their names are")
    func threads() throws {
        let root = try TemporaryRoot()
        let states = ["1": "R", "2": "S", "3": "D", "4": "R", "5": "Z"]
        for (name, state) in states { try root.write("\(name) (a) R (b) \(state) 1 1", to: "task/\(name)/stat") }
        try root.write("6.5 1 1 1/1 1", to: "loadavg")
        // 6.5 for 4 cores, two of it ours besides the thread that looks: 4.5 are left for 4 cores.
        #expect(try condition(root, limit: 1.13).verdict() == .ok)
        #expect(try condition(root, limit: 1.12).verdict() == .blocked)
    }

    @Test("A run does not block itself: its own part rises and fades as the kernel counts it")
    func ownWork() {
        // Four busy threads on four cores for ten minutes, seen every 5 s by the kernel and by us.
        var memory = LoadCondition.Memory()
        var load = 0.0
        let fade = 0.9200444146293232  // e^(-5/60)
        for tick in 0..<240 {
            let busy = (12..<132).contains(tick) ? 4 : 0
            load = load * fade + Double(busy) * (1 - fade)
            let state = memory.take(load: load, busy: busy, at: Int64(tick) * 5_000, cores: 4, limit: 0.5)
            #expect(state == .ok, "tick \(tick)")
        }
        #expect(load < 0.01)
    }

    @Test("The work of others is seen beside our own")
    func otherWork() {
        var memory = LoadCondition.Memory()
        let now = { (tick: Int64) in tick * 5_000 }
        for tick in Int64(0)..<60 { #expect(memory.take(load: 4, busy: 4, at: now(tick), cores: 4, limit: 1) == .ok) }
        // Others come: eight more want the processors.
        #expect(Verdict(memory.take(load: 12, busy: 4, at: now(60), cores: 4, limit: 1)) == .blocked)
        // A clock that is set back, and one that jumps ahead, break nothing.
        #expect(Verdict(memory.take(load: 12, busy: 0, at: 0, cores: 4, limit: 1)) == .blocked)
        #expect(memory.take(load: 1, busy: 0, at: .max, cores: 4, limit: 1) == .ok)
    }

    @Test("This machine has a load average")
    func real() throws {
        #expect(try LoadCondition(limit: 1_000_000).verdict() == .ok)
        #expect(try LoadCondition(limit: 0).verdict() == .blocked)
    }
}
