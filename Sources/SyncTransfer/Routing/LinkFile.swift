package import SyncSystem

/// What redirects have taught, from process to process: `links` in the state directory, for its user's eyes only (0600),
/// since a signed link is a secret while it is good.
///
/// One line a lesson: `url` or `directory`, the status, `public` or `local`, when it ends in seconds since 1970, the original
/// and the target. Replaced as a whole; of two processes that write at a time the later one wins, and the other's lessons
/// are learnt again. Losing it costs hops.
package struct LinkFile: Sendable {
    private let path: String

    /// Lessons that are kept: directories first, then those that last longest.
    package static let capacity = 1_000
    private static let limit = 8 << 20
    private static let header = "links 1"

    package init(stateDirectory: String) { path = stateDirectory + "/links" }

    /// The lessons that are still good.
    ///
    /// - Parameter now: **Seconds** since 1970.
    package func read(now: Int64) -> [LinkRecord] {
        guard let bytes = try? readFile(path, trust: .state, limit: Self.limit) else { return [] }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        guard lines.first.map(String.init) == Self.header else { return [] }
        return lines.dropFirst().prefix(Self.capacity).compactMap { Self.record($0) }.filter {
            $0.expires > now
        }
    }

    /// Adds what a process has learnt to what others have; what has ended or failed goes.
    ///
    /// - Throws: ``FileError``; the former lessons are then as they were.
    package func add(_ changes: LinkChanges, now: Int64) throws(FileError) {
        var known: [String: LinkRecord] = [:]
        for record in read(now: now) where !changes.failed.contains(record.original) {
            known[record.original] = record
        }
        for record in changes.learnt where record.expires > now { known[record.original] = record }
        let kept = known.values.sorted {
            ($0.isDirectory ? 0 : 1, -$0.expires, $0.original) < (
                $1.isDirectory ? 0 : 1, -$1.expires, $1.original
            )
        }
        let lines = [Self.header] + kept.prefix(Self.capacity).map(Self.line)
        try replaceFile(path, with: Array((lines.joined(separator: "\n") + "\n").utf8), isDurable: false)
    }

    private static func line(_ record: LinkRecord) -> String {
        [
            record.isDirectory ? "directory" : "url", "\(record.status)",
            record.originIsPublic ? "public" : "local", "\(record.expires)", record.original, record.target,
        ].joined(separator: " ")
    }

    private static func record(_ line: Substring) -> LinkRecord? {
        let words = line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        guard words.count == 6, ["url", "directory"].contains(words[0]), let status = Int(words[1]),
            ["public", "local"].contains(words[2]), let expires = Int64(words[3]),
            // What libcurl does not take is no link.
            (try? CurlURL(words[4])) != nil, (try? CurlURL(words[5])) != nil
        else { return nil }
        return LinkRecord(
            original: words[4],
            target: words[5],
            isDirectory: words[0] == "directory",
            status: status,
            originIsPublic: words[2] == "public",
            expires: expires
        )
    }
}
