import SyncFiles
import SyncManifest
import SyncModel
import SyncStore

/// The files that a file hook has not been given: those placed since it last did its work.
struct UntoldFiles {
    let manifest: Manifest
    let store: SyncStore
    let session: String

    /// Tolerance for file servers' clocks; **nanoseconds**.
    private static let slack: Int64 = 60_000_000_000

    /// The `rows` placed by the work, according to its events; `nil` if some events are no longer kept.
    func among(_ rows: [Int], _ work: UntoldWork) throws(StoreError) -> [Int]? {
        guard work.isOnRecord else { return nil }
        let marks = try marks(work)
        guard !marks.isEmpty else { return [] }
        return rows.filter { marks.contains(Self.mark(RunEvents.path(manifest.files.path($0)))) }
    }

    /// Of `rows`, those whose status has changed since a time, and those of which that is not known. A rename sets the time
    /// of a file's last status change (rename(2)), and nobody can set it to another time.
    ///
    /// - Parameter time: **Milliseconds** since 1970.
    func among(_ rows: [Int], since time: Int64, in destination: Destination) -> [Int] {
        let (nanoseconds, overflows) = time.multipliedReportingOverflow(by: 1_000_000)
        let first = overflows ? .min : nanoseconds.subtractingReportingOverflow(Self.slack).partialValue
        let index = StatIndex.read(from: destination)
        return rows.filter { row in
            let record = manifest.files.withPath(row, index.position(of:)).flatMap(index.record)
            return record.map { $0.status.changed >= first } ?? true
        }
    }

    /// One number per path, so that a million paths need not be held; a collision only gives a hook a file too many.
    private func marks(_ work: UntoldWork) throws(StoreError) -> Set<Int> {
        var marks: Set<Int> = []
        var hasStarted = work.after == nil
        let events = RunEvents()
        try store.scanEvents(of: session, after: work.after ?? 0) { event in
            if events.has(.groupCompleted, in: event.line) {
                if let through = work.through, event.sequence > through { return false }
                hasStarted = true
            }
            if hasStarted, let path = events.installedPath(in: event.line) { marks.insert(Self.mark(path)) }
            return true
        }
        return marks
    }

    private static func mark(_ path: [UInt8]) -> Int {
        var hasher = Hasher()
        path.withUnsafeBytes { hasher.combine(bytes: $0) }
        return hasher.finalize()
    }
}
