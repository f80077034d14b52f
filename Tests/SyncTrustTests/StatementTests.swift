import SyncModel
import SyncTrust
import Testing

@Suite("Statements are read strictly", .timeLimit(.minutes(10)))
struct StatementTests {
    let signer = Signer()

    @Test("Each statement comes back as it was written")
    func roundTrips() throws {
        var root = signer.root(3)
        root.mirrors = ["https://mirror.example.com/tower/"]
        #expect(try RootStatement(json: root.json) == root)
        #expect(try ReleaseStatement(json: signer.release(42).json) == signer.release(42))
        let fresh = try signer.fresh(serial: 9, revision: 42, root: 3)
        #expect(try FreshStatement(json: fresh.json) == fresh)
        let removed = try signer.fresh(channel: "beta", isRemoved: true)
        #expect(try FreshStatement(json: removed.json) == removed)
    }

    @Test("ssh-keygen verifies a statement's block over the JSON behind it", .enabled(if: SSHKeygen.isHere))
    func oracle() throws {
        let scratch = try Scratch()
        let statement = try signer.signedRelease(5)
        let text = String(decoding: statement.bytes, as: UTF8.self)
        let gap = try #require(text.firstRange(of: "\n\n"))
        let file = try scratch.write(Array((text[..<gap.lowerBound] + "\n").utf8), "sig")
        let allowed = try scratch.write(Array("p \(signer.releaseKeys[0].publicKey.text)\n".utf8), "allowed")
        let result = try SSHKeygen.run(
            ["-Y", "verify", "-f", allowed, "-I", "p", "-n", "syncagent-release", "-s", file],
            input: Array(text[gap.upperBound...].utf8))
        #expect(result.status == 0, "\(result.output)")
    }

    /// A change to a statement's JSON and why it is refused.
    struct Wrong: CustomTestStringConvertible, Sendable {
        var from: String
        var to: String
        var reason: String
        var testDescription: String { "\(from) → \(to)" }
    }

    @Test(
        "What is not exactly a fresh statement is none",
        arguments: [
            Wrong(from: "syncagent-fresh/1", to: "syncagent-fresh/2", reason: "not a syncagent-fresh/1"),
            Wrong(from: "\"serial\":1", to: "\"serial\":0", reason: "counts from 1"),
            Wrong(from: "\"serial\":1", to: "\"serial\":1.5", reason: "fraction"),
            Wrong(from: "\"serial\":1", to: "\"serial\":1e0", reason: "exponent"),
            Wrong(from: "\"serial\":1", to: "\"serial\":\"1\"", reason: "expected an integer"),
            Wrong(from: "\"serial\":1", to: "\"serial\":99999999999999999999", reason: "above"),
            Wrong(from: "\"serial\":1", to: "\"serial\":1,\"serial\":2", reason: "appears twice"),
            Wrong(from: "\"serial\":1", to: "\"serial\":1,\"other\":2", reason: "not known"),
            Wrong(from: "\"serial\":1,", to: "", reason: "“serial” is missing"),
            Wrong(from: "com.example.tower", to: "../tower", reason: "not an identifier"),
            Wrong(from: "com.example.tower", to: "", reason: "empty"),
            Wrong(from: "\"until\":\"2026", to: "\"until\":\"next", reason: "not a time"),
            Wrong(from: "\"sha256\":\"", to: "\"sha256\":\"x", reason: "not a SHA-256"),
            Wrong(from: "\"serial\":1", to: "\"serial\":1,\"removed\":true", reason: "cannot be removed"),
            Wrong(from: "}}", to: "}} {}", reason: "text follows"), Wrong(from: "}}", to: "}", reason: "“,” or “}”"),
        ])
    func wrongFresh(_ wrong: Wrong) throws {
        let text = String(decoding: try signer.fresh().json, as: UTF8.self)
        let other = text.replacing(wrong.from, with: wrong.to)
        try #require(other != text)
        let fault = #expect(throws: TrustFault.self) { try FreshStatement(json: Array(other.utf8)) }
        #expect(fault?.reason.contains(wrong.reason) == true, "\(fault?.reason ?? "")")
    }

    @Test("A key that begins with x- may stand anywhere")
    func extensions() throws {
        let text = String(decoding: try signer.fresh().json, as: UTF8.self)
        let other = text.replacing("\"serial\":1", with: "\"serial\":1,\"x-note\":{\"a\":[1,null]}")
        #expect(try FreshStatement(json: Array(other.utf8)) == signer.fresh())
    }

    @Test(
        "A root that nobody could sign for, or that counts a key twice, is none",
        arguments: [
            ("\"threshold\":1", "\"threshold\":2", "nobody could sign"),
            ("\"threshold\":1", "\"threshold\":0", "counts from 1"), ("\"fresh\":{", "\"other\":{", "not known"),
        ])
    func wrongRoot(_ from: String, _ to: String, _ reason: String) throws {
        let text = String(decoding: signer.root().json, as: UTF8.self).replacing(from, with: to, maxReplacements: 1)
        let fault = #expect(throws: TrustFault.self) { try RootStatement(json: Array(text.utf8)) }
        #expect(fault?.reason.contains(reason) == true, "\(fault?.reason ?? "")")
        var double = signer
        double.releaseKeys = [Signer.key(2), Signer.key(2)]
        #expect(throws: TrustFault("a key of “release” appears twice")) { try RootStatement(json: double.root().json) }
    }

    @Test("A statement without a block, a blank line or an end is none")
    func wrongShape() throws {
        let whole = try signer.signedRelease().bytes
        let text = String(decoding: whole, as: UTF8.self)
        let wrong = [
            "", "\n", "\n{}", "{}\n", text.replacing("-----\n\n{", with: "-----\n{"),
            text.replacing("BEGIN SSH SIGNATURE", with: "BEGIN SSH SIGNATURES"),
            text.replacing("-----END SSH SIGNATURE-----\n", with: ""), String(text.prefix(100)),
            text.replacing("U1NIU0lH", with: "U1NIU0lI"), " " + text, text.replacing("\n", with: "\r\n"),
        ]
        for text in wrong {
            #expect(throws: TrustFault.self) { try SignedStatement(Array(text.utf8), limit: 16 << 10) }
        }
        #expect(throws: TrustFault.self) { try SignedStatement(whole, limit: whole.count - 1) }
        #expect(try SignedStatement(whole, limit: whole.count).json == signer.release().json)
        let many = try SignedStatement(
            Array(repeating: SSHSignature(of: [], namespace: "n", by: Signer.key(1)), count: 33), json: [])
        #expect(throws: TrustFault("it has more than 32 signatures")) {
            try SignedStatement(many.bytes, limit: 64 << 10)
        }
    }

    @Test("No byte of a signed statement can be changed: it is refused, or nobody has signed it")
    func mutations() throws {
        let bytes = try signer.signedRelease(7).bytes
        let keys = signer.root().release
        for place in bytes.indices {
            for bit in [0, 3, 6] as [UInt8] {
                var other = bytes
                other[place] ^= 1 << bit
                let read = try? SignedStatement(other, limit: Role.release.limit)
                #expect(read?.isSigned(.release, by: keys) != true, "byte \(place), bit \(bit)")
            }
        }
    }

    @Test("One key counts once, however often it has signed")
    func thresholds() throws {
        var signer = signer
        signer.releaseKeys = [Signer.key(2), Signer.key(4), Signer.key(5)]
        signer.thresholds[.release] = 2
        let keys = signer.root().release
        func isSigned(_ numbers: [UInt8], role: Role = .release) throws -> Bool {
            try Signer.sign(signer.release().json, role, numbers.map(Signer.key)).isSigned(.release, by: keys)
        }
        #expect(try isSigned([2, 4]))
        #expect(try isSigned([5, 2, 9]))
        #expect(try !isSigned([2, 2, 2]))
        #expect(try !isSigned([2, 9]))
        #expect(try !isSigned([2, 4], role: .fresh))
    }

    @Test("A pin comes back from its file as it was")
    func pinFile() throws {
        var pin = try pinned(signer)
        pin.note(place: .zero)
        pin.graces = [.init(used: Signer.now, until: Signer.now - 5_000)]
        pin.fallen = 1_000_000
        #expect(try TrustPin(file: pin.file) == pin)
        let bare = try TrustPin(root: signer.signedRoot(), basis: .first, now: Signer.now)
        #expect(try TrustPin(file: bare.file) == bare)
    }

    @Test("A place that was refused is asked last for a day, also by a clock that was set back")
    func penalties() throws {
        var pin = try pinned(signer)
        let (one, two) = (Signer.digest(1), Signer.digest(2))
        pin.penalise(one, now: Signer.now)
        #expect(pin.isPenalised(one, now: Signer.now + 1) && !pin.isPenalised(two, now: Signer.now + 1))
        #expect(!pin.isPenalised(one, now: Signer.now + Signer.day))
        #expect(!pin.isPenalised(one, now: Signer.now - Signer.day))
        #expect(try TrustPin(file: pin.file) == pin)
        for number in 1...100 as ClosedRange<UInt64> { pin.penalise(Signer.digest(number), now: Signer.now) }
        #expect(pin.penalties.count == 64)
        pin.forgive(Signer.digest(100))
        #expect(!pin.isPenalised(Signer.digest(100), now: Signer.now))
    }
}
