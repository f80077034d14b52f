package import SyncModel

extension FileTable {
    /// One row, for building a table from values.
    package struct Row: Sendable {
        package var path: [UInt8]
        package var kind: Kind
        package var size: UInt64
        /// Of the content; for a link, of nothing: all zero bits.
        package var digest: SHA256Digest?
        package var blobs: [Blob]
        package var urls: [String]
        package var linkTarget: String?
        package var group: String?
        package var traits: FileTraits

        package init(
            path: [UInt8],
            kind: Kind,
            size: UInt64 = 0,
            digest: SHA256Digest? = nil,
            blobs: [Blob] = [],
            urls: [String] = [],
            linkTarget: String? = nil,
            group: String? = nil,
            traits: FileTraits = .none
        ) {
            self.path = path
            self.kind = kind
            self.size = size
            self.digest = digest
            self.blobs = blobs
            self.urls = urls
            self.linkTarget = linkTarget
            self.group = group
            self.traits = traits
        }
    }

    /// Adds a row; the caller keeps ``PathOrder``.
    ///
    /// - Returns: `false` when the arena or a column is full (4 GiB of text, 2³² blobs, 65,535 groups) or the
    ///   path is longer than 65,535 bytes; the table has no new row then.
    package mutating func append(_ row: Row) -> Bool {
        guard row.path.count <= Int(UInt16.max) else { return false }
        var pending = Pending(firstBlob: blobs.count, firstText: texts.count)
        guard let path = row.path.withUnsafeBufferPointer({ store($0) }) else { return false }
        pending.path = path
        pending.kind = row.kind
        pending.size = row.size
        pending.digest = row.digest ?? .zero
        pending.traits = row.traits
        if let name = row.group {
            guard let number = groupNumber(name) else { return false }
            pending.group = number
        }
        let firstText = texts.count
        for text in row.kind == .link ? row.linkTarget.map({ [$0] }) ?? [] : row.urls {
            guard let stored = Array(text.utf8).withUnsafeBufferPointer({ store($0) }) else {
                texts.removeSubrange(firstText...)
                return false
            }
            texts.append(stored)
        }
        guard append(pending) else {
            texts.removeSubrange(firstText...)
            return false
        }
        blobs.append(contentsOf: row.blobs)
        return true
    }

    /// Adds a blob's own digest; returns the index that ``Blob/digestIndex`` wants, or `nil` when full.
    package mutating func appendBlobDigest(_ digest: SHA256Digest) -> UInt32? {
        guard let index = UInt32(exactly: blobDigests.count) else { return nil }
        blobDigests.append(digest)
        return index
    }
}
