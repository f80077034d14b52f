import SyncFiles
import SyncManifest
package import SyncModel
import SyncSystem

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
        /// An earlier pull installed it, the manifest does not name it, and it goes.
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

/// Reports the files of a plan one by one; keeps none.
struct PlannedFiles {
    let manifest: Manifest
    let inventory: Inventory
    let index: StatIndex
    /// `nil` if there is none yet.
    let destination: Destination?
    let reuse: ReusePreview
    let prunes: Bool

    /// - Parameters:
    ///   - rows: Of the selection, ascending.
    ///   - obsolete: Positions in the index that the manifest does not name, ascending.
    ///   - newDirectories: Rows of directories that would be made.
    ///   - oldDirectories: Positions in the index of directories that would go, unless something else is in them.
    func tell(
        _ rows: [Int],
        obsolete: [Int],
        newDirectories: [Int],
        oldDirectories: [Int],
        isStopped: () -> Bool,
        to tell: (PlannedFile) -> Void
    ) {
        func tellOld(_ position: Int, isDirectory: Bool) {
            let path = index.withPath(position) { String(decoding: $0, as: UTF8.self) }
            tell(PlannedFile(path: path, action: prunes ? .removed : .obsolete, isDirectory: isDirectory))
        }
        for row in newDirectories {
            tell(PlannedFile(path: manifest.directories.path(row), action: .new, isDirectory: true))
        }
        let reasons = Dictionary(
            inventory.obstructed.map { ($0.row, $0.error.reason) },
            uniquingKeysWith: { first, _ in first }
        )
        let sources = places()
        let directories = destination.map { Directories($0) }
        var gone = obsolete[...]
        func tellGone(before row: Int?) {
            while let position = gone.first, !isStopped() {
                let comesFirst = index.withPath(position) { path in
                    row.map { manifest.files.withPath($0) { PathOrder.compare(path, $0) < 0 } } ?? true
                }
                guard comesFirst else { return }
                gone.removeFirst()
                tellOld(position, isDirectory: false)
            }
        }
        for row in rows where !isStopped() {
            tellGone(before: row)
            tell(file(row, reason: reasons[row], sources, directories))
        }
        tellGone(before: nil)
        for position in oldDirectories { tellOld(position, isDirectory: true) }
    }

    private func file(
        _ row: Int,
        reason: String?,
        _ sources: [SHA256Digest: Int],
        _ directories: Directories?
    ) -> PlannedFile {
        let files = manifest.files
        let action: PlannedFile.Action =
            if reason != nil {
                .blocked
            } else if inventory.records.has(row) {
                .unchanged
            } else {
                isTaken(row, directories) ? .changed : .new
            }
        var file = PlannedFile(path: files.path(row), action: action)
        file.reason = reason
        guard files.kind(row) != .link else {
            file.link = files.linkTarget(row)
            return file
        }
        file.size = files.size(row)
        guard action == .new || action == .changed else { return file }
        if let position = sources[files.digest(row)], files.size(row) > 0 {
            file.from = index.withPath(position) { String(decoding: $0, as: UTF8.self) }
            file.here = files.size(row)
        } else {
            file.here = reuse.bytes(of: row)
        }
        return file
    }

    /// Whether anything has the row's name.
    private func isTaken(_ row: Int, _ directories: Directories?) -> Bool {
        guard let directories else { return false }
        let found = manifest.files.withPath(row) { path in
            // What cannot be entered is not there.
            try? directories.withLeaf(of: path) { directory, leaf -> Bool in
                if case .success(nil) = status(directory, leaf) { false } else { true }
            }
        }
        return found == .some(.some(true))
    }

    /// The local file for each content.
    private func places() -> [SHA256Digest: Int] {
        var places: [SHA256Digest: Int] = [:]
        for position in 0..<index.count {
            guard let record = index.record(position), record.kind != .link else { continue }
            places[record.digest] = places[record.digest] ?? position
        }
        return places
    }
}
