/* drawing_axes: the panels of a drawing, the mapping from steps and bytes to points, and the axes,
 * marks and legend. */
#ifndef SKEP_ARENA_FORMATS_DRAWING_AXES_H
#define SKEP_ARENA_FORMATS_DRAWING_AXES_H

#include "arena/formats/formats.h"
#include "arena/formats/writer.h"

/* A rectangular plot area of the page; lengths are in CSS pixels. */
struct panel {
    double left, top, width, height; /* rectangle on the page in CSS pixels */
    uint64_t top_bytes;              /* byte offset at the upper edge; the lower edge is byte 0 */
    uint32_t begin, end;             /* program steps at the left and right edges */
};

static inline double panel_x(const struct panel *panel, double step) {
    return panel->left +
           panel->width * (step - (double)panel->begin) / (double)(panel->end - panel->begin);
}

static inline double panel_y(const struct panel *panel, double bytes) {
    return panel->top + panel->height * (1 - bytes / (double)panel->top_bytes);
}

/* drawing_role_colour: "#4e79a7". */
const char *drawing_role_colour(enum extent_role role);

/* write_byte_axis: draw horizontal grid lines, with labels in MiB or GiB to the left of the
 * panel. */
void write_byte_axis(const struct panel *panel, int tick_max, struct writer *writer);
/* write_step_axis: draw ticks and step numbers below the panel. */
void write_step_axis(const struct panel *panel, struct writer *writer);
/* write_program_marks: draw a vertical line where each part of the program begins. With
 * `show_names`, the part's name is written above the line if there is space. */
void write_program_marks(const struct panel *panel, const struct drawing *drawing, bool show_names,
                         struct writer *writer);
/* write_role_legend: draw one entry for each role in `totals`, with the role's bytes at the peak
 * step. */
void write_role_legend(const struct role_total totals[static ROLE_COUNT], double left, double top,
                       struct writer *writer);

/* writer_add_xml: write `text` with XML special characters escaped and control characters
 * replaced by '?'. */
void writer_add_xml(struct writer *writer, const char *text, size_t length_max);

#endif
