/* problem: a bare packing problem as a CSV file, in the form that minimalloc made common.
 *
 *     id,lower,upper,size          one row a buffer, alive over [lower, upper)
 *     b1,0,3,4096
 *
 * Columns may stand in any order; `alignment` is optional, and so is `offset`, which is read over.
 * A solution is the same table with the offsets. */
#ifndef SKEP_ARENA_FORMATS_PROBLEM_H
#define SKEP_ARENA_FORMATS_PROBLEM_H

#include "arena/extent.h"
#include "base/fault.h"
#include "base/region.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    PROBLEM_BYTES_MAX = 1 << 24,  /* of a file; the published problems are below 20 KiB */
    PROBLEM_EXTENTS_MAX = 100000, /* some seconds for the first layout */
    PROBLEM_ID_BYTES_MAX = 256,
};

enum column {
    COLUMN_ID,
    COLUMN_LOWER,
    COLUMN_UPPER,
    COLUMN_SIZE,
    COLUMN_ALIGNMENT,
    COLUMN_OFFSET,
    COLUMN_COUNT
};

struct problem {
    int extent_count;
    struct extent *extents; /* all in SPACE_DEVICE; name is the id; align 1 unless stated */
    int column_count;
    enum column columns[COLUMN_COUNT]; /* as they stood in the file */
};

/* problem_parse: read `length` bytes of CSV.
 *   path    only for faults, which name path:line:column
 * limits    lives below 2^32, sizes and alignments 2^62 in all; an id has no comma or line break
 * memory    extents and names in `region`
 * errors    STATUS_INPUT; *problem is then untouched */
MUST_CHECK enum status problem_parse(const char *bytes, size_t length, const char *path,
                                     struct region *region, struct problem *problem,
                                     struct fault *fault);

/* problem_read: the same from a file of at most PROBLEM_BYTES_MAX. */
MUST_CHECK enum status problem_read(const char *path, struct region *region,
                                    struct problem *problem, struct fault *fault);

/* problem_write: the table with its offsets to `fd`, columns as they were read; a column `offset`
 * is added at the end if there was none.
 *   offsets  [extent_count], of a plan
 * errors  STATUS_FAILED naming `path` */
MUST_CHECK enum status problem_write(const struct problem *problem, const uint64_t *offsets, int fd,
                                     const char *path, struct fault *fault);

#endif
