/* join_ledger: a member's own copy of the swarm's ledger, as lines of JSON (`skep ledger`), so that
 * it is not lost with the tracker. */
#ifndef SKEP_TRAIN_JOIN_LEDGER_H
#define SKEP_TRAIN_JOIN_LEDGER_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/entry.h"

struct join_ledger {
    const char *path;
    int fd;        /* -1: not kept, or not any more */
    uint64_t kept; /* entries in the file when it was opened */
    uint64_t seen; /* entries that came since */
    char *line;
    size_t line_bytes;
};

/* join_ledger_open: the file, or a new one; a line that was cut short goes.
 * memory  `path` is kept; one line in `region`: nothing allocates later
 * errors  STATUS_FAILED of the disk */
MUST_CHECK enum status join_ledger_open(const char *path, uint32_t slice_count,
                                        struct region *region, struct join_ledger *ledger,
                                        struct fault *fault);
void join_ledger_close(struct join_ledger *ledger);

/* join_ledger_entry: for member_loop_options.ledger_entry; `context` is the join_ledger. Entries
 * come from the first one on at each start: those that the file has are passed over. A disk that
 * fails is told once, and the copy ends. */
void join_ledger_entry(void *context, const struct entry *entry);

#endif
