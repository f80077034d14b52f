import Testing

@testable import SyncCache

@Suite("The time of a cache")
struct SteadyTimeTests {
    @Test("It follows a clock that is set forward, and goes on where it is set back")
    func steps() {
        let clock = Counter()
        clock.add(1_000)
        let time = SteadyTime { Int64(clock.value) }
        #expect((1_000...1_100).contains(time.seconds))
        clock.add(50_000)
        #expect((51_000...51_100).contains(time.seconds))
        let readings = Counter()
        let back = SteadyTime { readings.next() == 1 ? 90_000 : 1_000 }
        #expect((90_000...90_100).contains(back.seconds))
    }
}
