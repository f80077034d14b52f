import SyncContent

/// An Ed25519 key that can sign, and its file: `openssh-key-v1` of OpenSSH's PROTOCOL.key. A key with a passphrase is
/// not opened here: that is left to ssh-keygen(1) and ssh-agent(1), which ask for the passphrase and keep it.
package struct PrivateKey: Sendable {
    package let publicKey: PublicKey
    /// What the key is for, in people's words.
    package let comment: String
    /// 32 **bytes**.
    let seed: [UInt8]

    private static let begin = "-----BEGIN OPENSSH PRIVATE KEY-----"
    private static let end = "-----END OPENSSH PRIVATE KEY-----"
    private static let magic = Array("openssh-key-v1\0".utf8)
    /// A key file has about 500 **bytes**.
    package static let fileLimit = 16 << 10

    package init(comment: String) throws(TrustFault) { try self.init(seed: randomBytes(32), comment: comment) }

    /// - Parameter seed: 32 **bytes**.
    package init(seed: [UInt8], comment: String) throws(TrustFault) {
        (publicKey, self.seed, self.comment) = (try PublicKey(ofSeed: seed), seed, comment)
    }

    /// The public half of a key file, whether the private half has a passphrase, and the private half as it is in the
    /// file.
    package static func halves(of text: String) throws(TrustFault) -> (
        key: PublicKey, isEncrypted: Bool, secret: [UInt8]
    ) {
        let lines = text.split(separator: "\n").map { $0.hasSuffix("\r") ? $0.dropLast() : $0 }
        guard lines.count >= 3, lines.first == begin[...], lines.last == end[...],
            let blob = bytesOfBase64(lines.dropFirst().dropLast().joined().utf8)
        else { throw TrustFault("not a private key in OpenSSH's format; make one with ssh-keygen -t ed25519") }
        var reader = WireReader(blob)
        guard try reader.bytes(magic.count) == magic else { throw TrustFault("not a private key in OpenSSH's format") }
        let cipher = try reader.string()
        _ = try reader.string()  // The name of the key derivation,
        _ = try reader.string()  // and its options, such as the salt.
        guard try reader.uint32() == 1 else { throw TrustFault("it has more than one key") }
        let key = try PublicKey(blob: try reader.string())
        return (key, !cipher.elementsEqual("none".utf8), try reader.string())
    }

    /// Reads a key file without a passphrase.
    package init(file text: String) throws(TrustFault) {
        let (key, isEncrypted, secret) = try Self.halves(of: text)
        guard !isEncrypted else {
            throw TrustFault(
                "it has a passphrase; give it to ssh-agent with ssh-add, and sign with --signer, or take the passphrase "
                    + "away with ssh-keygen -p")
        }
        try self.init(secret: secret, of: key)
    }

    private init(secret: [UInt8], of publicKey: PublicKey) throws(TrustFault) {
        var reader = WireReader(secret)
        let check = try reader.uint32()
        guard try reader.uint32() == check else { throw TrustFault("it is damaged") }
        try reader.expect(PublicKey.kind, "the kind of key")
        let publicBytes = try reader.string()
        let pair = try reader.string()
        let comment = String(decoding: try reader.string(), as: UTF8.self)
        guard pair.count == 64 else { throw TrustFault("it is damaged: the key has \(pair.count) bytes, not 64") }
        try self.init(seed: Array(pair.prefix(32)), comment: comment)
        guard self.publicKey == publicKey, publicBytes == publicKey.bytes, pair.suffix(32) == publicKey.bytes[...]
        else { throw TrustFault("it is damaged: the public key in it does not match") }
        var padding: UInt8 = 1
        while !reader.isAtEnd {
            guard try reader.bytes(1) == [padding], padding < 16 else { throw TrustFault("it is damaged") }
            padding += 1
        }
    }

    /// The text of a key file, without a passphrase.
    package func file() throws(TrustFault) -> String {
        let check = try randomBytes(4)
        var secret = check + check
        for text in [Array(PublicKey.kind.utf8), publicKey.bytes, seed + publicKey.bytes, Array(comment.utf8)] {
            secret += wireString(text)
        }
        // Padded to a multiple of 8 bytes, with 1, 2, 3 …
        secret += (1...8).prefix((8 - secret.count % 8) % 8)
        let none = wireString("none".utf8)
        let head = Self.magic + none + none + wireString([]) + wireNumber(1)
        return armour(head + wireString(publicKey.blob) + wireString(secret), from: Self.begin, to: Self.end)
    }
}
