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
        return rows.filter { row in
            let path = JSONLine.object { $0.field("path", manifest.files.path(row)) }.bytes
            return Self.path(path[...]).map { marks.contains(Self.mark($0)) } ?? false
        }
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
            let record = manifest.files.withPath(row) { path -> IndexRecord? in
                let position = index.lowerBound(path)
                guard position < index.count, index.withPath(position, { PathOrder.compare($0, path) }) == 0
                else { return nil }
                return index.record(position)
            }
            return record.map { $0.status.changed >= first } ?? true
        }
    }

    /// One number per path, so that a million paths need not be held; a collision only gives a hook a file too many.
    private func marks(_ work: UntoldWork) throws(StoreError) -> Set<Int> {
        var marks: Set<Int> = []
        var seen = work.after ?? 0
        var hasStarted = work.after == nil
        while true {
            let page = try store.events(of: session, after: seen, limit: 4_096)
            guard let last = page.events.last else { return marks }
            for event in page.events {
                if event.line.starts(with: Self.completed) {
                    if let through = work.through, event.sequence > through { return marks }
                    hasStarted = true
                }
                guard hasStarted, event.line.starts(with: Self.installed),
                    let path = Self.path(event.line[...])
                else { continue }
                marks.insert(Self.mark(path))
            }
            seen = last.sequence
        }
    }

    private static let installed = Array("{\"event\":\"task.installed\"".utf8)
    private static let completed = Array("{\"event\":\"group.completed\"".utf8)
    private static let key = Array("\"path\":\"".utf8)

    /// The value of `path`, escaped as by ``JSONLine``.
    private static func path(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        var rest = line
        while let quote = rest.firstIndex(of: 0x22) {
            rest = rest[quote...]
            if rest.starts(with: key) {
                let start = quote + key.count
                var end = start
                while end < line.endIndex, line[end] != 0x22 { end += line[end] == 0x5C ? 2 : 1 }
                return end < line.endIndex ? line[start..<end] : nil
            }
            rest = rest.dropFirst()
        }
        return nil
    }

    private static func mark(_ path: ArraySlice<UInt8>) -> Int {
        var hasher = Hasher()
        path.withUnsafeBytes { hasher.combine(bytes: $0) }
        return hasher.finalize()
    }
}
