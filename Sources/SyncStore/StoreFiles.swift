import SyncModel
import SyncSystem

/// The store's files in the state directory.
///
/// `syncagent.sqlite` with SQLite's `-wal` and `-shm`; `syncagent.sqlite.lock`, held while the file is made
/// or set aside; `syncagent.sqlite.rebuild`, left behind by whoever met damage.
struct StoreFiles: Sendable {
    let directory: String

    private let name = "syncagent.sqlite"

    var database: String { "\(directory)/\(name)" }
    private var marker: String { database + ".rebuild" }

    /// Largest database, and log, in **bytes**: an upkeep keeps them far below.
    private static let maximumSize: UInt64 = 16 << 30

    /// Makes sure that this user alone decides what the store says, before SQLite opens it by name: the directory, the
    /// database, its log and its index are this user's, and nobody else may write to them.
    ///
    /// - Throws: ``StoreError`` with code `cannotCreate`.
    func check() throws(StoreError) {
        do throws(FileError) {
            let directory = try openStateDirectory(directory, create: false)
            for suffix in ["", "-wal", "-shm"] {
                // Not opened: closing a file that SQLite has open in this process would drop its locks, fcntl(2) and
                // https://sqlite.org/howtocorrupt.html §2.2.
                _ = try checkFile(name + suffix, in: directory.raw, trust: .ownState, limit: Self.maximumSize)
            }
        } catch { guard error.isMissing else { throw Self.failure(error, below: directory) } }
    }

    /// Makes the empty database file, 0600, so that SQLite does not choose the mode.
    ///
    /// - Throws: ``StoreError`` with code `cannotCreate`.
    func create() throws(StoreError) {
        // Only a file that is not there is opened here, see ``check()``.
        guard Descriptor(opening: database, .newFile, mode: 0o600) == nil else { return }
        let code = Errno.last
        if code != .fileExists { throw failure("create", database, code) }
    }

    /// Whether there is a database file with anything in it.
    var hasDatabase: Bool { status(following: database).map { $0.size > 0 } ?? false }

    /// Writes SQLite's log to the disk, with every transaction in it; what it no longer has, SQLite has synced. SQLite locks
    /// the other files, not this one, so it may be opened here: see ``check()``.
    ///
    /// - Throws: ``StoreError`` with code `io`.
    func synchronizeLog() throws(StoreError) {
        do throws(FileError) {
            let log = try openFile(database + "-wal", trust: .ownState)
            if let code = synchronizeData(log.raw) {
                throw FileError(step: "sync", path: database + "-wal", code: code)
            }
        } catch {
            guard !error.isMissing else { return }
            throw StoreError(.io, error.ofState)
        }
    }

    var isMarkedDamaged: Bool { exists(marker) }

    /// Asks the next open to start anew.
    func markDamaged() {
        // Left out, the next open meets the damage once more.
        _ = try? openFile(marker, [.writeOnly, .create], trust: .state)
    }

    /// The log first: a new database beside an old log would have the log played into it.
    private static let suffixes = ["-shm", "-wal", ""]

    /// Renames the database with its log out of the way; of those set aside before, only the newest is kept.
    ///
    /// - Throws: ``StoreError`` with code `cannotCreate`.
    func setAside(at time: Int64) throws(StoreError) -> String {
        let former = damagedStores()
        let target = former.last.flatMap { isCutShort($0) ? $0 : nil } ?? freeName(time, former)
        for suffix in Self.suffixes {
            let code = renameEntry(database + suffix, to: target + suffix)
            if let code, code != .noSuchFileOrDirectory { throw failure("rename", database + suffix, code) }
        }
        for old in former.filter({ $0 != target }).dropLast() {
            for suffix in Self.suffixes { removeFile(old + suffix) }
        }
        removeFile(marker)
        return target
    }

    /// The stores that have been set aside, oldest first.
    private func damagedStores() -> [String] {
        let files = ((try? directoryEntries(directory)) ?? []).filter { $0.hasPrefix("\(name).damaged-") }
        let names = files.map { file in
            let suffix = Self.suffixes.first { file.hasSuffix($0) } ?? ""
            return "\(directory)/\(file.dropLast(suffix.count))"
        }
        return Set(names).sorted()
    }

    /// Whether a process was killed when it had only moved the log there: the database follows.
    private func isCutShort(_ store: String) -> Bool {
        !exists(store) && Self.suffixes.allSatisfy { !exists(store + $0) || !exists(database + $0) }
    }

    /// A name with the time, or with the next second that no other store has.
    private func freeName(_ time: Int64, _ taken: [String]) -> String {
        let names = (0...Int64(taken.count)).map { later in
            let digits = timestamp(milliseconds: time.saturatingAdd(later * 1_000)).prefix(19)
            return "\(database).damaged-\(digits.filter { $0 != "-" && $0 != ":" })Z"
        }
        return names.first { !taken.contains($0) } ?? "\(database).damaged-\(time)"
    }

    /// Runs `body` while no other process makes or sets aside the store; makes the directory, 0700,
    /// with those above it.
    ///
    /// - Parameter wait: Most **milliseconds** to wait for another process.
    /// - Throws: ``StoreError`` with code `busy` or `cannotCreate`; what `body` throws.
    func locked<R>(wait: Int, _ body: () throws(StoreError) -> R) throws(StoreError) -> R {
        let lock: FileLock?
        do throws(FileError) {
            let directory = try openStateDirectory(directory, create: true)
            let file = try openFile(name + ".lock", in: directory.raw, [.readWrite, .create], trust: .state)
            lock = try FileLock.take(file, path: name + ".lock", wait: wait)
        } catch { throw Self.failure(error, below: directory) }
        guard lock != nil else {
            throw StoreError(.busy, "Another syncagent is preparing \(escaped(directory)); try again.")
        }
        try check()
        let result = Result { () throws(StoreError) in try body() }
        _ = consume lock
        return try result.get()
    }

    private func failure(_ step: String, _ path: String, _ code: Errno) -> StoreError {
        Self.failure(FileError(step: step, path: path, code: code), below: directory)
    }

    private static func failure(_ error: FileError, below directory: String) -> StoreError {
        let path = error.path.hasPrefix("/") ? error.path : "\(directory)/\(error.path)"
        let whole = FileError(
            step: error.step, path: path, code: error.code, remark: error.remark, trouble: error.trouble)
        return StoreError(.cannotCreate, whole.ofState)
    }
}
