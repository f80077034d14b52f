import SyncModel
import SyncTrust
import Testing

/// What is believed of channels and of revisions that are asked for, on the machine alone.
@Suite("What is believed of channels and revisions", .timeLimit(.minutes(10)))
struct ChannelTrustTests {
    let signer = Signer()

    private func set(_ channel: String?, serial: UInt64, revision: UInt64, in site: inout Site) throws {
        site.files[FreshStatement.name(channel)] = try signer.signed(
            signer.fresh(channel: channel, serial: serial, revision: revision))
        site.files["\(revision).release"] = try signer.signedRelease(revision).bytes
    }

    @Test("One channel's word is none for another, whichever way it is served")
    func otherChannel() throws {
        var site = try Site(signer)
        try set("beta", serial: 9, revision: 2, in: &site)
        try set("stable", serial: 9, revision: 1, in: &site)
        let files = site.files
        let names = [nil, "beta", "stable"]
        for asked in names {
            for served in names where served != asked {
                var pin = try pinned(signer)
                site.files = files
                site.files[FreshStatement.name(asked)] = files[FreshStatement.name(served)]
                #expect(site.refusal(&pin, channel: asked)?.cause == .mixed)
                #expect(pin[asked].serial == (asked == nil ? 1 : 0))
            }
        }
    }

    @Test("Each channel has floors of its own: none can be set back or held still, and none holds another back")
    func channelFloors() throws {
        var pin = try pinned(signer)
        var site = try Site(signer)
        try set("beta", serial: 9, revision: 3, in: &site)
        try site.check(&pin, channel: "beta")
        #expect(site.asked == ["beta.fresh", "3.release", "manifest"])
        try site.check(&pin, channel: "beta")
        #expect(site.asked == ["beta.fresh"])
        try site.check(&pin)
        #expect((pin.newest.revision, pin["beta"].revision) == (1, 3))
        try set("beta", serial: 8, revision: 3, in: &site)
        #expect(site.refusal(&pin, channel: "beta")?.cause == .older)
        try set("beta", serial: 10, revision: 2, in: &site)
        #expect(site.refusal(&pin, channel: "beta")?.cause == .older)
        try set("beta", serial: 10, revision: 3, in: &site)
        let late = Signer.now + 31 * Signer.day
        site.files["fresh"] = try signer.signed(signer.fresh(serial: 2, until: late + Signer.day))
        #expect(site.refusal(&pin, now: late) == nil)
        #expect(site.refusal(&pin, now: late, channel: "beta")?.cause == .stale)
        #expect(try TrustPin(file: pin.file) == pin)
    }

    @Test("A channel that was removed stays so, however old that is; what was said before it counts no more")
    func removedChannel() throws {
        var pin = try pinned(signer)
        var site = try Site(signer)
        try set("beta", serial: 1, revision: 2, in: &site)
        let before = site.files
        try site.check(&pin, channel: "beta")
        site.files["beta.fresh"] = try signer.signed(
            signer.fresh(channel: "beta", serial: 2, revision: 2, isRemoved: true))
        let late = Signer.now + 31 * Signer.day
        #expect(site.refusal(&pin, now: late, channel: "beta")?.cause == .removed)
        #expect(site.refusal(&pin, channel: "beta", revision: 2)?.cause == .removed)
        #expect(pin["beta"].serial == 2)
        #expect(try TrustPin(file: pin.file) == pin)
        site.files = before
        #expect(site.refusal(&pin, channel: "beta")?.cause == .older)
        // Nobody but the keys can say so, and a machine that never followed it keeps nothing.
        var other = try pinned(signer)
        site.files["beta.fresh"] = try signer.signed(
            signer.fresh(channel: "beta", serial: 2, revision: 2, isRemoved: true), by: [Signer.key(9)])
        #expect(site.refusal(&other, channel: "beta")?.cause == .signature)
        site.files["beta.fresh"] = try signer.signed(signer.fresh(channel: "beta", serial: 2, isRemoved: true))
        #expect(site.refusal(&other, channel: "beta")?.cause == .removed)
        #expect(other.channels.isEmpty)
        // It may come back.
        try set("beta", serial: 3, revision: 3, in: &site)
        try site.check(&pin, channel: "beta")
        #expect(pin["beta"].revision == 3)
    }

    @Test("What a revoked key has set goes with it in every channel")
    func channelRecovery() throws {
        var pin = try pinned(signer)
        var site = try Site(signer)
        try set("beta", serial: 1_000_000, revision: 1_000_000, in: &site)
        try site.check(&pin, channel: "beta")
        var next = signer
        (next.releaseKeys, next.freshKeys) = ([Signer.key(22)], [Signer.key(23)])
        site.files["2.root"] = try next.signedRoot(2)
        site.files["beta.fresh"] = try next.signed(next.fresh(channel: "beta", serial: 2, revision: 2, root: 2))
        site.files["2.release"] = try next.signedRelease(2).bytes
        try site.check(&pin, channel: "beta")
        #expect((pin["beta"].serial, pin["beta"].revision) == (2, 2))
        #expect(pin.hasFallen)
    }

    @Test("A revision that is asked for is believed when its keys count, and moves nothing")
    func askedRevision() throws {
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 3, revision: 3)
        try site.check(&pin)
        site.files["2.release"] = try signer.signedRelease(2).bytes
        try site.check(&pin, revision: 2)
        #expect(site.asked == ["fresh", "2.release", "manifest"])
        #expect((pin.newest.serial, pin.newest.revision) == (3, 3))
        let asked = pin
        #expect(try TrustPin(file: pin.file) == asked)
        try site.check(&pin, revision: 2)
        #expect(site.asked == ["fresh", "manifest"])
        // What was kept is worth what its keys are worth now.
        var next = signer
        next.releaseKeys = [Signer.key(22)]
        var rotated = try Site(next, serial: 4, revision: 3, root: 2)
        rotated.files["2.root"] = try next.signedRoot(2, by: signer.rootKeys)
        rotated.files["2.release"] = try signer.signedRelease(2).bytes
        var later = pin
        #expect(rotated.refusal(&later, revision: 2)?.cause == .signature)
        pin = try pinned(signer)
        try site.check(&pin)
        #expect(site.refusal(&pin, revision: 2, manifestRevision: 3)?.cause == .mixed)
        site.files["2.release"] = try signer.signedRelease(2, by: [Signer.key(9)]).bytes
        #expect(site.refusal(&pin, revision: 2)?.cause == .signature)
        site.files["2.release"] = try signer.signedRelease(3).bytes
        #expect(site.refusal(&pin, revision: 2)?.cause == .mixed)
        // Somebody who holds back what is newest could hold back that a key is revoked.
        site.files["2.release"] = try signer.signedRelease(2).bytes
        #expect(site.refusal(&pin, now: Signer.now + 31 * Signer.day, revision: 2)?.cause == .stale)
    }

    @Test("Looking back takes what was right once, keeps nothing of it, and believes no root that was not believed")
    func lookingBack() throws {
        var pin = try pinned(signer)
        let old = try Site(signer, serial: 1, revision: 1)
        var next = signer
        (next.releaseKeys, next.freshKeys) = ([Signer.key(22)], [Signer.key(23)])
        var site = try Site(next, serial: 9, revision: 9, root: 2)
        site.files["2.root"] = try next.signedRoot(2, by: signer.rootKeys)
        try site.check(&pin)
        let before = pin
        var back = old
        back.files["1.root"] = try signer.signedRoot()
        #expect(back.refusal(&pin)?.cause == .signature)
        #expect(back.refusal(&pin, now: Signer.now + 4000 * Signer.day, looksBack: true) == nil)
        #expect(pin == before)
        back.files["1.root"] = try next.signedRoot()
        #expect(back.refusal(&pin, looksBack: true)?.cause == .signature)
        back = old
        #expect(back.refusal(&pin, looksBack: true)?.cause == .mixed)
        back.files["1.root"] = try signer.signedRoot()
        back.files["1.release"] = try next.signedRelease().bytes
        #expect(back.refusal(&pin, looksBack: true)?.cause == .signature)
    }
}
