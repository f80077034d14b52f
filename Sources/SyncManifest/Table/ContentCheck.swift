package import SyncModel

/// The facts that a listing states about a file's content, if it does not state both size and SHA-256. The file is
/// fetched once and compared with them, and its SHA-256 counts from then on.
package struct ContentCheck: Sendable, Hashable {
    /// Digests that listings have, by their names in a manifest; the strongest first.
    package enum Algorithm: String, Sendable, CaseIterable {
        case sha256, sha512, sha384
        /// Of `blob SIZE`, a zero byte and the content, as git names it.
        case gitSHA1 = "git-sha1"
        case sha1, md5

        /// **Bytes** of a digest.
        package var byteCount: Int {
            switch self {
            case .sha256: 32
            case .sha384: 48
            case .sha512: 64
            case .gitSHA1, .sha1: 20
            case .md5: 16
            }
        }
    }

    /// The digest that the listing gives; `nil` where it gives none.
    package var digest: (algorithm: Algorithm, hex: String)? {
        get { algorithm.map { ($0, hex) } }
        set { (algorithm, hex) = (newValue?.algorithm, newValue?.hex ?? "") }
    }
    private var algorithm: Algorithm?
    private var hex = ""
    /// A value that changes whenever the content does, where no digest does: a time, an ETag.
    package var stamp: String?
    /// Whether the size is known; if not, it is learnt with the bytes.
    package var isSizeKnown: Bool

    package init(_ digest: (algorithm: Algorithm, hex: String)?, stamp: String? = nil, isSizeKnown: Bool) {
        (algorithm, hex) = (digest?.algorithm, digest?.hex ?? "")
        (self.stamp, self.isSizeKnown) = (stamp, isSizeKnown)
    }

    /// Reads a digest in hexadecimal of either case; `nil` where it is not one of that algorithm.
    package static func digest(_ algorithm: Algorithm, _ hex: some Sequence<UInt8>) -> (Algorithm, String)? {
        let digits = Array(hex)
        guard digits.count == algorithm.byteCount * 2, digits.allSatisfy({ hexadecimalValue($0) != nil }) else {
            return nil
        }
        return (algorithm, String(decoding: digits, as: UTF8.self).lowercased())
    }

    /// A stand-in for the SHA-256 as long as it is unknown: no content has it, and files that the listing calls the
    /// same have the same. If the SHA-256 is known, that is returned.
    package func standIn(size: UInt64, url: some Sequence<UInt8>) -> SHA256Digest {
        if let digest, digest.algorithm == .sha256, let known = SHA256Digest(hex: digest.hex) { return known }
        var hash: [UInt64] = [0xCBF2_9CE4_8422_2325, 0x6C62_272E_07BB_0142, size]
        func take(_ bytes: some Sequence<UInt8>) {
            for byte in bytes {
                hash[0] = (hash[0] ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
                hash[1] = (hash[1] &+ UInt64(byte)) &* 0x9E37_79B9_7F4A_7C15 ^ hash[1] >> 29
            }
            hash[0] = hash[0] &* 0x0000_0100_0000_01B3
        }
        if let digest {
            take(digest.algorithm.rawValue.utf8)
            take(digest.hex.utf8)
        } else {
            take(url)
            take((stamp ?? "").utf8)
        }
        // Eight bytes that mark a stand-in.
        var bytes = Array("unknown:".utf8)
        for word in hash {
            for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(word >> shift & 255)) }
        }
        return bytes.withUnsafeBytes { SHA256Digest(bytes: $0) } ?? .zero
    }
}

extension ManifestAssembly {
    static let learnKey = Array("x-learn".utf8)

    /// `{"git-sha1": "…", "stamp": "…"}`: of several algorithms, the first in ``ContentCheck/Algorithm`` counts.
    mutating func readCheck() throws(ManifestError) -> ContentCheck {
        var check = ContentCheck(nil, isSizeKnown: true)
        var seen: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            let name = String(decoding: key, as: UTF8.self)
            try reader.insert(key, into: &seen)
            if name == "stamp" {
                let text = try reader.string()
                guard text.count <= 1_024 else { throw ManifestError("a stamp of \(text.count) bytes", "shorten it") }
                check.stamp = String(decoding: text, as: UTF8.self)
            } else if let algorithm = ContentCheck.Algorithm(rawValue: name) {
                let text = try reader.string()
                guard let digest = ContentCheck.digest(algorithm, text) else {
                    throw ManifestError(
                        "“\(name)” is not \(algorithm.byteCount * 2) hexadecimal digits", "write the digest, or nothing"
                    )
                }
                let order = ContentCheck.Algorithm.allCases
                if let known = check.digest, let old = order.firstIndex(of: known.algorithm),
                    let new = order.firstIndex(of: algorithm), old < new
                {
                    continue
                }
                check.digest = digest
            } else {
                throw ManifestError(
                    "unknown digest “\(escaped(String(name.prefix(60))))”",
                    "use \(ContentCheck.Algorithm.allCases.map(\.rawValue).joined(separator: ", ")), or stamp")
            }
        }
        return check
    }
}
