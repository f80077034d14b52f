import SyncModel

/// Reads a hub's answers: JSON, of which only the needed members are read.
package enum HubAnswer {
    /// The longest answer, in **bytes**.
    package static let limit = 32 << 20

    /// The commit of a revision: `sha` in the hub's answer about it.
    package static func commit(_ text: [UInt8]) throws(ListingError) -> String {
        let found = try reading(text) { (reader: inout JSONReader) throws(ManifestError) -> String? in
            var commit: String?
            try reader.beginObject()
            while let key = try reader.nextKey() {
                if key.elementsEqual("sha".utf8), commit == nil {
                    commit = String(decoding: try reader.string(), as: UTF8.self)
                } else {
                    try reader.skipValue()
                }
            }
            return commit
        }
        guard let found, (7...64).contains(found.utf8.count), found.utf8.allSatisfy({ hexadecimalValue($0) != nil })
        else {
            throw ListingError("", "the hub does not say which commit it is")
        }
        return found.lowercased()
    }

    /// Adds one page of a tree to a listing.
    ///
    /// - Parameter prefix: The URL of a file, up to its path.
    /// - Returns: The number of entries, directories included.
    @discardableResult package static func add(
        _ page: [UInt8], prefix: String, to listing: inout SourceListing
    ) throws(ListingError) -> Int {
        let entries = try reading(page) { (reader: inout JSONReader) throws(ManifestError) -> [Entry] in
            var entries: [Entry] = []
            try reader.beginArray()
            while try reader.nextElement() { entries.append(try Entry(&reader)) }
            return entries
        }
        for entry in entries where entry.type != "directory" {
            guard entry.type == "file", let path = entry.path, let size = entry.lfsSize ?? entry.size else {
                throw ListingError("", "the hub lists something that is not a file: \(quoted(entry.path ?? "?"))")
            }
            let known =
                entry.lfs.map { ContentCheck.digest(.sha256, $0.utf8) }
                ?? entry.oid.map { ContentCheck.digest(.gitSHA1, $0.utf8) }
            guard let digest = known ?? nil else {
                throw ListingError("", "the hub gives no digest of \(quoted(path))")
            }
            var file = SourceListing.File(
                path: Array(path.utf8), size: size, digest: digest, urls: [prefix + percentEncoded(bytes: path.utf8)])
            // An empty file need not be fetched.
            if size == 0 { file.digest = (.sha256, SHA256Digest.ofNothing.hex) }
            try listing.add(file, at: "")
        }
        return entries.count
    }

    private struct Entry {
        var type = "", path: String?, oid: String?, lfs: String?
        var size: UInt64?, lfsSize: UInt64?

        init(_ reader: inout JSONReader) throws(ManifestError) {
            try reader.beginObject()
            while let key = try reader.nextKey() {
                let name = String(decoding: key, as: UTF8.self)
                switch name {
                case "type": type = String(decoding: try reader.string(), as: UTF8.self)
                case "path": path = String(decoding: try reader.string(), as: UTF8.self)
                case "oid": oid = String(decoding: try reader.string(), as: UTF8.self)
                case "size": size = try reader.integer()
                case "lfs" where reader.isAtObject(): try readLFS(&reader)
                default: try reader.skipValue()
                }
            }
        }

        private mutating func readLFS(_ reader: inout JSONReader) throws(ManifestError) {
            try reader.beginObject()
            while let key = try reader.nextKey() {
                switch String(decoding: key, as: UTF8.self) {
                case "oid", "sha256": lfs = String(decoding: try reader.string(), as: UTF8.self)
                case "size": lfsSize = try reader.integer()
                default: try reader.skipValue()
                }
            }
        }
    }

    private static func reading<Value>(
        _ text: [UInt8], _ read: (inout JSONReader) throws(ManifestError) -> Value
    ) throws(ListingError) -> Value {
        do throws(ManifestError) {
            return try text.withUnsafeBufferPointer { bytes throws(ManifestError) in
                var reader = JSONReader(bytes, limits: .standard)
                let value = try read(&reader)
                try reader.end()
                return value
            }
        } catch { throw ListingError("", "the hub's answer cannot be read: \(error.reason)") }
    }
}
