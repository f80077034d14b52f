import Foundation
import SyncModel
import Testing

@testable import SyncTrust

/// Repositories that python-tuf has made, and what its own client made of them: the machine comes to the same. `tuf/cases.py`
/// writes them; `Tests/tuf.sh` makes new ones.
@Suite("Repositories of The Update Framework", .timeLimit(.minutes(10)))
struct TUFTests {
    struct Cases: Decodable {
        /// **Milliseconds** since 1970.
        let now: Int64
        let cases: [Case]
    }

    struct Case: Decodable {
        let faults: [String]
        let first: String
        /// What was served at first, and then.
        let good: [String: String]
        let files: [String: String]
        /// What the client of python-tuf came to.
        let believed: Bool
        let root: UInt64
    }

    private static var file: URL {
        if let path = ProcessInfo.processInfo.environment["SYNCAGENT_TUF_CASES"] { return URL(fileURLWithPath: path) }
        return URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("tuf/cases.json")
    }

    @Test("What python-tuf's client believes of a repository the machine believes, and of no other")
    func sameVerdicts() throws {
        let all = try JSONDecoder().decode(Cases.self, from: Data(contentsOf: Self.file))
        #expect(all.cases.contains { $0.believed } && all.cases.contains { !$0.believed })
        for (number, one) in all.cases.enumerated() {
            let first = try Metadata(one.first).root()
            var pin = try TrustPin(root: first, basis: .file, now: all.now)
            var site = try Metadata.site(one.good)
            try site.check(&pin, now: all.now)
            // This client looks for a root every time.
            pin.looked = 0
            site = try Metadata.site(one.files)
            let refusal = site.refusal(&pin, now: all.now)
            #expect(
                (refusal == nil) == one.believed,
                "case \(number), \(one.faults): \(refusal?.message ?? "it was believed")")
            #expect(pin.root.content.number == one.root, "case \(number), \(one.faults)")
        }
    }
}

/// A piece of TUF's metadata, read as the statement that stands for it: `root` for root, `release` for targets, `fresh` for
/// timestamp. Whose signature was right there, over its canonical JSON, signs here; whose was false, falsely.
private struct Metadata {
    private let signed: [String: Any]
    private let signatures: [(key: PrivateKey, isRight: Bool)]

    init(_ text: String) throws {
        let whole = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        signed = try #require(whole["signed"] as? [String: Any])
        // Foundation sorts keys by the numbers in them; those of keys are written so that it makes no difference.
        let canonical = try JSONSerialization.data(
            withJSONObject: signed, options: [.sortedKeys, .withoutEscapingSlashes])
        signatures = try #require(whole["signatures"] as? [[String: String]]).map { one in
            let (id, text) = (try #require(one["keyid"]), try #require(one["sig"]))
            let (key, signature) = (try Self.key(id), try Self.bytes(text))
            return (key, key.publicKey.hasSigned(Array(canonical), signature))
        }
    }

    /// The files of a repository by the names that they have here.
    static func site(_ files: [String: String]) throws -> Site {
        var site = Site()
        for (name, text) in files {
            let parts = name.split(separator: ".")
            switch parts[parts.count - 2] {
            case "root": site.files["\(parts[0]).root"] = try Metadata(text).root()
            case "targets": site.files["\(parts[0]).release"] = try Metadata(text).release()
            case "timestamp": site.files["fresh"] = try Metadata(text).fresh()
            default: break
            }
        }
        return site
    }

    func root() throws -> [UInt8] {
        let roles = try #require(signed["roles"] as? [String: [String: Any]])
        let known = try #require(signed["keys"] as? [String: [String: Any]])
        func keys(_ role: String) throws -> RoleKeys {
            let role = try #require(roles[role])
            let keys = try #require(role["keyids"] as? [String]).map { id in
                let key = try Self.key(id).publicKey
                let value = known[id]?["keyval"] as? [String: String]
                #expect(try Self.bytes(value?["public"] ?? "") == key.bytes)
                return key
            }
            return RoleKeys(keys: keys, threshold: try #require(role["threshold"] as? Int))
        }
        let statement = RootStatement(
            project: Signer().project, number: try version(signed), signed: Signer.now, until: try until(),
            root: try keys("root"), release: try keys("targets"), fresh: try keys("timestamp"))
        return try sign(statement.json, .root)
    }

    func release() throws -> [UInt8] { try sign(Signer().release(version(signed)).json, .release) }

    func fresh() throws -> [UInt8] {
        let meta = try #require(signed["meta"] as? [String: [String: Any]])
        let snapshot = try #require(meta["snapshot.json"])
        let revision = try version(snapshot)
        let statement = try Signer().fresh(serial: version(signed), revision: revision, until: until())
        return try sign(statement.json, .fresh)
    }

    private func sign(_ json: [UInt8], _ role: Role) throws -> [UInt8] {
        let head = try signatures.map {
            try SSHSignature(of: $0.isRight ? json : [0], namespace: role.namespace, by: $0.key).armoured
        }.joined()
        return Array((head + "\n").utf8) + json
    }

    private func version(_ object: [String: Any]) throws -> UInt64 {
        let version = try #require(object["version"] as? Int)
        return try #require(UInt64(exactly: version))
    }

    private func until() throws -> Int64 {
        let text = try #require(signed["expires"] as? String)
        return try #require(parseTimestamp(utc: text))
    }

    private static func key(_ id: String) throws -> PrivateKey {
        let number = try #require(UInt8(id.suffix(2)))
        return Signer.key(number)
    }

    private static func bytes(_ hex: String) throws -> [UInt8] {
        let digits = Array(hex)
        return try stride(from: 0, to: digits.count - 1, by: 2).map { at in
            let byte = UInt8(String(digits[at...(at + 1)]), radix: 16)
            return try #require(byte)
        }
    }
}
