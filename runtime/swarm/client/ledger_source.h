/* ledger_source: a ledger that is read entry by entry, from JSON lines in a file, from a tracker's
 * store, or from a running tracker. */
#ifndef SKEP_SWARM_CLIENT_LEDGER_SOURCE_H
#define SKEP_SWARM_CLIENT_LEDGER_SOURCE_H

#include "runtime/swarm/client/client.h"
#include "runtime/swarm/ledger/ledger_file.h"

/* Exactly one of file, store and client is not NULL. */
struct ledger_source {
    const char *path;
    struct ledger_file *file; /* of JSON lines */
    struct ledger_store *store;
    struct tracker_client *client;
    struct tracker_answer answer;         /* of the client: the records that were not read yet */
    uint64_t index;                       /* of the next entry */
    char location[LEDGER_LOCATION_BYTES]; /* "PATH:LINE" of the entry that was read last */
    struct entry *entry;                  /* that entry */
};

/* ledger_source_open: open a file. Its first bytes show whether it is a store or JSON lines. A
 * running tracker keeps its store locked.
 * ledger_source_open_remote: open the ledger of a running tracker, for an identity on its
 * allow-list.
 * memory  about 12 MiB in `region`; `path`, `keys` and `tracker` are kept
 * errors  those of ledger_file_open, ledger_store_open, tracker_client_open */
MUST_CHECK enum status ledger_source_open(const char *path, struct region *region,
                                          struct ledger_source **source, struct fault *fault);
MUST_CHECK enum status ledger_source_open_remote(const struct key_pairs *keys,
                                                 const struct join_string *tracker,
                                                 struct region *region,
                                                 struct ledger_source **source,
                                                 struct fault *fault);

/* ledger_source_next: read the next entry into source->entry. *more is false after the last one.
 * errors  those of ledger_file_next, ledger_store_read and tracker_query; STATUS_INPUT for bytes
 *         that are no record. Chain and signatures are not verified. */
MUST_CHECK enum status ledger_source_next(struct ledger_source *source, bool *more,
                                          struct fault *fault);

void ledger_source_close(struct ledger_source *source);

#endif
