import SyncFiles
import SyncManifest
import SyncModel
import SyncReport
import SyncStore

/// The files of a run, and the result of each in this process's work on it.
struct RunFiles: Sendable {
    let manifest: Manifest
    /// The rows of the run, ascending.
    let rows: [Int]
    /// By row of the manifest; ``TaskTracker/Mark/waiting`` for files that are not in place yet.
    private var states: [TaskTracker.Mark]
    /// Why rows failed or were cancelled.
    private(set) var reasons: [Int: String] = [:]

    /// - Parameter state: The initial state of all.
    init(_ manifest: Manifest, _ rows: [Int], _ state: TaskTracker.Mark) {
        (self.manifest, self.rows) = (manifest, rows)
        states = Array(repeating: .unselected, count: manifest.files.count)
        for row in rows { states[row] = state }
    }

    subscript(row: Int) -> TaskTracker.Mark {
        get { states[row] }
        set { states[row] = newValue }
    }

    /// The state of each row of the manifest.
    var all: [TaskTracker.Mark] { states }

    /// Ends a row without a file.
    mutating func end(_ row: Int, _ state: TaskTracker.Mark, _ reason: String) {
        states[row] = state
        reasons[row] = reason
    }

    func count(_ state: TaskTracker.Mark) -> Int { states.count { $0 == state } }

    /// Rows that ended without their files.
    var missing: Int { count(.failed) + count(.cancelled) }

    /// Whether a row is one of the run's.
    func isSelected(_ row: Int) -> Bool { states[row] != .unselected }

    /// Whether this process has put a row's file in place.
    func isPlaced(_ row: Int) -> Bool { states[row] == .installed || states[row] == .reused }

    /// Rows that readers had with other content, or not at all.
    ///
    /// - Parameter former: The index of the readers' former files.
    func unseen(since former: StatIndex) -> [Int] {
        let files = manifest.files
        var walk = IndexWalk(index: former)
        return rows.filter { row in
            let record = files.withPath(row) { walk.find($0) }.flatMap(former.record)
            return record?.digest != files.contentDigest(row) || record?.kind != files.kind(row)
        }
    }

    /// Raw **bytes** of all rows.
    var bytes: UInt64 { rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) } }

    /// Why files are missing, if all are for the same reason.
    var commonReason: String? {
        var sums = FailureSums()
        for (row, reason) in reasons.sorted(by: { $0.key < $1.key }) {
            sums.take(path: manifest.files.path(row), reason: reason, cause: .other, time: 0)
            if sums.problems.count > 1 { return nil }
        }
        return sums.problems.first?.detail
    }

    /// The result of a group with these rows.
    func end(of name: String, _ rows: RowSelection) -> CompletedGroup {
        var (missing, changed) = (0, 0)
        rows.forEach { row in
            switch states[row] {
            case .failed, .cancelled, .waiting, .paused: missing += 1
            case .installed, .reused: changed += 1
            case .unselected, .unchanged: break
            }
        }
        let result: RunResult = missing == 0 ? .ok : missing == rows.count ? .failed : .partial
        return CompletedGroup(name: name, result: result, changed: changed)
    }

    /// The most directories that are listed by name.
    private static let mostDirectories = 20

    /// The files that this process placed, counted by leading directory, the largest first. The path is `.` for files
    /// in no directory, and `nil` for all directories that are not listed.
    var directories: [DirectoryAmount] {
        var sums: [Substring: (files: Int, bytes: UInt64)] = [:]
        for row in rows where isPlaced(row) {
            let path = manifest.files.path(row)
            let top = path.utf8.firstIndex(of: 0x2F).map { path[..<$0] } ?? "."
            sums[top, default: (0, 0)].files += 1
            sums[top, default: (0, 0)].bytes &+= manifest.files.kind(row) == .link ? 0 : manifest.files.size(row)
        }
        let sorted = sums.sorted { ($1.value.bytes, $0.key) < ($0.value.bytes, $1.key) }
        let rest = sorted.dropFirst(Self.mostDirectories).reduce((0, 0)) {
            ($0.0 + $1.value.files, $0.1 &+ $1.value.bytes)
        }
        return sorted.prefix(Self.mostDirectories).map { (String($0.key), $0.value.files, $0.value.bytes) }
            + (rest.0 > 0 ? [(nil, rest.0, rest.1)] : [])
    }
}

extension TaskTracker.Mark {
    /// The word for a row in reports.
    var word: String { self == .waiting ? "pending" : "\(self)" }
}
