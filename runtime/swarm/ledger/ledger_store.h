/* ledger_store: the tracker's durable state in one SQLite file: the entries of the ledger, which
 * are only appended, and the tracker's other promises.
 *
 * A call that has returned OK survives a crash of the process and of the machine: synchronous=FULL
 * and a write-ahead log, which is synced once per call. (With a rollback journal, FULL does not
 * sync the folder after the journal was removed, so that a power failure could undo the last
 * entry.) An interrupted call has full effect or none. The file is locked while it is open, so
 * that two trackers never write into one ledger. */
#ifndef SKEP_SWARM_LEDGER_LEDGER_STORE_H
#define SKEP_SWARM_LEDGER_LEDGER_STORE_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STORE_NAME_MAX = 64,         /* of a promise */
    STORE_PROMISE_MAX = 4 << 20, /* bytes: the weights, owners and hashes of a full TABLE */
};

/* The outcome of a write. */
enum write_outcome {
    WRITE_OK,
    WRITE_FAILED, /* nothing is durable: the disk is full, for example */
    WRITE_FENCED, /* a tracker with a higher incarnation has started; nothing is durable */
};

struct sqlite3;
struct sqlite3_stmt;

struct ledger_store {
    const char *path;
    struct sqlite3 *database;
    struct sqlite3_stmt *append, *read, *promise, *recall;
    uint8_t *record;  /* ENTRY_RECORD_MAX */
    uint64_t count;   /* of entries */
    struct hash head; /* hash of the last entry; zero without entries */
};

/* ledger_store_open: open the file, or create it. An interrupted transaction is undone.
 * memory  `path` is kept; about 1.3 MiB in `region`; SQLite allocates, here and in each call
 * errors  STATUS_INPUT when it is not a ledger store, damaged, or open in another process;
 *         STATUS_FIT on a full disk; STATUS_FAILED. *store is then untouched. */
MUST_CHECK enum status ledger_store_open(const char *path, struct region *region,
                                         struct ledger_store *store, struct fault *fault);
void ledger_store_close(struct ledger_store *store);

/* ledger_store_append: append `entry`. It may be sent only after that.
 * limits  entry->prev is store->head, entry_error(entry) is NULL
 * errors  STATUS_FIT on a full disk, STATUS_FAILED: the store is then unchanged */
MUST_CHECK enum status ledger_store_append(struct ledger_store *store, const struct entry *entry,
                                           struct fault *fault);

/* ledger_store_read: the entry at index `number`, from 0.
 * limits  number < store->count
 * memory  as entry_read's
 * errors  STATUS_INPUT when the record is damaged; chain and signatures are not verified */
MUST_CHECK enum status ledger_store_read(struct ledger_store *store, uint64_t number,
                                         struct entry_slice *slices, uint32_t slice_max,
                                         struct entry *entry, struct fault *fault);

/* ledger_store_promise: store `bytes` under a name, in place of the bytes stored before.
 * ledger_store_recall: read them; *count is 0 when the name has none.
 * limits  a name of 1 .. STORE_NAME_MAX characters; count <= STORE_PROMISE_MAX
 * errors  STATUS_FIT, STATUS_FAILED: the stored bytes are unchanged; STATUS_INPUT when `capacity`
 *         is too small */
MUST_CHECK enum status ledger_store_promise(struct ledger_store *store, const char *name,
                                            const void *bytes, size_t count, struct fault *fault);
MUST_CHECK enum status ledger_store_recall(struct ledger_store *store, const char *name,
                                           void *bytes, size_t capacity, size_t *count,
                                           struct fault *fault);

/* ledger_store_start: count a start of the tracker; *incarnation is its number, from 1.
 * ledger_store_set_starts: set the count, in a store that was imported. It never decreases. */
MUST_CHECK enum status ledger_store_set_starts(struct ledger_store *store, uint32_t starts,
                                               struct fault *fault);
MUST_CHECK enum status ledger_store_start(struct ledger_store *store, uint32_t *incarnation,
                                          struct fault *fault);

/* Bytes to store under a name; they belong to the caller. */
struct store_promise {
    const char *name;
    const void *bytes;
    size_t count;
};

/* What one step of a tracker makes durable together. */
struct store_write {
    uint32_t incarnation;      /* of the tracker that writes, from ledger_store_start */
    const struct entry *entry; /* to append; NULL: none */
    const struct store_promise *promises;
    uint32_t promise_count;
};

/* ledger_store_write: store the entry and the promises in one transaction.
 * limits  those of append and promise
 * errors  WRITE_FAILED: nothing is stored, as on a full disk; WRITE_FENCED: a later start of a
 *         tracker was counted. *fault has the reason. */
MUST_CHECK enum write_outcome ledger_store_write(struct ledger_store *store,
                                                 const struct store_write *write,
                                                 struct fault *fault);

#endif
