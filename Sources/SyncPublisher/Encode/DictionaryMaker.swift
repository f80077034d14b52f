import SyncContent
import SyncManifest
import SyncModel

/// Decides whether a dictionary pays for a set, and creates it.
///
/// Small files of one kind (icons, JSON, scripts) repeat each other, and each is a frame of its own, so that it can be
/// fetched alone. A dictionary holds once what they have in common. Whether it pays is measured on files that it was
/// not made from: first with a small one from few samples, and only if that is promising with a full one, which takes
/// many times as long.
struct DictionaryMaker {
    let options: PublishOptions
    let samples: DictionarySamples
    /// Called while samples are made into a dictionary and while it is tried, with **bytes** done and to do.
    let onTrial: (UInt64, UInt64) -> Void
    /// **Bytes** passed to zstd for this decision: sampled, made into dictionaries (twice each), tried.
    private(set) var effort: UInt64 = 0

    /// What it must save to justify one more request and a newer reader: **bytes**, and percent of everything.
    private static let leastSaving = (bytes: 4.0 * 1_048_576, percent: 4.0)
    /// Less compressible content, in **bytes**, is not worth the work.
    private static let leastContent = 8.0 * 1_048_576
    /// Possible sizes in **bytes**.
    private static let capacities = [128 << 10, 512 << 10, 2 << 20, 4 << 20]
    /// A dictionary has at most one byte per this many **bytes** of compressed content, and two sizes are tried.
    private static let contentPerByte = 6.0
    /// A small dictionary saves less than a large one. If it saves less than this share of the goal, a large one would
    /// fail, too.
    private static let promise = 0.25
    /// The share of the goal from which a larger dictionary is tried, too.
    private static let nearly = 0.75
    /// Most **bytes** of the small one, and its share of the samples.
    private static let small = (most: 128 << 10, part: 8)

    /// A dictionary, raw and as stored.
    struct Made {
        let dictionary: SetDictionary
        /// `nil` when it is stored as it is.
        let frame: [UInt8]?

        /// **Bytes**.
        var storedSize: Int { (frame ?? dictionary.bytes).count }

        /// Writes it to a pack of its own, where it stays whatever happens to the blobs.
        func write(to writer: PackWriter) throws(PublishError) -> Manifest.SharedDictionary {
            let blob = try writer.append(frame, of: dictionary.bytes)
            try writer.cut()
            return Manifest.SharedDictionary(blob: blob, digest: try calling { try sha256(dictionary.bytes) })
        }
    }

    /// The effect of a dictionary on the whole set, estimated from some files; **bytes**.
    private struct Trial {
        var made: Made
        /// Saved, after deducting the dictionary itself.
        var saving: Double
    }

    /// The dictionary; `nil` if none pays.
    mutating func make() throws(PublishError) -> Made? {
        let isForced = options.dictionary == .always
        guard let few = try samples.takeFew(least: isForced ? 1 : Self.leastContent) else { return nil }
        effort += few.looked
        if !isForced, try !promises(few) { return nil }
        let found = try samples.takeMany(after: few, isForced: isForced)
        effort += found.looked
        var best: Trial?
        let most = found.compressedContent / Self.contentPerByte
        let possible = Self.capacities.filter { Double($0) <= most }
        for capacity in isForced && possible.isEmpty ? [Self.capacities[0]] : possible.suffix(2) {
            guard let trial = try attempt(found, capacity: capacity) else { continue }
            if trial.saving > best?.saving ?? -.infinity { best = trial }
            // A larger one saves only a little more: if this one is far from the goal, so is that.
            if !isForced, trial.saving < Self.nearly * Self.wanted(found) { break }
        }
        guard let best else { return nil }
        let pays = best.saving >= Self.wanted(found)
        return pays || isForced ? best.made : nil
    }

    /// Whether a small dictionary suggests that a full one pays.
    private mutating func promises(_ few: DictionarySamples.Found) throws(PublishError) -> Bool {
        // There is less content than must be saved.
        guard few.compressedContent >= Self.leastSaving.bytes else { return false }
        let capacity = min(Self.small.most, few.bytes.count / Self.small.part)
        guard capacity > 0, let trial = try attempt(few, capacity: capacity) else { return false }
        // Its own length does not count: it is not the one that would be stored.
        return trial.saving + Double(trial.made.storedSize) >= Self.promise * Self.wanted(few)
    }

    /// How much a dictionary must save, in **bytes**.
    private static func wanted(_ found: DictionarySamples.Found) -> Double {
        max(leastSaving.bytes, found.storedContent * leastSaving.percent / 100)
    }

    private mutating func attempt(_ found: DictionarySamples.Found, capacity: Int) throws(PublishError) -> Trial? {
        let toTry = found.others.reduce(0) { $0 + UInt64($1.count) }
        onTrial(0, toTry)
        effort += 2 * UInt64(found.bytes.count) + toTry
        let bytes = found.bytes.withUnsafeBytes { trainDictionary($0, sizes: found.sizes, capacity: capacity) }
        guard let bytes else { return nil }
        let dictionary = try SetDictionary(bytes, level: options.level)
        var encoder = try BlobEncoder(level: options.level, dictionary: dictionary.encoding)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: DictionarySamples.pieceSize, alignment: 16)
        defer { buffer.deallocate() }
        var (raw, saved) = (0, 0)
        for piece in found.others {
            let encoded = try piece.withUnsafeBufferPointer { bytes throws(PublishError) in
                try encoder.compress(UnsafeRawBufferPointer(bytes), into: buffer)
            }
            raw += piece.count
            onTrial(UInt64(raw), toTry)
            saved += encoded?.saved ?? 0
        }
        let rate = raw > 0 ? Double(saved) / Double(raw) : 0
        let made = Made(dictionary: dictionary, frame: try dictionary.frame())
        return Trial(made: made, saving: rate * found.compressibleContent - Double(made.storedSize))
    }
}
