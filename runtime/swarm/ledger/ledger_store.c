#include "runtime/swarm/ledger/ledger_store.h"

#include "base/file.h"
#include "base/limits.h"
#include "runtime/swarm/ledger/entry_bytes.h"

#include <sqlite3.h>
#include <string.h>

/* "skep" as SQLite's mark of a file's owner, and the version of the tables. */
static const char MARK[] = "PRAGMA application_id = 0x736b6570; PRAGMA user_version = 1;";
enum { APPLICATION = 0x736b6570, TABLES_VERSION = 1 };

/* The lock comes first: without it the log would need shared memory between processes. */
static const char LOCK[] = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF;";
/* A cache that is full after some tens of entries, so that the tracker stops growing early; it
 * appends, and seldom reads back. In KiB when negative. */
static const char SETTINGS[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -256;";
static const char TABLES[] =
    "CREATE TABLE IF NOT EXISTS entries(number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE,"
    " record BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS promises(name TEXT PRIMARY KEY, bytes BLOB NOT NULL);"
    "CREATE TRIGGER IF NOT EXISTS entries_stay BEFORE DELETE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;"
    "CREATE TRIGGER IF NOT EXISTS entries_stand BEFORE UPDATE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;";

static const char INCARNATION[] = "incarnation";
static const char DAMAGED[] =
    "put a copy back, or move it away and begin from a member's ledger: skep track --ledger FILE";

static enum status failed(const struct ledger_store *store, const char *action,
                          struct fault *fault) {
    switch (sqlite3_errcode(store->database) & 0xff) {
    case SQLITE_FULL:
        return fault_set(fault, STATUS_FIT, store->path, "make room on the disk",
                         "cannot %s: the disk is full", action);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return fault_set(fault, STATUS_INPUT, store->path,
                         "end the other tracker first, or ask it by the swarm's join string",
                         "cannot %s: another process has the ledger open", action);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return fault_set(fault, STATUS_INPUT, store->path, DAMAGED,
                         "cannot %s: the file is damaged, or no ledger's", action);
    case SQLITE_CANTOPEN:
        return fault_set(fault, STATUS_INPUT, store->path, "name a file in a folder that exists",
                         "cannot %s: the file cannot be opened", action);
    default:
        return fault_set(fault, STATUS_FAILED, store->path, NULL, "cannot %s: %s", action,
                         sqlite3_errmsg(store->database));
    }
}

static enum status execute(const struct ledger_store *store, const char *sql, struct fault *fault) {
    return sqlite3_exec(store->database, sql, NULL, NULL, NULL) == SQLITE_OK
               ? OK
               : failed(store, "prepare the ledger", fault);
}

static enum status prepare(const struct ledger_store *store, const char *sql,
                           struct sqlite3_stmt **statement, struct fault *fault) {
    return sqlite3_prepare_v2(store->database, sql, -1, statement, NULL) == SQLITE_OK
               ? OK
               : failed(store, "read the ledger", fault);
}

/* The first number of the first row. */
static enum status ask(const struct ledger_store *store, const char *sql, int64_t *answer,
                       struct fault *fault) {
    struct sqlite3_stmt *statement = NULL;
    enum status status = prepare(store, sql, &statement, fault);
    if (status != OK) {
        return status;
    }
    if (sqlite3_step(statement) == SQLITE_ROW) {
        *answer = sqlite3_column_int64(statement, 0);
    } else {
        status = failed(store, "read the ledger", fault);
    }
    sqlite3_finalize(statement);
    return status;
}

/* A file with tables that are not ours is left as it is. */
static enum status check_owner(const struct ledger_store *store, struct fault *fault) {
    int64_t application = 0;
    int64_t version = 0;
    int64_t tables = 0;
    enum status status = ask(store, "PRAGMA application_id", &application, fault);
    if (status == OK) {
        status = ask(store, "PRAGMA user_version", &version, fault);
    }
    if (status == OK) {
        status = ask(store, "SELECT count(*) FROM sqlite_schema", &tables, fault);
    }
    if (status != OK || (tables == 0 && application == 0)) {
        return status;
    }
    if (application != APPLICATION || version != TABLES_VERSION) {
        return fault_set(fault, STATUS_INPUT, store->path, "name another file",
                         "is a database, and no ledger of this version of Skep");
    }
    return OK;
}

static enum status read_head(struct ledger_store *store, struct fault *fault) {
    int64_t count = 0;
    int64_t last = -1;
    enum status status = ask(store, "SELECT count(*) FROM entries", &count, fault);
    if (status == OK) {
        status = ask(store, "SELECT coalesce(max(number), -1) FROM entries", &last, fault);
    }
    if (status != OK) {
        return status;
    }
    if (last != count - 1) {
        return fault_set(fault, STATUS_INPUT, store->path, DAMAGED,
                         "%lld entries, numbered up to %lld: some are missing", (long long)count,
                         (long long)last);
    }
    store->count = (uint64_t)count;
    if (count == 0) {
        return OK;
    }
    sqlite3_bind_int64(store->read, 1, last);
    if (sqlite3_step(store->read) == SQLITE_ROW &&
        sqlite3_column_bytes(store->read, 1) == HASH_BYTES) {
        memcpy(store->head.bytes, sqlite3_column_blob(store->read, 1), HASH_BYTES);
    } else {
        status = fault_set(fault, STATUS_INPUT, store->path, NULL, "entry %lld has no hash",
                           (long long)last);
    }
    sqlite3_reset(store->read);
    return status;
}

static enum status prepare_all(struct ledger_store *store, struct fault *fault) {
    const struct {
        const char *sql;
        struct sqlite3_stmt **statement;
    } rows[] = {
        {"INSERT INTO entries(number, hash, record) VALUES(?, ?, ?)", &store->append},
        {"SELECT record, hash FROM entries WHERE number = ?", &store->read},
        {"INSERT OR REPLACE INTO promises(name, bytes) VALUES(?, ?)", &store->promise},
        {"SELECT bytes FROM promises WHERE name = ?", &store->recall},
    };
    enum status status = OK;
    for (size_t i = 0; i < ARRAY_COUNT(rows) && status == OK; i++) {
        status = prepare(store, rows[i].sql, rows[i].statement, fault);
    }
    return status;
}

static enum status make_tables(struct ledger_store *store, struct fault *fault) {
    enum status status = execute(store, "BEGIN IMMEDIATE;", fault);
    if (status == OK) {
        status = execute(store, TABLES, fault);
    }
    if (status == OK) {
        status = execute(store, MARK, fault);
    }
    return status == OK ? execute(store, "COMMIT;", fault) : status;
}

static enum status set_up(struct ledger_store *store, struct fault *fault) {
    char folder[PATH_BYTES];
    enum status status = execute(store, LOCK, fault);
    if (status == OK) {
        status = check_owner(store, fault);
    }
    if (status == OK) {
        status = execute(store, SETTINGS, fault);
    }
    if (status == OK) {
        status = make_tables(store, fault);
    }
    if (status == OK) {
        status = prepare_all(store, fault);
    }
    if (status == OK) {
        status = read_head(store, fault);
    }
    if (status == OK) {
        file_folder_of(store->path, folder, sizeof folder);
        status = file_sync_folder(folder, fault);
    }
    return status;
}

enum status ledger_store_open(const char *path, struct region *region, struct ledger_store *store,
                              struct fault *fault) {
    struct ledger_store opened = {.path = path};
    enum status status;
    ASSERT(strlen(path) < PATH_BYTES);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXRESCODE;
    status = sqlite3_open_v2(path, &opened.database, flags, NULL) == SQLITE_OK
                 ? set_up(&opened, fault)
                 : failed(&opened, "open the ledger", fault);
    if (status != OK) {
        ledger_store_close(&opened);
        return status;
    }
    opened.record = region_alloc(region, ENTRY_RECORD_MAX, 1);
    *store = opened;
    return OK;
}

void ledger_store_close(struct ledger_store *store) {
    sqlite3_finalize(store->append);
    sqlite3_finalize(store->read);
    sqlite3_finalize(store->promise);
    sqlite3_finalize(store->recall);
    sqlite3_close(store->database);
}

/* Run a statement that writes; its bindings may go afterwards. */
static enum status finish(const struct ledger_store *store, struct sqlite3_stmt *statement,
                          const char *action, struct fault *fault) {
    enum status status = sqlite3_step(statement) == SQLITE_DONE ? OK : failed(store, action, fault);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

enum status ledger_store_append(struct ledger_store *store, const struct entry *entry,
                                struct fault *fault) {
    ASSERT(hash_equal(&entry->prev, &store->head));
    size_t bytes = entry_write(entry, store->record, ENTRY_RECORD_MAX);
    sqlite3_bind_int64(store->append, 1, (sqlite3_int64)store->count);
    sqlite3_bind_blob(store->append, 2, entry->hash.bytes, HASH_BYTES, SQLITE_STATIC);
    sqlite3_bind_blob(store->append, 3, store->record, (int)bytes, SQLITE_STATIC);
    enum status status = finish(store, store->append, "append an entry", fault);
    if (status == OK) {
        store->count++;
        store->head = entry->hash;
    }
    return status;
}

enum status ledger_store_read(struct ledger_store *store, uint64_t number,
                              struct entry_slice *slices, uint32_t slice_max, struct entry *entry,
                              struct fault *fault) {
    ASSERT(number < store->count);
    enum status status = OK;
    const char *wrong = "is missing";
    sqlite3_bind_int64(store->read, 1, (sqlite3_int64)number);
    int step = sqlite3_step(store->read);
    if (step == SQLITE_ROW) {
        const uint8_t *record = sqlite3_column_blob(store->read, 0);
        size_t bytes = (size_t)sqlite3_column_bytes(store->read, 0);
        wrong = entry_read(record, record == NULL ? 0 : bytes, slices, slice_max, entry);
    } else if (step != SQLITE_DONE) {
        status = failed(store, "read an entry", fault);
    }
    sqlite3_reset(store->read);
    if (status == OK && wrong != NULL) {
        status = fault_set(fault, STATUS_INPUT, store->path, DAMAGED, "entry %llu %s",
                           (unsigned long long)number, wrong);
    }
    return status;
}

static void bind_name(struct sqlite3_stmt *statement, const char *name) {
    size_t length = strlen(name);
    ASSERT(length >= 1 && length <= STORE_NAME_MAX);
    sqlite3_bind_text(statement, 1, name, (int)length, SQLITE_STATIC);
}

enum status ledger_store_promise(struct ledger_store *store, const char *name, const void *bytes,
                                 size_t count, struct fault *fault) {
    ASSERT(count <= STORE_PROMISE_MAX);
    bind_name(store->promise, name);
    sqlite3_bind_blob(store->promise, 2, count == 0 ? "" : bytes, (int)count, SQLITE_STATIC);
    return finish(store, store->promise, "keep a promise", fault);
}

enum status ledger_store_recall(struct ledger_store *store, const char *name, void *bytes,
                                size_t capacity, size_t *count, struct fault *fault) {
    enum status status = OK;
    size_t found = 0;
    bind_name(store->recall, name);
    int step = sqlite3_step(store->recall);
    if (step == SQLITE_ROW) {
        const void *kept = sqlite3_column_blob(store->recall, 0);
        found = (size_t)sqlite3_column_bytes(store->recall, 0);
        if (found > capacity) {
            status = fault_set(fault, STATUS_INPUT, store->path, NULL,
                               "%zu bytes are kept as \"%s\", at most %zu are wanted", found, name,
                               capacity);
        } else if (found > 0) {
            memcpy(bytes, kept, found);
        }
    } else if (step != SQLITE_DONE) {
        status = failed(store, "recall a promise", fault);
    }
    sqlite3_reset(store->recall);
    if (status == OK) {
        *count = found;
    }
    return status;
}

/* How many starts have been counted. */
static enum status recall_starts(struct ledger_store *store, uint32_t *starts,
                                 struct fault *fault) {
    uint8_t bytes[4] = {0};
    size_t count = 0;
    enum status status =
        ledger_store_recall(store, INCARNATION, bytes, sizeof bytes, &count, fault);
    if (status == OK && count != 0 && count != sizeof bytes) {
        status = fault_set(fault, STATUS_INPUT, store->path, NULL, "counts no starts any more");
    }
    if (status == OK) {
        *starts = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                  (uint32_t)bytes[3] << 24;
    }
    return status;
}

enum status ledger_store_started(struct ledger_store *store, uint32_t starts, struct fault *fault) {
    uint8_t bytes[4];
    for (int i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(starts >> (8 * i));
    }
    return ledger_store_promise(store, INCARNATION, bytes, sizeof bytes, fault);
}

enum status ledger_store_start(struct ledger_store *store, uint32_t *incarnation,
                               struct fault *fault) {
    uint32_t last = 0;
    enum status status = recall_starts(store, &last, fault);
    if (status == OK && last == UINT32_MAX) {
        status = fault_set(fault, STATUS_INPUT, store->path, NULL, "counts no starts any more");
    }
    if (status == OK) {
        status = ledger_store_started(store, last + 1, fault);
    }
    if (status == OK) {
        *incarnation = last + 1;
    }
    return status;
}

static enum write_outcome write_all(struct ledger_store *store, const struct store_write *write,
                                    struct fault *fault) {
    uint32_t starts = 0;
    enum status status = recall_starts(store, &starts, fault);
    if (status == OK && starts != write->incarnation) {
        fault_set(fault, STATUS_FAILED, store->path, NULL,
                  "start %u of the tracker has taken over from start %u", starts,
                  write->incarnation);
        return WRITE_FENCED;
    }
    for (uint32_t i = 0; i < write->promise_count && status == OK; i++) {
        const struct store_promise *promise = &write->promises[i];
        status = ledger_store_promise(store, promise->name, promise->bytes, promise->count, fault);
    }
    if (status == OK && write->entry != NULL) {
        status = ledger_store_append(store, write->entry, fault);
    }
    if (status == OK) {
        status = execute(store, "COMMIT;", fault);
    }
    return status == OK ? WRITE_OK : WRITE_FAILED;
}

enum write_outcome ledger_store_write(struct ledger_store *store, const struct store_write *write,
                                      struct fault *fault) {
    const uint64_t count = store->count;
    const struct hash head = store->head;
    if (execute(store, "BEGIN IMMEDIATE;", fault) != OK) {
        return WRITE_FAILED;
    }
    enum write_outcome written = write_all(store, write, fault);
    if (written != WRITE_OK) {
        /* SQLite has undone it already where the disk was full. */
        sqlite3_exec(store->database, "ROLLBACK;", NULL, NULL, NULL);
        store->count = count;
        store->head = head;
    }
    return written;
}
