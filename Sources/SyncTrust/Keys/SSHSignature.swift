import SyncContent

/// A detached signature in the form that `ssh-keygen -Y sign` makes. PROTOCOL.sshsig of OpenSSH.
package struct SSHSignature: Sendable, Hashable {
    /// The signer's key, as the signature claims.
    package let key: PublicKey
    /// The purpose of the signature: for another purpose it does not count.
    package let namespace: String
    private let reserved: [UInt8]
    /// `SHA256` or `SHA512`: the signed bytes have this digest of the message.
    private let hash: String
    private let signature: [UInt8]

    static let begin = "-----BEGIN SSH SIGNATURE-----"
    static let end = "-----END SSH SIGNATURE-----"
    private static let magic = Array("SSHSIG".utf8)

    /// Signs a message.
    ///
    /// - Parameters:
    ///   - message: Its exact bytes.
    ///   - namespace: Such as `syncagent-release`.
    package init(of message: [UInt8], namespace: String, by key: PrivateKey) throws(TrustFault) {
        self.key = key.publicKey
        self.namespace = namespace
        reserved = []
        hash = "SHA512"
        let signed = try Self.signed(message, namespace: namespace, reserved: [], hash: hash)
        signature = try key.sign(signed)
    }

    init(blob: [UInt8]) throws(TrustFault) {
        var reader = WireReader(blob)
        guard try reader.bytes(6) == Self.magic else { throw TrustFault("not a signature of ssh-keygen") }
        let version = try reader.uint32()
        guard version == 1 else { throw TrustFault("a signature of version \(version); this program knows 1") }
        key = try PublicKey(blob: try reader.string())
        guard let namespace = String(validating: try reader.string(), as: UTF8.self), !namespace.isEmpty else {
            throw TrustFault("the namespace is not text")
        }
        self.namespace = namespace
        reserved = try reader.string()
        let name = try reader.string()
        switch String(decoding: name, as: UTF8.self) {
        case "sha256": hash = "SHA256"
        case "sha512": hash = "SHA512"
        default: throw TrustFault("the digest is neither sha256 nor sha512")
        }
        var inner = WireReader(try reader.string())
        try inner.expect(PublicKey.kind, "the kind of signature")
        signature = try inner.string()
        guard signature.count == 64, inner.isAtEnd, reader.isAtEnd else {
            throw TrustFault("not an Ed25519 signature: it must have 64 bytes")
        }
    }

    /// Reads the lines of Base64 between the first and the last line of a block.
    init(lines: some Sequence<UInt8>) throws(TrustFault) {
        guard let blob = bytesOfBase64(lines.filter { $0 != 0x0A }) else {
            throw TrustFault("the signature is not Base64")
        }
        try self.init(blob: blob)
    }

    /// Whether ``key`` has signed a message in ``namespace``.
    package func isOf(_ message: [UInt8]) -> Bool {
        // If the digest cannot be made, it has not.
        guard let signed = try? Self.signed(message, namespace: namespace, reserved: reserved, hash: hash) else {
            return false
        }
        return key.hasSigned(signed, signature)
    }

    /// The block, its lines and a newline at its end.
    package var armoured: String {
        let texts = [key.blob, Array(namespace.utf8), reserved, Array(hash.lowercased().utf8)]
        let inner = wireString(PublicKey.kind.utf8) + wireString(signature)
        let blob = Self.magic + wireNumber(1) + texts.flatMap(wireString) + wireString(inner)
        return armour(blob, from: Self.begin, to: Self.end)
    }

    /// The bytes that are really signed: the message's digest, with its purpose.
    private static func signed(_ message: [UInt8], namespace: String, reserved: [UInt8], hash: String)
        throws(TrustFault) -> [UInt8]
    {
        let texts = [Array(namespace.utf8), reserved, Array(hash.lowercased().utf8), try messageDigest(hash, message)]
        return magic + texts.flatMap(wireString)
    }
}
