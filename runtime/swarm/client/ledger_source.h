/* ledger_source: reads a ledger entry by entry from a file of JSON lines, a tracker's store
 * or a running tracker. */
#ifndef SKEP_SWARM_CLIENT_LEDGER_SOURCE_H
#define SKEP_SWARM_CLIENT_LEDGER_SOURCE_H

#include "runtime/swarm/client/client.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/wire/wire_service.h"

/* A ledger that is read entry by entry. Exactly one of file, store and client is not NULL. */
struct ledger_source {
    const char *path;              /* path of the file or store, for messages */
    struct ledger_file *file;      /* a file of JSON lines; else NULL */
    struct ledger_store *store;    /* a tracker's store; else NULL */
    struct tracker_client *client; /* connection to a tracker; else NULL */
    struct wire_ledger_page page;  /* entries of the last answer that were not returned yet */
    uint64_t index;                /* index of the next entry */
    char location[LEDGER_LOCATION_BYTES]; /* "PATH:LINE" of the entry read last */
    struct entry *entry;                  /* the entry that ledger_source_next read last */
    const struct ledger_chain
        *checkpoint; /* checkpoint that the ledger begins with; NULL: it begins with the genesis */
};

/* ledger_source_open: opens a file, which is a store if it begins with SQLite's signature, else
 * a file of JSON lines. The store of a running tracker is locked and cannot be opened.
 * ledger_source_open_remote: opens the ledger of a running tracker. `keys` is an identity on its
 * allow-list.
 * memory  about 12 MiB in `region`; `path`, `keys` and `tracker` are kept by reference
 * errors  those of ledger_file_open, ledger_store_open, tracker_client_open */
MUST_CHECK enum status ledger_source_open(const char *path, struct region *region,
                                          struct ledger_source **source, struct fault *fault);
MUST_CHECK enum status ledger_source_open_remote(const struct key_pairs *keys,
                                                 const struct tracker_contact *tracker,
                                                 struct region *region,
                                                 struct ledger_source **source,
                                                 struct fault *fault);

/* ledger_source_next: reads the next entry into source->entry. Sets *more to false after the last
 * entry. The first call sets source->checkpoint.
 * errors  those of ledger_file_next, ledger_store_read and tracker_query; STATUS_INPUT for bytes
 *         that are not a record. Does not verify the chain or signatures. */
MUST_CHECK enum status ledger_source_next(struct ledger_source *source, bool *more,
                                          struct fault *fault);

void ledger_source_close(struct ledger_source *source);

#endif
