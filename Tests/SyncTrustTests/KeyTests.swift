import SyncTrust
import Testing

@Suite("Keys and signatures are those of OpenSSH", .timeLimit(.minutes(10)))
struct KeyTests {
    /// RFC 8032, section 7.1, test 1.
    @Test("An Ed25519 key has the public key that RFC 8032 says")
    func vector() throws {
        let seed: [UInt8] = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
            0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ]
        let key = try PrivateKey(seed: seed, comment: "")
        // The blob's head, then d75a9801…
        #expect(
            key.publicKey.text == "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea")
    }

    @Test("ssh-keygen accepts a signature of ours, and only for its namespace", .enabled(if: SSHKeygen.isHere))
    func oracleVerifies() throws {
        let scratch = try Scratch()
        let key = Signer.key(7)
        let message = Array("every byte counts\n".utf8)
        let signature = try SSHSignature(of: message, namespace: "syncagent-release", by: key)
        let file = try scratch.write(Array(signature.armoured.utf8), "sig")
        let allowed = try scratch.write(Array("tower \(key.publicKey.text)\n".utf8), "allowed")
        func verify(_ namespace: String, _ message: [UInt8]) throws -> Int32 {
            try SSHKeygen.run(
                ["-Y", "verify", "-f", allowed, "-I", "tower", "-n", namespace, "-s", file], input: message
            ).status
        }
        #expect(try verify("syncagent-release", message) == 0)
        #expect(try verify("syncagent-fresh", message) != 0)
        #expect(try verify("syncagent-release", message + [0x0A]) != 0)
    }

    @Test(
        "A signature of ssh-keygen is accepted, with either digest", .enabled(if: SSHKeygen.isHere),
        arguments: ["sha256", "sha512"])
    func oracleSigns(hash: String) throws {
        let scratch = try Scratch()
        let key = Signer.key(8)
        let file = try scratch.write(Array(key.file().utf8), "key")
        let message = Array("{\"a\":1}".utf8)
        let data = try scratch.write(message, "data")
        let result = try SSHKeygen.run([
            "-Y", "sign", "-f", file, "-n", "syncagent-root", "-O", "hashalg=\(hash)", data,
        ])
        try #require(result.status == 0, "\(result.output)")
        let bytes = try scratch.read("data.sig") + [0x0A] + message
        let statement = try SignedStatement(bytes, limit: 4096)
        #expect(statement.signers(.root, of: RoleKeys(keys: [key.publicKey], threshold: 1)).count == 1)
        #expect(statement.signers(.fresh, of: RoleKeys(keys: [key.publicKey], threshold: 1)).isEmpty)
    }

    @Test("A key file comes back as it was")
    func roundTrip() throws {
        let key = Signer.key(9)
        let text = try key.file()
        let again = try PrivateKey(file: text)
        #expect(again.publicKey == key.publicKey)
        #expect(again.comment == key.comment)
        let half = try PrivateKey.halves(of: text)
        #expect(half.key == key.publicKey && !half.isEncrypted)
    }

    @Test("ssh-keygen reads our key files", .enabled(if: SSHKeygen.isHere))
    func oracleReadsKeys() throws {
        let scratch = try Scratch()
        let key = Signer.key(10)
        let file = try scratch.write(Array(key.file().utf8), "key")
        let result = try SSHKeygen.run(["-y", "-P", "", "-f", file])
        #expect(result.output.hasPrefix(key.publicKey.text), "\(result.output)")
    }

    @Test(
        "Key files of ssh-keygen are read; of those with a passphrase, the public half alone",
        .enabled(if: SSHKeygen.isHere), arguments: ["", "correct horse"])
    func readsOracleKeys(passphrase: String)
        throws
    {
        let scratch = try Scratch()
        let file = "\(scratch.path)/id"
        let made = try SSHKeygen.run(["-q", "-t", "ed25519", "-a", "2", "-N", passphrase, "-C", "hers", "-f", file])
        try #require(made.status == 0, "\(made.output)")
        let text = String(decoding: try scratch.read("id"), as: UTF8.self)
        let half = try PrivateKey.halves(of: text)
        let publicText = String(decoding: try scratch.read("id.pub"), as: UTF8.self)
        #expect(publicText == half.key.text + " hers\n")
        #expect(try PublicKey(text: publicText) == half.key)
        let shown = try SSHKeygen.run(["-l", "-f", file + ".pub"]).output
        #expect(shown.contains(half.key.fingerprint), "\(shown)")
        #expect(half.isEncrypted == !passphrase.isEmpty)
        guard half.isEncrypted else {
            #expect(try PrivateKey(file: text).publicKey == half.key)
            return
        }
        let fault = try #require(throws: TrustFault.self) { try PrivateKey(file: text) }
        for word in ["ssh-add", "--signer", "ssh-keygen -p"] { #expect(fault.reason.contains(word)) }
    }

    @Test("No byte of a key file can be changed without being noticed, or being none of the key's")
    func damage() throws {
        let key = Signer.key(11)
        let text = Array(try key.file().utf8)
        for place in text.indices {
            var other = text
            other[place] ^= 1
            // What is left to be read is this very key: the comment alone can differ.
            let read = try? PrivateKey(file: String(decoding: other, as: UTF8.self))
            #expect(read.map { $0.publicKey == key.publicKey } ?? true, "byte \(place)")
        }
    }
}
