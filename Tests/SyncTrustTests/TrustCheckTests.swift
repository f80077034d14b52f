import SyncModel
import SyncTrust
import Testing

/// The attacks of The Update Framework, on the machine alone. Numbers are those of its specification, version 1.0.33.
@Suite("What is believed, by the clauses of TUF 5.3 to 5.7", .timeLimit(.minutes(10)))
struct TrustCheckTests {
    let signer = Signer()

    @Test("5.2: a root is believed only when it is signed by its own keys")
    func firstRoot() throws {
        #expect(throws: TrustRefusal.self) {
            try TrustPin(root: signer.signedRoot(by: [Signer.key(9)]), basis: .file, now: 0)
        }
        #expect(throws: TrustRefusal.self) { try TrustPin(root: [], basis: .file, now: 0) }
        #expect(try TrustPin(root: signer.signedRoot(), basis: .file, now: 0).project == signer.project)
    }

    @Test("A release is believed, and one with nothing new costs one statement")
    func believed() throws {
        var pin = try TrustPin(root: signer.signedRoot(), basis: .file, now: Signer.now)
        var site = try Site(signer)
        try site.check(&pin)
        #expect(site.asked == ["fresh", "2.root", "1.release", "manifest"])
        #expect((pin.newest.serial, pin.newest.revision) == (1, 1))
        try site.check(&pin)
        #expect(site.asked == ["fresh"])
        // A new statement about the same release.
        site.files["fresh"] = try signer.signed(signer.fresh(serial: 2))
        try site.check(&pin)
        #expect(site.asked == ["fresh"])
        #expect(pin.newest.serial == 2)
    }

    // MARK: 5.3, roots

    @Test(
        "5.3.3: a newer root is looked for when fresh knows one, when a signature fails, when the root is over, and each day"
    )
    func looking() throws {
        var pin = try pinned(signer)
        var site = try Site(signer)
        try site.check(&pin, now: Signer.now + 23 * 3_600_000)
        #expect(site.asked == ["fresh"])
        try site.check(&pin, now: Signer.now + 25 * 3_600_000)
        #expect(site.asked == ["fresh", "2.root"])
        try site.check(&pin, now: Signer.now + 26 * 3_600_000)
        #expect(site.asked == ["fresh"])
        site.files["fresh"] = try signer.signed(signer.fresh(serial: 2, root: 2))
        #expect(site.refusal(&pin)?.cause == .mixed)
        #expect(site.asked == ["fresh", "2.root"])
        site.files["fresh"] = try signer.signed(signer.fresh(serial: 2), by: [Signer.key(9)])
        #expect(site.refusal(&pin)?.cause == .signature)
        #expect(site.asked == ["fresh", "2.root"])
    }

    @Test("5.3.3: one check goes through 256 roots at most, and the next one goes on from there")
    func manyRoots() throws {
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 2, root: 300)
        for number in 2...300 as ClosedRange<UInt64> { site.files["\(number).root"] = try signer.signedRoot(number) }
        #expect(site.refusal(&pin)?.message.contains("pull again") == true)
        #expect(site.asked.count == 257)
        #expect(pin.root.content.number == 257)
        try site.check(&pin)
        #expect(pin.root.content.number == 300)
    }

    /// A next root, by whom it is signed, and whether it is believed.
    struct Step: Sendable, CustomTestStringConvertible {
        var name: String
        var by: [UInt8]
        var isBelieved: Bool
        var old: [UInt8] = [1]
        var oldThreshold = 1
        var new: [UInt8] = [11]
        var newThreshold = 1
        var testDescription: String { name }
    }

    @Test(
        "5.3.4: the next root is signed by the thresholds of the old keys and of the new",
        arguments: [
            Step(name: "both", by: [1, 11], isBelieved: true),
            Step(name: "the old key alone", by: [1], isBelieved: false),
            Step(name: "the new key alone", by: [11], isBelieved: false),
            Step(name: "nobody's key", by: [99], isBelieved: false),
            Step(name: "the keys stay", by: [1], isBelieved: true, new: [1]),
            Step(name: "two of three", by: [1, 2, 11], isBelieved: true, old: [1, 2, 3], oldThreshold: 2),
            Step(name: "one of three", by: [1, 11], isBelieved: false, old: [1, 2, 3], oldThreshold: 2),
            Step(name: "one of three, twice", by: [1, 1, 11], isBelieved: false, old: [1, 2, 3], oldThreshold: 2),
            Step(name: "too few of the new", by: [1, 11], isBelieved: false, new: [11, 12], newThreshold: 2),
            Step(name: "enough of the new", by: [1, 11, 12], isBelieved: true, new: [11, 12], newThreshold: 2),
        ])
    func rootThresholds(_ step: Step) throws {
        var old = signer
        old.rootKeys = step.old.map(Signer.key)
        old.thresholds[.root] = step.oldThreshold
        var new = signer
        new.rootKeys = step.new.map(Signer.key)
        new.thresholds[.root] = step.newThreshold
        var pin = try pinned(old)
        var site = try Site(new, serial: 2, root: 2)
        site.files["2.root"] = try new.signedRoot(2, by: step.by.map(Signer.key))
        let refusal = site.refusal(&pin)
        #expect((refusal == nil) == step.isBelieved, "\(refusal?.message ?? "")")
        #expect(refusal.map { $0.cause == .signature } ?? true)
        #expect(pin.root.content.number == (step.isBelieved ? 2 : 1))
    }

    @Test("5.3.5: a root under another's number is refused", arguments: [1, 3] as [UInt64])
    func wrongNumber(number: UInt64) throws {
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 2, root: 2)
        site.files["2.root"] = try signer.signedRoot(number)
        #expect(site.refusal(&pin)?.cause == .older)
    }

    @Test("5.3.6: roots on the way may be over, the last one may not (5.3.10)")
    func expiredRoots() throws {
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 2, root: 3)
        site.files["2.root"] = try signer.signedRoot(2, until: Signer.now - 1)
        site.files["3.root"] = try signer.signedRoot(3)
        var other = pin
        try site.check(&pin)
        #expect(pin.root.content.number == 3)
        site.files["3.root"] = try signer.signedRoot(3, until: Signer.now - 1)
        #expect(site.refusal(&other)?.cause == .stale)
    }

    @Test("5.3.8: a root is kept as soon as it is believed, whatever comes after it")
    func keptRoots() throws {
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 2, root: 3)
        site.files["2.root"] = try signer.signedRoot(2)
        site.files["3.root"] = try signer.signedRoot(3, by: [Signer.key(9)])
        #expect(site.refusal(&pin)?.cause == .signature)
        #expect(pin.root.content.number == 2)
        #expect(pin.roots.count == 2)
        // Floors are as they were: no manifest was verified.
        #expect(pin.newest.serial == 1)
    }

    @Test("Three rotations at once are gone through one by one")
    func threeRotations() throws {
        var pin = try pinned(signer)
        var (now, before) = (signer, signer)
        var site = Site()
        for (number, key) in zip([2, 3, 4] as [UInt64], [12, 13, 14] as [UInt8]) {
            before = now
            now.rootKeys = [Signer.key(key)]
            now.releaseKeys = [Signer.key(key + 10)]
            site.files["\(number).root"] = try now.signedRoot(number, by: before.rootKeys + now.rootKeys)
        }
        let whole = try Site(now, serial: 2, revision: 2, root: 4)
        site.files.merge(whole.files) { $1 }
        try site.check(&pin)
        #expect(site.asked == ["fresh", "2.root", "3.root", "4.root", "5.root", "2.release", "manifest"])
    }

    @Test("5.3.11: floors go with the keys that set them, which ends a fast-forward; others stay")
    func fastForward() throws {
        var pin = try pinned(signer)
        // A thief with both keys puts the numbers as high as they go.
        let high = UInt64(Int64.max)
        var site = try Site(signer, serial: high, revision: 1_000_000)
        try site.check(&pin)
        #expect((pin.newest.serial, pin.newest.revision) == (high, 1_000_000))
        var clean = signer
        clean.freshKeys = [Signer.key(23)]
        site = try Site(clean, serial: 5, revision: 2, root: 2)
        site.files["2.root"] = try clean.signedRoot(2)
        var other = pin
        // Only the fresh key was rotated: the revision's floor belongs to the release key.
        #expect(site.refusal(&other)?.cause == .older)
        #expect(other.newest.serial == 0)
        clean.releaseKeys = [Signer.key(22)]
        site = try Site(clean, serial: 5, revision: 2, root: 2)
        site.files["2.root"] = try clean.signedRoot(2)
        try site.check(&pin)
        #expect((pin.newest.serial, pin.newest.revision) == (5, 2))
        #expect(pin.hasFallen)
    }

    @Test("A key that is added takes no floor away")
    func addedKey() throws {
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 9, revision: 9)
        try site.check(&pin)
        var more = signer
        more.freshKeys.append(Signer.key(33))
        more.releaseKeys.append(Signer.key(32))
        site = Site()
        site.files["fresh"] = try more.signed(more.fresh(serial: 8, revision: 9, root: 2), by: [Signer.key(33)])
        site.files["2.root"] = try more.signedRoot(2)
        #expect(site.refusal(&pin)?.cause == .older)
        #expect(pin.root.content.number == 2)
    }

    // MARK: 5.4, fresh

    @Test("5.4.2: fresh is signed by the fresh key, as fresh")
    func freshSignature() throws {
        let fresh = try signer.fresh(serial: 2)
        let wrong = [
            try signer.signed(fresh, by: signer.releaseKeys), try signer.signed(fresh, by: signer.rootKeys),
            try Signer.sign(fresh.json, .release, signer.freshKeys).bytes,
        ]
        for bytes in wrong {
            var pin = try pinned(signer)
            var site = try Site(signer)
            site.files["fresh"] = bytes
            #expect(site.refusal(&pin)?.cause == .signature)
            #expect(pin.newest.serial == 1)
        }
    }

    @Test("5.4.2: a revoked key signs nothing any more")
    func revoked() throws {
        var pin = try pinned(signer)
        var next = signer
        next.freshKeys = [Signer.key(23)]
        var site = try Site(signer, serial: 2, root: 2)
        site.files["2.root"] = try next.signedRoot(2)
        #expect(site.refusal(&pin)?.cause == .signature)
        // What the old release key signed counts no more either, though it was believed before.
        next.releaseKeys = [Signer.key(22)]
        var other = try pinned(signer)
        site.files["2.root"] = try next.signedRoot(2)
        site.files["fresh"] = try next.signed(next.fresh(serial: 3, root: 2, release: signer.signedRelease().digest))
        #expect(site.refusal(&other)?.cause == .signature)
    }

    @Test("5.4.3: an older fresh statement is refused, and so is a new one about an older revision")
    func olderFresh() throws {
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 7, revision: 5)
        try site.check(&pin)
        let before = pin
        site = try Site(signer, serial: 6, revision: 5)
        #expect(site.refusal(&pin)?.cause == .older)
        site = try Site(signer, serial: 8, revision: 4)
        #expect(site.refusal(&pin)?.cause == .older)
        #expect(pin == before)
    }

    @Test(
        "5.4.4: a stale statement is refused, whoever holds a newer one back; grace is given for as long as was said [V37]"
    )
    func stale() throws {
        var pin = try pinned(signer)
        var site = try Site(signer)
        let end = Signer.now + 30 * Signer.day
        #expect(site.refusal(&pin, now: end) == nil)
        #expect(site.refusal(&pin, now: end + 1)?.cause == .stale)
        #expect(site.refusal(&pin, now: end + 7 * Signer.day, grace: 7 * Signer.day) == nil)
        #expect(site.refusal(&pin, now: end + 7 * Signer.day + 1, grace: 7 * Signer.day)?.cause == .stale)
        #expect(pin.graces == [.init(used: end + 7 * Signer.day, until: end)])
        // Once a night, once on record.
        #expect(site.refusal(&pin, now: end + 7 * Signer.day, grace: 7 * Signer.day) == nil)
        #expect(pin.graces.count == 1)
    }

    @Test("A clock before what was seen, and a signature from the future, each have their own message")
    func clocks() throws {
        var pin = try pinned(signer)
        var site = try Site(signer)
        let early = site.refusal(&pin, now: Signer.now - Signer.day)
        #expect(early?.cause == .clock)
        #expect(early?.message.contains("set the clock") == true)
        #expect(site.refusal(&pin, now: Signer.now - 599_000) == nil)
        site.files["fresh"] = try signer.signed(signer.fresh(serial: 2, signed: Signer.now + Signer.day))
        #expect(site.refusal(&pin)?.cause == .clock)
        #expect(pin.seen == Signer.now)
    }

    @Test("5.4.1: no statement where one has to be")
    func unsigned() throws {
        var pin = try pinned(signer)
        var site = Site()
        #expect(site.refusal(&pin)?.cause == .unsigned)
        site.files["fresh"] = [UInt8](repeating: 0x20, count: (16 << 10) + 1)
        #expect(site.refusal(&pin)?.cause == .malformed)
    }

    // MARK: 5.5 to 5.7, release and manifest

    @Test("5.5.2, 5.6.4: what does not belong together is refused [V38]")
    func mixed() throws {
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 2, revision: 2)
        site.files["2.release"] = nil
        #expect(site.refusal(&pin)?.cause == .mixed)
        // Another release of the same number, well signed.
        var other = signer.release(2)
        other.manifest = Signer.digest(99)
        site.files["2.release"] = try Signer.sign(other.json, .release, signer.releaseKeys).bytes
        #expect(site.refusal(&pin)?.cause == .mixed)
        // The release of another revision under this one's name, which fresh names.
        site.files["2.release"] = try signer.signedRelease(3).bytes
        site.files["fresh"] = try signer.signed(
            signer.fresh(serial: 2, revision: 2, release: signer.signedRelease(3).digest))
        #expect(site.refusal(&pin)?.cause == .mixed)
        #expect((pin.newest.serial, pin.newest.revision) == (1, 1))
    }

    @Test("5.5.3: a release is signed by the release key, as release")
    func releaseSignature() throws {
        for (role, key) in [(Role.release, 3), (.release, 1), (.fresh, 2), (.root, 2)] as [(Role, UInt8)] {
            var pin = try pinned(signer)
            var site = try Site(signer, serial: 2, revision: 2)
            site.files["2.release"] = try Signer.sign(signer.release(2).json, role, [Signer.key(key)]).bytes
            #expect(site.refusal(&pin)?.cause == .signature)
        }
    }

    @Test("Statements of another project are refused, though the same keys have signed them")
    func wrongProject() throws {
        var other = signer
        other.project = "com.example.bridge"
        var pin = try pinned(signer)
        var site = try Site(other, serial: 2)
        #expect(site.refusal(&pin)?.cause == .project)
        site = try Site(signer, serial: 2, revision: 2)
        site.files["2.release"] = try other.signedRelease(2).bytes
        site.files["fresh"] = try signer.signed(
            signer.fresh(serial: 2, revision: 2, release: other.signedRelease(2).digest))
        #expect(site.refusal(&pin)?.cause == .project)
        site = try Site(signer, serial: 2, root: 2)
        site.files["2.root"] = try other.signedRoot(2)
        #expect(site.refusal(&pin)?.cause == .project)
        #expect((pin.newest.serial, pin.root.content.number) == (1, 1))
    }

    @Test("5.7: the manifest is the project's and the revision's; floors rise only when it is [V38]")
    func wrongManifest() throws {
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 2, revision: 2)
        #expect(site.refusal(&pin, project: "com.example.bridge")?.cause == .project)
        #expect(site.refusal(&pin, manifestRevision: 3)?.cause == .mixed)
        #expect((pin.newest.serial, pin.newest.revision) == (1, 1))
        try site.check(&pin)
        #expect((pin.newest.serial, pin.newest.revision) == (2, 2))
    }
}
