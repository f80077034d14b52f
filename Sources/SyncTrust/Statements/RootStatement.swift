import SyncManifest
import SyncModel

/// States whose signatures are valid for a project. The next root is signed by the keys of this one and by its own.
package struct RootStatement: Sendable, Equatable {
    package var project = ""
    /// Counts from 1 without a gap.
    package var number: UInt64 = 0
    /// When it was signed, and until when it is valid; **milliseconds** since 1970.
    package var signed: Int64 = 0
    package var until: Int64 = 0
    package var root = RoleKeys()
    package var release = RoleKeys()
    package var fresh = RoleKeys()
    /// Other places with the same files: URLs that end with `/`, asked in this order after the one that was named.
    package var mirrors: [String] = []

    static let format = "syncagent-root/1"
    package static let mostMirrors = 16

    package init(
        project: String, number: UInt64, signed: Int64, until: Int64, root: RoleKeys, release: RoleKeys,
        fresh: RoleKeys, mirrors: [String] = []
    ) {
        (self.project, self.number, self.signed, self.until) = (project, number, signed, until)
        (self.root, self.release, self.fresh, self.mirrors) = (root, release, fresh, mirrors)
    }

    package init(json: [UInt8]) throws(TrustFault) {
        try StatementReader.read(
            json, format: Self.format, required: ["project", "number", "signed", "until", "roles"]
        ) {
            key, reader throws(TrustFault) in
            switch key {
            case "project": project = try reader.project()
            case "number": number = try reader.number(key)
            case "signed": signed = try reader.time()
            case "until": until = try reader.time()
            case "mirrors":
                mirrors = try reader.array(most: Self.mostMirrors) { reader throws(TrustFault) in
                    try Self.mirror(reader.string())
                }
            case "roles":
                try reader.object(required: Role.allCases.map(\.rawValue)) { name, reader throws(TrustFault) in
                    guard let role = Role(rawValue: name) else { return false }
                    self[role] = try Self.roleKeys(&reader, role)
                    return true
                }
            default: return false
            }
            return true
        }
    }

    package subscript(role: Role) -> RoleKeys {
        get {
            switch role {
            case .root: root
            case .release: release
            case .fresh: fresh
            }
        }
        set {
            switch role {
            case .root: root = newValue
            case .release: release = newValue
            case .fresh: fresh = newValue
            }
        }
    }

    private static func roleKeys(_ reader: inout StatementReader, _ role: Role) throws(TrustFault) -> RoleKeys {
        var keys = RoleKeys()
        try reader.object(required: ["threshold", "keys"]) { key, reader throws(TrustFault) in
            switch key {
            case "threshold": keys.threshold = Int(clamping: try reader.number(key))
            case "keys":
                keys.keys = try reader.array(most: RoleKeys.most) { reader throws(TrustFault) in
                    try PublicKey(text: reader.string())
                }
            default: return false
            }
            return true
        }
        guard Set(keys.keys).count == keys.keys.count else {
            throw TrustFault("a key of “\(role.rawValue)” appears twice")
        }
        guard keys.threshold <= keys.keys.count else {
            throw TrustFault(
                "“\(role.rawValue)” requires \(keys.threshold) signatures of \(keys.keys.count) keys: nobody could sign"
            )
        }
        return keys
    }

    /// Checks the URL of a place with the same files.
    package static func mirror(_ text: String) throws(TrustFault) -> String {
        let isWeb = text.hasPrefix("https://") || text.hasPrefix("http://")
        guard isWeb, text.hasSuffix("/"), ManifestRules.objection(url: text) == nil else {
            throw TrustFault("\(quoted(text)) is not a mirror: write an http(s) URL that ends with “/”")
        }
        return text
    }

    /// The JSON text, with a newline at its end.
    package var json: [UInt8] {
        statementText(Self.format, of: project) { line in
            line.field("number", number)
            line.time("signed", signed)
            line.time("until", until)
            line.object("roles") { line in
                for role in Role.allCases {
                    line.object(role.rawValue) { line in
                        line.field("threshold", self[role].threshold)
                        line.field("keys", self[role].keys.map(\.text))
                    }
                }
            }
            guard !mirrors.isEmpty else { return }
            line.field("mirrors", mirrors)
        }
    }
}
