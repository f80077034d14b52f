import SyncModel

/// Why a manifest was refused: where in the JSON, what is wrong there, and what to do about it.
///
/// The text never carries control or bidirectional characters from the manifest, and never a long run of it.
package struct ManifestError: Error, Sendable, Hashable {
    package let reason: String

    /// What to do about it.
    package let remedy: String

    /// The place: a JSON path such as `$.files[17].path`. Indices count in the document, from 0. Empty until it is
    /// known.
    package private(set) var path = ""

    /// Where reading stopped, in **bytes** from the start, or `nil` when the whole document was read first.
    package private(set) var offset: Int?

    /// The line, from 1, when `offset` is known.
    package private(set) var line: Int?

    /// The column in **bytes**, from 1, when `offset` is known.
    package private(set) var column: Int?

    init(at path: String = "", _ reason: String, _ remedy: String) {
        (self.reason, self.remedy, self.path) = (reason, remedy, path)
    }

    /// The same error with its place.
    func placed(_ path: String, offset: Int? = nil, line: Int? = nil, column: Int? = nil) -> ManifestError {
        var error = ManifestError(at: path, reason, remedy)
        (error.offset, error.line, error.column) = (offset, line, column)
        return error
    }
}

extension ManifestError: CustomStringConvertible {
    /// One line for people: where, what, what to do.
    package var description: String {
        var place = path.isEmpty ? "" : " at \(path)"
        if let line, let column { place += " (line \(line), column \(column))" }
        return "manifest refused\(place): \(reason); \(remedy)"
    }
}

/// Text from a manifest, fit for a message: escaped, in quotes, cut after 60 characters.
func quoted(_ bytes: some Collection<UInt8>) -> String {
    let text = String(decoding: bytes.prefix(400), as: UTF8.self)
    let head = text.unicodeScalars.prefix(60)
    let cut = head.endIndex < text.unicodeScalars.endIndex || bytes.count > 400
    return "“" + escaped(String(String.UnicodeScalarView(head))) + (cut ? "…" : "") + "”"
}

/// Text from a manifest, fit for a message.
package func quoted(_ text: String) -> String { quoted(text.utf8) }
