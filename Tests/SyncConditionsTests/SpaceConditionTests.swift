import SyncPlugins
import SyncTestKit
import Testing

@testable import SyncSchedule

@Suite(.timeLimit(.minutes(10)))
struct SpaceConditionTests {
    @Test(
        "Enough stays free; after having blocked a little more than that",
        arguments: [
            (UInt64(1_600), UInt64(1_600), false, Verdict.ok), (1_599, 1_600, false, .blocked),
            (1_699, 1_600, true, .blocked), (1_700, 1_600, true, .ok), (0, 0, false, .ok), (.max, .max, true, .blocked),
            (.max, .max, false, .ok), ((100 << 30) + (256 << 20), 100 << 30, true, .ok),
        ])
    func rule(free: UInt64, wanted: UInt64, wasBlocked: Bool, expected: Verdict) {
        #expect(Verdict(SpaceCondition.judge(free: free, wanted: wanted, wasBlocked: wasBlocked)) == expected)
    }

    @Test("A destination that does not exist yet is judged by what is above it")
    func missing() throws {
        let root = try TemporaryRoot()
        let context = ConditionContext(destination: root.path("a/b/c"), now: 0)
        #expect(try SpaceCondition(bytes: 1).state(in: context) == .ok)
        #expect(Verdict(try SpaceCondition(bytes: .max).state(in: context)) == .blocked)
    }

    @Test("What cannot be asked is unknown", arguments: ["", "relative/none", "/dev/null/x"])
    func unknown(destination: String) throws {
        let context = ConditionContext(destination: destination, now: 0)
        #expect(Verdict(try SpaceCondition(bytes: 1).state(in: context)) == .unknown)
    }
}
