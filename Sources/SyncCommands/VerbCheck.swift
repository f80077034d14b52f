import ArgumentParser
import SyncModel

/// Looks at the verbs of a command line before it is parsed: a typo gets the nearest name, and help for what there is not
/// is no success.
enum VerbCheck {
    /// - Parameter words: The arguments, without the program's name.
    /// - Throws: ``CommandFailure`` with status 64 that names the word which is no command.
    static func check(_ words: [String]) throws(CommandFailure) {
        var words = words[...]
        if words.first == "help" { words = words.dropFirst() }
        var command: any ParsableCommand.Type = SyncagentCommand.self
        var known = [String]()
        while let word = words.popFirst() {
            let below = command.configuration.subcommands
            guard !below.isEmpty, !word.hasPrefix("-") else { return }
            guard let next = below.first(where: { name(of: $0) == word }) else {
                // `help` is a command of the parser's own, at the top.
                if known.isEmpty, word == "help" { return }
                throw unknown(word, below.map(name), above: known)
            }
            command = next
            known.append(word)
        }
    }

    private static func name(of command: any ParsableCommand.Type) -> String {
        command.configuration.commandName ?? ""
    }

    private static func unknown(_ word: String, _ names: [String], above: [String]) -> CommandFailure {
        let near = names.map { ($0, distance(word, $0)) }.min { $0.1 < $1.1 }
        let line = (["syncagent"] + above).joined(separator: " ")
        // A third of the letters may be wrong, and two in a short word.
        let guess = near.flatMap { $0.1 <= max(2, word.count / 3) && $0.1 < $0.0.count ? $0.0 : nil }
        let advice = guess.map { "Did you mean '\(line) \($0)'? " } ?? ""
        return CommandFailure(
            .usage,
            "'\(escaped(word))' is no command. \(advice)'\(line) --help' lists all."
        )
    }

    /// How many letters must be added, left out, changed or swapped with their neighbour (optimal string alignment).
    static func distance(_ a: String, _ b: String) -> Int {
        let (a, b) = (Array(a.prefix(64)), Array(b.prefix(64)))
        var rows = [[Int]](repeating: [Int](repeating: 0, count: b.count + 1), count: a.count + 1)
        for i in 0...a.count { rows[i][0] = i }
        for j in 0...b.count { rows[0][j] = j }
        guard !a.isEmpty, !b.isEmpty else { return max(a.count, b.count) }
        for i in 1...a.count {
            for j in 1...b.count {
                let change = a[i - 1] == b[j - 1] ? 0 : 1
                var best = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + change)
                if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] {
                    best = min(best, rows[i - 2][j - 2] + 1)
                }
                rows[i][j] = best
            }
        }
        return rows[a.count][b.count]
    }
}
