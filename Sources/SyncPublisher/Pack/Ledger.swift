import SyncModel

/// The blobs of each entry by number, in tree order, by column; **8 bytes** for a file of one blob.
struct Ledger {
    /// The digests that do not follow from blobs: a file of one blob has the blob's digest, and an empty file has that
    /// of no bytes.
    private(set) var digests: [Int: SHA256Digest] = [:]
    private var ends: [UInt32]
    private var blobs: [UInt32] = []

    init(count: Int) { ends = Array(repeating: 0, count: count) }

    /// The blobs of an entry, in file order.
    func blobs(_ index: Int) -> ArraySlice<UInt32> { blobs[(index == 0 ? 0 : Int(ends[index - 1]))..<Int(ends[index])] }

    /// Adds a blob to the entry that is closed next.
    mutating func append(blob: UInt32) { blobs.append(blob) }

    /// Closes an entry; entries come in order.
    ///
    /// - Parameter hasBlobs: Whether blobs are recorded; otherwise the digest of every file is kept.
    /// - Returns: `false` after 2³² blobs.
    mutating func close(_ index: Int, digest: SHA256Digest?, hasBlobs: Bool = true) -> Bool {
        guard let end = UInt32(exactly: blobs.count) else { return false }
        ends[index] = end
        if let digest, !hasBlobs || blobs(index).count > 1 { digests[index] = digest }
        return true
    }

    /// Which of `count` blobs are used by a file.
    func usedBlobs(count: Int) -> [Bool] {
        var used = Array(repeating: false, count: count)
        for blob in blobs { used[Int(blob)] = true }
        return used
    }

    /// Blobs used by files, each once, in the order of first use.
    func blobsInOrder(count: Int) -> [UInt32] {
        var seen = Array(repeating: false, count: count)
        var order: [UInt32] = []
        for blob in blobs where !seen[Int(blob)] {
            seen[Int(blob)] = true
            order.append(blob)
        }
        return order
    }
}
