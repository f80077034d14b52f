package import SyncModel

/// What a pull would do with a file, a link, or a directory named by the manifest.
package struct PlannedFile: Sendable {
    /// The word in events and lines.
    package enum Action: String, Sendable {
        /// Nothing is there.
        case new
        /// Something else is there and is replaced.
        case changed
        /// Right already.
        case unchanged
        /// An earlier pull installed it, the manifest does not name it, and it goes, with `--prune` or because it is in the way.
        case removed
        /// As ``removed``; it would go with `--prune`.
        case obsolete
        /// Its place cannot be used.
        case blocked
    }

    package let path: String
    package let action: Action
    package var isDirectory = false
    /// **Bytes**; `nil` for a link.
    package var size: UInt64?
    /// The link's target.
    package var link: String?
    /// A local file with the same content.
    package var from: String?
    /// **Bytes** of it that are available locally.
    package var here: UInt64 = 0
    /// Why its place cannot be used.
    package var reason: String?

    /// The fields of `plan.file`.
    package func write(to line: inout JSONLine) {
        line.field("path", path)
        line.field("action", action.rawValue)
        if isDirectory { line.field("directory", true) }
        line.field("size", optional: size)
        line.field("link", optional: link)
        line.field("from", optional: from)
        if here > 0 { line.field("here", here) }
        line.field("reason", optional: reason)
    }
}
