import SyncPlugins
import SyncSystem
import Testing

@testable import SyncTransfer

struct AllowanceTests {
    private func limit(_ remaining: Int, _ seconds: Int) throws -> RateLimit {
        try #require(RateLimit("\"a\";r=\(remaining);t=\(seconds)"))
    }

    @Test("No more requests are sent than a host has left, those on their way counted")
    func counted() throws {
        var allowance = RequestAllowance(try limit(3, 10), unanswered: 1, until: .seconds(11), former: nil)
        for _ in 0..<2 {
            #expect(allowance.mayAsk(now: .zero, unanswered: 1))
            allowance.ask()
        }
        #expect(!allowance.mayAsk(now: .zero, unanswered: 3) && allowance.isUsedUp)
        // No answer, no wait: it has said so, after all.
        #expect(!allowance.mayAsk(now: .zero, unanswered: 0))
    }

    @Test("Answers that overtake each other do not make more of it")
    func overtaken() throws {
        var allowance = RequestAllowance(try limit(1, 10), unanswered: 0, until: .seconds(11), former: nil)
        allowance.ask()
        let late = RequestAllowance(
            try limit(5, 10), unanswered: 0, until: .milliseconds(11_900), former: allowance)
        #expect(!late.mayAsk(now: .zero, unanswered: 0) && late.until == .seconds(11))
        let next = RequestAllowance(try limit(5, 10), unanswered: 0, until: .seconds(21), former: allowance)
        #expect(next.mayAsk(now: .zero, unanswered: 0))
    }

    @Test("When there are more, one request finds out how many; if nothing comes back, another one does")
    func again() throws {
        var allowance = RequestAllowance(try limit(0, 10), unanswered: 0, until: .seconds(11), former: nil)
        #expect(
            !allowance.mayAsk(now: .seconds(10), unanswered: 0) && allowance.mayAsk(now: .seconds(11), unanswered: 0))
        allowance.ask()
        #expect(!allowance.mayAsk(now: .seconds(12), unanswered: 1))
        #expect(allowance.mayAsk(now: .seconds(12), unanswered: 0))
        let found = RequestAllowance(try limit(9, 10), unanswered: 0, until: .seconds(23), former: allowance)
        #expect(found.mayAsk(now: .seconds(12), unanswered: 0))
    }

    @Test(
        "How long requests take at least follows from what is left and what a window has",
        arguments: [(2_999, 0), (3_000, 100), (5_999, 100), (6_000, 400), (20_000, 1_600)] as [(UInt64, UInt64)])
    func wait(requests: UInt64, seconds: UInt64) {
        let quota = RequestQuota(left: 2_999, seconds: 100, most: 3_000, window: 300)
        #expect(quota.wait(for: requests) == seconds)
        #expect(RequestQuota(left: 0, seconds: 1, most: 1, window: .max).wait(for: .max) == .max)
    }
}
