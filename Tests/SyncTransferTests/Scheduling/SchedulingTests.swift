import Glibc
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncTransfer

@Suite("Queue order", .timeLimit(.minutes(10)))
struct TransferQueueTests {
    @Test("Highest priority first, then in order of arrival [S89]")
    func order() {
        var queue = TransferQueue<Int>()
        for (index, priority) in [3, 9, 3, 7, 9].enumerated() {
            queue.insert(index, priority: priority, isSmall: false)
        }
        #expect(queue.topPriority == 9)
        var order: [Int] = []
        while let next = queue.popFirst(runningSmall: 0, runningLarge: 0) { order.append(next) }
        #expect(order == [1, 4, 3, 0, 2])
        #expect(queue.isEmpty)
    }

    @Test("While large ones run, a small one is always under way")
    func lane() {
        var queue = TransferQueue<String>()
        queue.insert("large 1", priority: 100, isSmall: false)
        queue.insert("large 2", priority: 90, isSmall: false)
        queue.insert("small 1", priority: 2, isSmall: true)
        queue.insert("small 2", priority: 1, isSmall: true, length: 7)
        #expect(queue.bytes == 7)
        #expect(queue.popFirst(runningSmall: 0, runningLarge: 0) == "large 1")
        #expect(queue.popFirst(runningSmall: 0, runningLarge: 1) == "small 1")
        #expect(queue.popFirst(runningSmall: 1, runningLarge: 1) == "large 2")
        #expect(queue.popFirst(runningSmall: 1, runningLarge: 2) == "small 2")
        #expect(queue.popFirst(runningSmall: 0, runningLarge: 2) == nil)
        #expect(queue.bytes == 0)
    }

    @Test("A heap gives back everything in order")
    func heap() {
        var heap = Heap<UInt64> { $0 < $1 }
        var state: UInt64 = 7
        let numbers = (0..<2000).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1
            return state >> 40
        }
        for number in numbers { heap.insert(number) }
        #expect(heap.first == numbers.min())
        var sorted: [UInt64] = []
        while let next = heap.popFirst() { sorted.append(next) }
        #expect(sorted == numbers.sorted())
    }

    @Test("Twice as many that wait cost each choice hardly more [S90]")
    func choices() {
        func comparisons(of count: UInt64) -> Int {
            var comparisons = 0
            var heap = Heap<UInt64> {
                comparisons += 1
                return $0 < $1
            }
            for number in 0..<count { heap.insert(number &* 0x9E37_79B9_7F4A_7C15) }
            while heap.popFirst() != nil {}
            return comparisons
        }
        let (few, many) = (comparisons(of: 10_000), comparisons(of: 20_000))
        #expect(few > 10_000 && Double(many) < 2.5 * Double(few), "\(few) and \(many)")
    }
}

@Suite("Adaptive connections", .timeLimit(.minutes(10)))
struct AdaptiveLimitTests {
    /// Measures again and again; goodput is a function of the connections.
    func run(_ limit: inout AdaptiveLimit, intervals: Int, from start: Int = 0, goodput: (Int) -> Double) -> [Int] {
        (start..<start + intervals).map { index in
            limit.measured(goodput: goodput(limit.limit), now: AdaptiveLimit.interval * index)
            return limit.limit
        }
    }

    @Test("Connections double while each brings as much as the ones before")
    func lossy() {
        var limit = AdaptiveLimit(start: 4, ceiling: 64)
        #expect(run(&limit, intervals: 8) { Double($0) * 1e6 } == [4, 8, 8, 16, 16, 32, 32, 64])
    }

    @Test("While connections are still speeding up, their growth is not taken for the fruit of more of them")
    func slowStart() {
        var limit = AdaptiveLimit(start: 8, ceiling: 64)
        let goodputs: [Double] = [4, 14, 30, 55, 62, 62, 62, 62, 62, 62]
        var steps: [Int] = []
        for (index, goodput) in goodputs.enumerated() {
            limit.measured(goodput: goodput * 1e6, now: AdaptiveLimit.interval * index)
            steps.append(limit.limit)
        }
        #expect(steps == [8, 8, 8, 8, 8, 16, 16, 14, 14, 14])
    }

    @Test("On a link that one connection fills, it goes back to where it began, an eighth a second")
    func full() {
        var limit = AdaptiveLimit(start: 4, ceiling: 64)
        let steps = run(&limit, intervals: 400) { _ in 1e8 }
        #expect(limit.proven == 4)
        #expect(steps.prefix(16) == [4, 8, 8, 7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4])
        #expect(steps.dropFirst(16).allSatisfy { $0 <= 5 })
        #expect(steps.dropFirst(16).count { $0 > 4 } <= 20, "a fruitless step is tried ever more rarely")
    }

    @Test("What is remembered are connections that proved worth it, not those on trial or on the way back")
    func proven() {
        var limit = AdaptiveLimit(start: 8, ceiling: 64)
        #expect(limit.proven == 8)
        #expect(run(&limit, intervals: 2) { _ in 1e8 } == [8, 16])
        #expect(limit.proven == 8)
        #expect(run(&limit, intervals: 2, from: 2) { _ in 1e8 } == [16, 14])
        #expect(limit.proven == 8)
        var growing = AdaptiveLimit(start: 8, ceiling: 64)
        #expect(run(&growing, intervals: 5) { Double($0) * 1e6 }.last == 32)
        #expect(growing.proven == 16)
        growing.penalise(now: .seconds(9))
        #expect(growing.limit == 16 && growing.proven == 16)
    }

    @Test(
        "The last step to the ceiling is judged once: then it is remembered, and no pause of the server takes it back")
    func provenAtTheCeiling() {
        var limit = AdaptiveLimit(start: 8, ceiling: 16)
        #expect(run(&limit, intervals: 3) { Double($0) * 1e6 } == [8, 16, 16])
        #expect(limit.proven == 8)
        #expect(run(&limit, intervals: 1, from: 3) { Double($0) * 1e6 } == [16])
        #expect(limit.proven == 16)
        #expect(run(&limit, intervals: 20, from: 4) { _ in 1e6 }.allSatisfy { $0 == 16 })
        #expect(limit.proven == 16)
    }

    @Test("Trouble on the way back halves what is open now, and ends the way back [F028]")
    func penaltyOnTheWayBack() {
        var limit = AdaptiveLimit(start: 8, ceiling: 64)
        #expect(run(&limit, intervals: 5) { _ in 1e8 }.last == 14)
        limit.penalise(now: AdaptiveLimit.interval * 5)
        #expect(limit.limit == 7)
        #expect(run(&limit, intervals: 7, from: 6) { _ in 1e8 }.allSatisfy { $0 == 7 })
    }

    @Test("After a dip, more connections have to bring more than fewer had brought before it")
    func dip() {
        var limit = AdaptiveLimit(start: 8, ceiling: 64)
        // Full at 100; a dip while it is asked whether more would do better.
        let goodputs: [Double] = [100, 100, 60, 62, 100, 100, 100, 100]
        for (index, goodput) in goodputs.enumerated() {
            limit.measured(goodput: goodput * 1e6, now: AdaptiveLimit.interval * index)
        }
        #expect(limit.proven == 8)
        var later = AdaptiveLimit(start: 8, ceiling: 64)
        for (index, goodput) in [100.0, 60, 62, 62, 100, 100, 100].enumerated() {
            later.measured(goodput: goodput * 1e6, now: AdaptiveLimit.interval * index)
        }
        #expect(later.proven == 8)
    }

    @Test("What fewer have shown for a moment, more have to exceed; a burst counts for a tenth more at most")
    func momentaryPeak() {
        // 440 while they recover, 480 for a moment before that, 480 with twice as many: nothing is gained.
        let steady: [(peak: Double, goodput: Double)] = [(480, 440), (440, 440), (480, 480), (480, 480)]
        // With a burst of 900 after a pause, and 600 with twice as many: that is a gain.
        let burst: [(peak: Double, goodput: Double)] = [(900, 440), (440, 440), (600, 600), (600, 600)]
        for (measurements, proven) in [(steady, 8), (burst, 16)] {
            var limit = AdaptiveLimit(start: 8, ceiling: 64)
            for (index, (peak, goodput)) in measurements.enumerated() {
                limit.record(goodput: peak * 1e6)
                limit.measured(goodput: goodput * 1e6, now: AdaptiveLimit.interval * index)
            }
            #expect(limit.proven == proven)
        }
    }

    @Test("On the way back, fast connections may stay above the limit: as many as there were, until it ends")
    func fastStay() {
        var limit = AdaptiveLimit(start: 8, ceiling: 64)
        #expect(limit.fastLimit == 8)
        #expect(run(&limit, intervals: 4) { _ in 1e8 } == [8, 16, 16, 14])
        #expect(limit.fastLimit == 16)
        _ = run(&limit, intervals: 9, from: 4) { _ in 1e8 }
        #expect(limit.limit > 8 && limit.fastLimit == 16)
        let steps = run(&limit, intervals: 20, from: 13) { _ in 1e8 }
        #expect(steps.contains(8) && limit.fastLimit == limit.limit)
        var troubled = AdaptiveLimit(start: 8, ceiling: 64)
        _ = run(&troubled, intervals: 4) { _ in 1e8 }
        troubled.penalise(now: .seconds(9))
        #expect(troubled.fastLimit == 7)
    }

    @Test("It settles about where goodput stops growing")
    func knee() {
        var limit = AdaptiveLimit(start: 4, ceiling: 64)
        let steps = run(&limit, intervals: 200) { Double(min($0, 20)) * 1e6 }
        #expect((16...32).contains(steps[199]))
    }

    @Test("Trouble halves it, once an interval, never below one; then it waits [F028]")
    func penalty() {
        var limit = AdaptiveLimit(start: 16, ceiling: 64)
        for _ in 0..<16 { limit.penalise(now: .seconds(1)) }
        #expect(limit.limit == 8)
        limit.measured(goodput: 1e6, now: .milliseconds(1_500))
        #expect(limit.limit == 8)
        for second in 2..<20 { limit.penalise(now: .seconds(second)) }
        #expect(limit.limit == 1)
        for second in 60...61 { limit.measured(goodput: 1e6, now: .seconds(second)) }
        #expect(limit.limit == 2)
    }

    @Test("What was remembered is cut to what is allowed", arguments: [(0, 1), (5, 5), (100, 8)])
    func remembered(start: Int, limit: Int) { #expect(AdaptiveLimit(start: start, ceiling: 8).limit == limit) }
}

@Suite("The rate limit", .timeLimit(.minutes(10)))
struct ThrottleTests {
    @Test(
        "Over any time, not more than the rate and a tenth of a second's worth",
        arguments: [1_000, 100_000, 10_000_000])
    func rate(rate: UInt64) {
        let throttle = Throttle(rate: rate, now: .zero)
        var taken = 0
        let chunk = 16_384
        for tick in 1...20_000 {
            throttle.fill(now: .milliseconds(tick))
            while throttle.take(chunk) { taken += chunk }
        }
        let fair = Double(rate) * 20
        #expect(Double(taken) <= fair * 1.005 + Double(chunk))
        #expect(Double(taken) >= fair * 0.99 - Double(chunk))
    }

    @Test("A limit of nothing is one of a byte a second: no wait is endless")
    func nothing() {
        let throttle = Throttle(rate: 1000, now: .zero)
        throttle.setRate(0, now: .seconds(1))
        #expect(throttle.wait <= .seconds(1))
    }

    @Test("Tokens given back can be taken again; without a limit there are always some")
    func giveBack() {
        let throttle = Throttle(rate: 1000, now: .zero)
        #expect(!throttle.take(1))
        throttle.fill(now: .seconds(1))
        #expect(throttle.take(100))
        #expect(!throttle.take(1))
        throttle.giveBack(100)
        #expect(throttle.take(1))
        throttle.setRate(nil, now: .seconds(1))
        #expect(throttle.take(1 << 40))
        #expect(throttle.wait == .zero)
    }
}

@Suite("Source health", .timeLimit(.minutes(10)))
struct SourceHealthTests {
    static let first = "https://a.example/x"
    static let second = "https://b.example/x"

    func best(_ health: SourceHealth, now: Duration = .zero, unreachable: Set<Int> = []) throws -> Int? {
        let urls = [try CurlURL(Self.first), try CurlURL(Self.second)]
        let candidates = urls.indices.map { (index: $0, url: urls[$0], isOutOfReach: unreachable.contains($0)) }
        return health.best(of: candidates, now: now)
    }

    @Test("As listed until measured otherwise")
    func listed() throws {
        var health = SourceHealth()
        #expect(try best(health) == 0)
        let origins = try (CurlURL(Self.first).origin, CurlURL(Self.second).origin)
        health[origins.0].addSuccess(bytes: 1 << 20, time: .seconds(10))
        #expect(try best(health) == 0, "a mirror that was never asked is not preferred")
        health[origins.1].addSuccess(bytes: 1 << 20, time: .seconds(1))
        #expect(try best(health) == 1)
        health[origins.1].addFailure(weight: 40)
        #expect(try best(health) == 0)
    }

    @Test("Who lied is asked last, and in time again [F010 F042]")
    func penalised() throws {
        var health = SourceHealth()
        health.penalise(Self.first, until: .seconds(600), now: .zero)
        #expect(try best(health, now: .seconds(599)) == 1)
        #expect(try best(health, now: .seconds(600)) == 0)
        #expect(try best(health, unreachable: [1]) == 0, "a liar is better than nobody")
    }

    @Test("Only so many penalties are kept, however many files a bad source has")
    func manyPenalised() {
        var health = SourceHealth()
        for number in 0..<10_000 { health.penalise("http://a.example/\(number)", until: .seconds(600), now: .zero) }
        #expect(health.isPenalised("http://a.example/9999", now: .zero))
        #expect(health.records(now: .zero, unixTime: 0).penalised.count <= 4096)
    }

    @Test("What is known goes to the next process and comes back")
    func records() throws {
        var health = SourceHealth()
        let origin = try CurlURL(Self.first).origin
        health[origin].addSuccess(bytes: 1 << 20, time: .seconds(1))
        health[origin].connections = 12
        health.penalise(Self.first, until: .seconds(100), now: .seconds(40))
        health.penalise(Self.second + "?token=canary", until: .seconds(100), now: .seconds(40))
        let records = health.records(now: .seconds(40), unixTime: 1_000)
        #expect(records.penalised == [Self.first: 1_060], "a query may be a secret")
        let next = SourceHealth(records, now: .seconds(7), unixTime: 1_010)
        #expect(next[origin] == health[origin])
        #expect(next.isPenalised(Self.first, now: .seconds(56)) && !next.isPenalised(Self.first, now: .seconds(57)))
        #expect(next.records(now: .seconds(57), unixTime: 1_060) == SourceRecords(), "nothing new")
        var nonsense = SourceRecords()
        nonsense.scores = ["nonsense": HostScore()]
        #expect(SourceHealth(nonsense) == SourceHealth())
    }

    @Test("What several processes have seen of sources stands in one file; grudges and damage do not last")
    func file() throws {
        let root = try TemporaryRoot()
        func read(now: Int64) -> SourceRecords { SourceRecords(from: root.path, now: now) }
        #expect(read(now: 0) == SourceRecords())
        var (first, second) = (SourceRecords(), SourceRecords())
        var score = HostScore()
        score.addSuccess(bytes: 1 << 20, time: .seconds(1))
        score.addFailure(weight: 4)
        (score.connections, score.redirects) = (6, true)
        first.scores = ["https://a.example": score, "https://b.example": score]
        first.penalised = ["https://a.example/p": 100]
        try first.add(to: root.path, now: 10)
        score.addFailure()
        second.scores = ["https://b.example": score]
        second.penalised = ["https://a.example/p": 90, "https://b.example/p": 50]
        try second.add(to: root.path, now: 20)
        var both = first
        both.scores["https://b.example"] = score
        both.penalised["https://b.example/p"] = 50
        #expect(read(now: 20) == both)
        #expect(read(now: 99).penalised == ["https://a.example/p": 100])
        let later = read(now: 20 + SourceRecords.longestPenalty)
        #expect(later.penalised.isEmpty && later.scores.values.allSatisfy { $0.reliability == 1 })
        #expect(later.scores["https://a.example"]?.connections == 6, "what is measured lasts longer")
        #expect(read(now: 91 * 86_400) == SourceRecords())
        var status = stat()
        #expect(stat(root.path("sources"), &status) == 0 && status.st_mode & 0o777 == 0o600)
        for damage in ["", "sources 2\naside 100 https://a/\n", "sources 1\norigin nan -1 x\naside 9\n\u{0}"] {
            try root.write(damage, to: "sources")
            _ = chmod(root.path("sources"), 0o600)
            #expect(read(now: 10) == SourceRecords())
        }
    }
}

@Suite("Public addresses", .timeLimit(.minutes(10)))
struct PublicAddressTests {
    @Test(
        "This machine, this link, this site [V29 F024]",
        arguments: [
            "127.0.0.1", "127.255.255.254", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1",
            "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.0.1", "198.18.0.1",
            "::1", "::", "[::1]", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "::ffff:127.0.0.1",
            "::ffff:a00:1", "::127.0.0.1", "64:ff9b::10.0.0.1", "2002:7f00:1::1", "2002:c0a8:1::", "100::1",
        ])
    func local(address: String) { #expect(isPublicAddress(address) == false) }

    @Test(
        "Anywhere",
        arguments: [
            "1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "192.167.1.1", "193.0.0.1", "100.63.0.1", "100.128.0.1",
            "2606:4700::1111", "[2a00:1450::1]", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
            "223.255.255.254",
        ])
    func global(address: String) { #expect(isPublicAddress(address) == true) }

    @Test("Names are no addresses", arguments: ["localhost", "a.example", "", "1.2.3", "127.1", "::g", "[::1"])
    func names(text: String) { #expect(isPublicAddress(text) == nil) }
}
