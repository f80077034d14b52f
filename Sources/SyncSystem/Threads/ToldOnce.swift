/// Remembers what has been said: a host that stays away for an hour is one line, not a thousand; so is a faulty schedule file.
package final class ToldOnce: Sendable {
    private let said = Mutex<Set<String>>([])
    private let most: Int

    /// - Parameter most: When so much has been said, nothing is new any more.
    package init(most: Int = .max) { self.most = most }

    /// Whether this has not been said before; from now on it has.
    package func isNew(_ text: String) -> Bool { said.withLock { $0.count < most && $0.insert(text).inserted } }
}
