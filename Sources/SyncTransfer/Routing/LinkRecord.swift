package import SyncSystem

/// A remembered redirect, for the next process.
package struct LinkRecord: Equatable, Sendable {
    /// A URL, or a directory that ends with `/`. Without query.
    package let original: String
    /// The URL or directory that the redirect led to. May be signed: then it is valid only until ``expires``, and is
    /// never logged.
    package let target: String
    /// Whether both are directories.
    package let isDirectory: Bool
    /// The status of the first redirect that led there.
    package let status: Int
    /// Whether the original was answered from a public address.
    package let originIsPublic: Bool
    /// **Seconds** since 1970; 0 for a failed entry, which no process may use any more.
    package let expires: Int64
}

/// Remembered redirects, passed from process to process: `links` in the state directory, readable only by its user
/// (0600), since a signed link is a secret while it is valid.
///
/// One line per entry: `url` or `directory`, the status, `public` or `local`, when it ends in seconds since 1970, the
/// original and the target. If two processes write at the same time, the later one wins, and the other's entries are
/// learnt again. A lost file costs some hops.
extension LinkRecord {
    /// Entries kept: directories first, then the longest-lived.
    package static let capacity = 1_000
    private static let header = "links 1"

    /// An entry that proved wrong, from whatever process.
    static func failed(_ original: String) -> LinkRecord {
        LinkRecord(
            original: original, target: "", isDirectory: original.hasSuffix("/"), status: 0, originIsPublic: false,
            expires: 0)
    }

    /// The entries still valid at a time in **seconds** since 1970.
    package static func read(from stateDirectory: String, now: Int64) -> [LinkRecord] {
        keptLines("\(stateDirectory)/links", header).prefix(capacity).compactMap { LinkRecord($0) }.filter {
            $0.expires > now
        }
    }

    /// Adds this process's entries to the recorded ones, and removes expired and failed ones.
    ///
    /// - Throws: ``FileError``; the former entries are then unchanged.
    package static func add(_ changes: [LinkRecord], to stateDirectory: String, now: Int64) throws(FileError) {
        var known: [String: LinkRecord] = [:]
        for record in read(from: stateDirectory, now: now) + changes { known[record.original] = record }
        let kept = known.values.filter { $0.expires > now }.sorted {
            ($0.isDirectory ? 0 : 1, -$0.expires, $0.original) < ($1.isDirectory ? 0 : 1, -$1.expires, $1.original)
        }
        try keep(kept.prefix(capacity).map(\.line), in: "\(stateDirectory)/links", header)
    }

    private var line: String {
        [
            isDirectory ? "directory" : "url", "\(status)", originIsPublic ? "public" : "local", "\(expires)", original,
            target,
        ].joined(separator: " ")
    }

    private init?(_ words: [String]) {
        guard words.count == 6, ["url", "directory"].contains(words[0]), let status = Int(words[1]),
            ["public", "local"].contains(words[2]), let expires = Int64(words[3]),
            // A URL that libcurl refuses is no link.
            (try? CurlURL(words[4])) != nil, (try? CurlURL(words[5])) != nil
        else { return nil }
        self.init(
            original: words[4], target: words[5], isDirectory: words[0] == "directory", status: status,
            originIsPublic: words[2] == "public", expires: expires)
    }
}
