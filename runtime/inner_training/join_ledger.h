/* join_ledger: a member's own copy of the swarm's ledger, as lines of JSON (`skep ledger`): it is
 * not lost with the tracker, and no tracker leads this member to another history than the one that
 * it was in before it was started again.
 *
 *     entry heard ──► line ──► synced ──► applied: journal, snapshot
 *
 * So the copy on the disk reaches at least as far as the state beside it. */
#ifndef SKEP_INNER_TRAINING_JOIN_LEDGER_H
#define SKEP_INNER_TRAINING_JOIN_LEDGER_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/ledger_file.h"

struct ledger_copy {
    const char *path;
    int fd;
    int64_t end;              /* of whole lines */
    size_t waiting;           /* bytes of `line` that are still to be written */
    int64_t tried_ns;         /* to write them */
    _Atomic bool is_behind;   /* the disk has refused them */
    int error;                /* why */
    struct ledger_file *past; /* what earlier starts kept; NULL: it was read */
    bool has_first;           /* past->entry is the first, and is still to be given */
    char *line;
    size_t line_bytes;
};

/* ledger_copy_open: the file, or a new one; a line that was cut short goes.
 * memory  `path` is kept; one line and one entry in `region`: nothing allocates later than _past
 * errors  STATUS_INPUT when its first line is no entry; STATUS_FAILED of the disk */
MUST_CHECK enum status ledger_copy_open(const char *path, uint32_t slice_count,
                                        struct region *region, struct ledger_copy *ledger,
                                        struct fault *fault);
void ledger_copy_close(struct ledger_copy *ledger);

/* ledger_copy_first: the entry that the copy begins with, or NULL; before _past is called. */
const struct entry *ledger_copy_first(const struct ledger_copy *ledger);

/* ledger_copy_read: for member_loop_options.ledger_past; `context` is the join_ledger. What is
 * wrong with a line stops the start: a copy that was changed vouches for nothing, and to go on from
 * the part before it would be to forget rounds without a word.
 * ledger_copy_add: for member_loop_options.ledger_entry: entries behind those. What a full disk
 * refuses is told once, and tried again every second; nothing behind it is taken meanwhile.
 * ledger_copy_sync: what was heard so far is durable when it comes back; on any thread.
 * errors  STATUS_FAILED while the disk refuses a line */
MUST_CHECK enum status ledger_copy_read(void *context, const struct entry **entry,
                                        const char **place, struct fault *fault);
bool ledger_copy_add(void *context, const struct entry *entry);
MUST_CHECK enum status ledger_copy_sync(const struct ledger_copy *ledger, struct fault *fault);

#endif
