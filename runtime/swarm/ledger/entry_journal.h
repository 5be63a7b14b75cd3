/* entry_journal: a file of ledger entries, one record behind the other, that survives its process.
 *
 *     | "skep journal 1\n" | length 4 | record | hash 32 | length 4 | record | hash 32 | ...
 *
 * The hash is of length and record; a record is entry_code's. What a kill or a power cut left of an
 * append is no whole record, and is cut off before the next one: who only looks changes nothing. */
#ifndef SKEP_SWARM_LEDGER_ENTRY_JOURNAL_H
#define SKEP_SWARM_LEDGER_ENTRY_JOURNAL_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>

struct entry_journal {
    const char *path;
    int fd;
    int64_t bytes; /* of whole records */
    bool has_tail; /* the file has more */
    uint32_t slice_max;
    uint8_t *record; /* [record_max] */
    size_t record_max;
};

/* entry_journal_open: open the file, or make it. Entries have at most `slice_max` slices.
 * memory  `path` is kept; one record in `region`: nothing allocates later
 * errors  STATUS_INPUT when it is no journal; STATUS_FIT, STATUS_FAILED. *journal untouched */
MUST_CHECK enum status entry_journal_open(const char *path, uint32_t slice_max,
                                          struct region *region, struct entry_journal *journal,
                                          struct fault *fault);
void entry_journal_close(struct entry_journal *journal);

/* entry_journal_append: durable when it comes back.
 * errors  STATUS_FIT on a full disk, STATUS_FAILED: the journal is then as before */
MUST_CHECK enum status entry_journal_append(struct entry_journal *journal,
                                            const struct entry *entry, struct fault *fault);

/* entry_journal_next: the entry at *offset, 0 for the first, which moves on behind it. *found is
 * false behind the last.
 * memory  entry->slices [slice_max] is the caller's
 * errors  STATUS_INPUT for a record that is not an entry of ours; *entry is then undefined */
MUST_CHECK enum status entry_journal_next(struct entry_journal *journal, int64_t *offset,
                                          struct entry *entry, bool *found, struct fault *fault);

bool entry_journal_is_empty(const struct entry_journal *journal);

/* entry_journal_clear: forget every entry. Durable when it comes back. */
MUST_CHECK enum status entry_journal_clear(struct entry_journal *journal, struct fault *fault);

#endif
