/* ledger_source: a ledger read entry by entry, wherever it stands: as JSON lines in a file, in a
 * tracker's store, or with a tracker that runs. */
#ifndef SKEP_SWARM_CLIENT_LEDGER_SOURCE_H
#define SKEP_SWARM_CLIENT_LEDGER_SOURCE_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/client/client.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/ledger/ledger_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ledger_source {
    const char *path;
    struct ledger_file *file;          /* of JSON lines, or NULL */
    struct ledger_store *store;        /* or NULL */
    struct tracker_client *asker;      /* or NULL */
    struct tracker_answer answer;      /* records of it that are still to be read */
    uint64_t number;                   /* of the next entry */
    char place[LEDGER_LOCATION_BYTES]; /* of the entry that was read last */
    struct entry *entry;               /* it */
};

/* ledger_source_open: a file, by its first bytes a store or JSON lines. A store is locked by the
 * tracker that has it open.
 * ledger_source_open_remote: with the tracker of a join string, for who is on its roster.
 * memory  in `region`, about 12 MiB; `path`, `keys` and `tracker` are kept
 * errors  those of ledger_file_open, ledger_store_open, tracker_client_open */
MUST_CHECK enum status ledger_source_open(const char *path, struct region *region,
                                          struct ledger_source **source, struct fault *fault);
MUST_CHECK enum status ledger_source_open_remote(const struct key_pairs *keys,
                                                 const struct join_string *tracker,
                                                 struct region *region,
                                                 struct ledger_source **source,
                                                 struct fault *fault);

/* ledger_source_next: the next entry into source->entry. *more is false behind the last one.
 * errors  those of ledger_file_next, ledger_store_read and tracker_query; STATUS_INPUT for records
 *         that are none. Chain and signatures are not verified. */
MUST_CHECK enum status ledger_source_next(struct ledger_source *source, bool *more,
                                          struct fault *fault);

void ledger_source_close(struct ledger_source *source);

#endif
