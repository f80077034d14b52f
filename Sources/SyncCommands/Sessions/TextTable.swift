import Foundation
import SyncSystem

/// Rows as text with aligned columns; two spaces between them, none at the end of a line.
///
/// - Parameter width: Most columns of the terminal; cells are cut, the widest first, until every line fits. `nil`
///   for no bound, as in a file or a pipe.
func tableLines(_ rows: [[String]], width: Int? = terminalSize(STDOUT_FILENO)?.columns) -> [String] {
    let rows = PlainText.isWanted(on: STDOUT_FILENO) ? rows.map { $0.map(PlainText.of) } : rows
    let count = rows.map(\.count).max() ?? 0
    var widths = (0..<count).map { column in
        rows.map { $0.indices.contains(column) ? $0[column].count : 0 }.max() ?? 0
    }
    if let width { shrink(&widths, to: width) }
    return rows.map { row in
        var line = ""
        for (column, cell) in row.enumerated() {
            line += cut(cell, to: widths[column]).padded(to: widths[column] + (column < row.count - 1 ? 2 : 0))
        }
        while line.last == " " { line.removeLast() }
        return line
    }
}

extension String {
    /// The text with blanks behind it, up to a width.
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}

/// The width below which a cell is of no use.
private let narrowest = 6

private func shrink(_ widths: inout [Int], to width: Int) {
    var excess = widths.reduce(0, +) + 2 * max(0, widths.count - 1) - width
    while excess > 0, let most = widths.max(), most > narrowest, let column = widths.lastIndex(of: most) {
        // Down to the next widest, or as far as necessary.
        let next = widths.filter { $0 < most }.max() ?? 0
        let step = max(1, min(excess, most - max(next, narrowest)))
        widths[column] -= step
        excess -= step
    }
}

private func cut(_ cell: String, to width: Int) -> String {
    guard cell.count > width else { return cell }
    let ellipsis = PlainText.ellipsis(on: STDOUT_FILENO)
    return cell.prefix(max(0, width - ellipsis.count)) + ellipsis
}
