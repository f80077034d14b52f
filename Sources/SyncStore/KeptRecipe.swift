import Foundation
import SyncModel

/// What a run has found out about its manifest.
package struct ManifestFacts: Sendable, Equatable {
    /// Its revision; `nil` before it was decoded, and 0 when it has none.
    package var revision: UInt64?
    /// Whether it came from a public address; `nil` when nobody knows.
    package var isPublic: Bool?
    /// Whether those who are believed have signed it.
    package var isSigned: Bool
    /// What is handed on to hooks, observers and reports: what whoever asked says, else the manifest; JSON text on one line.
    package var userData: String?

    package init(revision: UInt64? = nil, isPublic: Bool? = nil, isSigned: Bool = false) {
        self.revision = revision
        self.isPublic = isPublic
        self.isSigned = isSigned
    }
}

/// What the column `options` keeps of a recipe: all that has no column or table of its own. Two runs with the same ask for
/// the same, as far as this goes.
///
/// One line of words, as `connections=4 limit_rate=1000 prune revision=42`; what has no word is in a last one, JSON without
/// blanks. What is not known is left out, so that a newer program's words do no harm.
struct KeptRecipe: Sendable, Equatable {
    private(set) var recipe: RunRecipe
    private(set) var facts = ManifestFacts()

    init(_ start: RunStart) {
        recipe = start.recipe
        facts = start.facts
        facts.userData = facts.userData ?? recipe.userData?.text
        // What came of these is a pin, and a manifest that was believed.
        (recipe.trust, recipe.staleSeconds, recipe.userData) = (nil, nil, nil)
        (recipe.manifest, recipe.destination, recipe.session, recipe.groups) = ("", nil, nil, [])
        (recipe.hooks, recipe.label, recipe.conditions) = ([], nil, RunConditions())
        (recipe.notBefore, recipe.deadlineSeconds, recipe.paused) = (nil, nil, false)
        (recipe.origin, recipe.originRun) = (.interactive, nil)
    }

    /// Reads a column.
    ///
    /// - Throws: `DecodingError` for a last word that is no recipe.
    init(stored text: String) throws {
        let words = text.split(separator: " ")
        let rest = words.last { $0.first == "{" }
        recipe =
            try rest.map { try StoredJSON.decoder.decode(RunRecipe.self, from: Data($0.utf8)) }
            ?? RunRecipe(manifest: "")
        for word in words {
            let parts = word.split(separator: "=", maxSplits: 1)
            switch (parts.first, parts.count == 2 ? parts[1] : nil) {
            case ("connections", let value?): recipe.settings.connections = Int(value)
            case ("limit_rate", let value?): recipe.settings.limitRate = UInt64(value)
            case ("prune", nil): recipe.prune = true
            case ("force", nil): recipe.force = true
            case ("manifest_from", "public"?): facts.isPublic = true
            case ("manifest_from", "private"?): facts.isPublic = false
            case ("max_delete", let value?): recipe.maxDelete = Int(value)
            case ("backup_dir", let value?): recipe.backupDir = Self.text(value)
            case ("expected_bytes", let value?): recipe.expectedBytes = UInt64(value)
            case ("user_data", let value?): facts.userData = Self.text(value)
            case ("signed", nil): facts.isSigned = true
            case ("allow_older", nil): recipe.allowOlder = true
            case ("revision", let value?): facts.revision = UInt64(value)
            default: break
            }
        }
    }

    func text() throws -> String {
        var words: [String] = []
        if let connections = recipe.settings.connections { words.append("connections=\(connections)") }
        if let rate = recipe.settings.limitRate { words.append("limit_rate=\(rate)") }
        if recipe.prune { words.append("prune") }
        if recipe.force { words.append("force") }
        if let isPublic = facts.isPublic { words.append("manifest_from=\(isPublic ? "public" : "private")") }
        if let most = recipe.maxDelete { words.append("max_delete=\(most)") }
        if let path = recipe.backupDir { words.append("backup_dir=\(Self.digits(path))") }
        if let bytes = recipe.expectedBytes { words.append("expected_bytes=\(bytes)") }
        if let text = facts.userData { words.append("user_data=\(Self.digits(text))") }
        if recipe.allowOlder { words.append("allow_older") }
        if facts.isSigned { words.append("signed") }
        if let revision = facts.revision { words.append("revision=\(revision)") }
        var rest = recipe
        (rest.settings.connections, rest.settings.limitRate) = (nil, nil)
        (rest.prune, rest.force) = (false, false)
        (rest.maxDelete, rest.backupDir, rest.allowOlder, rest.expectedBytes) = (nil, nil, false, nil)
        if rest != RunRecipe(manifest: "") {
            // Blanks are in strings only.
            let json = String(decoding: try StoredJSON.encoder.encode(rest), as: UTF8.self)
            words.append(json.replacing(" ", with: "\\u0020"))
        }
        return words.joined(separator: " ")
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

extension KeptRecipe: Codable {
    init(from decoder: any Decoder) throws { try self.init(stored: decoder.singleValueContainer().decode(String.self)) }

    func encode(to encoder: any Encoder) throws {
        var column = encoder.singleValueContainer()
        try column.encode(text())
    }
}
