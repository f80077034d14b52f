import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Reads pieces of a set, evenly over all of it in path order: what a dictionary is made of and tried on.
///
/// At first 16 MiB are looked at; where little of that can be compressed, nothing else is read. Then as much as gives
/// 32 MiB of compressible pieces, at most 256 MiB.
struct DictionarySamples {
    let root: SharedRoot
    let tree: SourceTree
    let base: BaseSet?
    let level: Int32
    /// Told how many **bytes** have been looked at, after each file.
    let onLook: (UInt64) -> Void

    /// Files are looked at in pieces of so many **bytes**, about as long as the chunks they are cut into.
    static let pieceSize = 64 << 10
    private static let firstLook = 16.0 * 1_048_576
    private static let mostLooks = 256.0 * 1_048_576
    private static let mostSamples = 32 << 20
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
    }

    /// Looks; `nil` when fewer than `least` **bytes** of the set can be compressed.
    func take(least: Double) throws(PublishError) -> Found? {
        let files = tree.entries.indices.filter { tree.entries[$0].isRead && isNew($0) }
        let total = files.reduce(0.0) { $0 + Double(tree.entries[$1].stamp.size) }
        guard total >= least else { return nil }
        let first = try look(files, total, wanted: Self.firstLook)
        guard first.compressibleContent >= least else { return nil }
        if total <= Self.firstLook { return first }
        let share = first.compressibleContent / total
        return try look(files, total, wanted: min(Double(Self.mostSamples) / share, Self.mostLooks))
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

    private func look(_ files: [Int], _ total: Double, wanted: Double) throws(PublishError) -> Found {
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
            onLook(UInt64(looked))
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
                // What cannot be read now is told by who reads it all.
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
