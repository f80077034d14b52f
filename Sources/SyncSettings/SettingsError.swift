/// Why settings cannot be used. Names the place, what is wrong there and what to do; never holds a secret.
package struct SettingsError: Error, Sendable, Equatable, CustomStringConvertible {
    /// One line for people.
    package let description: String

    /// Makes an error; foreign text in `description` must have gone through `escaped(_:)` or `redacted(url:)`.
    package init(_ description: String) { self.description = description }
}
