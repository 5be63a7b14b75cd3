/* drawing_profile: the bytes that are alive at each program step, stacked by role: the lower panel
 * of a drawing. */
#ifndef SKEP_ARENA_FORMATS_DRAWING_PROFILE_H
#define SKEP_ARENA_FORMATS_DRAWING_PROFILE_H

#include "arena/formats/drawing_axes.h"

/* drawing_profile: write the areas; the caller writes the axes. Each column of pixels covers a span
 * of steps and shows the one with the most bytes alive.
 * memory  scratch in `region`, for every step of the panel */
void drawing_profile(const struct panel *panel, const struct drawing *drawing,
                     struct region *region, struct writer *writer);

#endif
