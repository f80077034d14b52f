import GRDB

/// The tables, as a list of steps that only grows: step *n* brings a store from version *n* to *n* + 1.
///
/// The version is SQLite's `user_version`. A step that has shipped is never edited; `Tests/SyncStoreTests/Golden`
/// keeps a store of every version.
///
/// GRDB's `DatabaseMigrator` keeps its steps in a table, `grdb_migrations`. Programs that have shipped read the version and
/// know of no such table: with both there would be two records of one thing, and stores with rows that no golden store has.
enum Schema {
    /// SQLite's `application_id`: `SYNC`, so that file(1) and we can tell our own files.
    static let applicationID: Int32 = 0x5359_4E43

    static var version: Int { steps.count }

    static let steps = [version1, version2, version3, version4, version5]

    private static let version1 = """
        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY,
            identifier TEXT NOT NULL UNIQUE,
            project TEXT NOT NULL,
            destination TEXT NOT NULL,
            device INTEGER NOT NULL,
            inode INTEGER NOT NULL,
            policy TEXT NOT NULL,
            epoch INTEGER NOT NULL,
            created INTEGER NOT NULL,
            next_seq INTEGER NOT NULL,
            pruned_seq INTEGER NOT NULL
        ) STRICT;

        CREATE TABLE runs (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
            epoch INTEGER NOT NULL,
            manifest BLOB NOT NULL,
            location TEXT NOT NULL,
            selection TEXT NOT NULL,
            options TEXT NOT NULL,
            state TEXT NOT NULL,
            reason TEXT,
            result TEXT,
            files_total INTEGER NOT NULL DEFAULT 0,
            files_installed INTEGER NOT NULL DEFAULT 0,
            files_unchanged INTEGER NOT NULL DEFAULT 0,
            files_reused INTEGER NOT NULL DEFAULT 0,
            files_removed INTEGER NOT NULL DEFAULT 0,
            files_failed INTEGER NOT NULL DEFAULT 0,
            bytes_total INTEGER NOT NULL DEFAULT 0,
            bytes_received INTEGER NOT NULL DEFAULT 0,
            bytes_reused INTEGER NOT NULL DEFAULT 0,
            requests INTEGER NOT NULL DEFAULT 0,
            created INTEGER NOT NULL,
            started INTEGER,
            finished INTEGER,
            not_before INTEGER,
            deadline INTEGER
        ) STRICT;
        CREATE INDEX runs_of_session ON runs (session, number);
        CREATE INDEX runs_open ON runs (session) WHERE state IN ('waiting', 'running', 'paused');

        CREATE TABLE groups (
            run INTEGER NOT NULL REFERENCES runs(number) ON DELETE CASCADE,
            name TEXT NOT NULL,
            state TEXT NOT NULL,
            result TEXT,
            changed INTEGER NOT NULL DEFAULT 0,
            last_seq INTEGER,
            completed INTEGER,
            PRIMARY KEY (run, name)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE hooks (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            run INTEGER NOT NULL,
            group_name TEXT NOT NULL,
            arguments TEXT NOT NULL,
            timeout INTEGER NOT NULL,
            results TEXT NOT NULL,
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
            run INTEGER NOT NULL REFERENCES runs(number) ON DELETE CASCADE,
            path TEXT NOT NULL,
            digest BLOB NOT NULL,
            state TEXT NOT NULL,
            reason TEXT,
            error TEXT,
            priority INTEGER NOT NULL DEFAULT 0,
            due INTEGER,
            attempts INTEGER NOT NULL DEFAULT 0,
            updated INTEGER NOT NULL,
            PRIMARY KEY (run, path, digest)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE redirects (
            session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
            object TEXT NOT NULL,
            original TEXT NOT NULL,
            current TEXT NOT NULL,
            hops TEXT NOT NULL,
            updated INTEGER NOT NULL,
            PRIMARY KEY (session, object)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE events (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
            first INTEGER NOT NULL,
            count INTEGER NOT NULL,
            time INTEGER NOT NULL,
            encoding INTEGER NOT NULL,
            payload BLOB NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX events_in_order ON events (session, first);

        CREATE TABLE hosts (
            origin TEXT PRIMARY KEY,
            connections INTEGER NOT NULL,
            first_byte_us INTEGER NOT NULL,
            rate INTEGER NOT NULL,
            updated INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """

    /// The agent's needs: who asked, how to make transfers, when to try again, how often a holder was lost, and
    /// the launch limiter of a session.
    private static let version2 = """
        ALTER TABLE sessions ADD COLUMN label TEXT;
        ALTER TABLE sessions ADD COLUMN limiter_delay INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE sessions ADD COLUMN limiter_raised INTEGER;
        ALTER TABLE runs ADD COLUMN origin TEXT NOT NULL DEFAULT 'interactive';
        ALTER TABLE runs ADD COLUMN settings TEXT;
        ALTER TABLE runs ADD COLUMN error TEXT;
        ALTER TABLE runs ADD COLUMN due INTEGER;
        ALTER TABLE runs ADD COLUMN paused_at INTEGER;
        ALTER TABLE runs ADD COLUMN losses TEXT NOT NULL DEFAULT '[]';
        ALTER TABLE runs ADD COLUMN first_paths TEXT NOT NULL DEFAULT '[]';
        """

    /// What a run waits for and since when, the exit status of whoever waits for it, and hooks that get
    /// the files that changed, so many a call.
    private static let version3 = """
        ALTER TABLE runs ADD COLUMN conditions TEXT;
        ALTER TABLE runs ADD COLUMN waiting_since INTEGER;
        ALTER TABLE runs ADD COLUMN exit_status INTEGER;
        ALTER TABLE hooks ADD COLUMN batch INTEGER;
        """

    /// What sessions have ever come to, for counters that must not go down when history is pruned. Sessions of earlier
    /// versions begin with the runs that are kept.
    private static let version4 = """
        CREATE TABLE totals (
            session INTEGER PRIMARY KEY REFERENCES sessions(id) ON DELETE CASCADE,
            received INTEGER NOT NULL DEFAULT 0,
            requests INTEGER NOT NULL DEFAULT 0,
            files INTEGER NOT NULL DEFAULT 0,
            elapsed INTEGER NOT NULL DEFAULT 0,
            ok INTEGER NOT NULL DEFAULT 0,
            partial INTEGER NOT NULL DEFAULT 0,
            failed INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        INSERT INTO totals (session, received, requests, files, elapsed, ok, partial, failed)
            SELECT session, sum(bytes_received), sum(requests), sum(files_installed + files_reused),
                sum(max(0, coalesce(finished - started, 0))),
                sum(result IS 'ok'), sum(result IS 'partial'), sum(result IS 'failed')
            FROM runs GROUP BY session;
        """

    /// What went wrong, for reports, beside the words for people.
    private static let version5 = "ALTER TABLE runs ADD COLUMN cause TEXT;"

    /// Brings the store to this program's version, all steps or none.
    ///
    /// - Throws: ``StoreError`` with code `newer`, and nothing is changed; any error of SQLite.
    static func migrate(_ db: Database) throws {
        guard try read(db) < version else { return }
        // Both are kept in the file, and only once the version is known to be ours: a newer store stays as it is.
        // The first must come before the first table: freed pages are given back, a few at a time.
        try db.execute(sql: "PRAGMA auto_vacuum = INCREMENTAL")
        try db.execute(sql: "PRAGMA journal_mode = WAL")
        try db.inTransaction(.exclusive) {
            // Another process may have been faster.
            let found = try read(db)
            for step in steps[found...] { try db.execute(sql: step) }
            try db.execute(sql: "PRAGMA application_id = \(applicationID)")
            try db.execute(sql: "PRAGMA user_version = \(version)")
            return .commit
        }
    }

    /// The store's version, 0...``version``.
    ///
    /// - Throws: ``StoreError`` with code `newer`, or `foreign` for a database of another program.
    static func read(_ db: Database) throws -> Int {
        let found = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        if found == version { return found }
        guard db.isInsideTransaction else {
            // Owner and tables are read in one transaction: another process may be creating the store. Deferred, so that
            // it waits for no writer.
            var found = 0
            try db.inTransaction(.deferred) {
                found = try read(db)
                return .commit
            }
            return found
        }
        let owner = try Int32.fetchOne(db, sql: "PRAGMA application_id") ?? 0
        let isEmpty = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") == 0
        guard owner == applicationID || isEmpty && found == 0 else { throw StoreError.foreign }
        guard found >= 0, found <= version else { throw StoreError.newer(found: found, known: version) }
        return found
    }
}
