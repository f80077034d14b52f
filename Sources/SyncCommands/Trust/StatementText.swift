import SyncModel
import SyncPublisher
import SyncSystem
import SyncTrust

/// A statement as text and as JSON.
struct StatementText {
    let lines: [String]
    let json: JSONLine

    init(root: TrustPin.Root) { self.init(root.content, root.statement) }

    init(pending: PendingRoot) { self.init(pending.content, pending.statement) }

    /// Reads a statement of any kind.
    init(file path: String) throws {
        let bytes = try inputFile(path, limit: Role.root.limit)
        do throws(TrustFault) {
            try self.init(SignedStatement(bytes, limit: Role.root.limit, mayBeUnsigned: true))
        } catch { throw CommandFailure(.dataInvalid, "\(escaped(path)): \(error.reason)") }
    }

    init(_ statement: SignedStatement) throws(TrustFault) {
        if let root = try? RootStatement(json: statement.json) {
            self.init(root, statement)
        } else if let release = try? ReleaseStatement(json: statement.json) {
            self.init(release, statement)
        } else {
            // The fault of this kind is reported, since it is the one most often examined.
            self.init(try FreshStatement(json: statement.json), statement)
        }
    }

    private init(_ root: RootStatement, _ statement: SignedStatement) {
        var lines = [
            "project    \(root.project)", "root       \(root.number)", "digest     SHA256:\(statement.digest)",
            "signed     \(timestamp(milliseconds: root.signed))", "until      \(timestamp(milliseconds: root.until))",
        ]
        for role in Role.allCases {
            let keys = root[role]
            for (index, key) in keys.keys.enumerated() {
                let name = (index == 0 ? role.rawValue : "").padded(to: 11)
                let count = index == 0 ? "  \(keys.threshold) of \(keys.keys.count)" : ""
                lines.append(name + key.fingerprint + count)
            }
        }
        lines += root.mirrors.map { "mirror     \(redacted(url: $0))" }
        self.lines = lines
        json = JSONLine.object { line in
            line.field("project", root.project)
            line.field("number", root.number)
            line.field("sha256", statement.digest.hex)
            line.time("signed", root.signed)
            line.time("until", root.until)
            for role in Role.allCases {
                line.object(role.rawValue) { line in
                    line.field("threshold", root[role].threshold)
                    line.field("keys", root[role].keys.map(\.text))
                }
            }
            line.field("mirrors", root.mirrors)
        }
    }

    private init(_ release: ReleaseStatement, _ statement: SignedStatement) {
        lines =
            [
                "project    \(release.project)", "revision   \(release.revision)",
                "digest     SHA256:\(statement.digest)", "manifest   \(release.manifest)",
                "signed     \(timestamp(milliseconds: release.signed))",
            ] + Self.signers(statement)
        json = JSONLine.object { line in
            line.field("project", release.project)
            line.field("revision", release.revision)
            line.field("sha256", statement.digest.hex)
            line.field("manifest", release.manifest.hex)
            line.field("size", release.size)
            line.time("signed", release.signed)
        }
    }

    private init(_ fresh: FreshStatement, _ statement: SignedStatement) {
        lines =
            ["project    \(fresh.project)"]
            + (fresh.channel.map { ["channel    \($0)\(fresh.isRemoved ? ", removed" : "")"] } ?? []) + [
                "revision   \(fresh.revision)", "serial     \(fresh.serial)", "root       \(fresh.root)",
                "signed     \(timestamp(milliseconds: fresh.signed))",
                "until      \(timestamp(milliseconds: fresh.until))",
            ] + Self.signers(statement)
        json = JSONLine.object { line in
            line.field("project", fresh.project)
            line.field("channel", optional: fresh.channel)
            if fresh.isRemoved { line.field("removed", true) }
            line.field("revision", fresh.revision)
            line.field("serial", fresh.serial)
            line.field("root", fresh.root)
            line.field("sha256", statement.digest.hex)
            line.time("signed", fresh.signed)
            line.time("until", fresh.until)
        }
    }

    /// The keys that have signed it. Whether the signatures count depends on the root.
    private static func signers(_ statement: SignedStatement) -> [String] {
        statement.signatures.map {
            "by         \($0.key.fingerprint)" + ($0.isOf(statement.json) ? "" : "  WRONG SIGNATURE")
        }
    }
}
