package import SyncStore

/// The settings of a run as one line of words in the store: `connections=4 limit_rate=1000 prune force`; and the
/// revision of its manifest, so that the session remembers it: `revision=42`, with `allow_older` where that was said.
///
/// What it does not know it leaves out, so that a newer program's words do no harm.
package enum StoredOptions {
    static func text(_ options: PullOptions) -> String {
        var words: [String] = []
        if let connections = options.connections { words.append("connections=\(connections)") }
        if let rate = options.rateLimit { words.append("limit_rate=\(rate)") }
        if options.prune { words.append("prune") }
        if options.force { words.append("force") }
        if let isPublic = options.manifestIsPublic {
            words.append("manifest_from=\(isPublic ? "public" : "private")")
        }
        if let most = options.maximumRemovals { words.append("max_delete=\(most)") }
        if let path = options.backupDirectory {
            words.append("backup_dir=\(digits(path))")
        }
        if let bytes = options.expectedBytes { words.append("expected_bytes=\(bytes)") }
        if let text = options.userData { words.append("user_data=\(digits(text))") }
        if options.allowOlder { words.append("allow_older") }
        if options.isSigned { words.append("signed") }
        if let revision = options.revision { words.append("revision=\(revision)") }
        return words.joined(separator: " ")
    }

    /// What a run was asked for.
    package static func options(of run: StoredRun) -> PullOptions {
        var options = PullOptions(manifest: run.location, stateDirectory: "")
        read(run.options, into: &options)
        return options
    }

    static func read(_ text: String, into options: inout PullOptions) {
        for word in text.split(separator: " ") {
            let parts = word.split(separator: "=", maxSplits: 1)
            switch (parts.first, parts.count == 2 ? parts[1] : nil) {
            case ("connections", let value?): options.connections = Int(value) ?? options.connections
            case ("limit_rate", let value?): options.rateLimit = UInt64(value)
            case ("prune", nil): options.prune = true
            case ("force", nil): options.force = true
            case ("manifest_from", "public"?): options.manifestIsPublic = true
            case ("manifest_from", "private"?): options.manifestIsPublic = false
            case ("max_delete", let value?): options.maximumRemovals = Int(value)
            case ("backup_dir", let value?): options.backupDirectory = Self.text(value)
            case ("expected_bytes", let value?): options.expectedBytes = UInt64(value)
            case ("user_data", let value?): options.userData = Self.text(value)
            case ("allow_older", nil): options.allowOlder = true
            case ("signed", nil): options.isSigned = true
            case ("revision", let value?): options.revision = UInt64(value)
            default: break
            }
        }
    }

    /// Hexadecimal, whatever blanks it has.
    private static func digits(_ text: String) -> String {
        text.utf8.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private static func text(_ digits: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = digits
        while !rest.isEmpty {
            guard let byte = UInt8(rest.prefix(2), radix: 16) else { return nil }
            bytes.append(byte)
            rest = rest.dropFirst(2)
        }
        return bytes.isEmpty ? nil : String(validating: bytes, as: UTF8.self)
    }
}
