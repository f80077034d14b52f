import SyncModel
import SyncPlugins
import SyncSystem
import SyncTransfer
import Testing

@Suite("Retries", .timeLimit(.minutes(10)))
struct RetryTests {
    @Test(
        "The remedy of each fault [S51 S74 F001 F009 F023 F031 F041 F055]",
        arguments: [
            (.unreachable, .waitForConnectivity), (.idle, .again), (.broken, .again), (.tls, .nextSource),
            (.proxyAuthentication, .fail), (.malformed, .once), (.unwantedForm, .nextSource),
            (.wrongRange, .onceWithoutRange), (.otherSize, .onceUncached), (.captivePortal, .waitForConnectivity),
            (.redirect, .nextSource), (.policy, .nextSource), (.tooLarge, .nextSource), (.rewound, .again),
            (.stopped, .fail), (.libcurl, .once), (.superseded, .joinOther), (.noRanges, .nextSource),
        ] as [(Fault.Kind, Remedy)])
    func remedies(kind: Fault.Kind, remedy: Remedy) {
        #expect(Fault(kind, "").remedy(redirected: false) == remedy)
        #expect(Fault(kind, "").remedy(redirected: true) == remedy)
    }

    @Test("Statuses that pass [F028]", arguments: [408, 425, 429, 500, 502, 503, 504, 507, 509, 520, 524, 527, 530])
    func transient(status: Int) {
        #expect(Fault(.status(status), "").remedy(redirected: false) == .again)
        #expect(Fault(.status(status), "").remedy(redirected: true) == .again)
    }

    @Test(
        "Statuses that stay [F026 F027]", arguments: [400, 401, 402, 403, 404, 405, 410, 418, 451, 501, 505, 511, 599])
    func permanent(status: Int) {
        #expect(Fault(.status(status), "").remedy(redirected: false) == .nextSource)
    }

    @Test("A network that wants a login says so with 511. RFC 6585 section 6")
    func login() {
        let fault = Fault(.status(511), "")
        #expect(fault.cause == .loginPage && fault.advice == .logIn)
    }

    @Test("An expired link is asked for again at the original [S74 F025]", arguments: [400, 401, 403, 404, 410])
    func expired(status: Int) {
        #expect(Fault(.status(status), "").remedy(redirected: true) == .againFromOriginal)
    }

    @Test("Full jitter: from zero to one second doubled, up to five minutes")
    func schedule() {
        let policy = RetryPolicy()
        for failures in 1...64 {
            let limit = min(.seconds(300), .seconds(1) * (1 << min(failures - 1, 30)))
            #expect(policy.wait(failures: failures, random: 0) == .zero)
            let most = policy.wait(failures: failures, random: .max)
            #expect(most <= limit && most > limit * 0.999)
            #expect(policy.wait(failures: failures, random: 1 << 63) == limit / 2)
        }
        #expect(policy.connectivityWait(failures: 60, random: .max) <= .seconds(5))
    }

    @Test("A transfer is too slow when it brings less than the least rate, time after time [F037]")
    func pace() {
        var pace = Pace(at: .seconds(100), position: 1_000)
        func end(_ position: UInt64, at seconds: Int) {
            pace.attemptEnded(position: position, now: .seconds(seconds), least: 10, over: .seconds(60))
        }
        for second in 101..<160 { end(1_000, at: second) }
        #expect(pace.slowTimes == 0, "nothing is known before the time is over")
        end(1_599, at: 160)
        #expect(pace.slowTimes == 1)
        end(1_609, at: 161)
        end(2_198, at: 220)
        #expect(pace.slowTimes == 2)
        end(2_797, at: 280)
        #expect(pace.slowTimes == 3)
        end(3_397, at: 340)
        #expect(pace.slowTimes == 0, "600 bytes a minute are enough")
        end(4_397, at: 3_340)
        #expect(pace.slowTimes == 1, "a wait counts")
        for minute in 0..<9 {
            pace.attemptEnded(position: 0, now: .seconds(9_000 + 60 * minute), least: 0, over: .seconds(60))
        }
        #expect(pace.slowTimes == 0, "without a bound")
    }

    @Test("The server's own wish is honoured up to five minutes [F028 F029]")
    func serversWish() {
        #expect(RetryPolicy().wait(retryAfter: 7) == .seconds(7))
        #expect(RetryPolicy().wait(retryAfter: 315_360_000) == .seconds(300))
        #expect(RetryPolicy().wait(retryAfter: -1) == .zero)
    }

    @Test(
        "Retry-After in both forms; garbage is ignored [F028 F029]",
        arguments: [
            ("120", 120), ("0", 0), ("Sun, 06 Nov 1994 08:50:37 GMT", 60), ("Sun, 06 Nov 1994 08:00:00 GMT", 0),
            ("99999999999999999999", Int64.max), ("-5", nil), ("1.5", nil), ("soon", nil), ("", nil), ("+3", nil),
        ] as [(String, Int64?)])
    func retryAfterForms(text: String, seconds: Int64?) { #expect(retryAfter(text, now: 784_111_777) == seconds) }
}
