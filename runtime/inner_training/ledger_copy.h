/* ledger_copy: a member's copy of the swarm's ledger, as lines of JSON (`skep ledger`). It survives
 * the loss of the tracker, and after a restart the member rejects a tracker with another history.
 *
 *     entry received ──► line ──► synced ──► applied: journal, snapshot
 *
 * So the copy on disk is at least as new as the state beside it. */
#ifndef SKEP_INNER_TRAINING_LEDGER_COPY_H
#define SKEP_INNER_TRAINING_LEDGER_COPY_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/ledger_file.h"

struct ledger_copy {
    const char *path;
    int fd;
    int64_t end;              /* of the last complete line */
    size_t waiting;           /* bytes of `line` that are not written yet */
    int64_t tried_ns;         /* when they were last tried */
    _Atomic bool is_behind;   /* the disk has rejected them */
    int error;                /* of that write */
    struct ledger_file *past; /* entries of earlier starts; NULL: all read */
    bool has_first;           /* past->entry is the first and has not been returned */
    char *line;
    size_t line_bytes;
};

/* ledger_copy_open: opens the file or creates it, and removes an incomplete last line.
 * memory  `path` is kept; one line and one entry in `region`; after ledger_copy_read has returned
 *         the last entry nothing allocates
 * errors  STATUS_INPUT when its first line is not an entry; STATUS_FAILED of the disk */
MUST_CHECK enum status ledger_copy_open(const char *path, uint32_t slice_count,
                                        struct region *region, struct ledger_copy *ledger,
                                        struct fault *fault);
void ledger_copy_close(struct ledger_copy *ledger);

/* ledger_copy_first: the first entry of the copy, or NULL; only before ledger_copy_read. */
const struct entry *ledger_copy_first(const struct ledger_copy *ledger);

/* ledger_copy_read: the entries of earlier starts, one per call, for member_loop_options; `context`
 * is the ledger_copy. An invalid line is an error: a copy that was changed proves nothing, and the
 * part before it alone would silently lack rounds.
 * ledger_copy_add: writes a new entry, for member_loop_options. A write that a full disk rejects is
 * logged once and retried every second; meanwhile no further entry is accepted.
 * ledger_copy_sync: makes every added entry durable; may be called on any thread.
 * errors  STATUS_FAILED while the disk rejects a line */
MUST_CHECK enum status ledger_copy_read(void *context, const struct entry **entry,
                                        const char **location, struct fault *fault);
bool ledger_copy_add(void *context, const struct entry *entry);
MUST_CHECK enum status ledger_copy_sync(const struct ledger_copy *ledger, struct fault *fault);

#endif
