package import SyncModel

/// Files and links of a manifest, stored by column: about **100 bytes** a file, so a million fit in memory.
///
/// Rows stand in ``PathOrder``. Paths, link targets and URLs lie in one arena, each ended by a NUL, so that a
/// path can go to a system call as it is.
package struct FileTable: Sendable {
    private var arena: [UInt8] = []
    private var pathOffsets: [UInt32] = []
    private var pathLengths: [UInt16] = []
    private var kinds: [Kind] = []
    private var sizes: [UInt64] = []
    private var digests: [SHA256Digest] = []
    private var blobStarts: [UInt32] = []
    private var blobs: [Blob] = []
    private var blobDigests: [SHA256Digest] = []
    /// Rare columns, by row.
    private var urls: [Int: [String]] = [:]
    private var linkTargets: [Int: String] = [:]
    private var groupNames: [Int: String] = [:]

    /// What a row names.
    package enum Kind: UInt8, Sendable {
        case file, executable, link
    }

    package init() {}

    /// Number of files and links.
    package var count: Int { kinds.count }

    package var indices: Range<Int> { 0..<kinds.count }

    /// Makes room for `count` rows and `pathBytes` bytes of paths.
    package mutating func reserve(count: Int, pathBytes: Int) {
        arena.reserveCapacity(pathBytes + count)
        pathOffsets.reserveCapacity(count)
        pathLengths.reserveCapacity(count)
        kinds.reserveCapacity(count)
        sizes.reserveCapacity(count)
        digests.reserveCapacity(count)
        blobStarts.reserveCapacity(count)
        blobs.reserveCapacity(count)
    }

    /// One row, for building a table.
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

        package init(
            path: [UInt8],
            kind: Kind,
            size: UInt64 = 0,
            digest: SHA256Digest? = nil,
            blobs: [Blob] = [],
            urls: [String] = [],
            linkTarget: String? = nil,
            group: String? = nil
        ) {
            self.path = path
            self.kind = kind
            self.size = size
            self.digest = digest
            self.blobs = blobs
            self.urls = urls
            self.linkTarget = linkTarget
            self.group = group
        }
    }

    /// Adds a row; the caller keeps ``PathOrder``.
    ///
    /// - Returns: `false`, with nothing changed, when the arena or a column is full (4 GiB of paths,
    ///   2³² blobs) or the path is longer than 65,535 bytes.
    package mutating func append(_ row: Row) -> Bool {
        guard let offset = UInt32(exactly: arena.count), let length = UInt16(exactly: row.path.count),
            let blobStart = UInt32(exactly: blobs.count), let digest = row.digest ?? Self.noDigest
        else { return false }
        let index = count
        pathOffsets.append(offset)
        pathLengths.append(length)
        arena.append(contentsOf: row.path)
        arena.append(0)
        kinds.append(row.kind)
        sizes.append(row.size)
        digests.append(digest)
        blobStarts.append(blobStart)
        blobs.append(contentsOf: row.blobs)
        if !row.urls.isEmpty { urls[index] = row.urls }
        if let target = row.linkTarget { linkTargets[index] = target }
        if let group = row.group { groupNames[index] = group }
        return true
    }

    /// Adds a blob's own digest; returns the index that ``Blob/digestIndex`` wants, or `nil` when full.
    package mutating func appendBlobDigest(_ digest: SHA256Digest) -> UInt32? {
        guard let index = UInt32(exactly: blobDigests.count) else { return nil }
        blobDigests.append(digest)
        return index
    }

    private static let noDigest = SHA256Digest(hex: String(repeating: "0", count: 64))

    // MARK: Reading

    package func kind(_ index: Int) -> Kind { kinds[index] }

    /// Length of the content in **bytes**; 0 for links.
    package func size(_ index: Int) -> UInt64 { sizes[index] }

    /// SHA-256 of the content; all zero bits for links.
    package func digest(_ index: Int) -> SHA256Digest { digests[index] }

    /// The blobs of a row, in file order; empty for links, empty files and files that have only URLs.
    package func blobs(_ index: Int) -> ArraySlice<Blob> {
        let end = index + 1 < blobStarts.count ? Int(blobStarts[index + 1]) : blobs.count
        return blobs[Int(blobStarts[index])..<end]
    }

    /// The digest of a blob's raw bytes.
    package func digest(of blob: Blob, in row: Int) -> SHA256Digest {
        blob.digestIndex.map { blobDigests[Int($0)] } ?? digests[row]
    }

    /// URLs of the file alone, as written, best first.
    package func urls(_ index: Int) -> [String] { urls[index] ?? [] }

    /// Where a link points, as written.
    package func linkTarget(_ index: Int) -> String? { linkTargets[index] }

    /// The group the entry itself names.
    package func groupName(_ index: Int) -> String? { groupNames[index] }

    /// The path as text; built anew at each call.
    package func path(_ index: Int) -> String {
        withPath(index) { String(decoding: $0, as: UTF8.self) }
    }

    /// The path's bytes, valid during `body`; a NUL stands directly behind them.
    package func withPath<R>(_ index: Int, _ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
        let start = Int(pathOffsets[index])
        let length = Int(pathLengths[index])
        return arena.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[start..<(start + length)])) }
    }

    /// The sum of all sizes, or `nil` past 64 bits.
    package var totalSize: UInt64? {
        var sum: UInt64 = 0
        for size in sizes {
            let (next, overflow) = sum.addingReportingOverflow(size)
            if overflow { return nil }
            sum = next
        }
        return sum
    }
}
