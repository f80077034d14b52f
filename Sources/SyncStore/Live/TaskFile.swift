package import SyncModel
package import SyncSystem

/// The state of each task of a run, one byte per row of the manifest, and the last transfer it was given to.
///
/// Little endian. A header of 64 bytes: `SATASKS1`; the number of rows (8); the run's name, padded with zeros (40);
/// zeros (8). Then a byte per row: its ``Mark``. Then 4 bytes per row: the number of its transfer, 0 for none. The file
/// is created whole and renamed. From then on bytes are overwritten in place, so a killed process leaves the last state
/// of each row.
package final class TaskFile: Sendable {
    /// A row of the manifest in a run.
    package enum Mark: UInt8, Sendable, CaseIterable {
        /// Not a task of this run.
        case unselected
        case waiting
        case unchanged
        case installed
        /// Installed, from local bytes.
        case reused
        case failed
        case cancelled
        /// Paused with its run, until somebody resumes it.
        case paused

        /// The task's state; `nil` for a row that is not a task.
        package var state: TaskState? {
            switch self {
            case .unselected: nil
            case .waiting: .waiting
            case .unchanged: .unchanged
            case .installed, .reused: .installed
            case .failed: .failed
            case .cancelled: .cancelled
            case .paused: .paused
            }
        }
    }

    /// The contents of such a file; `transfers` has the last transfer of each row, 0 for none.
    package typealias Contents = (run: String, marks: [Mark], transfers: [UInt32])

    private static let magic = Array("SATASKS1".utf8)
    private static let headerLength = 64
    private static let runLength = 40
    /// Most rows that are read: more than a manifest may have.
    private static let mostRows = 1 << 26

    private let file: Descriptor
    private let rows: Int

    /// Creates the file of a run.
    ///
    /// - Parameter marks: The state of each row.
    /// - Throws: ``FileError``; the former file is then unchanged.
    package init(_ files: LiveFiles, run: String, marks: [Mark]) throws(FileError) {
        let path = files.tasksPath
        var bytes = Self.magic
        withUnsafeBytes(of: UInt64(marks.count).littleEndian) { bytes += $0 }
        bytes += run.utf8.prefix(Self.runLength)
        bytes += [UInt8](repeating: 0, count: Self.headerLength - bytes.count)
        bytes += marks.map(\.rawValue)
        let temporary = path + ".new"
        file = try createFile(temporary)
        rows = marks.count
        let unwritten = bytes.withUnsafeBytes { writeAll($0, to: file.raw, at: 0) }
        // The transfers' part is a hole until a row is given to a transfer.
        let code =
            unwritten ?? setLength(file.raw, UInt64(Self.headerLength + 5 * marks.count))
            ?? renameEntry(temporary, to: path)
        guard let code else { return }
        removeFile(temporary)
        throw unwritten == nil
            ? FileError(step: "replace", path: path, code: code) : FileError(step: "write", path: temporary, code: code)
    }

    /// Sets the state of rows. A failed write only means that the state is not shown.
    ///
    /// - Parameter rows: In any order; adjacent rows cost one write together.
    package func set(_ rows: [Int], _ mark: Mark) {
        write(mark.rawValue, to: rows, from: Self.headerLength)
    }

    /// Sets the transfer of rows.
    package func give(_ rows: [Int], to transfer: UInt32) {
        write(transfer.littleEndian, to: rows, from: Self.headerLength + self.rows)
    }

    /// Writes one value for some rows, with one write for each group of adjacent rows.
    ///
    /// - Parameter start: The offset of the values of all rows.
    private func write<Value: BitwiseCopyable>(_ value: Value, to rows: [Int], from start: Int) {
        var rest = rows.sorted()[...]
        while let first = rest.first {
            var last = first
            rest.removeFirst()
            while let next = rest.first, next <= last + 1 {
                last = next
                rest.removeFirst()
            }
            guard first >= 0, last < self.rows else { continue }
            let values = Array(repeating: value, count: last - first + 1)
            let place = UInt64(start + first * MemoryLayout<Value>.stride)
            _ = values.withUnsafeBytes { writeAll($0, to: file.raw, at: place) }
        }
    }

    static func read(_ path: String) -> Contents? {
        let limit = headerLength + 5 * mostRows
        guard let bytes = try? readFile(path, trust: .state, limit: limit), bytes.count >= headerLength,
            bytes.starts(with: magic)
        else { return nil }
        let count = bytes.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)) }
        guard count <= mostRows, bytes.count == headerLength + 5 * Int(count) else { return nil }
        let rows = Int(count)
        let name = bytes[16..<16 + runLength].prefix { $0 != 0 }
        return (
            run: String(decoding: name, as: UTF8.self),
            marks: bytes[headerLength..<headerLength + rows].map { Mark(rawValue: $0) ?? .unselected },
            transfers: bytes.withUnsafeBytes { raw in
                (0..<rows).map { row in
                    let offset = headerLength + rows + 4 * row
                    return UInt32(littleEndian: raw.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
                }
            }
        )
    }
}
