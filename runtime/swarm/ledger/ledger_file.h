/* ledger_file: a ledger of JSON lines, read entry by entry. */
#ifndef SKEP_SWARM_LEDGER_LEDGER_FILE_H
#define SKEP_SWARM_LEDGER_LEDGER_FILE_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEDGER_LOCATION_BYTES = 256 };

struct ledger_file {
    const char *path;
    int fd;
    int64_t bytes, at;                 /* of the file; how far it is read into `buffer` */
    char *buffer;                      /* line_max */
    size_t line_max;                   /* bytes, with the line feed */
    uint32_t slice_max;                /* of an entry */
    size_t from, until;                /* what of it is still to be parsed */
    int64_t line;                      /* the number of the last line read, from 1 */
    char place[LEDGER_LOCATION_BYTES]; /* "FILE:LINE" of it */
    struct entry entry;                /* of it */
};

/* ledger_file_open: open a ledger for reading from its first line.
 * memory  the reader, its buffer and slices lie in `region`, about 10 MiB; `path` is kept
 * errors  STATUS_INPUT when there is no such file */
MUST_CHECK enum status ledger_file_open(const char *path, struct region *region,
                                        struct ledger_file **file, struct fault *fault);

/* ledger_file_open_of: the same of a swarm whose entries are known to be smaller. */
MUST_CHECK enum status ledger_file_open_of(const char *path, size_t line_max, uint32_t slice_max,
                                           struct region *region, struct ledger_file **file,
                                           struct fault *fault);

/* ledger_file_next: the next line into file->entry. *more is false behind the last one.
 * errors  STATUS_INPUT at FILE:LINE: no entry, longer than one may be, or without its line feed
 *         (a write was cut short). Hash, chain and signatures are not verified. */
MUST_CHECK enum status ledger_file_next(struct ledger_file *file, bool *more, struct fault *fault);

void ledger_file_close(struct ledger_file *file);

#endif
