import SyncContent
package import SyncModel

/// A statement as it is published: blocks of signatures, a blank line, JSON. The signed bytes are exactly those behind
/// the blank line; no form of JSON is more right than another.
package struct SignedStatement: Sendable, Equatable {
    package let bytes: [UInt8]
    package let signatures: [SSHSignature]
    package let json: [UInt8]
    /// SHA-256 of ``json``, which identifies this statement, whoever has signed it.
    package let digest: SHA256Digest

    /// Most blocks of a statement.
    static let mostSignatures = 32

    /// Parses a published statement; verifies nothing.
    ///
    /// - Parameters:
    ///   - limit: Most **bytes**.
    ///   - mayBeUnsigned: Whether it may begin with the blank line, as one does that waits for signatures.
    package init(_ bytes: [UInt8], limit: Int, mayBeUnsigned: Bool = false) throws(TrustFault) {
        guard bytes.count <= limit else { throw TrustFault("it has \(bytes.count) bytes, more than \(limit)") }
        var rest = bytes[...]
        var signatures: [SSHSignature] = []
        func line() throws(TrustFault) -> ArraySlice<UInt8> {
            guard let end = rest.firstIndex(of: 0x0A) else { throw TrustFault("it ends within a signature") }
            defer { rest = rest[(end + 1)...] }
            return rest[..<end]
        }
        var first = try line()
        while first.elementsEqual(SSHSignature.begin.utf8) {
            guard signatures.count < Self.mostSignatures else {
                throw TrustFault("it has more than \(Self.mostSignatures) signatures")
            }
            var base64: [UInt8] = []
            while true {
                let next = try line()
                if next.elementsEqual(SSHSignature.end.utf8) { break }
                base64 += next
            }
            signatures.append(try SSHSignature(lines: base64))
            first = try line()
        }
        guard mayBeUnsigned || !signatures.isEmpty, first.isEmpty else {
            throw TrustFault(
                signatures.isEmpty ? "it does not begin with a signature" : "no blank line follows the signatures")
        }
        try self.init(signatures, Array(rest), bytes: bytes)
    }

    package init(_ signatures: [SSHSignature], json: [UInt8]) throws(TrustFault) {
        let head = signatures.map(\.armoured).joined() + "\n"
        try self.init(signatures, json, bytes: Array(head.utf8) + json)
    }

    private init(_ signatures: [SSHSignature], _ json: [UInt8], bytes: [UInt8]) throws(TrustFault) {
        (self.signatures, self.json, self.bytes) = (signatures, json, bytes)
        do { digest = try sha256(json) } catch { throw TrustFault("\(error)") }
    }

    /// The keys of a role that have signed the statement for that role, each once.
    package func signers(_ role: Role, of keys: RoleKeys) -> Set<PublicKey> {
        var signers: Set<PublicKey> = []
        for signature in signatures
        where signature.namespace == role.namespace && keys.keys.contains(signature.key)
            && !signers.contains(signature.key) && signature.isOf(json)
        { signers.insert(signature.key) }
        return signers
    }

    package func isSigned(_ role: Role, by keys: RoleKeys) -> Bool { signers(role, of: keys).count >= keys.threshold }
}

package struct RoleKeys: Sendable, Equatable {
    package var keys: [PublicKey] = []
    package var threshold = 0

    /// Most keys of a role.
    static let most = 16

    package init(keys: [PublicKey] = [], threshold: Int = 0) { (self.keys, self.threshold) = (keys, threshold) }
}

/// What a key may sign. A signature for one role does not count for another: each has its own namespace.
package enum Role: String, Sendable, CaseIterable {
    /// Names the keys; kept offline.
    case root
    /// Names the manifests.
    case release
    /// Names the newest release; may be online, since it cannot name a release that no release key has signed.
    case fresh

    /// As `ssh-keygen -Y verify -n` takes it.
    package var namespace: String { "syncagent-\(rawValue)" }

    /// Most **bytes** of a statement of this role, signatures included.
    package var limit: Int { self == .root ? 64 << 10 : 16 << 10 }
}
