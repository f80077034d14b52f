import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Decides whether a dictionary pays for a set, and creates it.
///
/// Small files of one kind (icons, JSON, scripts) repeat each other, and each is a frame of its own, so that it can be
/// fetched alone. A dictionary holds once what they have in common. Whether it pays is measured on files that it was
/// not made from: first with a small dictionary from few samples, and if that is promising, with a full one, which
/// takes many times as long.
struct DictionaryMaker {
    let root: SourceRoot
    let tree: SourceTree
    let base: BaseSet?
    let options: PublishOptions
    /// Called while files are sampled, and while a dictionary is made and tried, with **bytes** done and to do.
    let progress: (PublishProgress.Step, UInt64, UInt64) -> Void
    /// **Bytes** passed to zstd for this decision: sampled, made into dictionaries (twice each), tried.
    private(set) var effort: UInt64 = 0

    /// The least saving that justifies one more request: **bytes**, and percent of everything.
    private static let leastSaving = (bytes: 4.0 * 1_048_576, percent: 4.0)
    /// The least compressible content, in **bytes**, that is worth the work.
    private static let leastContent = 8.0 * 1_048_576
    /// Possible sizes of a dictionary, in **bytes**.
    private static let capacities = [128 << 10, 512 << 10, 2 << 20, 4 << 20]
    /// A dictionary has at most one byte per this many **bytes** of compressed content, and two sizes are tried.
    private static let contentPerByte = 6.0
    /// A small dictionary saves less than a large one. If it saves less than this share of the goal, a large one would
    /// fail, too.
    private static let promise = 0.25
    /// The share of the goal from which a larger dictionary is tried, too.
    private static let nearly = 0.75
    /// The small dictionary has at most `most` **bytes**, and one byte for every `part` **bytes** of samples.
    private static let small = (most: 128 << 10, part: 8)

    /// The lowest zstd level for blobs with a dictionary: of 152 MiB of texts, a dictionary of 4 MiB left 37 MiB with
    /// level 3, 17 with 6 and 8 with 9; of 57,895 icons, one of 512 KiB left 32, 30 and 29 MiB of 45.
    static let leastLevel: Int32 = 9

    /// A dictionary; `frame` is its zstd frame, `nil` where that would be little shorter.
    typealias Made = (bytes: [UInt8], encoding: EncodingDictionary, frame: [UInt8]?)

    /// A dictionary for blobs: a new one, or the base's.
    static func encoding(_ bytes: [UInt8], level: Int32) throws(PublishError) -> EncodingDictionary {
        try calling { try bytes.withUnsafeBytes { try EncodingDictionary($0, level: max(level, leastLevel)) } }
    }

    /// A dictionary's zstd frame; `nil` where that would be little shorter.
    static func frame(of bytes: [UInt8]) throws(PublishError) -> [UInt8]? {
        try calling {
            var compressor = try ZstdCompressor(level: ManifestFiles.level)
            return try compressor.encode(bytes, most: max(0, BlobEncoder.limit(bytes.count)))
        }
    }

    /// The dictionary; `nil` if none pays.
    mutating func make() throws(PublishError) -> Made? {
        let isForced = options.dictionary == .always
        guard let few = try takeFew(least: isForced ? 1 : Self.leastContent) else { return nil }
        effort += few.looked
        if !isForced, try !promises(few) { return nil }
        let found = try takeMany(after: few, isForced: isForced)
        effort += found.looked
        var best: (made: Made, saving: Double)?
        let most = found.compressedContent / Self.contentPerByte
        let possible = Self.capacities.filter { Double($0) <= most }
        for capacity in isForced && possible.isEmpty ? [Self.capacities[0]] : possible.suffix(2) {
            guard let trial = try attempt(found, capacity: capacity) else { continue }
            if trial.saving > best?.saving ?? -.infinity { best = trial }
            // A larger dictionary saves only a little more: if this one is far from the goal, so is the larger one.
            if !isForced, trial.saving < Self.nearly * Self.wanted(found) { break }
        }
        guard let best else { return nil }
        let pays = best.saving >= Self.wanted(found)
        return pays || isForced ? best.made : nil
    }

    /// Whether a small dictionary suggests that a full one pays.
    private mutating func promises(_ few: Samples) throws(PublishError) -> Bool {
        // There is less content than must be saved.
        guard few.compressedContent >= Self.leastSaving.bytes else { return false }
        let capacity = min(Self.small.most, few.bytes.count / Self.small.part)
        guard capacity > 0, let trial = try attempt(few, capacity: capacity) else { return false }
        // The length of the small dictionary does not count: it would not be stored.
        return trial.saving + Double(Self.stored(trial.made)) >= Self.promise * Self.wanted(few)
    }

    /// How much a dictionary must save, in **bytes**.
    private static func wanted(_ found: Samples) -> Double {
        max(leastSaving.bytes, found.storedContent * leastSaving.percent / 100)
    }

    private mutating func attempt(_ found: Samples, capacity: Int) throws(PublishError) -> (
        made: Made, saving: Double
    )? {
        let toTry = found.others.reduce(0) { $0 + UInt64($1.count) }
        progress(.training, 0, toTry)
        effort += 2 * UInt64(found.bytes.count) + toTry
        let bytes = found.bytes.withUnsafeBytes { trainDictionary($0, sizes: found.sizes, capacity: capacity) }
        guard let bytes else { return nil }
        let encoding = try Self.encoding(bytes, level: options.level)
        var encoder = try BlobEncoder(level: options.level, dictionary: encoding)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceSize, alignment: 16)
        defer { buffer.deallocate() }
        var (raw, saved) = (0, 0)
        for piece in found.others {
            let encoded = try piece.withUnsafeBufferPointer { bytes throws(PublishError) in
                try encoder.compress(UnsafeRawBufferPointer(bytes), into: buffer)
            }
            raw += piece.count
            progress(.training, UInt64(raw), toTry)
            saved += encoded?.saved ?? 0
        }
        let rate = raw > 0 ? Double(saved) / Double(raw) : 0
        let made = (bytes, encoding, try Self.frame(of: bytes))
        return (made, rate * found.compressibleContent - Double(Self.stored(made)))
    }

    /// **Bytes** of a dictionary in its pack.
    private static func stored(_ made: Made) -> Int { (made.frame ?? made.bytes).count }
}

/// Samples a set evenly in path order, for making and trying a dictionary.
///
/// The first look reads one byte in 24, at most 4 MiB: if a dictionary cannot pay, only that was spent. The second
/// reads enough for 32 MiB of compressible pieces, at most 256 MiB and a sixth of the set: samples are compressed, made
/// into dictionaries and compressed again, which must not take longer than packing everything.
extension DictionaryMaker {
    /// Files are sampled in pieces of this many **bytes**, about as long as chunks.
    static let pieceSize = 64 << 10
    private static let firstLook = (share: 1.0 / 24, least: 262_144.0, most: 4.0 * 1_048_576)
    private static let mostLooks = 256.0 * 1_048_576
    private static let mostSamples = 32 << 20
    private static let mostShare = 1.0 / 6
    /// One piece in this many is kept out of the dictionary, to try it on.
    private static let onePieceOf = 8

    struct Samples {
        /// Compressible pieces, or short ones, one after the other, and the length of each.
        var bytes: [UInt8] = []
        var sizes: [Int] = []
        /// Further compressible pieces, to try a dictionary on.
        var others: [[UInt8]] = []
        /// Estimates for the whole set, in **bytes**: compressible content, its compressed size, and the compressed
        /// size of everything.
        var compressibleContent = 0.0
        var compressedContent = 0.0
        var storedContent = 0.0
        /// **Bytes** passed to zstd.
        var looked: UInt64 = 0
    }

    /// The files that can be sampled, and the sum of their **bytes**.
    private var subject: (files: [Int], total: Double) {
        let files = tree.entries.indices.filter { tree.entries[$0].isRead && isNew($0) }
        return (files, files.reduce(0.0) { $0 + Double(tree.entries[$1].stamp.size) })
    }

    /// Takes a few samples; `nil` if fewer than `least` **bytes** of the set are compressible.
    func takeFew(least: Double) throws(PublishError) -> Samples? {
        let subject = subject
        guard subject.total >= least else { return nil }
        let rule = Self.firstLook
        let few = try look(subject, wanted: min(max(subject.total * rule.share, rule.least), rule.most))
        return few.compressibleContent >= least ? few : nil
    }

    /// Takes the samples for a dictionary. If the dictionary is forced, a small set is sampled beyond a sixth of it.
    func takeMany(after few: Samples, isForced: Bool) throws(PublishError) -> Samples {
        let subject = subject
        let share = few.compressibleContent / max(1, subject.total)
        let most = isForced ? Self.mostLooks : min(Self.mostLooks, subject.total * Self.mostShare)
        return try look(subject, wanted: min(Double(Self.mostSamples) / share, most))
    }

    /// Whether the base has no file of this path and length: content published without a dictionary stays as it is.
    private func isNew(_ index: Int) -> Bool {
        guard let files = base?.manifest.files else { return true }
        return tree.withPath(index) { path in
            let row = files.firstRow(notBefore: path)
            guard row < files.count, files.kind(row) != .link, files.size(row) == tree.entries[index].stamp.size else {
                return true
            }
            return files.withPath(row) { !$0.elementsEqual(path) }
        }
    }

    private func look(_ subject: (files: [Int], total: Double), wanted: Double) throws(PublishError) -> Samples {
        let (files, total) = subject
        var encoder = try BlobEncoder(level: options.level)
        let raw = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceSize, alignment: 16)
        let target = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceSize, alignment: 16)
        defer {
            raw.deallocate()
            target.deallocate()
        }
        var found = Samples()
        let share = min(1, wanted / total)
        var (seen, looked, compressible, compressed, stored) = (0.0, 0.0, 0.0, 0.0, 0.0)
        for file in files {
            progress(.sampling, UInt64(looked), UInt64(min(wanted, total)))
            let size = tree.entries[file].stamp.size
            var descriptor: SharedDescriptor?
            var offset: UInt64 = 0
            while offset < size {
                let count = Int(min(UInt64(Self.pieceSize), size - offset))
                seen += Double(count)
                defer { offset += UInt64(count) }
                // Evenly: the sampled bytes keep up with the share of those passed.
                guard looked < seen * share else { continue }
                if descriptor == nil { descriptor = SharedDescriptor(try root.openFile(tree, file)) }
                guard let opened = descriptor else { continue }
                let piece = UnsafeMutableRawBufferPointer(rebasing: raw[..<count])
                // Unreadable files are reported later, when everything is read.
                guard readFully(opened.raw, into: piece, at: offset) == count else { continue }
                // Private keys are refused later, too; no byte of one may get into a dictionary before.
                if offset == 0, SourceReading.isPrivateKey(UnsafeRawBufferPointer(piece)) { continue }
                looked += Double(count)
                let encoded = try encoder.compress(UnsafeRawBufferPointer(piece), into: target)
                stored += Double(encoded?.length ?? count)
                // A short file may shrink only with a dictionary. Whether that pays is not known yet, so such files count
                // only where a dictionary is wanted in any case.
                let isShort = size <= BlobEncoder.shortSize && options.dictionary == .always
                guard encoded != nil || isShort else { continue }
                compressible += Double(count)
                compressed += Double(encoded?.length ?? count)
                if (found.sizes.count + found.others.count) % Self.onePieceOf == Self.onePieceOf - 1 {
                    found.others.append(Array(piece))
                } else if found.bytes.count + count <= Self.mostSamples {
                    found.bytes.append(contentsOf: piece)
                    found.sizes.append(count)
                }
            }
        }
        found.looked = UInt64(looked)
        guard looked > 0 else { return found }
        found.compressibleContent = compressible / looked * total
        found.compressedContent = compressed / looked * total
        found.storedContent = stored / looked * total
        return found
    }
}
