/* formats: reads and writes packing problems in CSV, and writes reports of plans as text and
 * drawings of plans in SVG. The functions keep no state. runtime/cli reads and writes the files,
 * and its reports print the tables. */
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
 * The format of minimalloc. Columns may be in any order. `alignment` and `offset` are optional;
 * `offset` is ignored on input. A solution is the same table with the offsets added.
 *
 *     id,lower,upper,size          one row per buffer, alive in steps [lower, upper)
 *     b1,0,3,4096 */

enum {
    /* maximum size of a file; published problems have less than 20 KiB */
    PROBLEM_BYTES_MAX = 1 << 24,
    /* maximum extents of a problem: the first layout of 100000 takes several seconds */
    PROBLEM_EXTENTS_MAX = 100000,
    PROBLEM_ID_BYTES_MAX = 256, /* size of the longest id of a buffer, with its NUL */
};

enum column {
    COLUMN_ID,
    COLUMN_LOWER, /* named `lower` in the file: first program step of the life */
    COLUMN_UPPER, /* named `upper` in the file: one past the last step of the life */
    COLUMN_SIZE,
    COLUMN_ALIGNMENT,
    COLUMN_OFFSET,
    COLUMN_COUNT /* number of column kinds */
};

struct problem {
    int extent_count; /* number of rows of the file, without the header */
    /* [extent_count], all in SPACE_DEVICE; the name is the id in the file; align is 1 by default */
    struct extent *extents;
    int column_count;                  /* number of columns in the file */
    enum column columns[COLUMN_COUNT]; /* column kinds in file order */
};

/* problem_parse: parse `length` bytes of CSV.
 *   path    used only in faults, which give path:line:column
 * limits    steps below 2^32, sum of sizes and alignments below 2^62; no comma or line break in an
 *           id
 * memory    extents and names in `region`
 * errors    STATUS_INPUT; *problem is then untouched */
MUST_CHECK enum status problem_parse(const char *text, size_t length, const char *path,
                                     struct region *region, struct problem *problem,
                                     struct fault *fault);

/* problem_read: read and parse a file of at most PROBLEM_BYTES_MAX bytes, like problem_parse. */
MUST_CHECK enum status problem_read(const char *path, struct region *region,
                                    struct problem *problem, struct fault *fault);

/* problem_write: write the table of the problem with the offsets to `fd`, in the column order of
 * the input. If the input has no column `offset`, that column is added at the end.
 *   offsets  [extent_count] offsets of the plan that solves the problem
 * errors  STATUS_FAILED naming `path` */
MUST_CHECK enum status problem_write(const struct problem *problem, const uint64_t *offsets, int fd,
                                     const char *path, struct fault *fault);

/* ---- reports ---- */

/* The memory that the extents of one role occupy in one space. */
struct role_total {
    uint64_t peak_bytes; /* bytes of the role alive at the peak step of the space */
    uint64_t max_bytes;  /* most bytes of the role alive at any one program step */
    uint32_t max_step;   /* first program step at which max_bytes of the role are alive */
    int extent_count;
};

/* An extent that is alive at the peak step of a space, or the gap between bound and peak. */
struct tenant {
    const char *name; /* name of the extent, or "(gap)" */
    const char *role; /* name of the role; "" for the gap */
    uint64_t bytes;   /* size of the extent or gap */
    int extent;       /* index into plan->problem.extents; -1 for the gap */
};

struct tenant_list {
    int count;              /* number of tenants */
    struct tenant *tenants; /* [count], largest first; equal sizes in the order of the extents */
};

/* compute_role_totals: compute the totals of each role. The peak_bytes of all roles add up to
 * plan->bound_bytes[space].
 * memory  scratch in `region` */
void compute_role_totals(const struct plan *plan, enum space space, struct region *region,
                         struct role_total totals[static ROLE_COUNT]);

/* list_tenants: list the extents that are alive at plan->peak_step[space]. If the layout's peak
 * exceeds the sum of their sizes, the difference is listed as a tenant named "(gap)", so the list
 * always adds up to plan->peak_bytes[space].
 * memory  the list in `region`; names point into the plan */
struct tenant_list list_tenants(const struct plan *plan, enum space space, struct region *region);

/* peak_gap_percent: return by how many percent the peak exceeds the bound; 0 for an empty space. */
double peak_gap_percent(const struct plan *plan, enum space space);

/* report_spaces: append one line for each space in use: peak, bound, gap, extent count,
 * heuristic. */
void report_spaces(const struct plan *plan, struct text *text);

/* report_roles: append one table for each space in use: by role, the bytes at the peak step and the
 * most bytes at any program step.
 * memory  scratch in `region` */
void report_roles(const struct plan *plan, struct region *region, struct text *text);

/* report_tenants: append the tenants of one space, largest first. If the list has more than
 * `line_max` tenants, its last line is the sum of the tenants that are not shown, so the column
 * always adds up to the peak.
 *   line_max  0: no limit
 * memory    scratch in `region` */
void report_tenants(const struct plan *plan, enum space space, int line_max, struct region *region,
                    struct text *text);

/* ---- drawings ---- */

/* A mark in the drawing: the first step of a named part of the program. */
struct drawing_mark {
    const char *name; /* name of the part */
    uint32_t step;    /* first program step of the part */
};

struct drawing {
    const struct plan *plan;
    enum space space;
    const char *title; /* heading of the page */
    /* [mark_count] in ascending order of step; NULL if there are none */
    const struct drawing_mark *marks;
    int mark_count; /* number of entries in `marks` */
};

/* drawing_write: write the drawing as SVG to `fd`. Every extent is a rectangle with its name, bytes
 * and life in a tooltip; names are shown where they fit.
 * limits  readable with up to a few thousand extents, each of which takes about 300 bytes of SVG
 * memory  scratch in `region`; writes through a 4 KiB buffer; `fd` stays open
 * errors  STATUS_FAILED naming `path` */
MUST_CHECK enum status drawing_write(const struct drawing *drawing, int fd, const char *path,
                                     struct region *region, struct fault *fault);

#endif
