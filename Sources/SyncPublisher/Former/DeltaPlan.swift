import SyncManifest
import SyncModel

/// Chooses which new blobs of changed files get a delta, and which bytes of the former version are the base.
///
/// The former version has the same path, or the most similar of the paths that are gone. A changed blob lies between
/// blobs that both versions have; its base is what the former version has between them.
struct DeltaPlan {
    /// A delta to be made.
    struct Task: Sendable {
        /// Index in the tree.
        var file: Int
        var former: FormerVersions.Version
        /// Position of the blob in the file, and its number in the catalogue.
        var blob: Int
        var number: UInt32
        /// **Bytes** of the new version, and of the former one.
        var target: Range<UInt64>
        var base: Range<UInt64>
        /// A region of the former version that is searched for bytes like the blob's, if the region is too long for a
        /// base; ``base`` is then the fallback.
        var region: Range<UInt64>?
    }

    private let base: Manifest
    private let places: [Catalogue.Entry]
    private let firstPack: Int
    private(set) var tasks: [Task] = []

    /// Longest base in **bytes** that is used as it is. Of a longer region only the part most like the blob is used:
    /// the whole base has to be read for the delta, and zstd finds more matches in a shorter one.
    private static let longestRegion: UInt64 = 512 << 10
    /// **Bytes** of such a part beyond the blob's own length.
    private static let slack: UInt64 = 128 << 10
    /// Shorter blobs, in stored **bytes**, are not worth an entry in the manifest.
    static let shortest = 512

    init(_ tree: SourceTree, _ ledger: Ledger, _ places: [Catalogue.Entry], _ base: BaseSet) {
        self.base = base.manifest
        self.places = places
        firstPack = base.packs.count
        var versions = FormerVersions(tree, base.manifest.files)
        var planned: Set<UInt32> = []
        for index in tree.entries.indices where tree.entries[index].isRead {
            let blobs = ledger.blobs(index)
            guard blobs.contains(where: { isNew($0) && !planned.contains($0) }),
                let former = tree.withPath(index, { versions.version(of: $0) })
            else { continue }
            for task in tasks(file: index, former, Array(blobs)) where planned.insert(task.number).inserted {
                tasks.append(task)
            }
        }
    }

    /// Whether this run has stored the blob.
    private func isNew(_ number: UInt32) -> Bool { Int(places[Int(number)].pack) >= firstPack }

    private func tasks(file: Int, _ former: FormerVersions.Version, _ blobs: [UInt32]) -> [Task] {
        let anchors = anchors(row: former.row, blobs)
        let oldSize = base.files.size(former.row)
        var tasks: [Task] = []
        var offset: UInt64 = 0
        var anchor = 0
        for (position, number) in blobs.enumerated() {
            let place = places[Int(number)]
            let target = offset..<(offset + UInt64(place.rawLength))
            offset = target.upperBound
            while anchor < anchors.count, anchors[anchor].new.upperBound <= target.lowerBound { anchor += 1 }
            guard isNew(number), UInt64(place.rawLength) <= Delta.longestBlob, place.storedLength >= Self.shortest
            else { continue }
            let before = anchor > 0 ? anchors[anchor - 1] : (new: 0..<0, old: 0..<0)
            let end = anchor < anchors.count ? anchors[anchor].old.lowerBound : oldSize
            let region = before.old.upperBound..<max(before.old.upperBound, end)
            let isLong = region.upperBound - region.lowerBound > Self.longestRegion
            let shift = (before.new.upperBound, before.old.upperBound)
            let base = isLong ? Self.narrowed(region, target, shift: shift) : region
            guard !base.isEmpty else { continue }
            tasks.append(
                Task(
                    file: file, former: former, blob: position, number: number, target: target, base: base,
                    region: isLong ? region : nil))
        }
        return tasks
    }

    /// Blobs that both versions have, in the same order.
    private func anchors(row: Int, _ blobs: [UInt32]) -> [(new: Range<UInt64>, old: Range<UInt64>)] {
        var old: [SHA256Digest: [Range<UInt64>]] = [:]
        var offset: UInt64 = 0
        for blob in base.files.blobs(row) {
            let range = offset..<(offset + blob.rawLength)
            old[base.files.digest(of: blob, in: row), default: []].append(range)
            offset = range.upperBound
        }
        var anchors: [(new: Range<UInt64>, old: Range<UInt64>)] = []
        var reached: UInt64 = 0
        offset = 0
        for number in blobs {
            let range = offset..<(offset + UInt64(places[Int(number)].rawLength))
            offset = range.upperBound
            guard let candidates = old[places[Int(number)].digest] else { continue }
            // The nearest one after the last anchor; a frequent blob, such as zeros, makes a poor anchor.
            let nearest = candidates.indices.partitioningIndex { candidates[$0].lowerBound >= reached }
            guard nearest < candidates.count else { continue }
            anchors.append((range, candidates[nearest]))
            reached = candidates[nearest].upperBound
        }
        return anchors
    }

    /// The length in **bytes** of a base that has to be searched for.
    static func width(_ target: Range<UInt64>) -> UInt64 { target.upperBound - target.lowerBound + slack }

    /// The part of a region around the place where the blob would be without insertions.
    private static func narrowed(_ region: Range<UInt64>, _ target: Range<UInt64>, shift: (new: UInt64, old: UInt64))
        -> Range<UInt64>
    {
        let (place, overflow) = (target.lowerBound - shift.new).addingReportingOverflow(shift.old)
        guard !overflow else { return region.lowerBound..<region.lowerBound }
        let width = width(target)
        let last = region.upperBound - min(width, region.upperBound - region.lowerBound)
        let start = min(max(region.lowerBound, place - min(place, slack / 2)), last)
        return start..<min(region.upperBound, start + width)
    }
}
