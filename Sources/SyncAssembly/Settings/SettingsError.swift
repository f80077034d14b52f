import SyncModel
package import SyncSystem

/// Why settings cannot be used. Names the place, what is wrong there and what to do; never holds a secret.
package struct SettingsError: Error, Sendable, Equatable, CustomStringConvertible {
    /// One line for people.
    package let description: String

    /// Makes an error; foreign text in `description` must have gone through `escaped(_:)` or `redacted(url:)`.
    package init(_ description: String) { self.description = description }

    /// The error for a relative path without a working directory; callers exit with 73.
    package static var noWorkingDirectory: SettingsError { SettingsError(SyncSystem.noWorkingDirectory) }
}

extension SettingsError {
    /// The error for a file: its path, then what is wrong with it.
    package init(_ error: FileError) { self.init("\(escaped(error.path)): \(error.reason)") }
}

/// The lines of a file that holds a secret: the file must exist, and its owner alone may read it.
///
/// - Parameter what: What the file is, for messages, such as `the headers file`.
/// - Throws: ``SettingsError`` that begins with `what` and the path.
func secretLines(_ path: String, _ what: String) throws(SettingsError) -> [String] {
    let text = try rethrowing(readSecret(path, limit: 1 << 16)) { (error: FileError) in
        SettingsError("\(what) \(SettingsError(error))")
    }
    // A line's end is one Character, also CR LF.
    return text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).map(String.init)
}
