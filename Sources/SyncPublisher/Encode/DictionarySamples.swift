import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Reads pieces of a set, evenly over all of it in path order: what a dictionary is made of and tried on.
///
/// At first one byte of 24 is looked at, at most 4 MiB: where a dictionary cannot pay, that is all that was lost. Then as much
/// as gives 32 MiB of compressible pieces, at most 256 MiB and a sixth of the set: what is looked at is compressed, made into
/// dictionaries and compressed again, and that must not take longer than packing everything.
struct DictionarySamples {
    let root: SharedRoot
    let tree: SourceTree
    let base: BaseSet?
    let level: Int32
    /// Told how many **bytes** have been looked at, after each file, and how many will be.
    let onLook: (UInt64, UInt64) -> Void

    /// Files are looked at in pieces of so many **bytes**, about as long as the chunks they are cut into.
    static let pieceSize = 64 << 10
    private static let firstLook = (share: 1.0 / 24, least: 262_144.0, most: 4.0 * 1_048_576)
    private static let mostLooks = 256.0 * 1_048_576
    private static let mostSamples = 32 << 20
    private static let mostShare = 1.0 / 6
    /// One piece of so many is not made part of the dictionary, but tried with it.
    private static let onePieceOf = 8

    /// What was found.
    struct Found {
        /// Compressible pieces one after the other, and how long each is.
        var bytes: [UInt8] = []
        var sizes: [Int] = []
        /// Compressible pieces apart from those.
        var others: [[UInt8]] = []
        /// Of the whole set, by what was looked at, in **bytes**: content that can be compressed, what becomes of
        /// that, and what becomes of everything.
        var compressibleContent = 0.0
        var compressedContent = 0.0
        var storedContent = 0.0
        /// **Bytes** that were given to zstd.
        var looked: UInt64 = 0
    }

    /// What there is to look at.
    private struct Subject {
        var files: [Int]
        var total: Double
    }

    private var subject: Subject {
        let files = tree.entries.indices.filter { tree.entries[$0].isRead && isNew($0) }
        return Subject(files: files, total: files.reduce(0.0) { $0 + Double(tree.entries[$1].stamp.size) })
    }

    /// Looks at little; `nil` when fewer than `least` **bytes** of the set can be compressed.
    func takeFew(least: Double) throws(PublishError) -> Found? {
        let subject = subject
        guard subject.total >= least else { return nil }
        let rule = Self.firstLook
        let few = try look(subject, wanted: min(max(subject.total * rule.share, rule.least), rule.most))
        return few.compressibleContent >= least ? few : nil
    }

    /// Looks at what a dictionary is made of.
    ///
    /// - Parameters:
    ///   - few: What was found before, which says how much there is.
    ///   - isForced: Whether there will be a dictionary, however long it takes.
    func takeMany(after few: Found, isForced: Bool) throws(PublishError) -> Found {
        let subject = subject
        let share = few.compressibleContent / max(1, subject.total)
        let most = isForced ? Self.mostLooks : min(Self.mostLooks, subject.total * Self.mostShare)
        return try look(subject, wanted: min(Double(Self.mostSamples) / share, most))
    }

    /// Whether the base does not have it, by its path and length: what was published without stays as it is.
    private func isNew(_ index: Int) -> Bool {
        guard let files = base?.manifest.files else { return true }
        return tree.withPath(index) { path in
            let row = files.firstRow(notBefore: path)
            guard row < files.count, files.kind(row) != .link,
                files.size(row) == tree.entries[index].stamp.size
            else { return true }
            return files.withPath(row) { !$0.elementsEqual(path) }
        }
    }

    private func look(_ subject: Subject, wanted: Double) throws(PublishError) -> Found {
        let (files, total) = (subject.files, subject.total)
        var encoder = try BlobEncoder.make(level: level)
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
            var descriptor: OpenFile?
            var offset: UInt64 = 0
            while offset < size {
                let count = Int(min(UInt64(Self.pieceSize), size - offset))
                seen += Double(count)
                defer { offset += UInt64(count) }
                // Even over the set: as much has been looked at as has gone by, times the share.
                guard looked < seen * share else { continue }
                if descriptor == nil { descriptor = OpenFile(try root.openFile(tree, file)) }
                guard let opened = descriptor else { continue }
                let piece = UnsafeMutableRawBufferPointer(rebasing: raw[..<count])
                // What cannot be read now is reported when all of it is read.
                guard readFully(opened.file.raw, into: piece, at: offset) == count else { continue }
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

    private final class OpenFile {
        let file: Descriptor
        init(_ file: consuming Descriptor) { self.file = file }
    }
}
