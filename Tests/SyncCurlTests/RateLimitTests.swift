import Testing

@testable import SyncSystem

struct RateLimitTests {
    @Test(
        "RateLimit says how many requests are left, and for how long, in the form of each draft",
        arguments: [
            ("\"resolvers\";r=12;t=55", 12, 55), ("\"api\";r=500;t=10, \"resolvers\";r=3;t=200", 3, 200),
            ("limit=100, remaining=7, reset=30", 7, 30), ("  \"a\" ; r = 0 ; t = 1 ", 0, 1),
        ] as [(String, UInt64, UInt64)])
    func forms(_ text: String, _ remaining: UInt64, _ seconds: UInt64) {
        let limit = RateLimit(text)
        #expect(limit?.requests == remaining && limit?.seconds == seconds)
    }

    @Test(
        "What is no RateLimit says nothing",
        arguments: [
            "", "r=1", "\"a\";r=-1;t=5", "\"a\";r=x;t=5", "100", ";;;", String(repeating: "a;r=1;t=1,", count: 1_000),
        ])
    func none(_ text: String) { #expect(RateLimit(text) == nil) }

    @Test("A policy says how many requests a window has; of several the one that allows the least holds")
    func policies() {
        let hub = RateLimit(policy: "\"fixed window\";\"resolvers\";q=3000;w=300")
        #expect(hub?.requests == 3_000 && hub?.seconds == 300)
        #expect(RateLimit(policy: "\"a\";q=100;w=1, \"b\";q=500;w=60")?.requests == 500)
        for text in [
            "", "\"a\";q=0;w=5", "\"a\";q=5;w=0", "\"a\";q=5", "q=x;w=y", String(repeating: "a;q=1;w=1,", count: 1_000),
        ] {
            #expect(RateLimit(policy: text) == nil, "\(text)")
        }
    }

    @Test("Link gives the next page, whatever other relations there are")
    func links() {
        #expect(nextLink("<https://h.test/a?c=2>; rel=\"next\"") == "https://h.test/a?c=2")
        #expect(nextLink("<https://h.test/p>; rel=prev, </a?c=3>; rel=next") == "/a?c=3")
        #expect(nextLink("<https://h.test/p>; rel=\"last\"") == nil)
        #expect(nextLink("nonsense") == nil && nextLink("<") == nil)
    }
}
