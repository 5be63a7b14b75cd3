#include "runtime/swarm/ledger/ledger_file.h"

#include "base/file.h"
#include "base/limits.h"
#include "runtime/swarm/ledger/entry.h"

#include <sqlite3.h>
#include <string.h>

/* Sets the application id of the SQLite file to "skep" in ASCII, and the version of the schema. */
static const char MARK[] = "PRAGMA application_id = 0x736b6570; PRAGMA user_version = 2;";
enum {
    APPLICATION_ID = 0x736b6570, /* SQLite application_id: "skep" */
    SCHEMA_VERSION = 2,          /* version of the tables and of the records in them */
    PROTOCOL_1_SCHEMA = 1,       /* version of the tables of protocol 1 */
};

/* Executed before the journal mode is set: with the exclusive lock, the write-ahead log needs no
 * memory shared between processes. */
static const char LOCK[] = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF;";
/* The page cache (a negative size is in KiB) is small, so that the tracker's memory stops growing
 * after some tens of entries. A tracker appends often and reads rarely. */
static const char SETTINGS[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -256;";
static const char TABLES[] =
    "CREATE TABLE IF NOT EXISTS entries(number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE,"
    " record BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS results(number INTEGER PRIMARY KEY, record BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS promises(name TEXT PRIMARY KEY, bytes BLOB NOT NULL);"
    "CREATE TRIGGER IF NOT EXISTS entries_stay BEFORE DELETE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;"
    "CREATE TRIGGER IF NOT EXISTS entries_stand BEFORE UPDATE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;";

/* Selects the record of an entry: with its slices if that form is stored (table results), else
 * without slices. */
static const char SELECT_ENTRY[] =
    "SELECT coalesce(results.record, entries.record), hash FROM entries"
    " LEFT JOIN results ON results.number = entries.number WHERE entries.number = ?";
/* Removes all rows but those of the newest eight commits. */
static const char DELETE_RESULTS[] = "DELETE FROM results WHERE number NOT IN"
                                     " (SELECT number FROM results ORDER BY number DESC LIMIT 8)";
_Static_assert(REPLAY_ROUNDS_MAX + 1 == 8, "the statement has the number of commits");

static const char INCARNATION[] = "incarnation";
static const char DAMAGED[] =
    "restore a copy, or move it away and import a member's ledger: skep track --ledger FILE";

static enum status set_sqlite_fault(const struct ledger_store *store, const char *action,
                                    struct fault *fault) {
    switch (sqlite3_errcode(store->database) & 0xff) {
    case SQLITE_FULL:
        return fault_set(fault, STATUS_FIT, store->path, "free space on the disk",
                         "cannot %s: the disk is full", action);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return fault_set(fault, STATUS_INPUT, store->path,
                         "stop the other tracker first, or query it with the swarm's join string",
                         "cannot %s: another process has the ledger open", action);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return fault_set(fault, STATUS_INPUT, store->path, DAMAGED,
                         "cannot %s: the file is damaged or not a ledger", action);
    case SQLITE_CANTOPEN:
        return fault_set(fault, STATUS_INPUT, store->path, "use a file in an existing folder",
                         "cannot %s: the file cannot be opened", action);
    default:
        return fault_set(fault, STATUS_FAILED, store->path, NULL, "cannot %s: %s", action,
                         sqlite3_errmsg(store->database));
    }
}

static enum status execute_sql(const struct ledger_store *store, const char *sql,
                               struct fault *fault) {
    return sqlite3_exec(store->database, sql, NULL, NULL, NULL) == SQLITE_OK
               ? OK
               : set_sqlite_fault(store, "prepare the ledger", fault);
}

static enum status prepare_statement(const struct ledger_store *store, const char *sql,
                                     struct sqlite3_stmt **statement, struct fault *fault) {
    return sqlite3_prepare_v2(store->database, sql, -1, statement, NULL) == SQLITE_OK
               ? OK
               : set_sqlite_fault(store, "read the ledger", fault);
}

/* Executes a query and returns the number in its first row and column. */
static enum status query_number(const struct ledger_store *store, const char *sql, int64_t *answer,
                                struct fault *fault) {
    struct sqlite3_stmt *statement = NULL;
    enum status status = OK;
    TRY(prepare_statement(store, sql, &statement, fault));
    if (sqlite3_step(statement) == SQLITE_ROW) {
        *answer = sqlite3_column_int64(statement, 0);
    } else {
        status = set_sqlite_fault(store, "read the ledger", fault);
    }
    sqlite3_finalize(statement);
    return status;
}

/* Rejects the database of a different program before anything is written to it. */
static enum status check_application_id(const struct ledger_store *store, bool *is_new,
                                        struct fault *fault) {
    int64_t application = 0;
    int64_t version = 0;
    int64_t tables = 0;
    TRY(query_number(store, "PRAGMA application_id", &application, fault));
    TRY(query_number(store, "PRAGMA user_version", &version, fault));
    TRY(query_number(store, "SELECT count(*) FROM sqlite_schema", &tables, fault));
    *is_new = tables == 0 && application == 0;
    if (application == APPLICATION_ID && version == PROTOCOL_1_SCHEMA) {
        return old_protocol_fault(fault, store->path);
    }
    return *is_new || (application == APPLICATION_ID && version == SCHEMA_VERSION)
               ? OK
               : fault_set(fault, STATUS_INPUT, store->path, "use a different file",
                           "is a database, but not a ledger of this version of Skep");
}

static enum status read_head(struct ledger_store *store, struct fault *fault) {
    int64_t count = 0;
    int64_t last = -1;
    enum status status = OK;
    TRY(query_number(store, "SELECT count(*) FROM entries", &count, fault));
    TRY(query_number(store, "SELECT coalesce(max(number), -1) FROM entries", &last, fault));
    if (last != count - 1) {
        return fault_set(fault, STATUS_INPUT, store->path, DAMAGED,
                         "has %lld entries, but the last has the number %lld: some are missing",
                         (long long)count, (long long)last);
    }
    store->entry_count = (uint64_t)count;
    if (count == 0) {
        return OK;
    }
    sqlite3_bind_int64(store->select_entry, 1, last);
    if (sqlite3_step(store->select_entry) == SQLITE_ROW &&
        sqlite3_column_bytes(store->select_entry, 1) == HASH_BYTES) {
        memcpy(store->head.bytes, sqlite3_column_blob(store->select_entry, 1), HASH_BYTES);
    } else {
        status = fault_set(fault, STATUS_INPUT, store->path, NULL,
                           "entry %lld, the last one, is missing or has no hash", (long long)last);
    }
    sqlite3_reset(store->select_entry);
    return status;
}

static enum status prepare_statements(struct ledger_store *store, struct fault *fault) {
    const struct {
        const char *sql;
        struct sqlite3_stmt **statement;
    } rows[] = {
        {"INSERT INTO entries(number, hash, record) VALUES(?, ?, ?)", &store->insert_entry},
        {SELECT_ENTRY, &store->select_entry},
        {"INSERT INTO results(number, record) VALUES(?, ?)", &store->insert_results},
        {DELETE_RESULTS, &store->delete_results},
        {"INSERT OR REPLACE INTO promises(name, bytes) VALUES(?, ?)", &store->insert_promise},
        {"SELECT bytes FROM promises WHERE name = ?", &store->select_promise},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        TRY(prepare_statement(store, rows[i].sql, rows[i].statement, fault));
    }
    return OK;
}

/* Creates the tables. The application id of an existing file is not written again, so that a start
 * that is refused later has changed no byte. */
static enum status create_tables(struct ledger_store *store, bool is_new, struct fault *fault) {
    TRY(execute_sql(store, "BEGIN IMMEDIATE;", fault));
    TRY(execute_sql(store, TABLES, fault));
    TRY(is_new ? execute_sql(store, MARK, fault) : OK);
    return execute_sql(store, "COMMIT;", fault);
}

static enum status set_up_database(struct ledger_store *store, struct fault *fault) {
    char folder[PATH_BYTES];
    bool is_new = false;
    TRY(execute_sql(store, LOCK, fault));
    TRY(check_application_id(store, &is_new, fault));
    TRY(execute_sql(store, SETTINGS, fault));
    TRY(create_tables(store, is_new, fault));
    TRY(prepare_statements(store, fault));
    TRY(read_head(store, fault));
    file_parent_folder(store->path, folder, sizeof folder);
    return file_sync_folder(folder, fault);
}

enum status ledger_store_open(const char *path, struct region *region, struct ledger_store *store,
                              struct fault *fault) {
    struct ledger_store opened = {.path = path};
    enum status status;
    ASSERT(strlen(path) < PATH_BYTES);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXRESCODE;
    status = sqlite3_open_v2(path, &opened.database, flags, NULL) == SQLITE_OK
                 ? set_up_database(&opened, fault)
                 : set_sqlite_fault(&opened, "open the ledger", fault);
    if (status != OK) {
        ledger_store_close(&opened);
        return status;
    }
    opened.record = region_alloc(region, ENTRY_RECORD_BYTES_MAX, 1);
    *store = opened;
    return OK;
}

void ledger_store_close(struct ledger_store *store) {
    sqlite3_finalize(store->insert_entry);
    sqlite3_finalize(store->select_entry);
    sqlite3_finalize(store->insert_results);
    sqlite3_finalize(store->delete_results);
    sqlite3_finalize(store->insert_promise);
    sqlite3_finalize(store->select_promise);
    sqlite3_close(store->database);
}

/* Executes a prepared statement that writes, and clears its bindings. */
static enum status execute_bound_statement(const struct ledger_store *store,
                                           struct sqlite3_stmt *statement, const char *action,
                                           struct fault *fault) {
    enum status status =
        sqlite3_step(statement) == SQLITE_DONE ? OK : set_sqlite_fault(store, action, fault);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

/* Stores the rows of a commit until eight later commits have rows. */
static enum status append_results(struct ledger_store *store, const struct entry *entry,
                                  struct fault *fault) {
    const size_t bytes =
        entry_write(entry, ENTRY_WITH_SLICES, store->record, ENTRY_RECORD_BYTES_MAX);
    sqlite3_bind_int64(store->insert_results, 1, (sqlite3_int64)store->entry_count);
    sqlite3_bind_blob(store->insert_results, 2, store->record, (int)bytes, SQLITE_STATIC);
    TRY(execute_bound_statement(store, store->insert_results, "append an entry", fault));
    return execute_bound_statement(store, store->delete_results, "append an entry", fault);
}

static enum status append_record(struct ledger_store *store, const struct entry *entry,
                                 struct fault *fault) {
    const size_t bytes =
        entry_write(entry, ENTRY_WITHOUT_SLICES, store->record, ENTRY_RECORD_BYTES_MAX);
    sqlite3_bind_int64(store->insert_entry, 1, (sqlite3_int64)store->entry_count);
    sqlite3_bind_blob(store->insert_entry, 2, entry->hash.bytes, HASH_BYTES, SQLITE_STATIC);
    sqlite3_bind_blob(store->insert_entry, 3, store->record, (int)bytes, SQLITE_STATIC);
    return execute_bound_statement(store, store->insert_entry, "append an entry", fault);
}

/* Appends an entry and its rows, or neither, within a transaction or without one. */
static enum status append_with_results(struct ledger_store *store, const struct entry *entry,
                                       struct fault *fault) {
    struct fault ignored;
    TRY(execute_sql(store, "SAVEPOINT entry;", fault));
    enum status status = append_results(store, entry, fault);
    if (status == OK) {
        status = append_record(store, entry, fault);
    }
    if (status == OK) {
        status = execute_sql(store, "RELEASE entry;", fault);
    }
    if (status != OK) {
        (void)!execute_sql(store, "ROLLBACK TO entry; RELEASE entry;", &ignored);
    }
    return status;
}

enum status ledger_store_append(struct ledger_store *store, const struct entry *entry,
                                struct fault *fault) {
    ASSERT(hash_equal(&entry->prev, &store->head));
    TRY(entry->slice_count > 0 ? append_with_results(store, entry, fault)
                               : append_record(store, entry, fault));
    store->entry_count++;
    store->head = entry->hash;
    return OK;
}

enum status ledger_store_read(struct ledger_store *store, uint64_t number,
                              struct entry_slice *slices, uint32_t slice_capacity,
                              struct entry *entry, struct fault *fault) {
    ASSERT(number < store->entry_count);
    enum status status = OK;
    const char *error = "is missing";
    sqlite3_bind_int64(store->select_entry, 1, (sqlite3_int64)number);
    int step = sqlite3_step(store->select_entry);
    if (step == SQLITE_ROW) {
        const uint8_t *record = sqlite3_column_blob(store->select_entry, 0);
        size_t bytes = (size_t)sqlite3_column_bytes(store->select_entry, 0);
        error = entry_read(record, record == NULL ? 0 : bytes, slices, slice_capacity, entry);
    } else if (step != SQLITE_DONE) {
        status = set_sqlite_fault(store, "read an entry", fault);
    }
    sqlite3_reset(store->select_entry);
    if (status == OK && error != NULL) {
        status = fault_set(fault, STATUS_INPUT, store->path, DAMAGED, "entry %llu %s",
                           (unsigned long long)number, error);
    }
    return status;
}

static void bind_name(struct sqlite3_stmt *statement, const char *name) {
    size_t length = strlen(name);
    ASSERT(length >= 1 && length <= PROMISE_NAME_MAX);
    sqlite3_bind_text(statement, 1, name, (int)length, SQLITE_STATIC);
}

enum status ledger_store_write_promise(struct ledger_store *store, const char *name,
                                       const void *bytes, size_t count, struct fault *fault) {
    ASSERT(count <= PROMISE_BYTES_MAX);
    bind_name(store->insert_promise, name);
    sqlite3_bind_blob(store->insert_promise, 2, count == 0 ? "" : bytes, (int)count, SQLITE_STATIC);
    return execute_bound_statement(store, store->insert_promise, "store a promise", fault);
}

enum status ledger_store_read_promise(struct ledger_store *store, const char *name, void *bytes,
                                      size_t capacity, size_t *count, struct fault *fault) {
    enum status status = OK;
    size_t found = 0;
    bind_name(store->select_promise, name);
    int step = sqlite3_step(store->select_promise);
    if (step == SQLITE_ROW) {
        const void *stored = sqlite3_column_blob(store->select_promise, 0);
        found = (size_t)sqlite3_column_bytes(store->select_promise, 0);
        if (found > capacity) {
            status = fault_set(fault, STATUS_INPUT, store->path, NULL,
                               "the stored value \"%s\" has %zu bytes; at most %zu are expected",
                               name, found, capacity);
        } else if (found > 0) {
            memcpy(bytes, stored, found);
        }
    } else if (step != SQLITE_DONE) {
        status = set_sqlite_fault(store, "read a promise", fault);
    }
    sqlite3_reset(store->select_promise);
    if (status == OK) {
        *count = found;
    }
    return status;
}

/* Reads the number of tracker starts counted so far. */
static enum status read_start_count(struct ledger_store *store, uint32_t *starts,
                                    struct fault *fault) {
    uint8_t bytes[4] = {0};
    size_t count = 0;
    TRY(ledger_store_read_promise(store, INCARNATION, bytes, sizeof bytes, &count, fault));
    if (count != 0 && count != sizeof bytes) {
        return fault_set(fault, STATUS_INPUT, store->path, NULL,
                         "the counter of the tracker's starts is damaged or at its limit");
    }
    *starts = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
              (uint32_t)bytes[3] << 24;
    return OK;
}

enum status ledger_store_set_start_count(struct ledger_store *store, uint32_t starts,
                                         struct fault *fault) {
    uint8_t bytes[4];
    for (int i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(starts >> (8 * i));
    }
    return ledger_store_write_promise(store, INCARNATION, bytes, sizeof bytes, fault);
}

enum status ledger_store_count_start(struct ledger_store *store, uint32_t *incarnation,
                                     struct fault *fault) {
    uint32_t last = 0;
    TRY(read_start_count(store, &last, fault));
    if (last == UINT32_MAX) {
        return fault_set(fault, STATUS_INPUT, store->path, NULL,
                         "the counter of the tracker's starts is damaged or at its limit");
    }
    TRY(ledger_store_set_start_count(store, last + 1, fault));
    *incarnation = last + 1;
    return OK;
}

static enum write_outcome write_entry_and_promises(struct ledger_store *store,
                                                   const struct store_transaction *write,
                                                   struct fault *fault) {
    uint32_t starts = 0;
    enum status status = read_start_count(store, &starts, fault);
    if (status == OK && starts != write->incarnation) {
        fault_set(fault, STATUS_FAILED, store->path, NULL,
                  "start %u of the tracker has replaced start %u", starts, write->incarnation);
        return WRITE_FENCED;
    }
    for (uint32_t i = 0; i < write->promise_count && status == OK; i++) {
        const struct store_promise *promise = &write->promises[i];
        status =
            ledger_store_write_promise(store, promise->name, promise->bytes, promise->count, fault);
    }
    if (status == OK && write->entry != NULL) {
        status = ledger_store_append(store, write->entry, fault);
    }
    if (status == OK) {
        status = execute_sql(store, "COMMIT;", fault);
    }
    return status == OK ? WRITE_OK : WRITE_FAILED;
}

enum write_outcome ledger_store_write(struct ledger_store *store,
                                      const struct store_transaction *write, struct fault *fault) {
    const uint64_t count = store->entry_count;
    const struct hash head = store->head;
    if (execute_sql(store, "BEGIN IMMEDIATE;", fault) != OK) {
        return WRITE_FAILED;
    }
    enum write_outcome outcome = write_entry_and_promises(store, write, fault);
    if (outcome != WRITE_OK) {
        /* The result is ignored: if the disk was full, SQLite has already rolled back. */
        sqlite3_exec(store->database, "ROLLBACK;", NULL, NULL, NULL);
        store->entry_count = count;
        store->head = head;
    }
    return outcome;
}
