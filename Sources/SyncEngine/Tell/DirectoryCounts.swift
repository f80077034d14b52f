import SyncManifest

/// Where a run put files: counts by leading directory, the largest first.
struct DirectoryCounts: Sendable, Equatable {
    struct Count: Sendable, Equatable {
        /// `.` for files in no directory; `nil` for all that are not listed.
        var path: String?
        var files: Int
        /// Raw **bytes**.
        var bytes: UInt64
    }

    private(set) var counts: [Count] = []

    /// Directories that are listed by name.
    private static let limit = 20

    init() {}

    /// Counts the rows that were placed.
    init(_ manifest: Manifest, _ states: RowStates) {
        var sums: [Substring: (files: Int, bytes: UInt64)] = [:]
        for row in 0..<manifest.files.count where states[row] == .installed || states[row] == .reused {
            let path = manifest.files.path(row)
            let top = path.utf8.firstIndex(of: 0x2F).map { path[..<$0] } ?? "."
            let size = manifest.files.kind(row) == .link ? 0 : manifest.files.size(row)
            sums[top, default: (0, 0)].files += 1
            sums[top, default: (0, 0)].bytes &+= size
        }
        let sorted = sums.sorted { ($1.value.bytes, $0.key) < ($0.value.bytes, $1.key) }
        counts = sorted.prefix(Self.limit).map {
            Count(path: String($0.key), files: $0.value.files, bytes: $0.value.bytes)
        }
        let rest = sorted.dropFirst(Self.limit)
        guard !rest.isEmpty else { return }
        let (files, bytes) = rest.reduce((0, 0)) { ($0.0 + $1.value.files, $0.1 &+ $1.value.bytes) }
        counts.append(Count(path: nil, files: files, bytes: bytes))
    }
}
