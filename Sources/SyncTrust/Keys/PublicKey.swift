import SyncContent

/// An Ed25519 key as OpenSSH writes it. RFC 8709.
package struct PublicKey: Sendable, Hashable {
    /// The only kind of key that is supported.
    static let kind = "ssh-ed25519"

    /// 32 **bytes**.
    let bytes: [UInt8]

    init?(bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        self.bytes = bytes
    }

    init(blob: [UInt8]) throws(TrustFault) {
        var reader = WireReader(blob)
        try reader.expect(Self.kind, "the kind of key")
        guard let key = PublicKey(bytes: try reader.string()), reader.isAtEnd else {
            throw TrustFault("not an Ed25519 key: it must have 32 bytes")
        }
        self = key
    }

    /// Reads `ssh-ed25519 AAAA…`, as in a `.pub` file; a comment may follow.
    package init(text: String) throws(TrustFault) {
        let words = text.split(whereSeparator: { $0 == " " || $0 == "\n" })
        guard words.count >= 2, words[0] == Self.kind else {
            throw TrustFault("not a public key of the form \(Self.kind) AAAA…")
        }
        guard let blob = bytesOfBase64(words[1].utf8) else { throw TrustFault("the public key is not Base64") }
        try self.init(blob: blob)
    }

    var blob: [UInt8] { wireString(Self.kind.utf8) + wireString(bytes) }

    /// `ssh-ed25519 AAAA…`, as in a `.pub` file, without a comment.
    package var text: String { "\(Self.kind) \(base64(blob))" }

    /// `SHA256:…`, as `ssh-keygen -l` shows it.
    package var fingerprint: String {
        // Without SHA-256 nothing here works; then the key itself names it.
        guard let digest = try? messageDigest("SHA256", blob) else { return text }
        return "SHA256:" + base64(digest).prefix { $0 != "=" }
    }
}
