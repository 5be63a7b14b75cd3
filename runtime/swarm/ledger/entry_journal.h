/* entry_journal: a durable file of ledger entries, one record after the other.
 *
 *     | "skep journal 1\n" | length 4 | record | hash 32 | length 4 | record | hash 32 | ...
 *
 * The hash covers length and record; a record is that of entry_bytes.h. An append that a crash
 * interrupted leaves an incomplete record, which the next append overwrites. Reading never changes
 * the file. */
#ifndef SKEP_SWARM_LEDGER_ENTRY_JOURNAL_H
#define SKEP_SWARM_LEDGER_ENTRY_JOURNAL_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>

struct entry_journal {
    const char *path;
    int fd;
    int64_t bytes; /* of complete records, with the mark */
    bool has_tail; /* the file has more bytes after them */
    uint32_t slice_max;
    uint8_t *record; /* [record_max] */
    size_t record_max;
};

/* entry_journal_open: open the file, or create it. Entries have at most `slice_max` slices.
 * memory  `path` is kept; one record in `region`: nothing allocates later
 * errors  STATUS_INPUT when it is not a journal; STATUS_FIT, STATUS_FAILED. *journal untouched */
MUST_CHECK enum status entry_journal_open(const char *path, uint32_t slice_max,
                                          struct region *region, struct entry_journal *journal,
                                          struct fault *fault);
void entry_journal_close(struct entry_journal *journal);

/* entry_journal_append: the entry is durable when this returns OK.
 * errors  STATUS_FIT on a full disk, STATUS_FAILED: the journal is then unchanged */
MUST_CHECK enum status entry_journal_append(struct entry_journal *journal,
                                            const struct entry *entry, struct fault *fault);

/* entry_journal_next: read the entry at *offset, 0 for the first, and advance *offset. *found is
 * false after the last entry.
 * memory  entry->slices [slice_max] is the caller's
 * errors  STATUS_INPUT for a record that is not a valid entry; *entry is then undefined */
MUST_CHECK enum status entry_journal_next(struct entry_journal *journal, int64_t *offset,
                                          struct entry *entry, bool *found, struct fault *fault);

bool entry_journal_is_empty(const struct entry_journal *journal);

/* entry_journal_clear: remove all entries, durably. */
MUST_CHECK enum status entry_journal_clear(struct entry_journal *journal, struct fault *fault);

#endif
