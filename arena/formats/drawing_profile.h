/* drawing_profile: what is alive over the program, stacked by role: the lower panel of a
 * drawing. */
#ifndef SKEP_ARENA_FORMATS_DRAWING_PROFILE_H
#define SKEP_ARENA_FORMATS_DRAWING_PROFILE_H

#include "arena/formats/drawing_axes.h"

/* drawing_profile: areas only; axes are the caller's. Each column of pixels shows the step of its
 * stretch at which most is alive.
 * memory  scratch in `region`, for every step of the panel */
void drawing_profile(const struct panel *panel, const struct drawing *drawing,
                     struct region *region, struct writer *writer);

#endif
