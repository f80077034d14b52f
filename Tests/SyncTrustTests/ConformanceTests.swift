import SyncModel
import SyncTrust
import Testing

/// The cases of the conformance suite of The Update Framework that a single publisher can have: rotation, thresholds,
/// rollback, expiry. Documentation/development/TUF.md lists all its cases, with those that do not apply.
@Suite("Cases of the TUF conformance suite", .timeLimit(.minutes(10)))
struct ConformanceTests {
    /// A role's keys, how many have to sign, and who did.
    struct Version: Sendable {
        var keys: [UInt8]
        var threshold: Int
        var signers: [UInt8]

        init(_ keys: [UInt8], _ threshold: Int, by signers: [UInt8]) {
            (self.keys, self.threshold, self.signers) = (keys, threshold, signers)
        }
    }

    struct Rotation: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var versions: [Version]
        /// Whether the last one is believed.
        var isBelieved = true
    }

    static let rotations = [
        Rotation(
            testDescription: "1-of-1 key rotation",
            versions: [Version([1], 1, by: [1]), Version([2], 1, by: [2, 1]), Version([2], 1, by: [2])]),
        Rotation(
            testDescription: "1-of-1 key rotation, unused signatures",
            versions: [
                Version([1], 1, by: [3, 1, 4]), Version([2], 1, by: [3, 2, 1, 4]), Version([2], 1, by: [3, 2, 4]),
            ]),
        Rotation(
            testDescription: "3-of-5, sign with different key combos",
            versions: [[0, 2, 4], [0, 4, 1], [0, 1, 3], [0, 1, 3]].map { Version([0, 1, 2, 3, 4], 3, by: $0) }),
        Rotation(
            testDescription: "3-of-5, one key rotated",
            versions: [Version([0, 1, 2, 3, 4], 3, by: [0, 2, 4]), Version([0, 1, 3, 4, 5], 3, by: [0, 4, 1])]),
        Rotation(
            testDescription: "3-of-5, one key rotated with intermediate step",
            versions: [
                Version([0, 1, 2, 3, 4], 3, by: [0, 2, 4]), Version([0, 1, 3, 4, 5], 3, by: [0, 2, 4, 5]),
                Version([0, 1, 3, 4, 5], 3, by: [0, 4, 5]),
            ]),
        Rotation(
            testDescription: "3-of-5, all keys rotated with intermediate step",
            versions: [
                Version([0, 1, 2, 3, 4], 3, by: [0, 2, 4]), Version([5, 6, 7, 8, 9], 3, by: [0, 2, 4, 5, 6, 7]),
                Version([5, 6, 7, 8, 9], 3, by: [5, 6, 7]),
            ]),
        Rotation(
            testDescription: "1-of-3, threshold increase to 2-of-3",
            versions: [Version([1, 2, 3], 1, by: [1]), Version([1, 2, 3], 2, by: [1, 2])]),
        Rotation(
            testDescription: "2-of-3, threshold decrease to 1-of-3",
            versions: [
                Version([1, 2, 3], 2, by: [1, 2]), Version([1, 2, 3], 1, by: [1, 2]), Version([1, 2, 3], 1, by: [1]),
            ]),
        Rotation(
            testDescription: "1-of-1, threshold increase to 2-of-2",
            versions: [Version([1], 1, by: [1]), Version([1, 2], 2, by: [1, 2])]),
        Rotation(
            testDescription: "1-of-1, not signed with old key",
            versions: [Version([1], 1, by: [1]), Version([2], 1, by: [2, 3, 4])], isBelieved: false),
        Rotation(
            testDescription: "1-of-1, not signed with new key",
            versions: [Version([1], 1, by: [1]), Version([2], 1, by: [1, 3, 4])], isBelieved: false),
        Rotation(
            testDescription: "3-of-5, not signed with 3 new keys",
            versions: [Version([0, 1, 2, 3, 4], 3, by: [0, 2, 4]), Version([0, 1, 3, 4, 5], 3, by: [0, 2, 4])],
            isBelieved: false),
        Rotation(
            testDescription: "3-of-5, not signed with 3 old keys",
            versions: [Version([0, 1, 2, 3, 4], 3, by: [0, 2, 4]), Version([0, 1, 3, 4, 5], 3, by: [0, 4, 5])],
            isBelieved: false),
        Rotation(
            testDescription: "1-of-3 to 2-of-3, new threshold not reached",
            versions: [Version([1, 2, 3], 1, by: [1]), Version([1, 2, 3], 2, by: [2])], isBelieved: false),
        Rotation(
            testDescription: "2-of-3 to 1-of-3, old threshold not reached",
            versions: [Version([1, 2, 3], 2, by: [1, 2]), Version([1, 2, 3], 1, by: [1])], isBelieved: false),
    ]

    /// None of the keys that the other roles have.
    private static func keys(_ numbers: [UInt8]) -> [PrivateKey] { numbers.map { Signer.key($0 + 100) } }

    @Test("test_root_rotation", arguments: rotations)
    func rootRotation(_ rotation: Rotation) throws {
        var signer = Signer()
        var site = Site()
        let last = UInt64(rotation.versions.count)
        var first: [UInt8] = []
        for (number, version) in zip(1...last, rotation.versions) {
            signer.rootKeys = Self.keys(version.keys)
            signer.thresholds[.root] = version.threshold
            let root = try signer.signedRoot(number, by: Self.keys(version.signers))
            site.files["\(number).root"] = root
            if number == 1 { first = root }
        }
        site.files.merge(try Site(signer, root: last).files) { $1 }
        var pin = try TrustPin(root: first, basis: .file, now: Signer.now)
        let refusal = site.refusal(&pin)
        #expect((refusal == nil) == rotation.isBelieved, "\(refusal?.message ?? "")")
        #expect(pin.root.content.number == (rotation.isBelieved ? last : last - 1))
    }

    static let others = [
        Rotation(testDescription: "1-of-1 key rotation", versions: [Version([2], 1, by: [2])]),
        Rotation(testDescription: "1-of-1, unused signatures", versions: [Version([1], 1, by: [3, 1, 4])]),
        Rotation(
            testDescription: "1-of-1, not signed with new key", versions: [Version([2], 1, by: [1, 3, 4])],
            isBelieved: false),
        Rotation(
            testDescription: "3-of-5, one signature of another key",
            versions: [Version([0, 1, 3, 4, 5], 3, by: [0, 2, 4])], isBelieved: false),
        Rotation(
            testDescription: "2 of 3-of-5, threshold not reached",
            versions: [Version([0, 1, 3, 4, 5], 3, by: [0, 4])], isBelieved: false),
        Rotation(
            testDescription: "3-of-5, any three",
            versions: [[0, 2, 4], [0, 4, 1], [0, 1, 3], [1, 2, 3], [2, 3, 4]].map {
                Version([0, 1, 2, 3, 4], 3, by: $0)
            }),
    ]

    @Test("test_non_root_rotations", arguments: others, [Role.release, .fresh])
    func otherRotation(_ rotation: Rotation, _ role: Role) throws {
        for version in rotation.versions {
            var signer = Signer()
            let keys = Self.keys(version.keys)
            if role == .fresh { signer.freshKeys = keys } else { signer.releaseKeys = keys }
            signer.thresholds[role] = version.threshold
            var pin = try TrustPin(root: signer.signedRoot(), basis: .file, now: Signer.now)
            var site = Site()
            let by = Self.keys(version.signers)
            site.files["1.release"] = try signer.signedRelease(by: role == .release ? by : nil).bytes
            site.files["fresh"] = try signer.signed(signer.fresh(), by: role == .fresh ? by : nil)
            let refusal = site.refusal(&pin)
            #expect((refusal == nil) == rotation.isBelieved, "\(refusal?.message ?? "")")
            #expect(refusal.map { $0.cause == .signature } ?? true)
        }
    }

    @Test("test_duplicate_keys: a root that names a key twice for a role is none")
    func duplicateKeys() throws {
        var signer = Signer()
        signer.freshKeys = [Signer.key(3), Signer.key(3)]
        signer.thresholds[.fresh] = 2
        #expect(throws: TrustRefusal.self) { try TrustPin(root: signer.signedRoot(), basis: .file, now: Signer.now) }
    }

    @Test("test_snapshot_has_too_few_keys: a threshold that cannot be reached is refused as such")
    func tooFewKeys() throws {
        var signer = Signer()
        signer.thresholds[.release] = 2
        #expect(throws: TrustRefusal.self) { try TrustPin(root: signer.signedRoot(), basis: .file, now: Signer.now) }
    }

    @Test("test_invalid_sig_in_valid_metadata: a false signature takes nothing from a good one")
    func falseSignature() throws {
        var signer = Signer()
        signer.freshKeys = [Signer.key(3), Signer.key(4)]
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 2)
        let (fresh, other) = (try signer.fresh(serial: 2), try signer.fresh(serial: 3))
        let good = try SSHSignature(of: fresh.json, namespace: Role.fresh.namespace, by: Signer.key(3))
        let stray = try SSHSignature(of: other.json, namespace: Role.fresh.namespace, by: Signer.key(4))
        site.files["fresh"] = try SignedStatement([stray, good], json: fresh.json).bytes
        #expect(site.refusal(&pin) == nil)
        site.files["fresh"] = try SignedStatement([stray], json: fresh.json).bytes
        #expect(site.refusal(&pin)?.cause == .signature)
    }

    @Test("test_incorrect_metadata_type: a statement of one kind is not another, well signed or not")
    func wrongType() throws {
        let signer = Signer()
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 2, revision: 2)
        site.files["fresh"] = try Signer.sign(signer.release(2).json, .fresh, signer.freshKeys).bytes
        #expect(site.refusal(&pin)?.cause == .malformed)
        #expect((pin.newest.serial, pin.newest.revision) == (1, 1))
    }

    @Test("test_timestamp_content_changes: the same serial with another content lowers nothing that was believed")
    func sameSerial() throws {
        let signer = Signer()
        var pin = try pinned(signer)
        var site = try Site(signer, serial: 5, revision: 5)
        try site.check(&pin)
        site = try Site(signer, serial: 5, revision: 4)
        #expect(site.refusal(&pin)?.cause == .older)
        #expect((pin.newest.serial, pin.newest.revision) == (5, 5))
    }

    @Test(
        "test_expired_local_root, test_expired_local_timestamp: what is over here does not keep anybody from the news")
    func expiredHere() throws {
        var signer = Signer()
        let later = Signer.now + 60 * Signer.day
        var pin = try TrustPin(
            root: signer.signedRoot(until: Signer.now + 7 * Signer.day), basis: .file, now: Signer.now)
        var site = try Site(signer)
        try site.check(&pin)
        signer.freshKeys = [Signer.key(23)]
        site.files["2.root"] = try signer.signedRoot(2)
        site.files["fresh"] = try signer.signed(
            signer.fresh(serial: 2, root: 2, signed: later, until: later + Signer.day))
        try site.check(&pin, now: later)
        #expect((pin.newest.serial, pin.root.content.number) == (2, 2))
    }

    @Test("test_metadata_bytes_match: what is kept are the bytes that came, and they are read again")
    func bytesMatch() throws {
        let signer = Signer()
        let root = try signer.signedRoot()
        let pin = try pinned(signer)
        #expect(pin.root.statement.bytes == root)
        #expect(try TrustPin(file: pin.file) == pin)
    }
}
