import SyncManifest
import SyncModel

/// How much of each pack is still needed.
struct PackUsage {
    /// Base packs that are reused, by the base's index.
    let keptPacks: Set<Int>
    let droppedPacks: Int
    /// **Bytes** of raw content, each blob counted once.
    let uniqueBytes: UInt64
    /// Stored **bytes** that the files need.
    let liveBytes: UInt64
    /// Unneeded **bytes** in kept base packs.
    let deadBytes: UInt64
    /// Base packs that repacking would rewrite.
    let worthRepacking: Set<Int>
    /// Whether blobs need the base's dictionary.
    let keepsDictionary: Bool
    /// Packs that could be rewritten, with the **bytes** that are needed, and their length.
    private let movable: [(pack: Int, live: UInt64, size: UInt64)]

    /// A pack with a smaller live share is rewritten, the share that restic's `prune` aims at.
    static let liveShare = 0.8
    /// Where old releases are removed, a pack of which more than this share is unused is given up, and the rest of it
    /// moved.
    static let mostUnusedShare = 1.0 / 3
    /// From this many small packs on they are joined, since each costs a request.
    static let smallPacks = 4

    /// - Parameters:
    ///   - deltas: The base's deltas that are named again; their packs are kept as they are.
    ///   - parts: **Bytes** of the manifest's parts that stay where they are, by the base's pack.
    init(
        _ base: BaseSet?, _ places: [Catalogue.Entry], _ ledger: Ledger, deltas: [Int: [Delta]] = [:],
        parts: [Int: UInt64] = [:], packSize: UInt64
    ) {
        var live = Array(repeating: UInt64(0), count: base?.packs.count ?? 0)
        var unique: UInt64 = 0
        var stored: UInt64 = 0
        var hasDictionary = false
        for (number, isUsed) in ledger.usedBlobs(count: places.count).enumerated() where isUsed {
            let place = places[number]
            hasDictionary = hasDictionary || place.codec.needsDictionary
            unique += UInt64(place.rawLength)
            stored += UInt64(place.storedLength)
            if Int(place.pack) < live.count { live[Int(place.pack)] += UInt64(place.storedLength) }
        }
        // Packs that are never rewritten.
        var fixed: Set<Int> = []
        // If the dictionary's pack cannot be used, the dictionary has been stored again.
        if hasDictionary, let base, base.isDictionaryUsable, let blob = base.manifest.dictionary?.blob {
            live[Int(blob.pack)] += blob.storedLength
            fixed.insert(Int(blob.pack))
        }
        keepsDictionary = !fixed.isEmpty
        for delta in deltas.values.joined() where Int(delta.pack) < live.count {
            live[Int(delta.pack)] += delta.storedLength
            fixed.insert(Int(delta.pack))
        }
        for (index, bytes) in parts where index < live.count { live[index] += bytes }
        var kept: Set<Int> = []
        var worth: Set<Int> = []
        var small: Set<Int> = []
        var dead: UInt64 = 0
        var movable: [(pack: Int, live: UInt64, size: UInt64)] = []
        for (index, pack) in (base?.packs ?? []).enumerated() where live[index] > 0 {
            kept.insert(index)
            let (sum, overflow) = dead.addingReportingOverflow(pack.size - min(pack.size, live[index]))
            // The base may name packs of any size.
            dead = overflow ? .max : sum
            // Parts have rules of their own.
            if fixed.contains(index) || parts[index] != nil { continue }
            movable.append((index, live[index], pack.size))
            if Double(live[index]) < Double(pack.size) * Self.liveShare { worth.insert(index) }
            if pack.size < packSize / 4 { small.insert(index) }
        }
        if small.count >= Self.smallPacks { worth.formUnion(small) }
        keptPacks = kept
        droppedPacks = live.count - kept.count
        uniqueBytes = unique
        liveBytes = stored
        deadBytes = dead
        worthRepacking = worth
        self.movable = movable
    }

    /// Packs of which more than a third is unused, the most unused first, until at least `bytes` are to be moved:
    /// at most the new bytes and the used rest of one pack are moved, and nothing if nothing is new.
    ///
    /// If the last pack had to fit into `bytes` as well, a few blobs would keep large packs for as long as little
    /// changes. As it is, no more than twice what has become unused is ever moved.
    func mostlyUnused(atMost bytes: UInt64) -> Set<Int> {
        func unused(_ pack: (pack: Int, live: UInt64, size: UInt64)) -> Double {
            1 - Double(pack.live) / Double(max(1, pack.size))
        }
        let candidates = movable.filter { unused($0) > Self.mostUnusedShare }
        var chosen: Set<Int> = []
        var sum: UInt64 = 0
        for pack in candidates.sorted(by: { (unused($1), $0.pack) < (unused($0), $1.pack) }) {
            guard sum < bytes else { break }
            chosen.insert(pack.pack)
            sum = sum.saturatingAdd(pack.live)
        }
        return chosen
    }
}
