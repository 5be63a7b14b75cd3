/* ledger_store: the tracker's durable memory in one SQLite file: the ledger's entries, only ever
 * appended, and what the tracker has promised besides.
 *
 * What a call here has returned OK for survives the death of the process and of the machine:
 * synchronous=FULL and a write-ahead log, which is synced once per call. (With a rollback journal,
 * FULL does not sync the folder after the journal's removal, so that a power cut could take the
 * last entry back.) A call that was cut short has happened whole or not at all. The file is locked
 * for as long as it is open, so two trackers never write into one ledger. */
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

/* What became of a write. */
enum write_outcome {
    WRITE_OK,
    WRITE_FAILED, /* nothing of it is durable: a full disk */
    WRITE_FENCED, /* a tracker of a higher incarnation has written */
};

struct sqlite3;
struct sqlite3_stmt;

struct ledger_store {
    const char *path;
    struct sqlite3 *database;
    struct sqlite3_stmt *append, *read, *promise, *recall;
    uint8_t *record;  /* ENTRY_RECORD_MAX */
    uint64_t count;   /* entries in it */
    struct hash head; /* of the last one; zero without any */
};

/* ledger_store_open: open the file, or make it; what a killed process left unfinished is undone.
 * memory  `path` is kept; about 1.3 MiB in `region`; SQLite allocates, here and in each call
 * errors  STATUS_INPUT when it is no store of ours, damaged, or open in another process;
 *         STATUS_FIT on a full disk; STATUS_FAILED. *store is then untouched. */
MUST_CHECK enum status ledger_store_open(const char *path, struct region *region,
                                         struct ledger_store *store, struct fault *fault);
void ledger_store_close(struct ledger_store *store);

/* ledger_store_append: put `entry` behind the last one. Only then may it be sent.
 * limits  entry->prev is store->head, entry_error(entry) is NULL
 * errors  STATUS_FIT on a full disk, STATUS_FAILED: the store is then as before */
MUST_CHECK enum status ledger_store_append(struct ledger_store *store, const struct entry *entry,
                                           struct fault *fault);

/* ledger_store_read: entry `number`, from 0.
 * limits  number < store->count
 * memory  as entry_read's
 * errors  STATUS_INPUT when the record is damaged; chain and signatures are not verified */
MUST_CHECK enum status ledger_store_read(struct ledger_store *store, uint64_t number,
                                         struct entry_slice *slices, uint32_t slice_max,
                                         struct entry *entry, struct fault *fault);

/* ledger_store_promise: keep `bytes` under a name, in place of what was kept there.
 * ledger_store_recall: get them back; *count is 0 when nothing is kept there.
 * limits  a name of 1 .. STORE_NAME_MAX characters; count <= STORE_PROMISE_MAX
 * errors  STATUS_FIT, STATUS_FAILED: the old bytes stay; STATUS_INPUT when `capacity` is too
 *         small */
MUST_CHECK enum status ledger_store_promise(struct ledger_store *store, const char *name,
                                            const void *bytes, size_t count, struct fault *fault);
MUST_CHECK enum status ledger_store_recall(struct ledger_store *store, const char *name,
                                           void *bytes, size_t capacity, size_t *count,
                                           struct fault *fault);

/* ledger_store_start: count one more start of the tracker; *incarnation is its number, from 1.
 * ledger_store_started: so many have been; never fewer than were counted. */
MUST_CHECK enum status ledger_store_started(struct ledger_store *store, uint32_t starts,
                                            struct fault *fault);
MUST_CHECK enum status ledger_store_start(struct ledger_store *store, uint32_t *incarnation,
                                          struct fault *fault);

/* What is kept under a name; the bytes are the caller's. */
struct store_promise {
    const char *name;
    const void *bytes;
    size_t count;
};

/* What one step of a tracker makes durable. */
struct store_write {
    uint32_t incarnation;      /* of the tracker that writes, from ledger_store_start */
    const struct entry *entry; /* put behind the last one; NULL: none */
    const struct store_promise *promises;
    uint32_t promise_count;
};

/* ledger_store_write: the entry and the promises, all of it or nothing, in one transaction.
 * limits  those of append and promise
 * errors  WRITE_FAILED: nothing of it is kept, as on a full disk; WRITE_FENCED: a later start of a
 *         tracker has been counted. *fault says why. */
MUST_CHECK enum write_outcome ledger_store_write(struct ledger_store *store,
                                                 const struct store_write *write,
                                                 struct fault *fault);

#endif
