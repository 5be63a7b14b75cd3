/* formats: plans and packing problems as files and text: packing problems in CSV, reports for
 * printing, drawings in SVG. The room owns no state. runtime/cli reads and writes the files, and
 * its reports print the tables. */
#ifndef SKEP_ARENA_FORMATS_FORMATS_H
#define SKEP_ARENA_FORMATS_FORMATS_H

#include "arena/arena.h"
#include "arena/extent.h"
#include "base/fault.h"
#include "base/region.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- packing problems in CSV ----
 *
 * The format of minimalloc. Columns may be in any order. `alignment` is optional, and so is
 * `offset`, which is ignored. A solution is the same table with the offsets.
 *
 *     id,lower,upper,size          one row a buffer, alive over [lower, upper)
 *     b1,0,3,4096 */

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
    enum column columns[COLUMN_COUNT]; /* in the order of the file */
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

/* problem_write: the table with its offsets to `fd`, with the columns of the input. A column
 * `offset` is added at the end if there is none.
 *   offsets  [extent_count], of a plan
 * errors  STATUS_FAILED naming `path` */
MUST_CHECK enum status problem_write(const struct problem *problem, const uint64_t *offsets, int fd,
                                     const char *path, struct fault *fault);

/* ---- reports ---- */

/* The bytes of one role in one space. */
struct role_total {
    uint64_t peak_bytes; /* alive at the space's peak step */
    uint64_t max_bytes;  /* alive at any one step */
    uint32_t max_step;   /* the first such step */
    int extent_count;
};

/* An extent that is alive at the peak step of a space, or the gap. */
struct tenant {
    const char *name; /* an extent's, or "(gap)" */
    const char *role; /* "" for the gap */
    uint64_t bytes;
    int extent; /* index in plan->problem.extents; -1 for the gap */
};

struct tenant_list {
    int count;
    struct tenant *tenants; /* largest first; equals in the order of the extents */
};

/* report_role_totals: peak_bytes of all roles add up to plan->bound_bytes[space].
 * memory  scratch in `region` */
void report_role_totals(const struct plan *plan, enum space space, struct region *region,
                        struct role_total totals[static ROLE_COUNT]);

/* report_tenant_list: the extents that are alive at plan->peak_step[space]. Where the layout's peak
 * is above their sum, the difference is a tenant named "(gap)", so that the list always adds up to
 * plan->peak_bytes[space].
 * memory  the list in `region`; names point into the plan */
struct tenant_list report_tenant_list(const struct plan *plan, enum space space,
                                      struct region *region);

/* report_gap_percent: how far the peak is above the bound; 0 for an empty space. */
double report_gap_percent(const struct plan *plan, enum space space);

/* report_spaces: one line for each space in use: peak, bound, gap, heuristic, extents. */
void report_spaces(const struct plan *plan, struct text *text);

/* report_roles: one table for each space in use: bytes at the peak and at most, by role.
 * memory  scratch in `region` */
void report_roles(const struct plan *plan, struct region *region, struct text *text);

/* report_tenants: the tenants of one space, largest first. With more than `line_max` of them, the
 * last line is the sum of the rest, so that the column always adds up to the peak.
 *   line_max  0: no limit
 * memory    scratch in `region` */
void report_tenants(const struct plan *plan, enum space space, int line_max, struct region *region,
                    struct text *text);

/* ---- drawings ---- */

/* The first step of a named part of the program. */
struct drawing_mark {
    const char *name;
    uint32_t step;
};

struct drawing {
    const struct plan *plan;
    enum space space;
    const char *title;
    const struct drawing_mark *marks; /* (mark_count) rising steps; may be NULL with none */
    int mark_count;
};

/* drawing_write: the SVG to `fd`. Every extent is a rectangle with its name, bytes and life as a
 * tooltip; names are shown where they fit.
 * limits  made to be read with up to some thousands of extents; about 300 bytes each
 * memory  scratch in `region`; 4 KiB buffer before `fd`, which stays open
 * errors  STATUS_FAILED naming `path` */
MUST_CHECK enum status drawing_write(const struct drawing *drawing, int fd, const char *path,
                                     struct region *region, struct fault *fault);

#endif
