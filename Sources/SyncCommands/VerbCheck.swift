import ArgumentParser
import SyncModel
import SyncSettings

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
        let near = names.map { ($0, editDistance(Array(word.prefix(64)), Array($0))) }.min { $0.1 < $1.1 }
        let line = (["syncagent"] + above).joined(separator: " ")
        // A third of the letters may be wrong, and two in a short word.
        let guess = near.flatMap { $0.1 <= max(2, word.count / 3) && $0.1 < $0.0.count ? $0.0 : nil }
        let advice = guess.map { "Did you mean '\(line) \($0)'? " } ?? ""
        return CommandFailure(
            .usage,
            "'\(escaped(word))' is no command. \(advice)'\(line) --help' lists all."
        )
    }
}
