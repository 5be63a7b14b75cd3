/* ledger_copy: a member's copy of the swarm's ledger, as lines of JSON (`skep ledger`). It survives
 * the loss of the tracker, and after a restart the member rejects a tracker whose ledger differs
 * from it.
 *
 *     entry received ──► line ──► synced ──► applied: journal, snapshot
 *
 * Therefore the copy on disk is at least as new as the stored state.
 *
 * A copy begins with the genesis, or with a checkpoint and its commit, which are written together.
 * A checkpoint without its commit, after a crash between them, is removed. */
#ifndef SKEP_INNER_TRAINING_LEDGER_COPY_H
#define SKEP_INNER_TRAINING_LEDGER_COPY_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/ledger_file.h"

struct ledger_copy {
    const char *path;               /* path of the ledger file */
    int fd;                         /* descriptor of the open file */
    int64_t end;                    /* end of the last complete line, in bytes */
    size_t pending_bytes;           /* number of bytes of `line` that are not yet written */
    int64_t last_attempt_ns;        /* time of the last attempt to write pending bytes */
    _Atomic bool last_write_failed; /* the last attempt to write pending bytes failed */
    int error;                      /* errno of the last failed write */
    /* reads the entries that were in the file at the start; NULL: all are read */
    struct ledger_file *existing;
    /* existing->entry is the first entry, which ledger_copy_read has not returned yet */
    bool first_is_unread;
    /* chain state that the file begins with; NULL: the genesis */
    const struct ledger_chain *checkpoint;
    /* [LEDGER_CHAIN_BYTES_MAX]: buffer for the bytes of a chain state */
    uint8_t *state_bytes;
    char *line;        /* [line_bytes]: text of the entry that is being written */
    size_t line_bytes; /* capacity of `line` */
};

/* ledger_copy_open: opens the file or creates it, removes an incomplete last line, and sets
 * ledger->checkpoint.
 * memory  `path` is kept by reference; buffers for one line and one entry are in `region`. No
 *         memory is allocated after ledger_copy_read has returned the last entry
 * errors  STATUS_INPUT when the first line of the file is not an entry; STATUS_FAILED for disk
 *         errors */
MUST_CHECK enum status ledger_copy_open(const char *path, uint32_t slice_count,
                                        struct region *region, struct ledger_copy *ledger,
                                        struct fault *fault);
void ledger_copy_close(struct ledger_copy *ledger);

/* ledger_copy_swarm: returns the hash of the manifest that the copy names, or NULL for an empty
 * copy. Call it before ledger_copy_read. */
const struct hash *ledger_copy_swarm(const struct ledger_copy *ledger);

/* ledger_copy_read: returns the entries that earlier starts wrote, one per call. It is a callback
 * of member_loop_options; `context` is the ledger_copy. An invalid line is an error, because a
 * modified copy proves nothing.
 * ledger_copy_add: writes a new entry; in an empty copy, it writes the checkpoint first, unless
 * that is NULL. ledger_copy_add is a callback of member_loop_options. On a full disk, the function
 * logs the failure once, retries every second, and accepts no further entry until the write
 * succeeds.
 * ledger_copy_sync: makes every added entry durable; may be called on any thread.
 * errors  STATUS_FAILED while the disk rejects a line */
MUST_CHECK enum status ledger_copy_read(void *context, const struct entry **entry,
                                        const char **location, struct fault *fault);
bool ledger_copy_add(void *context, const struct ledger_chain *checkpoint,
                     const struct entry *entry);
MUST_CHECK enum status ledger_copy_sync(const struct ledger_copy *ledger, struct fault *fault);

#endif
