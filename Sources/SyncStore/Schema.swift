import GRDB

/// The tables. Their version is SQLite's `user_version`; a store of another version is left as it is.
///
/// GRDB's `DatabaseMigrator` would keep a second record of the version, in a table of its own.
enum Schema {
    /// SQLite's `application_id`: `SYNC`, by which file(1) and this program recognize the file.
    static let applicationID: Int32 = 0x5359_4E43

    static let version = 1

    private static let tables = """
        CREATE TABLE sessions (
            identifier TEXT PRIMARY KEY NOT NULL,
            project TEXT NOT NULL,
            destination TEXT NOT NULL,
            device INTEGER NOT NULL,
            inode INTEGER NOT NULL,
            label TEXT,
            created INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            next_seq INTEGER NOT NULL,
            pruned_sequence INTEGER NOT NULL,
            limiter_delay INTEGER NOT NULL,
            limiter_raised INTEGER,
            totals TEXT NOT NULL
        ) STRICT;

        CREATE TABLE runs (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            identifier TEXT NOT NULL UNIQUE,
            session TEXT NOT NULL REFERENCES sessions(identifier) ON DELETE CASCADE,
            epoch INTEGER NOT NULL,
            manifest TEXT NOT NULL,
            recipe TEXT NOT NULL,
            facts TEXT NOT NULL,
            first_paths TEXT NOT NULL,
            state TEXT NOT NULL,
            reason TEXT,
            waiting_since INTEGER,
            result TEXT,
            counts TEXT NOT NULL,
            error TEXT,
            cause TEXT,
            exit_status INTEGER,
            created INTEGER NOT NULL,
            started INTEGER,
            finished INTEGER,
            due INTEGER,
            deadline INTEGER,
            paused_at INTEGER,
            losses TEXT NOT NULL
        ) STRICT;
        CREATE INDEX runs_of_session ON runs (session, number);
        CREATE INDEX runs_open ON runs (session) WHERE state IN ('waiting', 'running', 'paused');

        CREATE TABLE groups (
            run TEXT NOT NULL REFERENCES runs(identifier) ON DELETE CASCADE,
            name TEXT NOT NULL,
            state TEXT NOT NULL,
            result TEXT,
            changed INTEGER NOT NULL,
            last_seq INTEGER,
            completed INTEGER,
            PRIMARY KEY (run, name)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE hooks (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            run TEXT NOT NULL,
            group_name TEXT NOT NULL,
            arguments TEXT NOT NULL,
            timeout INTEGER NOT NULL,
            results TEXT NOT NULL,
            batch INTEGER,
            state TEXT NOT NULL,
            attempt INTEGER NOT NULL DEFAULT 0,
            due INTEGER,
            ended TEXT,
            output TEXT,
            started INTEGER,
            finished INTEGER,
            FOREIGN KEY (run, group_name) REFERENCES groups(run, name) ON DELETE CASCADE
        ) STRICT;
        CREATE INDEX hooks_of_group ON hooks (run, group_name);
        CREATE INDEX hooks_owed ON hooks (run) WHERE state IN ('pending', 'running');

        CREATE TABLE tasks (
            run TEXT NOT NULL REFERENCES runs(identifier) ON DELETE CASCADE,
            path TEXT NOT NULL,
            digest TEXT NOT NULL,
            state TEXT NOT NULL,
            reason TEXT NOT NULL,
            PRIMARY KEY (run, path, digest)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE events (
            id INTEGER PRIMARY KEY,
            session TEXT NOT NULL REFERENCES sessions(identifier) ON DELETE CASCADE,
            first INTEGER NOT NULL,
            count INTEGER NOT NULL,
            time INTEGER NOT NULL,
            encoding INTEGER NOT NULL,
            payload BLOB NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX events_in_order ON events (session, first);
        """

    /// Creates the tables of a store that has none.
    ///
    /// - Throws: ``StoreError`` with code `newer`, and nothing is changed; any error of SQLite.
    static func create(_ db: Database) throws {
        guard try !isThere(db) else { return }
        // Both are stored in the file, and only once the version is known to be ours: another store stays as it is.
        // The first must come before the first table. Freed pages are returned, a few at a time.
        try db.execute(sql: "PRAGMA auto_vacuum = INCREMENTAL")
        try db.execute(sql: "PRAGMA journal_mode = WAL")
        try db.inTransaction(.exclusive) {
            // Another process may have been faster.
            guard try !isThere(db) else { return .commit }
            try db.execute(sql: tables)
            try db.execute(sql: "PRAGMA application_id = \(applicationID)")
            try db.execute(sql: "PRAGMA user_version = \(version)")
            return .commit
        }
    }

    /// Whether the tables exist; `false` for an empty file.
    ///
    /// - Throws: ``StoreError`` with code `newer`, or `foreign` for a database of another program.
    static func isThere(_ db: Database) throws -> Bool {
        let found = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        if found == version { return true }
        guard db.isInsideTransaction else {
            // Owner and tables are read in one transaction: another process may be creating the store. Deferred, so
            // that it waits for no writer.
            var isThere = false
            try db.inTransaction(.deferred) {
                isThere = try self.isThere(db)
                return .commit
            }
            return isThere
        }
        let owner = try Int32.fetchOne(db, sql: "PRAGMA application_id") ?? 0
        let isEmpty = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") == 0
        if isEmpty, found == 0 { return false }
        throw owner == applicationID ? StoreError.newer(found: found, known: version) : StoreError.foreign
    }
}
