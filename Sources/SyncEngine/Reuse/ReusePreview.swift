import SyncFiles
import SyncManifest
import SyncModel
import SyncPlanner

/// What a pull would take from local files, for `syncagent plan`: creates nothing, and reads only bases of deltas.
struct ReusePreview {
    /// **Bytes** of wanted files found in local files.
    private(set) var bytes: UInt64 = 0
    private let wanted: [Int]
    private let manifest: Manifest
    private let sources: ChunkSources
    private let bases: DeltaBases?

    /// - Parameter destination: `nil` if there is none yet.
    init(
        _ manifest: Manifest,
        wanted: [Int],
        index: StatIndex,
        destination: Destination?,
        threads: Int,
        isStopped: @escaping @Sendable () -> Bool
    ) {
        let manifest = manifest.sharingBlobs(among: wanted)
        self.manifest = manifest
        let known = Set(
            (0..<index.count).compactMap { index.record($0) }.filter { $0.kind != .link }.map(\.digest)
        )
        var open: [Int] = []
        for row in wanted {
            if manifest.files.size(row) > 0, known.contains(manifest.files.digest(row)) {
                bytes &+= manifest.files.size(row)
            } else {
                open.append(row)
            }
        }
        self.wanted = open
        guard let destination else {
            sources = ChunkSources(manifest: manifest)
            bases = nil
            return
        }
        let sources = ChunkSources.find(
            manifest,
            wanted: open,
            isHere: { _, _ in false },
            index: index,
            destination: destination,
            staging: nil,
            parts: [],
            isStopped: isStopped
        )
        self.sources = sources
        bases = DeltaBases(
            manifest,
            wanted: open,
            isWanted: { !sources.has(row: $0, blob: $1) },
            index: index,
            destination: destination,
            threads: threads,
            isStopped: isStopped
        )
        for row in open { bytes &+= self.bytes(of: row) }
    }

    /// **Bytes** of a wanted file found in local chunks.
    func bytes(of row: Int) -> UInt64 {
        manifest.files.blobs(row).enumerated().reduce(UInt64(0)) { sum, next in
            sources.has(row: row, blob: next.offset) ? sum &+ next.element.rawLength : sum
        }
    }

    /// The plan for the rest.
    func plan(connections: Int) throws(PlanError) -> Plan {
        let rule = FetchRounds.rule(
            for: manifest,
            wanted: wanted,
            connections: connections,
            skipping: sources.has
        )
        return try makePlan(
            manifest,
            wanted: wanted,
            rule: rule,
            skipping: sources.has,
            delta: { bases?.delta(row: $0, blob: $1) }
        )
    }
}
