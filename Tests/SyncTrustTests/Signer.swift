import Foundation
import SyncModel
import SyncTrust

/// A project with its keys, and every statement it could publish. Times are **milliseconds** since 1970.
struct Signer {
    static let now: Int64 = 1_795_000_000_000
    static let day: Int64 = 86_400_000

    var project = "com.example.tower"
    var rootKeys = [key(1)]
    var releaseKeys = [key(2)]
    var freshKeys = [key(3)]
    var thresholds: [Role: Int] = [:]

    /// The same key for the same number.
    static func key(_ number: UInt8) -> PrivateKey {
        do { return try PrivateKey(seed: [UInt8](repeating: number, count: 32), comment: "test key \(number)") } catch {
            preconditionFailure("\(error)")
        }
    }

    func root(_ number: UInt64 = 1, until: Int64 = now + 3650 * day) -> RootStatement {
        func keys(_ role: Role, _ keys: [PrivateKey]) -> RoleKeys {
            RoleKeys(keys: keys.map(\.publicKey), threshold: thresholds[role] ?? 1)
        }
        return RootStatement(
            project: project, number: number, signed: Self.now, until: until, root: keys(.root, rootKeys),
            release: keys(.release, releaseKeys), fresh: keys(.fresh, freshKeys))
    }

    func release(_ revision: UInt64 = 1) -> ReleaseStatement {
        ReleaseStatement(
            project: project, revision: revision, signed: Self.now, manifest: Self.digest(revision),
            size: 100 + revision)
    }

    static func digest(_ number: UInt64) -> SHA256Digest {
        let digits = String(number, radix: 16)
        return SHA256Digest(hex: String(repeating: "0", count: 64 - digits.count) + digits) ?? .zero
    }

    /// Signs a text for a role.
    static func sign(_ json: [UInt8], _ role: Role, _ keys: [PrivateKey]) throws -> SignedStatement {
        try SignedStatement(try keys.map { try SSHSignature(of: json, namespace: role.namespace, by: $0) }, json: json)
    }

    func signedRoot(_ number: UInt64 = 1, by keys: [PrivateKey]? = nil, until: Int64? = nil) throws -> [UInt8] {
        let statement = until.map { root(number, until: $0) } ?? root(number)
        return try Self.sign(statement.json, .root, keys ?? rootKeys).bytes
    }

    func signedRelease(_ revision: UInt64 = 1, by keys: [PrivateKey]? = nil) throws -> SignedStatement {
        try Self.sign(release(revision).json, .release, keys ?? releaseKeys)
    }

    func fresh(
        channel: String? = nil, serial: UInt64 = 1, revision: UInt64 = 1, root: UInt64 = 1, signed: Int64 = now,
        until: Int64 = now + 30 * day, release: SHA256Digest? = nil, isRemoved: Bool = false
    ) throws -> FreshStatement {
        FreshStatement(
            project: project, channel: channel, serial: serial, signed: signed, until: until, root: root,
            revision: revision, release: try release ?? signedRelease(revision).digest, isRemoved: isRemoved)
    }

    func signed(_ fresh: FreshStatement, by keys: [PrivateKey]? = nil) throws -> [UInt8] {
        try Self.sign(fresh.json, .fresh, keys ?? freshKeys).bytes
    }
}

/// What a server has, by name; and a pull that asks it.
struct Site {
    var files: [String: [UInt8]] = [:]
    /// Everything that was asked for, in order.
    var asked: [String] = []

    init() {}

    /// A whole release.
    init(_ signer: Signer, serial: UInt64 = 1, revision: UInt64 = 1, root: UInt64 = 1) throws {
        files["fresh"] = try signer.signed(signer.fresh(serial: serial, revision: revision, root: root))
        files["\(revision).release"] = try signer.signedRelease(revision).bytes
    }

    /// Checks this place as a pull does, and keeps what a pull keeps.
    mutating func check(
        _ pin: inout TrustPin, now: Int64 = Signer.now, grace: Int64 = 0, channel: String? = nil,
        revision: UInt64? = nil, looksBack: Bool = false, project: String = "com.example.tower",
        manifestRevision: UInt64? = nil
    ) throws(TrustRefusal) {
        asked = []
        var check = TrustCheck(pin, now: now, grace: grace, channel: channel, revision: revision, looksBack: looksBack)
        while true {
            let name: String
            switch check.want {
            case .fresh: name = FreshStatement.name(channel)
            case .root(let number): name = "\(number).root"
            case .release(let revision): name = "\(revision).release"
            case .manifest(_, let size):
                if !check.isKnown { asked.append("manifest") }
                try check.accept(project: project, revision: manifestRevision ?? size - 100)
                pin = check.pin
                return
            }
            asked.append(name)
            defer { pin = check.pin }
            try check.take(files[name])
        }
    }

    /// Why this place is refused; `nil` when it is believed.
    mutating func refusal(
        _ pin: inout TrustPin, now: Int64 = Signer.now, grace: Int64 = 0, channel: String? = nil,
        revision: UInt64? = nil, looksBack: Bool = false, project: String = "com.example.tower",
        manifestRevision: UInt64? = nil
    ) -> TrustRefusal? {
        do throws(TrustRefusal) {
            try check(
                &pin, now: now, grace: grace, channel: channel, revision: revision, looksBack: looksBack,
                project: project, manifestRevision: manifestRevision)
            return nil
        } catch { return error }
    }
}

/// A pin on a signer's first root that has pulled its first release.
func pinned(_ signer: Signer) throws -> TrustPin {
    var pin = try TrustPin(root: signer.signedRoot(), basis: .file, now: Signer.now)
    var site = try Site(signer)
    try site.check(&pin)
    return pin
}
