package import SyncModel
import SyncSystem

/// The tasks of a run: every step follows the table (``TaskState``), and every resting state is on disk at once, one
/// byte per row of the manifest, with the last transfer it was given to.
///
/// A step that is not in the table leaves the task as it is and is counted as a mistake of this program. `run.summary`
/// has the number, and tests demand that it is 0.
///
/// The file, little endian: a header of 64 bytes: `SATASKS1`; the number of rows (8); the run's name, padded with zeros
/// (40); zeros (8). Then a byte per row: its ``Mark``. Then 4 bytes per row: the number of its transfer, 0 for none. The
/// file is created whole and renamed. From then on bytes are overwritten in place, so a killed process leaves the last
/// state of each row.
package final class TaskTracker: Sendable {
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

        /// The mark for a task in a state.
        fileprivate init(_ state: TaskState, isReused: Bool) {
            switch state {
            case .waiting, .running: self = .waiting
            case .paused: self = .paused
            case .installed: self = isReused ? .reused : .installed
            case .unchanged: self = .unchanged
            case .failed: self = .failed
            case .cancelled: self = .cancelled
            }
        }
    }

    /// Counts of the inputs that led to a step.
    package struct Steps: Sendable {
        fileprivate(set) var taken: [TaskInput: Int] = [:]
        /// Steps that are not in the table.
        package fileprivate(set) var refused = 0

        /// The field `tasks` of `run.summary`.
        package func write(to line: inout JSONLine) {
            for input in TaskInput.allCases { if let count = taken[input] { line.field(input.rawValue, count) } }
            line.field("refused", refused)
        }

        /// - Returns: The state after the inputs; the former one when one of them is refused.
        fileprivate mutating func walk(_ state: TaskState, _ inputs: [TaskInput]) -> TaskState {
            if let next = state.after(inputs, taking: { taken[$0, default: 0] += 1 }) { return next }
            refused += 1
            return state
        }
    }

    /// The contents of the file; `transfers` has the last transfer of each row, 0 for none.
    package typealias Contents = (run: String, marks: [Mark], transfers: [UInt32])

    private static let magic = Array("SATASKS1".utf8)
    private static let headerLength = 64
    private static let runLength = 40
    /// Most rows that are read: more than a manifest may have.
    private static let mostRows = 1 << 26

    /// The state of each task, without meaning for rows outside this run; the marks on disk; the steps so far.
    private let state: Mutex<(states: [TaskState], marks: [Mark], steps: Steps)>
    private let file: SharedDescriptor?
    private let rows: Int

    /// Starts from what the destination has, or continues where another process of the same run ended.
    ///
    /// - Parameters:
    ///   - found: The results of the check of the destination, by row.
    ///   - files: The files for the record; `nil` for no record.
    package init(_ found: [Mark], files: LiveFiles?, run: String) {
        let earlier = files?.tasks().flatMap { $0.run == run && $0.marks.count == found.count ? $0.marks : nil }
        var steps = Steps()
        var (states, marks): ([TaskState], [Mark]) = ([], [])
        states.reserveCapacity(found.count)
        marks.reserveCapacity(found.count)
        for (row, found) in found.enumerated() {
            let before = earlier?[row]
            let next = Self.first(found, before?.state ?? .waiting, &steps)
            states.append(next)
            marks.append(
                found == .unselected ? .unselected : Mark(next, isReused: before == .reused || found == .reused))
        }
        rows = found.count
        // A record that cannot be written is just not shown.
        file = files.flatMap { Self.create($0.tasksPath, run: run, marks) }
        state = Mutex((states, marks, steps))
    }

    private static let again: [TaskInput] = [.resumed, .retried, .lost]
    private static let kept: [TaskInput] = [.resumed, .retried, .unchanged]

    private static func first(_ found: Mark, _ before: TaskState, _ steps: inout Steps) -> TaskState {
        switch found {
        case .unselected: return before
        case .waiting, .paused, .failed, .cancelled: return steps.walk(before, again)
        case .unchanged: return steps.walk(before, kept)
        case .installed, .reused:
            // Another process of this run had placed it.
            return before == .installed ? before : steps.walk(before, again + [.started, .installed])
        }
    }

    package var steps: Steps { state.withLock { $0.steps } }

    /// Assigns rows to a transfer, which is queued.
    package func give(_ rows: [Int], to transfer: UInt64) {
        write(UInt32(truncatingIfNeeded: transfer).littleEndian, to: rows, from: Self.headerLength + self.rows)
    }

    /// Notes that the transfer of rows sends a request, or waits for its server or a retry.
    package func note(_ input: TaskInput, _ rows: [Int]) {
        // A resumed span has delivered some of its rows already.
        step(rows, [input], from: [.waiting, .running])
    }

    /// Notes that a transfer has ended without rows, which will get another one.
    package func released(_ rows: [Int]) { step(rows, [.released]) }

    /// Notes that files are in place, durable and verified. For files that were waiting, or were copied from local
    /// ones, this is also the start.
    package func installed(_ rows: [Int], isReused: (Int) -> Bool) {
        let reused = Set(rows.filter(isReused))
        step(rows.filter { !reused.contains($0) }, [.started, .installed])
        if !reused.isEmpty { step(Array(reused), [.started, .installed], isReused: true) }
    }

    /// Ends a task without its file.
    package func end(_ row: Int, _ input: TaskInput) { step([row], [input]) }

    /// Ends this process's work on the run, with this input for unfinished tasks.
    package func endAll(_ input: TaskInput) {
        let open = state.withLock { state in
            state.marks.indices.filter {
                state.marks[$0] != .unselected && [.waiting, .running, .paused].contains(state.states[$0])
            }
        }
        step(open, [input])
    }

    /// - Parameter origins: Rows in other states are left alone.
    private func step(
        _ rows: [Int], _ inputs: [TaskInput], from origins: [TaskState] = TaskState.allCases, isReused: Bool = false
    ) {
        var changed: [Mark: [Int]] = [:]
        state.withLock { state in
            for row in rows where state.marks.indices.contains(row) && state.marks[row] != .unselected {
                let before = state.states[row]
                guard origins.contains(before) else { continue }
                let next = state.steps.walk(before, inputs)
                guard next != before else { continue }
                state.states[row] = next
                let mark = Mark(next, isReused: isReused)
                guard mark != state.marks[row] else { continue }
                state.marks[row] = mark
                changed[mark, default: []].append(row)
            }
        }
        for (mark, rows) in changed { write(mark.rawValue, to: rows, from: Self.headerLength) }
    }

    /// The number of rows with a mark.
    package func counts() -> [Mark: Int] {
        state.withLock { state in
            var counts = [Int](repeating: 0, count: 256)
            for mark in state.marks { counts[Int(mark.rawValue)] += 1 }
            return Dictionary(uniqueKeysWithValues: Mark.allCases.map { ($0, counts[Int($0.rawValue)]) })
        }
    }

    // MARK: The file

    /// Creates the file of a run; `nil` if that fails, and the former file is then unchanged.
    private static func create(_ path: String, run: String, _ marks: [Mark]) -> SharedDescriptor? {
        var bytes = magic
        withUnsafeBytes(of: UInt64(marks.count).littleEndian) { bytes += $0 }
        bytes += run.utf8.prefix(runLength)
        bytes += [UInt8](repeating: 0, count: headerLength - bytes.count)
        bytes += marks.map(\.rawValue)
        let temporary = path + ".new"
        guard let file = SharedDescriptor(try? createFile(temporary)) else { return nil }
        // The transfers' part is a hole until a row is given to a transfer.
        let code =
            bytes.withUnsafeBytes { writeAll($0, to: file.raw, at: 0) }
            ?? setLength(file.raw, UInt64(headerLength + 5 * marks.count)) ?? renameEntry(temporary, to: path)
        guard code != nil else { return file }
        removeFile(temporary)
        return nil
    }

    /// Writes one value for some rows, in any order, with one write for each group of adjacent rows. A failed write only
    /// means that the value is not shown.
    ///
    /// - Parameter start: The offset of the values of all rows.
    private func write<Value: BitwiseCopyable>(_ value: Value, to rows: [Int], from start: Int) {
        guard let file else { return }
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

    /// Reads a file; `nil` if there is none, or it is damaged or another user's.
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
