import SyncManifest
import SyncModel

/// URLs of loose files, formed by prefixing their paths.
struct FileURLs: Sendable, Equatable {
    /// URLs that end in `/`, best first; relative ones resolve against the manifest's own, and the empty one is its
    /// directory.
    let prefixes: [String]

    /// One for each prefix.
    ///
    /// - Throws: ``PublishError`` when one is longer than a manifest may have it.
    func urls(of path: UnsafeBufferPointer<UInt8>) throws(PublishError) -> [String] {
        guard !prefixes.isEmpty else { return [] }
        let encoded = percentEncoded(bytes: path)
        for prefix in prefixes {
            guard let reason = ManifestRules.objection(url: prefix + encoded) else { continue }
            throw .refusedEntries(
                "\(shown(Array(path))) cannot be reached by a URL: \(reason)",
                "shorten its name, or publish without file URLs")
        }
        return prefixes.map { $0 + encoded }
    }

    /// Checks a user's URL for the place of files, and adds a final `/`. A relative one resolves against the manifest's.
    static func prefix(_ url: String, option: String, mayBeRelative: Bool) throws(PublishError) -> String {
        func refusal(_ reason: String, _ remedy: String) -> PublishError {
            .usage("\(option) \(redacted(url: url)): \(reason)", remedy)
        }
        let example = "https://mirror.example.net/tower/"
        guard !url.isEmpty else { throw refusal("the URL is empty", "write one such as \(example)") }
        if url.contains("?") {
            throw refusal(
                "a query cannot be followed by the path of a file",
                "leave it out; machines that pull can add one with --rewrite")
        }
        let prefix = url.hasSuffix("/") ? url : url + "/"
        if let reason = ManifestRules.objection(url: prefix + "x") {
            throw refusal(reason, "write one such as \(example)")
        }
        let isAbsolute = ["//", "http://", "https://"].contains { prefix.lowercased().hasPrefix($0) }
        guard mayBeRelative || isAbsolute else {
            throw refusal("a mirror is on another server, and this URL has no host", "write one such as \(example)")
        }
        return prefix
    }
}
