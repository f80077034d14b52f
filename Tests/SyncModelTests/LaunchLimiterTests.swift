import SyncModel
import Testing

@Suite("The launch limiter")
struct LaunchLimiterTests {
    @Test("A chain of hooks waits 60·2ⁿ seconds, at most an hour [S59 G20]")
    func chain() {
        var limiter = LaunchLimiter()
        var now: Int64 = 1_000
        #expect(limiter.earliestStart(now: now) == nil)
        for expected in [60, 120, 240, 480, 960, 1_920, 3_600, 3_600] as [Int64] {
            limiter.raise(now: now, isChained: expected > 60)
            #expect(limiter.earliestStart(now: now) == now + expected * 1_000)
            now += expected * 1_000
        }
    }

    @Test("It is at rest again once the delay has passed without a hook, and when a person comes [S60 S61]")
    func resets() {
        var limiter = LaunchLimiter()
        limiter.raise(now: 0, isChained: false)
        limiter.raise(now: 10_000, isChained: false)
        #expect(limiter.delay == 120_000 && limiter.earliestStart(now: 129_999) == 249_999)
        #expect(limiter.earliestStart(now: 130_000) == nil)
        limiter.relax(now: 130_000)
        #expect(limiter == LaunchLimiter())
        limiter.raise(now: 200_000, isChained: false)
        #expect(limiter.delay == 60_000, "an independent hook later begins anew")
        limiter.reset()
        #expect(limiter == LaunchLimiter())
    }

    @Test("What an earlier process kept goes on; numbers out of range are brought into it [S61]")
    func kept() {
        #expect(LaunchLimiter(delay: 240_000, raised: 5).earliestStart(now: 6) == 240_006)
        #expect(LaunchLimiter(delay: .max, raised: 5).delay == LaunchLimiter.longest)
        #expect(LaunchLimiter(delay: -1, raised: nil).earliestStart(now: 0) == nil)
        for raised in [Int64.min, .max] { _ = LaunchLimiter(delay: 240_000, raised: raised).earliestStart(now: 5) }
    }

    @Test("A clock that goes back does not prolong the delay for ever")
    func clockBack() {
        var limiter = LaunchLimiter(delay: 60_000, raised: 1_000_000_000)
        limiter.relax(now: 0)
        #expect(limiter.earliestStart(now: 59_999) != nil && limiter.earliestStart(now: 60_000) == nil)
    }
}
