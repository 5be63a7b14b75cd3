/* ledger_file: a ledger as lines of JSON, the form for people and other programs, and its reader.
 *
 * A line has every field that is hashed, so that lines can be verified as well as records. Hashes,
 * identities (signing keys) and signatures are lower-case hexadecimal; a range of samples is
 * [begin, end]; `owner` and `contributors` of a slice are seats:
 *     kind, round, commits, prev, hash, incarnation, root, cursor {position, returned}, signatures
 *     of all;
 *     manifest of a genesis; deadline_ms of an open;
 *     members [{id, session, ranges}] of all but a genesis, with tokens and weight in a commit;
 *     slices [{index, begin, end, owner, epoch, contributors, weight, hash}] of a commit.
 * A signature of a commit is {id, signature}; the tracker's is {signature}. */
#ifndef SKEP_SWARM_LEDGER_LEDGER_FILE_H
#define SKEP_SWARM_LEDGER_LEDGER_FILE_H

#include "base/fault.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LEDGER_LINE_MAX = 8 << 20, /* with its NUL; 16,384 slices of 64 contributors need 7 MiB */
    LEDGER_LOCATION_BYTES = 256,
};

/* ledger_line_write: the line without its line feed.
 * limits  entry_error(entry) is NULL; LEDGER_LINE_MAX bytes are enough for every entry */
void ledger_line_write(const struct entry *entry, struct text *text);

/* ledger_line_read: a line from a file. A field that is missing, unknown, given twice or out of
 * bounds is a fault. Signatures and hash are not verified (ledger_append does that).
 * location  "FILE:LINE", for faults; not kept
 * memory    jansson allocates: before seal only; entry->slices is set to `slices`, of slice_max;
 *           *entry and slices are undefined after a fault
 * errors    STATUS_INPUT with the field */
MUST_CHECK enum status ledger_line_read(const char *line, size_t length, const char *location,
                                        struct entry_slice *slices, uint32_t slice_max,
                                        struct entry *entry, struct fault *fault);

struct ledger_file {
    const char *path;
    int fd;
    int64_t bytes, at;                    /* of the file: its size; what `buffer` was filled from */
    char *buffer;                         /* [line_max] */
    size_t line_max;                      /* bytes, with the line feed */
    uint32_t slice_max;                   /* of an entry */
    size_t from, until;                   /* of `buffer`: what is still to be parsed */
    int64_t line;                         /* the number of the last line read, from 1 */
    char location[LEDGER_LOCATION_BYTES]; /* "FILE:LINE" of that line */
    struct entry entry;                   /* on that line */
};

/* ledger_file_open: open a ledger for reading from its first line.
 * memory  about 10 MiB in `region`; `path` is kept
 * errors  STATUS_INPUT when there is no such file */
MUST_CHECK enum status ledger_file_open(const char *path, struct region *region,
                                        struct ledger_file **file, struct fault *fault);

/* ledger_file_open_of: the same for a swarm whose entries are known to be smaller. */
MUST_CHECK enum status ledger_file_open_of(const char *path, size_t line_max, uint32_t slice_max,
                                           struct region *region, struct ledger_file **file,
                                           struct fault *fault);

/* ledger_file_next: read the next line into file->entry. *more is false after the last one.
 * errors  STATUS_INPUT at FILE:LINE: the line is not an entry, is too long, or is truncated. Hash,
 *         chain and signatures are not verified. */
MUST_CHECK enum status ledger_file_next(struct ledger_file *file, bool *more, struct fault *fault);

void ledger_file_close(struct ledger_file *file);

#endif
