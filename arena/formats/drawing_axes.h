/* drawing_axes: the panels of a drawing, the mapping from steps and bytes to points, and the axes,
 * marks and legend. */
#ifndef SKEP_ARENA_FORMATS_DRAWING_AXES_H
#define SKEP_ARENA_FORMATS_DRAWING_AXES_H

#include "arena/formats/formats.h"
#include "arena/formats/writer.h"

/* All in CSS pixels. */
struct panel {
    double left, top, width, height;
    uint64_t bytes_top;  /* shown at the upper edge; the lower edge is 0 */
    uint32_t begin, end; /* steps at the left and right edges */
};

static inline double panel_x(const struct panel *panel, double step) {
    return panel->left +
           panel->width * (step - (double)panel->begin) / (double)(panel->end - panel->begin);
}

static inline double panel_y(const struct panel *panel, double bytes) {
    return panel->top + panel->height * (1 - bytes / (double)panel->bytes_top);
}

/* drawing_role_colour: "#4e79a7". */
const char *drawing_role_colour(enum extent_role role);

/* axes_bytes: lines and labels in MiB or GiB at the left. */
void axes_bytes(const struct panel *panel, int tick_max, struct writer *writer);
/* axes_steps: labels beneath. */
void axes_steps(const struct panel *panel, struct writer *writer);
/* axes_marks: a line through the panel where each part of the program begins, with its name above
 * where there is room and `is_named`. */
void axes_marks(const struct panel *panel, const struct drawing *drawing, bool is_named,
                struct writer *writer);
/* axes_legend: one entry for each role in `totals`, with its bytes at the peak. */
void axes_legend(const struct role_total totals[static ROLE_COUNT], double left, double top,
                 struct writer *writer);

/* writer_add_xml: text with what XML gives a meaning escaped, control characters as '?'. */
void writer_add_xml(struct writer *writer, const char *text, size_t length_max);

#endif
