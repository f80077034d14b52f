/// The one of `names` that `text` probably means: at an edit distance of at most a third of its letters.
///
/// - Complexity: O(*n* · *m*²) for *n* names of *m* letters.
package func nearest(_ text: String, in names: [String]) -> String? {
    guard text.utf8.count <= 256 else { return nil }
    func plain(_ text: String) -> [Character] { text.lowercased().filter { $0 != "_" && $0 != "-" } }
    let wanted = plain(text)
    let best = names.map { (name: $0, distance: editDistance(wanted, plain($0))) }.min { $0.distance < $1.distance }
    guard let best, best.distance * 3 <= max(wanted.count, 3) else { return nil }
    return best.name
}

/// The number of insertions, deletions, substitutions and swaps of neighbours that turn one text into the other: the
/// optimal string alignment distance.
package func editDistance(_ from: [Character], _ to: [Character]) -> Int {
    var rows = [Array(0...to.count)]
    for i in 0..<from.count {
        var row = [i + 1]
        for j in 0..<to.count {
            var best = min(row[j] + 1, rows[i][j + 1] + 1, rows[i][j] + (from[i] == to[j] ? 0 : 1))
            if i > 0, j > 0, from[i] == to[j - 1], from[i - 1] == to[j] { best = min(best, rows[i - 1][j - 1] + 1) }
            row.append(best)
        }
        rows.append(row)
    }
    return rows[from.count][to.count]
}
