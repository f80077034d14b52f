import SyncModel

/// What caches may do with an object, and what it is.
enum CachePolicy {
    /// A pack is named by its digest, so it never changes; everything else is asked for again each time, which
    /// its entity tag makes cheap. RFC 9111 §5.2.2, RFC 8246.
    static func value(for path: RequestPath) -> String {
        isPack(path) ? "public, max-age=31536000, immutable, no-transform" : "no-cache, no-transform"
    }

    /// The media type by suffix. Packs and assets are opaque.
    static func contentType(for path: RequestPath) -> String {
        guard let name = path.names.last else { return "application/octet-stream" }
        let text = String(decoding: name, as: UTF8.self)
        if text.hasSuffix(".json") { return "application/json" }
        if text.hasSuffix(".zst") { return "application/zstd" }
        return "application/octet-stream"
    }

    /// Whether the path ends in `packs/<sha256>.pack`.
    static func isPack(_ path: RequestPath) -> Bool {
        let suffix = Array(".pack".utf8)
        guard path.names.count >= 2, let name = path.names.last,
            name.suffix(suffix.count).elementsEqual(suffix)
        else {
            return false
        }
        return path.names[path.names.count - 2].elementsEqual("packs".utf8)
            && SHA256Digest(hex: name.dropLast(suffix.count)) != nil
    }
}
