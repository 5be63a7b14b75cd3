/* drawing: an arena over a program as one self-contained SVG: address by time, coloured by role,
 * with the peak marked; beneath it what is alive, by role. */
#ifndef SKEP_ARENA_FORMATS_DRAWING_H
#define SKEP_ARENA_FORMATS_DRAWING_H

#include "arena/plan.h"

/* Where a named part of the program begins. */
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
