import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Directories named by a manifest: created where missing, and given the modes and times that it keeps.
///
/// They are reached like files, by descriptor and never through a link; anything else in their place stays.
struct NamedDirectories {
    let manifest: Manifest
    let destination: Destination
    let index: StatIndex
    /// Rows of ``Manifest/directories``, ascending: parents come before their children.
    let rows: [Int]

    private var table: FileTable { manifest.directories }

    /// The state of a directory's place: its status, `nil` if it is missing, or why it cannot be there.
    func state(at row: Int, _ directories: Directories) -> Result<FileStatus?, FileError> {
        table.withPath(row) { path in
            do throws(FileError) {
                let found = try directories.withLeaf(of: path) { directory, leaf throws(FileError) -> FileStatus? in
                    switch status(directory, leaf) {
                    case .success(nil): return nil
                    case .success(let found?) where found.kind == .directory: return found
                    case .success: throw error(row, "create directory", .fileExists, remark: Self.inTheWay)
                    case .failure(let code): throw error(row, "look at", code)
                    }
                }
                return .success(found ?? nil)
            } catch { return .failure(error) }
        }
    }

    private static let inTheWay = "a file or a link is in the way; move it away"

    /// Finds the directories that are missing, taken, or closed.
    ///
    /// - Parameter opens: Whether closed ones are opened to their owner, so that their entries can be read: by a pull,
    ///   which closes them again in ``finish(_:)``. Otherwise entries below them are taken from the index.
    /// - Returns: Rows of missing ones, those whose places are taken, and those whose modes keep this user out, with
    ///   these modes.
    func preview(opens: Bool) -> (
        missing: [Int], taken: [(row: Int, error: FileError)], closed: [(row: Int, mode: FileMode)]
    ) {
        let directories = Directories(destination)
        var (missing, taken) = ([Int](), [(row: Int, error: FileError)]())
        var closed: [(row: Int, mode: FileMode)] = []
        for row in rows {
            switch state(at: row, directories) {
            case .success(let status?):
                guard isClosed(row, status, directories) else { break }
                closed.append((row, FileMode(status.permissions)))
                if opens { setMode(FileMode(status.permissions) | 0o700, of: row, directories) }
            case .success(nil): missing.append(row)
            case .failure(let error):
                if error.code == .permissionDenied, closed.contains(where: { isBelow($0.row, row) }) {
                    if table.withPath(row, index.position(of:)) == nil { missing.append(row) }
                } else {
                    taken.append((row, error))
                }
            }
        }
        return (missing, taken, closed)
    }

    /// Gives closed directories their former modes back.
    func close(_ closed: [(row: Int, mode: FileMode)]) {
        let directories = Directories(destination)
        for (row, mode) in closed.reversed() { setMode(mode, of: row, directories) }
    }

    /// Opens directories of earlier manifests in which the manifest has files.
    ///
    /// - Parameter former: Positions in the index.
    func open(former: [Int], of files: FileTable) {
        prepare(former: former.filter { !files.rows(below: index.path($0)).isEmpty })
    }

    /// Whether a directory's mode keeps this user from reading or entering it.
    private func isClosed(_ row: Int, _ found: FileStatus, _ directories: Directories) -> Bool {
        guard found.permissions & 0o500 != 0o500, table.traits(row).mode != nil else { return false }
        let isOpen = table.withPath(row) { path in
            (try? directories.withLeaf(of: path) { directory, leaf in
                guard let opened = openDirectory(leaf, in: directory, .noFollow) else { return false }
                if case .success = status(opened.raw, ".") { return true }
                return false
            }) ?? false
        }
        return isOpen != true
    }

    private func isBelow(_ above: Int, _ row: Int) -> Bool {
        table.withPath(above) { above in table.withPath(row) { PathOrder.isDirectory(above, of: $0) } }
    }

    /// A mode that cannot be set stays as it is; the error shows when something is to be done there.
    private func setMode(_ mode: FileMode, of row: Int, _ directories: Directories) {
        table.withPath(row) { path in _ = try? directories.withLeaf(of: path) { SyncSystem.setMode($1, in: $0, mode) } }
    }

    /// Logs directories as ours before they are created, so that they can be removed even after a kill.
    func announce(_ rows: [Int]) {
        guard !rows.isEmpty else { return }
        do throws(FileError) {
            try IndexLog(destination).append(
                rows.map { row in
                    let path = table.withPath(row) { Array($0) }
                    return IndexLog.Entry(path: path, digest: .zero, kind: .directory)
                })
        } catch {
            // Without the log, a crash costs the right to prune them.
        }
    }

    /// Before files arrive: creates directories that are to be closed to others, so that nobody can look in meanwhile,
    /// and opens existing ones that are closed to their owner. ``finish(_:)`` sets the final modes.
    func prepare() {
        let directories = Directories(destination)
        for row in rows {
            guard let mode = table.traits(row).mode else { continue }
            switch state(at: row, directories) {
            case .success(nil) where 0o055 & ~mode != 0:
                table.withPath(row) { path in
                    // An error here occurs at the end as well and is reported then.
                    _ = try? directories.withLeaf(of: path, create: true) {
                        makeDirectory($1, in: $0, mode: FileMode(mode | 0o700))
                    }
                }
            case .success(let found?) where found.permissions & 0o700 != 0o700:
                setMode(FileMode(found.permissions) | 0o700, of: row, directories)
            case .success, .failure: break
            }
        }
    }

    /// Opens directories of an earlier manifest that are closed to their owner, so that their contents can be removed.
    ///
    /// - Parameter former: Positions in the index.
    func prepare(former: [Int]) {
        let directories = Directories(destination)
        for position in former where index.record(position)?.installed == true {
            index.withPath(position, directories.openToOwner)
        }
    }

    /// Once every file is in place: creates missing directories, and sets modes and times, innermost first, since
    /// changes in a directory change its time.
    ///
    /// - Parameter announced: The rows that were missing when the run began, ascending.
    /// - Returns: Records and failures, and the number of created directories.
    func finish(_ announced: [Int]) -> (placed: Placed, made: Int) {
        var (outcome, made) = (Placed(), 0)
        let announced = Set(announced)
        let directories = Directories(destination)
        for row in rows.reversed() {
            do throws(FileError) {
                var wasMissing = announced.contains(row)
                var found: FileStatus
                if let known = try state(at: row, directories).get() {
                    found = known
                } else {
                    // Something of ours was in the way when the run began.
                    if !wasMissing { announce([row]) }
                    wasMissing = true
                    let opened = try table.withPath(row) { path throws(FileError) in
                        try directories.descriptor(path, create: true)
                    }
                    guard let opened, let known = status(opened) else { throw error(row, "create directory", .last) }
                    found = known
                }
                if wasMissing { made += 1 }
                let traits = table.traits(row)
                if !traits.hold(of: found) { found = try give(traits, to: row, found, directories) }
                let isOurs = wasMissing || wasMade(row)
                let record = IndexRecord(directory: found, keeping: traits, installed: isOurs)
                outcome.records.append((row, record))
            } catch { outcome.failures.append((row, error)) }
        }
        outcome.records.reverse()
        outcome.failures.reverse()
        return (outcome, made)
    }

    /// Whether an earlier pull created the directory.
    private func wasMade(_ row: Int) -> Bool {
        guard let position = table.withPath(row, index.position(of:)) else { return false }
        return index.isDirectory(position) && index.record(position)?.installed == true
    }

    private func give(_ traits: FileTraits, to row: Int, _ found: FileStatus, _ directories: Directories)
        throws(FileError) -> FileStatus
    {
        let given = try table.withPath(row) { path throws(FileError) in
            try directories.withLeaf(of: path) { directory, leaf throws(FileError) -> FileStatus in
                guard let opened = openDirectory(leaf, in: directory, .noFollow) else {
                    throw error(row, "open", .last)
                }
                return try traits.give(to: opened.raw, found, shown: table.path(row))
            }
        }
        guard let given else { throw error(row, "find again", .noSuchFileOrDirectory) }
        return given
    }

    private func error(_ row: Int, _ step: String, _ code: Errno? = nil, remark: String? = nil) -> FileError {
        FileError(step: step, path: table.path(row), code: code, remark: remark)
    }
}
