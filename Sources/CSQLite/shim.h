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

#endif
