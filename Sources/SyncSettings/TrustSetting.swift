import SyncModel

/// Whom this machine believes, whoever pulls: pins for fleets.
package struct TrustSetting: Sendable, Equatable, Codable {
    /// What is done about a manifest that nobody who is pinned has signed.
    package enum Unsigned: String, Sendable, CaseIterable, Codable { case accept, refuse }

    /// By project: the absolute path of a root's file, or `SHA256:` and the digest of one.
    package var pins: [String: String] = [:]
    package var unsigned = Unsigned.accept

    static let keys = ["pins", "unsigned"]

    static func read(_ object: StrictObject, _ base: PathBase) throws(SettingsError) -> TrustSetting {
        var setting = TrustSetting()
        setting.unsigned = try object.word("unsigned") ?? .accept
        for (project, _, node) in try object.named("pins") {
            let key = "pins.\(escaped(project))"
            guard case .text(let text) = node.value, !text.isEmpty else {
                throw object.fault(node, key, "\(node.kind) was found; the path of a root, or SHA256:HEX, is expected")
            }
            if text.hasPrefix("SHA256:") {
                guard SHA256Digest(hex: String(text.dropFirst(7))) != nil else {
                    throw object.fault(node, key, "SHA256: needs 64 hexadecimal digits")
                }
                setting.pins[project] = text
                continue
            }
            setting.pins[project] = try object.reading(node, key, base.absolute(text))
        }
        return setting
    }
}
