import CPosix
import SyncModel

/// The store's files in the state directory.
///
/// `syncagent.sqlite` with SQLite's `-wal` and `-shm`; `syncagent.sqlite.lock`, held while the file is made,
/// migrated or set aside; `syncagent.sqlite.rebuild`, left behind by whoever met damage.
struct StoreFiles: Sendable {
    let directory: String

    var database: String { directory + "/syncagent.sqlite" }
    private var lockFile: String { database + ".lock" }
    private var marker: String { database + ".rebuild" }

    /// Makes the empty database file, 0600, so that SQLite does not choose the mode.
    ///
    /// - Throws: ``StoreError`` with code `cannotCreate`.
    func create() throws(StoreError) {
        // Only a file that is not there is opened here: closing one that SQLite has open in this process would
        // drop its locks, fcntl(2) and https://sqlite.org/howtocorrupt.html §2.2.
        let file = sa_openat(AT_FDCWD, database, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
        if file >= 0 { close(file) }
        if file < 0, sa_errno() != EEXIST { throw failure("create", database) }
    }

    /// Whether there is a database file with anything in it.
    var hasDatabase: Bool {
        var status = stat()
        return stat(database, &status) == 0 && status.st_size > 0
    }

    var isMarkedDamaged: Bool { access(marker, F_OK) == 0 }

    /// Asks the next open to start anew.
    func markDamaged() {
        let file = sa_openat(AT_FDCWD, marker, O_WRONLY | O_CREAT | O_NOFOLLOW, 0o600)
        if file >= 0 { close(file) }
    }

    /// Renames the database out of the way; of those set aside before, only the newest is kept.
    ///
    /// - Returns: The new name.
    /// - Throws: ``StoreError`` with code `cannotCreate`.
    func setAside(at time: Int64) throws(StoreError) -> String {
        let digits = timestamp(milliseconds: time).prefix(19).filter { $0 != "-" && $0 != ":" }
        let target = "\(database).damaged-\(digits)Z"
        for old in damagedNames().sorted().dropLast() { unlink("\(directory)/\(old)") }
        // The log first: a new database beside an old log would have the log played into it.
        for suffix in ["-shm", "-wal", ""] where rename(database + suffix, target + suffix) != 0 {
            if sa_errno() != ENOENT { throw failure("rename", database + suffix) }
        }
        unlink(marker)
        return target
    }

    private func damagedNames() -> [String] {
        guard let stream = opendir(directory) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name.hasPrefix("syncagent.sqlite.damaged-") { names.append(name) }
        }
        return names
    }

    /// Runs `body` while no other process makes, migrates or sets aside the store; makes the directory, 0700,
    /// with those above it.
    ///
    /// - Parameters:
    ///   - wait: Most **milliseconds** to wait for another process.
    ///   - body: The work.
    /// - Returns: What `body` returns.
    /// - Throws: ``StoreError`` with code `busy` or `cannotCreate`; what `body` throws.
    func locked<R>(wait: Int, _ body: () throws(StoreError) -> R) throws(StoreError) -> R {
        var prefix = ""
        for component in directory.split(separator: "/") {
            prefix += "/" + component
            if mkdir(prefix, 0o700) != 0, access(prefix, F_OK) != 0 { throw failure("create", prefix) }
        }
        let file = sa_openat(AT_FDCWD, lockFile, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw failure("create", lockFile) }
        defer { close(file) }
        var waited = 0
        while sa_try_lock(file) != 0 {
            guard waited < wait else {
                throw StoreError(.busy, "Another syncagent is preparing \(escaped(directory)); try again.")
            }
            usleep(5_000)
            waited += 5
        }
        return try body()
    }

    private func failure(_ step: String, _ path: String) -> StoreError {
        StoreError(
            .cannotCreate,
            "Cannot \(step) \(escaped(path)): \(String(cString: strerror(sa_errno()))). Set XDG_STATE_HOME to a"
                + " directory that you can write to."
        )
    }
}
