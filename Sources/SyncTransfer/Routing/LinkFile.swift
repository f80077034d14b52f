import SyncCurl
package import SyncSystem

/// What redirects have taught, from process to process: `links` in the state directory, for its user's eyes only (0600),
/// since a signed link is a secret while it is good.
///
/// One line a lesson: `url` or `directory`, the status, `public` or `local`, when it ends in seconds since 1970, the original
/// and the target. Replaced as a whole; of two processes that write at a time the later one wins, and the other's lessons
/// are learnt again. Losing it costs hops.
package struct LinkFile: Sendable {
    private let file: LineFile

    /// Lessons kept: directories first, then the longest-lived.
    package static let capacity = 1_000

    package init(stateDirectory: String) { file = LineFile(path: stateDirectory + "/links", header: "links 1") }

    /// The lessons still valid at a time in **seconds** since 1970.
    package func read(now: Int64) -> [LinkRecord] {
        file.read().prefix(Self.capacity).compactMap { Self.record($0) }.filter { $0.expires > now }
    }

    /// Adds what a process has learnt to what others have; what has ended or failed goes.
    ///
    /// - Throws: ``FileError``; the former lessons are then as they were.
    package func add(_ changes: LinkChanges, now: Int64) throws(FileError) {
        var known: [String: LinkRecord] = [:]
        for record in read(now: now) where !changes.failed.contains(record.original) { known[record.original] = record }
        for record in changes.learnt where record.expires > now { known[record.original] = record }
        let kept = known.values.sorted {
            ($0.isDirectory ? 0 : 1, -$0.expires, $0.original) < ($1.isDirectory ? 0 : 1, -$1.expires, $1.original)
        }
        try file.write(kept.prefix(Self.capacity).map(Self.line))
    }

    private static func line(_ record: LinkRecord) -> String {
        [
            record.isDirectory ? "directory" : "url", "\(record.status)", record.originIsPublic ? "public" : "local",
            "\(record.expires)", record.original, record.target,
        ].joined(separator: " ")
    }

    private static func record(_ words: [String]) -> LinkRecord? {
        guard words.count == 6, ["url", "directory"].contains(words[0]), let status = Int(words[1]),
            ["public", "local"].contains(words[2]), let expires = Int64(words[3]),
            // A URL that libcurl refuses is no link.
            (try? CurlURL(words[4])) != nil, (try? CurlURL(words[5])) != nil
        else { return nil }
        return LinkRecord(
            original: words[4], target: words[5], isDirectory: words[0] == "directory", status: status,
            originIsPublic: words[2] == "public", expires: expires)
    }
}

/// Lines of words in the state directory, mode 0600, replaced as a whole and not synced.
struct LineFile: Sendable {
    let path: String
    /// The first line.
    let header: String

    private static let limit = 8 << 20

    /// The words of each line after the first; none if the file is missing or of another kind.
    func read() -> [[String]] {
        guard let bytes = try? readFile(path, trust: .state, limit: Self.limit) else { return [] }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        guard lines.first.map(String.init) == header else { return [] }
        return lines.dropFirst().map { $0.split(separator: " ", omittingEmptySubsequences: false).map(String.init) }
    }

    func write(_ lines: [String]) throws(FileError) {
        let text = ([header] + lines).joined(separator: "\n") + "\n"
        try replaceFile(path, with: Array(text.utf8), isDurable: false)
    }
}
