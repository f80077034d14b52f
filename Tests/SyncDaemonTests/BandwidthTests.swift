import Testing

@testable import SyncDaemon

@Suite("One limit for all runs of an agent")
struct BandwidthTests {
    typealias Claim = BandwidthClaim

    @Test("It is shared by weight, and never more than all of it is given")
    func weight() {
        let claims = [Claim(weight: 4), Claim(weight: 1)]
        #expect(BandwidthClaim.divide(10_000, among: claims) == [8_000, 2_000])
        #expect(BandwidthClaim.divide(10_000, among: []).isEmpty)
        #expect(BandwidthClaim.divide(.max, among: claims).allSatisfy { $0 > 0 })
        #expect(BandwidthClaim.divide(0, among: claims) == [1, 1])
        #expect(BandwidthClaim.divide(.max, among: [Claim(weight: 1)]) == [.max])
    }

    @Test("A run's own limit holds under it, and the rest goes to the others")
    func ownLimit() {
        let claims = [Claim(weight: 1, limit: 1_000), Claim(weight: 1), Claim(weight: 2, limit: 100_000)]
        let shares = BandwidthClaim.divide(10_000, among: claims)
        #expect(shares == [1_000, 3_000, 6_000])
        #expect(BandwidthClaim.divide(10_000, among: [Claim(weight: 1, limit: 500)]) == [500])
    }

    @Test("What one does not use goes to the others, and comes back when it uses more")
    func unused() {
        var slow = Claim(weight: 1, share: 5_000, used: 400)
        let fast = Claim(weight: 1, share: 5_000, used: 5_000)
        var shares = BandwidthClaim.divide(10_000, among: [slow, fast])
        #expect(shares == [500, 9_500])
        // It takes all that it has: it grows back to its half within a division.
        slow = Claim(weight: 1, share: shares[0], used: 500)
        shares = BandwidthClaim.divide(10_000, among: [slow, Claim(weight: 1, share: 9_500, used: 9_500)])
        #expect(shares == [5_000, 5_000])
        // One that stands still keeps enough to show that it goes on.
        let still = Claim(weight: 1, share: 5_000, used: 0)
        #expect(BandwidthClaim.divide(10_000, among: [still, fast])[0] == 200)
    }
}
