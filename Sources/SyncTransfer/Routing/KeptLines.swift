import SyncSystem

// Lines of words in the state directory, mode 0600, replaced as a whole and not synced: lost lines are learnt again.

/// Most **bytes** of such a file.
private let longestFile = 8 << 20

/// The words of each line after the first, which is `header`; none if the file is missing or of another kind.
func keptLines(_ path: String, _ header: String) -> [[String]] {
    guard let bytes = try? readFile(path, trust: .state, limit: longestFile) else { return [] }
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    guard lines.first.map(String.init) == header else { return [] }
    return lines.dropFirst().map { $0.split(separator: " ", omittingEmptySubsequences: false).map(String.init) }
}

/// Replaces the lines of a file.
///
/// - Throws: ``FileError``; the former lines are then unchanged.
func keep(_ lines: [String], in path: String, _ header: String) throws(FileError) {
    let text = ([header] + lines).joined(separator: "\n") + "\n"
    try replaceFile(path, with: Array(text.utf8), isDurable: false)
}
