import SyncContent
import SyncFiles
import SyncManifest
import SyncModel

/// The record of each row of a manifest, if any: **4 bytes** a row, and 48 more for each record that the index does not
/// have. A row with a record has the content that the manifest says.
struct RecordColumn: Sendable {
    /// By row: 0 for none, an entry's position plus 1, or ``isOld`` and the position in the index.
    private var numbers: [UInt32]
    private var entries: [Entry] = []
    private let files: FileTable
    private let old: StatIndex

    private static let isOld: UInt32 = 1 << 31

    /// A record without what the manifest says anyway.
    private struct Entry: Sendable {
        var status: IndexRecord.Status
        var kind: IndexRecord.Kind
        var installed: Bool
    }

    /// No row has a record.
    ///
    /// - Parameter old: The index that was read.
    init(_ files: FileTable = FileTable(), old: StatIndex = .empty) {
        numbers = Array(repeating: 0, count: files.count)
        self.files = files
        self.old = old
    }

    subscript(row: Int) -> IndexRecord? {
        let number = numbers[row]
        if number & Self.isOld != 0 { return old.record(Int(number & ~Self.isOld)) }
        guard number != 0, let digest = files.contentDigest(row) else { return nil }
        let entry = entries[Int(number) - 1]
        return IndexRecord(entry.status, digest: digest, kind: entry.kind, installed: entry.installed)
    }

    /// Whether there is a record for a row.
    func has(_ row: Int) -> Bool { numbers[row] != 0 }

    /// How many rows have a record.
    var count: Int { numbers.count { $0 != 0 } }

    /// The rows that have a record, ascending.
    var rows: some Sequence<Int> { numbers.indices.lazy.filter { numbers[$0] != 0 } }

    /// Adds records of files that match the manifest; later ones replace earlier ones.
    mutating func take(_ more: [(row: Int, record: IndexRecord)]) {
        for (row, record) in more {
            entries.append(Entry(status: record.status, kind: record.kind, installed: record.installed))
            // A manifest has at most five million rows, each with a record or two.
            numbers[row] = UInt32(clamping: entries.count)
        }
    }

    /// Adds all records of another column of the same manifest; nothing is copied for the first.
    mutating func take(_ other: RecordColumn) {
        let first = UInt32(clamping: entries.count)
        if entries.isEmpty { entries = other.entries } else { entries += other.entries }
        for row in other.rows where other.numbers[row] & Self.isOld == 0 { numbers[row] = first + other.numbers[row] }
    }

    /// Adds rows whose record in the index is still true.
    ///
    /// - Parameter more: Rows, and positions in the index; one has at most 2³¹ - 1.
    mutating func take(old more: [(row: Int, position: Int)]) {
        for (row, position) in more { numbers[row] = UInt32(clamping: position) | Self.isOld }
    }
}

extension FileTable {
    /// The digest for a row in the index: of the content or, for a link, of its target. `nil` if out of memory: the row
    /// then has no record.
    func contentDigest(_ row: Int) -> SHA256Digest? {
        guard let target = linkTarget(row), kind(row) == .link else { return digest(row) }
        return try? sha256(target)
    }
}
