/// An Ed25519 key that can sign, and its file: `openssh-key-v1`, with or without a passphrase. PROTOCOL.key of OpenSSH.
package struct PrivateKey: Sendable {
    package let publicKey: PublicKey
    /// What it is for, in people's words.
    package let comment: String
    /// 32 **bytes**.
    let seed: [UInt8]

    private static let begin = "-----BEGIN OPENSSH PRIVATE KEY-----"
    private static let end = "-----END OPENSSH PRIVATE KEY-----"
    private static let magic = Array("openssh-key-v1\0".utf8)
    /// As ssh-keygen(1) has it since OpenSSH 9.4.
    package static let usualRounds: UInt32 = 24
    /// A file that asks for more is a trap: each round takes about **10 ms**.
    private static let mostRounds: UInt32 = 1000
    /// A key file has about 500 **bytes**.
    package static let fileLimit = 16 << 10

    package init(comment: String) throws(TrustFault) {
        try self.init(seed: Crypto.random(32), comment: comment)
    }

    /// - Parameter seed: 32 **bytes**.
    package init(seed: [UInt8], comment: String) throws(TrustFault) {
        guard let key = PublicKey(bytes: try Crypto.publicKey(seed: seed)) else {
            throw Crypto.refused("EVP_PKEY_get_raw_public_key")
        }
        (publicKey, self.seed, self.comment) = (key, seed, comment)
    }

    /// Reads a key file.
    ///
    /// - Parameter passphrase: For a file that has one; `nil` when nobody knows it.
    package init(file text: String, passphrase: [UInt8]?) throws(TrustFault) {
        let lines = text.split(separator: "\n").map { $0.hasSuffix("\r") ? $0.dropLast() : $0 }
        guard lines.count >= 3, lines.first == Self.begin[...], lines.last == Self.end[...],
            let blob = Base64.bytes(lines.dropFirst().dropLast().joined().utf8)
        else {
            throw TrustFault("not a private key in OpenSSH's format; make one with ssh-keygen -t ed25519")
        }
        var reader = WireReader(blob)
        guard try reader.bytes(Self.magic.count) == Self.magic else {
            throw TrustFault("not a private key in OpenSSH's format")
        }
        let cipher = String(decoding: try reader.string(), as: UTF8.self)
        let derivation = String(decoding: try reader.string(), as: UTF8.self)
        let options = try reader.string()
        guard try reader.uint32() == 1 else { throw TrustFault("it has more than one key") }
        let publicKey = try PublicKey(blob: try reader.string())
        var secret = try reader.string()
        switch (cipher, derivation) {
        case ("none", "none"): break
        case ("aes256-ctr", "bcrypt"):
            guard let passphrase else {
                throw TrustFault("it has a passphrase; give it with --passphrase-file")
            }
            var options = WireReader(options)
            let salt = try options.string()
            let rounds = try options.uint32()
            guard (1...Self.mostRounds).contains(rounds), (1...1024).contains(salt.count) else {
                throw TrustFault(
                    "its key derivation uses \(rounds) rounds; 1 to \(Self.mostRounds) are accepted"
                )
            }
            secret = try Self.encrypted(secret, passphrase, salt: salt, rounds: rounds)
        default:
            throw TrustFault(
                "it is encrypted in an unsupported way; convert it: ssh-keygen -p -Z aes256-ctr -f FILE"
            )
        }
        try self.init(secret: secret, of: publicKey, hasPassphrase: cipher != "none")
    }

    private init(secret: [UInt8], of publicKey: PublicKey, hasPassphrase: Bool) throws(TrustFault) {
        var reader = WireReader(secret)
        let check = try reader.uint32()
        guard try reader.uint32() == check else {
            throw TrustFault(hasPassphrase ? "the passphrase is wrong" : "it is damaged")
        }
        try reader.expect(PublicKey.kind, "the kind of key")
        let publicBytes = try reader.string()
        let pair = try reader.string()
        let comment = String(decoding: try reader.string(), as: UTF8.self)
        guard pair.count == 64 else {
            throw TrustFault("it is damaged: the key has \(pair.count) bytes, not 64")
        }
        try self.init(seed: Array(pair.prefix(32)), comment: comment)
        guard self.publicKey == publicKey, publicBytes == publicKey.bytes,
            pair.suffix(32) == publicKey.bytes[...]
        else { throw TrustFault("it is damaged: the public key in it does not match") }
        var padding: UInt8 = 1
        while !reader.isAtEnd {
            guard try reader.bytes(1) == [padding], padding < 16 else { throw TrustFault("it is damaged") }
            padding += 1
        }
    }

    /// The text of a key file.
    ///
    /// - Parameter passphrase: `nil` for a file that has none.
    package func file(passphrase: [UInt8]?, rounds: UInt32 = usualRounds) throws(TrustFault) -> String {
        var secret = WireWriter()
        let check = try Crypto.random(4)
        secret.raw(check)
        secret.raw(check)
        secret.string(PublicKey.kind)
        secret.string(publicKey.bytes)
        secret.string(seed + publicKey.bytes)
        secret.string(comment)
        let block = passphrase == nil ? 8 : 16
        var padding: UInt8 = 1
        while secret.bytes.count % block != 0 {
            secret.raw([padding])
            padding += 1
        }
        var options = WireWriter()
        var stored = secret.bytes
        if let passphrase {
            let salt = try Crypto.random(16)
            options.string(salt)
            options.uint32(rounds)
            stored = try Self.encrypted(stored, passphrase, salt: salt, rounds: rounds)
        }
        var writer = WireWriter()
        writer.raw(Self.magic)
        writer.string(passphrase == nil ? "none" : "aes256-ctr")
        writer.string(passphrase == nil ? "none" : "bcrypt")
        writer.string(options.bytes)
        writer.uint32(1)
        writer.string(publicKey.blob)
        writer.string(stored)
        return Base64.block(writer.bytes, from: Self.begin, to: Self.end)
    }

    private static func encrypted(
        _ bytes: [UInt8],
        _ passphrase: [UInt8],
        salt: [UInt8],
        rounds: UInt32
    ) throws(TrustFault) -> [UInt8] {
        let derived = try bcryptKey(passphrase, salt: salt, rounds: rounds, count: 48)
        return try Crypto.aes256Counter(bytes, key: Array(derived[..<32]), counter: Array(derived[32...]))
    }
}
