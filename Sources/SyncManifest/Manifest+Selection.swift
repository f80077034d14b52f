package import SyncModel

extension Manifest {
    /// The rows that belong to any of the named groups.
    ///
    /// A row belongs to a group when its own `group` names it, or when one of the group's patterns matches its
    /// path. Every row belongs to ``groupOfAll``.
    ///
    /// - Parameter names: Groups; none means all files.
    /// - Returns: The rows of all of them together.
    /// - Throws: ``UnknownGroup`` for the first name that is no group of this manifest.
    package func selection(groups names: [String]) throws(UnknownGroup) -> RowSelection {
        guard !names.isEmpty else { return RowSelection(all: files.count) }
        var selection = RowSelection(none: files.count)
        for name in names {
            if name == Self.groupOfAll { return RowSelection(all: files.count) }
            guard let group = groups.first(where: { $0.name == name }) else {
                throw UnknownGroup(name: name, known: [Self.groupOfAll] + groups.map(\.name))
            }
            add(group, to: &selection)
        }
        return selection
    }

    /// The rows that belong to one group.
    package func rows(of group: Group) -> RowSelection {
        var selection = RowSelection(none: files.count)
        add(group, to: &selection)
        return selection
    }

    private func add(_ group: Group, to selection: inout RowSelection) {
        if let number = files.number(ofGroup: group.name) {
            for row in files.indices where files.groupNumbers[row] == number { selection.insert(row) }
        }
        for pattern in group.include {
            let glob = Glob(pattern)
            for row in files.rows(below: glob.literalPrefix) where !selection.contains(row) {
                if files.withPath(row, glob.matches) { selection.insert(row) }
            }
        }
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
    package var rows: [Int] { (0..<(words.count * 64)).filter(contains) }

    mutating func insert(_ row: Int) {
        guard !contains(row) else { return }
        words[row / 64] |= 1 << UInt64(row % 64)
        count += 1
    }
}

/// A group was asked for that the manifest does not have.
package struct UnknownGroup: Error, Sendable, Equatable, CustomStringConvertible {
    /// What was asked for.
    package let name: String
    /// What there is.
    package let known: [String]

    /// The caller asked for the wrong thing: 64.
    package var exitStatus: ExitStatus { .usage }

    /// One line for people.
    package var description: String {
        let shown = known.prefix(20).joined(separator: ", ") + (known.count > 20 ? ", …" : "")
        return "the manifest has no group \(quoted(name)); it has: \(shown)"
    }
}
