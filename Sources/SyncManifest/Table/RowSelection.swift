import SyncModel

extension Manifest {
    /// The rows that belong to any of the named groups; without names, all files.
    ///
    /// A row belongs to a group when its own `group` names it, or when one of the group's patterns matches its
    /// path. Every row belongs to ``RunRecipe/groupOfAll``.
    ///
    /// - Parameter isStopped: Called often: matching patterns can take seconds.
    /// - Returns: `nil` when it was stopped.
    package func selection(groups names: [String], isStopped: () -> Bool = { false }) throws(UnknownGroup)
        -> RowSelection?
    {
        guard let wanted = try groups(named: names) else { return RowSelection(all: files.count) }
        var selection = RowSelection(none: files.count)
        for group in wanted { guard files.add(group, to: &selection, isStopped) else { return nil } }
        return selection
    }

    /// The groups with these names; `nil` for all files.
    ///
    /// - Throws: ``UnknownGroup`` for the first name that is no group of this manifest.
    package func groups(named names: [String]) throws(UnknownGroup) -> [Group]? {
        guard !names.isEmpty else { return nil }
        let known = Dictionary(groups.map { ($0.name, $0) }) { first, _ in first }
        var found: [Group] = []
        for name in names {
            if name == RunRecipe.groupOfAll { return nil }
            guard let group = known[name] else {
                throw UnknownGroup(name: name, known: [RunRecipe.groupOfAll] + groups.map(\.name))
            }
            found.append(group)
        }
        return found
    }

    /// The rows that belong to a group; `nil` when it was stopped.
    package func rows(of group: Group, isStopped: () -> Bool) -> RowSelection? {
        var selection = RowSelection(none: files.count)
        return files.add(group, to: &selection, isStopped) ? selection : nil
    }
}

extension FileTable {
    /// The rows of this table that belong to a group.
    package func rows(of group: Manifest.Group) -> RowSelection {
        var selection = RowSelection(none: count)
        _ = add(group, to: &selection) { false }
        return selection
    }

    func add(_ group: Manifest.Group, to selection: inout RowSelection, _ isStopped: () -> Bool) -> Bool {
        if let number = number(ofGroup: group.name) { forEachRow(ofGroup: number) { selection.insert($0) } }
        for pattern in group.include {
            let glob = Glob(pattern)
            let isWhole = arena.withUnsafeBufferPointer { arena in
                for row in rows(below: glob.literalPrefix) {
                    if row & 255 == 0, isStopped() { return false }
                    if !selection.contains(row), glob.matches(path(row, in: arena)) { selection.insert(row) }
                }
                return !isStopped()
            }
            if !isWhole { return false }
        }
        return true
    }
}

/// Some rows of a manifest: **1 bit** each.
package struct RowSelection: Sendable, Equatable {
    private var words: [UInt64]

    /// Number of selected rows.
    package private(set) var count: Int

    init(none rows: Int) {
        words = Array(repeating: 0, count: (rows + 63) / 64)
        count = 0
    }

    init(all rows: Int) {
        words = Array(repeating: .max, count: (rows + 63) / 64)
        count = rows
        if rows % 64 > 0 { words[rows / 64] = (1 << UInt64(rows % 64)) - 1 }
    }

    /// Whether a row is selected; no row outside the table is.
    package func contains(_ row: Int) -> Bool {
        words.indices.contains(row / 64) && row >= 0 && words[row / 64] >> UInt64(row % 64) & 1 == 1
    }

    /// The selected rows, ascending.
    package var rows: [Int] {
        var rows: [Int] = []
        rows.reserveCapacity(count)
        forEach { rows.append($0) }
        return rows
    }

    /// Calls `body` for every selected row, ascending.
    package func forEach(_ body: (Int) -> Void) {
        for (index, word) in words.enumerated() {
            var rest = word
            while rest != 0 {
                body(index * 64 + rest.trailingZeroBitCount)
                rest &= rest - 1
            }
        }
    }

    mutating func insert(_ row: Int) {
        guard !contains(row) else { return }
        words[row / 64] |= 1 << UInt64(row % 64)
        count += 1
    }
}

/// The error for a group that the manifest does not have.
package struct UnknownGroup: Error, Sendable, Equatable, CustomStringConvertible {
    package let name: String
    package let known: [String]

    /// One line for people.
    package var description: String {
        let shown = known.prefix(20).joined(separator: ", ") + (known.count > 20 ? ", …" : "")
        return "the manifest has no group \(quoted(name)); it has: \(shown)"
    }
}
