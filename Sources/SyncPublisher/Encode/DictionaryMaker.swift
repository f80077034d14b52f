import SyncCompression
import SyncManifest
import SyncModel

/// Decides whether a dictionary pays for a set, and makes it.
///
/// Small files of one kind (icons, JSON, scripts) say the same things over and over, and each is a frame of its own,
/// so that it can be fetched alone. A dictionary holds what they have in common, once. Whether it pays is measured, on
/// files that it was not made of.
struct DictionaryMaker {
    let options: PublishOptions
    let samples: DictionarySamples

    /// What it must save to be worth a request more and a reader that knows it: **bytes**, and hundredths of all.
    private static let leastSaving = (bytes: 4.0 * 1_048_576, percent: 4.0)
    /// **Bytes** of compressible content that are not worth a look.
    private static let leastContent = 8.0 * 1_048_576
    /// Possible sizes in **bytes**.
    private static let capacities = [128 << 10, 512 << 10, 2 << 20, 4 << 20]
    /// It has at most one of so many **bytes** of compressed content, and two sizes are tried.
    private static let contentPerByte = 6.0

    /// A dictionary, and what goes into its pack.
    struct Made {
        let dictionary: SetDictionary
        let stored: SetDictionary.Stored
    }

    /// What a dictionary of one size would do for the whole set, by what it did for some files; **bytes**.
    private struct Trial {
        var made: Made
        /// Less than without it, the dictionary itself deducted.
        var saving: Double
    }

    /// The dictionary; `nil` when none pays.
    func make() throws(PublishError) -> Made? {
        let isForced = options.dictionary == .always
        guard let found = try samples.take(least: isForced ? 1 : Self.leastContent) else { return nil }
        var best: Trial?
        let most = found.compressedContent / Self.contentPerByte
        let possible = Self.capacities.filter { Double($0) <= most }
        for capacity in isForced && possible.isEmpty ? [Self.capacities[0]] : possible.suffix(2) {
            guard let trial = try attempt(found, capacity: capacity) else { continue }
            if trial.saving > best?.saving ?? -.infinity { best = trial }
        }
        guard let best else { return nil }
        let pays =
            best.saving >= Self.leastSaving.bytes
            && best.saving * 100 >= found.storedContent * Self.leastSaving.percent
        return pays || isForced ? best.made : nil
    }

    private func attempt(_ found: DictionarySamples.Found, capacity: Int) throws(PublishError) -> Trial? {
        let bytes = found.bytes.withUnsafeBytes {
            trainDictionary($0, sizes: found.sizes, capacity: capacity)
        }
        guard let bytes else { return nil }
        let dictionary = try SetDictionary(bytes, level: options.level)
        var encoder = try BlobEncoder.make(level: options.level, dictionary: dictionary.encoding)
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: DictionarySamples.pieceSize,
            alignment: 16
        )
        defer { buffer.deallocate() }
        var (raw, saved) = (0, 0)
        for piece in found.others {
            let encoded = try piece.withUnsafeBufferPointer { bytes throws(PublishError) in
                try encoder.compress(UnsafeRawBufferPointer(bytes), into: buffer)
            }
            raw += piece.count
            saved += encoded?.saved ?? 0
        }
        let rate = raw > 0 ? Double(saved) / Double(raw) : 0
        let stored = try dictionary.stored()
        return Trial(
            made: Made(dictionary: dictionary, stored: stored),
            saving: rate * found.compressibleContent - Double(stored.bytes.count)
        )
    }
}
