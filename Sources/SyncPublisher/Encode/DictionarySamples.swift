import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Samples a set evenly in path order, for making and trying a dictionary.
///
/// First one byte in 24 is read, at most 4 MiB: if a dictionary cannot pay, only that was spent. Then enough for 32 MiB
/// of compressible pieces, at most 256 MiB and a sixth of the set: samples are compressed, made into dictionaries and
/// compressed again, which must not take longer than packing everything.
struct DictionarySamples {
    let root: SourceRoot
    let tree: SourceTree
    let base: BaseSet?
    let level: Int32
    /// Called after each file with the **bytes** sampled and to be sampled.
    let onLook: (UInt64, UInt64) -> Void

    /// Files are sampled in pieces of this many **bytes**, about as long as chunks.
    static let pieceSize = 64 << 10
    private static let firstLook = (share: 1.0 / 24, least: 262_144.0, most: 4.0 * 1_048_576)
    private static let mostLooks = 256.0 * 1_048_576
    private static let mostSamples = 32 << 20
    private static let mostShare = 1.0 / 6
    /// One piece in this many is kept out of the dictionary, to try it on.
    private static let onePieceOf = 8

    struct Found {
        /// Compressible pieces in a row, and the length of each.
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

    /// What can be sampled: files, and their **bytes**.
    private var subject: (files: [Int], total: Double) {
        let files = tree.entries.indices.filter { tree.entries[$0].isRead && isNew($0) }
        return (files, files.reduce(0.0) { $0 + Double(tree.entries[$1].stamp.size) })
    }

    /// Takes a few samples; `nil` if fewer than `least` **bytes** of the set are compressible.
    func takeFew(least: Double) throws(PublishError) -> Found? {
        let subject = subject
        guard subject.total >= least else { return nil }
        let rule = Self.firstLook
        let few = try look(subject, wanted: min(max(subject.total * rule.share, rule.least), rule.most))
        return few.compressibleContent >= least ? few : nil
    }

    /// Takes the samples for a dictionary; if it is forced, however long that takes.
    func takeMany(after few: Found, isForced: Bool) throws(PublishError) -> Found {
        let subject = subject
        let share = few.compressibleContent / max(1, subject.total)
        let most = isForced ? Self.mostLooks : min(Self.mostLooks, subject.total * Self.mostShare)
        return try look(subject, wanted: min(Double(Self.mostSamples) / share, most))
    }

    /// Whether the base lacks it, by path and length: content published without a dictionary stays as it is.
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

    private func look(_ subject: (files: [Int], total: Double), wanted: Double) throws(PublishError) -> Found {
        let (files, total) = subject
        var encoder = try BlobEncoder(level: level)
        let raw = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceSize, alignment: 16)
        let target = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceSize, alignment: 16)
        defer {
            raw.deallocate()
            target.deallocate()
        }
        var found = Found()
        let share = min(1, wanted / total)
        var (seen, looked, compressible, compressed, stored) = (0.0, 0.0, 0.0, 0.0, 0.0)
        for file in files {
            onLook(UInt64(looked), UInt64(min(wanted, total)))
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
                // Private keys are refused later, too; nothing of one may be in a dictionary before.
                if offset == 0, FoundKeys.isPrivateKey(UnsafeRawBufferPointer(piece)) { continue }
                looked += Double(count)
                let encoded = try encoder.compress(UnsafeRawBufferPointer(piece), into: target)
                stored += Double(encoded?.length ?? count)
                guard let encoded else { continue }
                compressible += Double(count)
                compressed += Double(encoded.length)
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
