#ifndef SYNCAGENT_CSQLITE_SHIM_H
#define SYNCAGENT_CSQLITE_SHIM_H

#include <sqlite3.h>

#if SQLITE_VERSION_NUMBER < 3037000
#error "SQLite 3.37 or newer is needed (STRICT tables)"
#endif

/* sqlite3_db_config is variadic, which Swift cannot call. SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE: the last connection
   leaves the write-ahead log as it is instead of copying it into the database and syncing both. */
static inline int sa_keep_log_on_close(sqlite3 *db) {
    return sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}

/* A schema that somebody else has written runs no functions with side effects, and SQL cannot damage the file.
   https://sqlite.org/security.html: SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_DEFENSIVE. */
static inline int sa_distrust_schema(sqlite3 *db) {
    int code = sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)0);
    return code != SQLITE_OK ? code : sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)0);
}

#endif
