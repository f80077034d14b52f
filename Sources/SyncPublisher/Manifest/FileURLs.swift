import SyncManifest
import SyncModel

/// The URLs of files as they are, made of what stands before their paths.
struct FileURLs: Sendable, Equatable {
    /// URLs that end in `/`, best first; relative ones resolve against the manifest's own, and the empty one is beside it.
    let prefixes: [String]

    /// One for each prefix.
    ///
    /// - Throws: ``PublishError`` when one is longer than a manifest may have it.
    func urls(of path: UnsafeBufferPointer<UInt8>) throws(PublishError) -> [String] {
        guard !prefixes.isEmpty else { return [] }
        let encoded = Self.encoded(path)
        for prefix in prefixes {
            guard let reason = ManifestRules.objection(url: prefix + encoded) else { continue }
            throw PublishError(
                .refusedEntries,
                "\(shown(Array(path))) cannot be had by a URL: \(reason)",
                remedy: "shorten its name, or publish without URLs of files"
            )
        }
        return prefixes.map { $0 + encoded }
    }

    /// A path as a relative reference: everything but unreserved characters and `/` percent-encoded, so that a colon in
    /// its first component is no scheme. RFC 3986, sections 2.3 and 4.2.
    static func encoded(_ path: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var text: [UInt8] = []
        for byte in path {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E, 0x2F: text.append(byte)
            default: text += [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// What a user gave as the place of files, with a `/` at its end.
    ///
    /// - Parameters:
    ///   - option: For messages.
    ///   - mayBeRelative: Whether it may be relative to the manifest.
    static func prefix(_ url: String, option: String, mayBeRelative: Bool) throws(PublishError) -> String {
        func refusal(_ reason: String, _ remedy: String) -> PublishError {
            PublishError(.usage, "\(option) \(redacted(url: url)): \(reason)", remedy: remedy)
        }
        let example = "https://mirror.example.net/tower/"
        guard !url.isEmpty else { throw refusal("the URL is empty", "write one such as \(example)") }
        if url.contains("?") {
            throw refusal(
                "a query cannot be followed by the path of a file",
                "leave it out; rewriting rules of who pulls can add one (--rewrite)"
            )
        }
        let prefix = url.hasSuffix("/") ? url : url + "/"
        if let reason = ManifestRules.objection(url: prefix + "x") {
            throw refusal(reason, "write one such as \(example)")
        }
        let isAbsolute = ["//", "http://", "https://"].contains { prefix.lowercased().hasPrefix($0) }
        guard mayBeRelative || isAbsolute else {
            throw refusal("a mirror is elsewhere, and this has no host", "write one such as \(example)")
        }
        return prefix
    }
}
