import SyncContent
import SyncManifest
import SyncModel

/// The blobs of a pack, as manifests describe them.
struct PackMap: Sendable {
    /// Its length in **bytes**.
    let size: UInt64
    /// By offset; none overlaps another.
    let blobs: [BlobCheck]
    let dictionary: DecodingDictionary?

    /// A slice begins with the first blob of each section of so many **bytes**, so that slices stay the same when a
    /// later manifest knows other blobs of the pack.
    static let step: UInt64 = 1 << 20
    /// Most **bytes** that are fetched at a time, except for a longer blob.
    static let longestSlice: UInt64 = 4 << 20

    /// - Parameter found: Blobs in any order. If two overlap, they cannot be of the same pack, and one is left out.
    init(size: UInt64, found: [BlobCheck], dictionary: DecodingDictionary?) {
        var blobs: [BlobCheck] = []
        for blob in found.sorted(by: { ($0.offset, $0.storedLength) < ($1.offset, $1.storedLength) }) {
            guard blob.storedLength > 0, blob.end <= size, blob.offset >= blobs.last?.end ?? 0,
                !blob.codec.isCompressed || blob.rawLength <= SliceVerifier.longestWindow,
                !blob.codec.needsDictionary || dictionary != nil
            else { continue }
            blobs.append(blob)
        }
        (self.size, self.blobs, self.dictionary) = (size, blobs, dictionary)
    }

    /// The same map with the blobs that only an earlier manifest knows.
    func adding(_ earlier: PackMap) -> PackMap {
        guard earlier.size == size else { return self }
        let others = earlier.blobs.filter { blob in
            let index = index(at: blob.offset)
            return index == blobs.count || blobs[index].offset >= blob.end
        }
        guard !others.isEmpty else { return self }
        let dictionary = dictionary ?? earlier.dictionary
        // Blobs of the other dictionary cannot be verified with this one.
        let isOther = dictionary !== earlier.dictionary
        return PackMap(
            size: size, found: blobs + others.filter { !isOther || !$0.codec.needsDictionary }, dictionary: dictionary)
    }

    /// The slice that has a **byte** of the pack, together with those behind it up to `end`, and how it is verified.
    ///
    /// - Parameter isThere: Whether a **byte** is held, or on its way.
    /// - Returns: `nil` where no manifest describes the bytes up to `end`: only the whole pack can be verified then.
    func slice(at offset: UInt64, until end: UInt64, isThere: (UInt64) -> Bool) -> (Range<UInt64>, SliceCheck)? {
        var first = index(at: offset)
        guard first < blobs.count, blobs[first].offset <= offset else { return nil }
        let cell = blobs[first].offset / Self.step
        while first > 0, blobs[first - 1].end == blobs[first].offset, blobs[first - 1].offset / Self.step == cell {
            first -= 1
        }
        let start = blobs[first].offset
        var last = first
        while last + 1 < blobs.count, blobs[last + 1].offset == blobs[last].end {
            let next = blobs[last + 1]
            if next.offset / Self.step != blobs[last].offset / Self.step {
                let isEnough = next.offset >= end || next.offset - start >= Self.longestSlice
                if isEnough || isThere(next.offset) { break }
            }
            last += 1
        }
        guard isCovered(from: last, to: min(end, size)) else { return nil }
        let stop = blobs[last].end
        return (start..<stop, .blobs(Array(blobs[first...last]), dictionary))
    }

    /// The check of exactly these **bytes**; `nil` if they are not blobs side by side.
    func check(of range: Range<UInt64>) -> SliceCheck? {
        let first = index(at: range.lowerBound)
        guard first < blobs.count, blobs[first].offset == range.lowerBound else { return nil }
        var last = first
        while blobs[last].end < range.upperBound {
            guard last + 1 < blobs.count, blobs[last + 1].offset == blobs[last].end else { return nil }
            last += 1
        }
        return blobs[last].end == range.upperBound ? .blobs(Array(blobs[first...last]), dictionary) : nil
    }

    /// Whether blobs stand side by side from one of them up to `end`.
    private func isCovered(from first: Int, to end: UInt64) -> Bool {
        var index = first
        while blobs[index].end < end {
            guard index + 1 < blobs.count, blobs[index + 1].offset == blobs[index].end else { return false }
            index += 1
        }
        return true
    }

    /// The first blob that ends behind a **byte**.
    private func index(at offset: UInt64) -> Int { blobs.indices.partitioningIndex { blobs[$0].end > offset } }
}

/// The facts of one manifest about the packs and the files below one directory of a server.
struct SetFacts: Sendable {
    /// SHA-256 of the manifest's text.
    let digest: SHA256Digest
    var packs: [SHA256Digest: PackMap] = [:]
    /// The objects by their path below the directory: packs, and files of their own.
    var objects: [[UInt8]: NamedObject] = [:]
    /// Blobs in all packs.
    var blobCount = 0
}

/// Bytes that never change: their SHA-256 names them.
struct NamedObject: Sendable, Equatable {
    var digest: SHA256Digest
    /// **Bytes**; `nil` if unknown.
    var size: UInt64?
    var isPack: Bool
}
