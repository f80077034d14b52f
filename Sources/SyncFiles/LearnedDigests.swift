import SyncContent
package import SyncManifest
package import SyncModel
import SyncSystem

/// The record of files whose SHA-256 was computed here: `.syncagent/learned`, one line each.
///
/// `git-sha1:HEX SHA256 SIZE .`, or another algorithm; `first:HEX`, if the listing has no digest, of the URL, the size
/// and the listing's stamp. Lines are only appended. A line without its dot is torn and ignored; lost lines are learnt
/// again.
package struct LearnedDigests: Sendable {
    private var known: [String: (digest: SHA256Digest, size: UInt64)] = [:]
    /// How long the file is, in **bytes**.
    private var length = 0

    /// The file's name in ``Destination/common``: what was learnt for one tree also holds for the others.
    static let name = "learned"
    /// The longest file that is read, in **bytes**.
    package static let limit = 64 << 20

    /// Starts with nothing.
    package init() {}

    package init(_ destination: Destination) {
        guard destination.common >= 0,
            let bytes = try? readFile(Self.name, in: destination.common, trust: .state, limit: Self.limit)
        else { return }
        length = bytes.count
        let whole = bytes.prefix((bytes.lastIndex(of: 0x0A) ?? -1) + 1)
        for line in whole.split(separator: 0x0A) {
            let words = line.split(separator: 0x20)
            guard words.count == 4, words[3] == [0x2E], let digest = SHA256Digest(hex: words[1]),
                let size = UInt64(String(decoding: words[2], as: UTF8.self))
            else { continue }
            known[String(decoding: words[0], as: UTF8.self)] = (digest, size)
        }
    }

    /// The known content of a file, according to the listing's data.
    ///
    /// - Parameter url: The file's first URL, absolute.
    package func content(_ check: ContentCheck, size: UInt64, url: String) -> (digest: SHA256Digest, size: UInt64)? {
        guard let key = Self.key(check, size: size, url: url), let found = known[key] else { return nil }
        return check.isSizeKnown && found.size != size ? nil : found
    }

    /// Whether the file has room for some lines and two more.
    package func hasRoom(after lines: String, limit: Int = LearnedDigests.limit) -> Bool {
        length + lines.utf8.count + 512 <= limit
    }

    /// The line that says what was learnt of a file.
    package static func line(
        _ digest: SHA256Digest, size: UInt64, for check: ContentCheck, listedSize: UInt64, url: String
    ) -> String? {
        key(check, size: listedSize, url: url).map { "\($0) \(digest) \(size) .\n" }
    }

    /// Appends lines that ``line(_:size:for:listedSize:url:)`` gave, of one thread at a time. What cannot be written is
    /// learnt again, and so is what was written before, where the file would become longer than is read.
    package static func append(_ lines: String, in destination: Destination, limit: Int = LearnedDigests.limit) {
        guard !lines.isEmpty, destination.common >= 0 else { return }
        guard let opened = try? openFile(name, in: destination.common, [.readWrite, .create], trust: .ownState),
            let found = status(opened.raw)
        else { return }
        // After a torn line a new one begins.
        let text = Array(("\n" + lines).utf8.prefix(limit))
        let isFull = found.size > UInt64(limit - text.count)
        if isFull, setLength(opened.raw, 0) != nil { return }
        _ = text.withUnsafeBytes { writeAll($0, to: opened.raw, at: isFull ? 0 : found.size) }
    }

    private static func key(_ check: ContentCheck, size: UInt64, url: String) -> String? {
        if let (algorithm, hex) = check.digest { return "\(algorithm.rawValue):\(hex)" }
        let text = "\(url)\n\(check.isSizeKnown ? "\(size)" : "")\n\(check.stamp ?? "")"
        return (try? sha256(text)).map { "first:\($0)" }
    }
}
