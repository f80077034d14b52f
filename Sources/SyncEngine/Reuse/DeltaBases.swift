import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Local bytes of former versions, and the deltas that they make usable.
///
/// Each base is read and hashed before its delta is fetched. Files stay open unless there are too many; if a base still
/// changes, the resulting blob has the wrong SHA-256 and the full blob is fetched.
struct DeltaBases: Sendable {
    private var files: [Int: ChunkFile] = [:]
    private let manifest: Manifest
    private let index: StatIndex
    private let destination: Destination

    /// - Parameter isWanted: Whether a blob must be fetched, by row and position in the row.
    init(
        _ manifest: Manifest, wanted: [Int], isWanted: (_ row: Int, _ blob: Int) -> Bool, index: StatIndex,
        destination: Destination, threads: Int, isStopped: @escaping @Sendable () -> Bool
    ) {
        self.manifest = manifest
        self.index = index
        self.destination = destination
        var candidates: [Int] = []
        for row in wanted {
            let deltas = manifest.files.deltas(row)
            for position in deltas.indices where isWanted(row, Int(deltas[position].blob)) {
                candidates.append(position)
            }
        }
        guard !candidates.isEmpty, index.count > 0 else { return }
        let checks = Self.checks(candidates, manifest, index, destination)
        let found = concurrently(
            over: checks.count, threads: threads, name: "bases", isStopped: isStopped,
            by: { _ in try ChunkReader(index, destination, nil) }
        ) { reader, place -> [Int] in
            var right: [Int] = []
            _ = checks[place].file.withDescriptor(reader) { raw in
                for delta in checks[place].deltas where !isStopped() {
                    let wanted = manifest.files.delta(at: delta)
                    if reader.digest(of: raw, wanted.base) == wanted.baseDigest { right.append(delta) }
                }
            }
            return right
        }
        for (place, right) in found { for delta in right { files[delta] = checks[place].file } }
    }

    /// Deltas by the local file that contains their base.
    private static func checks(
        _ candidates: [Int], _ manifest: Manifest, _ index: StatIndex, _ destination: Destination
    ) -> [(file: ChunkFile, deltas: [Int])] {
        var deltas: [SHA256Digest: [Int]] = [:]
        for candidate in candidates {
            deltas[manifest.files.delta(at: candidate).baseFile, default: []].append(candidate)
        }
        guard let reader = try? ChunkReader(index, destination, nil) else { return [] }
        var checks: [(ChunkFile, [Int])] = []
        for entry in 0..<index.count where !deltas.isEmpty {
            guard let record = index.record(entry), record.kind != .link, let users = deltas[record.digest],
                let opened = reader.open(.indexed(entry), number: checks.count), opened.size == record.status.size
            else { continue }
            deltas[record.digest] = nil
            checks.append((opened, users))
        }
        return checks
    }

    /// The index of a delta from which a blob can be made.
    func delta(row: Int, blob: Int) -> Int? {
        guard !files.isEmpty else { return nil }
        let deltas = manifest.files.deltas(row)
        let index = deltas.indices.partitioningIndex { Int(deltas[$0].blob) >= blob }
        return index < deltas.endIndex && Int(deltas[index].blob) == blob && files[index] != nil ? index : nil
    }

    /// **Bytes** of the base of a delta.
    func length(_ delta: Int) -> Int { Int(clamping: manifest.files.delta(at: delta).base.length) }

    /// Reads the base of a delta.
    ///
    /// - Returns: Whether all of `target`, which has the length of the base, was read.
    func read(_ delta: Int, into target: UnsafeMutableRawBufferPointer) -> Bool {
        guard let file = files[delta] else { return false }
        let start = manifest.files.delta(at: delta).base.lowerBound
        let count = file.withDescriptor(opening: { Directories(destination).open($0, index, nil) }) {
            readFully($0, into: target, at: start)
        }
        return count == target.count
    }
}
