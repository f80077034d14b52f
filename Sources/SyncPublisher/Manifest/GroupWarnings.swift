import SyncManifest

/// What is doubtful about groups: a hook that never runs is noticed too late.
enum GroupWarnings {
    /// One line for each group that selects nothing, and one for groups that the base had and nobody declared.
    static func make(_ groups: [Manifest.Group], base: [Manifest.Group], _ tree: SourceTree) -> [String] {
        var lines: [String] = []
        for group in groups where !selectsAnything(group, tree) {
            lines.append("group \(shown(group.name)) has no files")
        }
        let lost = base.map(\.name).filter { name in !groups.contains { $0.name == name } }
        if !lost.isEmpty {
            lines.append(
                "the base declares groups that this manifest does not: \(shown(lost.joined(separator: ", ")))"
            )
        }
        return lines
    }

    private static func selectsAnything(_ group: Manifest.Group, _ tree: SourceTree) -> Bool {
        group.include.map { Glob($0) }.contains { glob in
            tree.entries.indices.contains { tree.withPath($0, glob.matches) }
        }
    }
}
