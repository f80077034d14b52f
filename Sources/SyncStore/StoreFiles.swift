import SyncModel
import SyncSystem

/// The store's files in the state directory.
///
/// `syncagent.sqlite` with SQLite's `-wal` and `-shm`; `syncagent.sqlite.lock`, held while the file is created
/// or set aside; `syncagent.sqlite.rebuild`, created by a process that has found damage.
struct StoreFiles: Sendable {
    let directory: String

    private let name = "syncagent.sqlite"

    var database: String { "\(directory)/\(name)" }
    private var marker: String { database + ".rebuild" }

    /// Largest database, and log, in **bytes**. Upkeep keeps them far smaller.
    private static let maximumSize: UInt64 = 16 << 30

    /// Makes sure that only this user can change the store, before SQLite opens it by name: the directory, the
    /// database, its log and its index belong to this user, and no other user may write to them.
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

    /// Creates the empty database file, 0600, so that SQLite does not choose the mode.
    ///
    /// - Throws: ``StoreError`` with code `cannotCreate`.
    func create() throws(StoreError) {
        // Only a missing file is opened here, see ``check()``.
        guard Descriptor(opening: database, .newFile, mode: 0o600) == nil else { return }
        let code = Errno.last
        if code != .fileExists { throw failure("create", database, code) }
    }

    /// Whether there is a database file that is not empty.
    var hasDatabase: Bool { status(following: database).map { $0.size > 0 } ?? false }

    /// Writes SQLite's log to the disk, with every transaction in it; transactions no longer in it have been synced by
    /// SQLite. SQLite locks the other files, not this one, so it may be opened here: see ``check()``.
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

    /// Makes the next open start a new store.
    func markDamaged() {
        // If this fails, the next open finds the damage once more.
        _ = try? openFile(marker, [.writeOnly, .create], trust: .state)
    }

    /// The log first: SQLite would apply an old log to a new database.
    private static let suffixes = ["-shm", "-wal", ""]

    /// Renames the database and its log. Of the stores set aside earlier, only the newest is kept.
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

    /// Whether a process was killed after it had moved only the log there: the database follows.
    private func isCutShort(_ store: String) -> Bool {
        !exists(store) && Self.suffixes.allSatisfy { !exists(store + $0) || !exists(database + $0) }
    }

    /// A name with the time, or with the next second for which there is no store.
    private func freeName(_ time: Int64, _ taken: [String]) -> String {
        let names = (0...Int64(taken.count)).map { later in
            let digits = timestamp(milliseconds: time.saturatingAdd(later * 1_000)).prefix(19)
            return "\(database).damaged-\(digits.filter { $0 != "-" && $0 != ":" })Z"
        }
        return names.first { !taken.contains($0) } ?? "\(database).damaged-\(time)"
    }

    /// Runs `body` while no other process creates or sets aside the store. Creates the directory, 0700,
    /// and those above it.
    ///
    /// - Parameter wait: Most **milliseconds** to wait for another process.
    /// - Throws: ``StoreError`` with code `busy` or `cannotCreate`; the errors of `body`.
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
