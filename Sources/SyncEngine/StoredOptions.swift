/// The settings of a run as one line of words in the store: `connections=4 limit_rate=1000 prune force`; and the
/// revision of its manifest, so that the session remembers it: `revision=42`, with `allow_older` where that was said.
///
/// What it does not know it leaves out, so that a newer program's words do no harm.
enum StoredOptions {
    static func text(_ options: PullOptions) -> String {
        var words = ["connections=\(options.connections)"]
        if let rate = options.rateLimit { words.append("limit_rate=\(rate)") }
        if options.prune { words.append("prune") }
        if options.force { words.append("force") }
        if options.allowOlder { words.append("allow_older") }
        if let revision = options.revision { words.append("revision=\(revision)") }
        return words.joined(separator: " ")
    }

    static func read(_ text: String, into options: inout PullOptions) {
        for word in text.split(separator: " ") {
            let parts = word.split(separator: "=", maxSplits: 1)
            switch (parts.first, parts.count == 2 ? parts[1] : nil) {
            case ("connections", let value?): options.connections = Int(value) ?? options.connections
            case ("limit_rate", let value?): options.rateLimit = UInt64(value)
            case ("prune", nil): options.prune = true
            case ("force", nil): options.force = true
            case ("allow_older", nil): options.allowOlder = true
            case ("revision", let value?): options.revision = UInt64(value)
            default: break
            }
        }
    }
}
