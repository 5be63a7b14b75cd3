/* drawing_profile: the bytes that are alive at each program step, stacked by role: the lower panel
 * of a drawing. */
#ifndef SKEP_ARENA_FORMATS_DRAWING_PROFILE_H
#define SKEP_ARENA_FORMATS_DRAWING_PROFILE_H

#include "arena/formats/drawing_axes.h"

/* write_usage_curve: draw the stacked areas of all roles; the caller draws the axes. Each column of
 * pixels covers a span of steps and shows the step with the most live bytes.
 * memory  scratch in `region`, for every step of the panel */
void write_usage_curve(const struct panel *panel, const struct drawing *drawing,
                       struct region *region, struct writer *writer);

#endif
