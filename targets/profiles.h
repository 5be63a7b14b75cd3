/* profiles: the texts of targets/profiles/, as built into the program. */
#ifndef SKEP_TARGETS_PROFILES_H
#define SKEP_TARGETS_PROFILES_H

#include <stddef.h>

struct embedded_profile {
    const char *name; /* the file's name without .yaml */
    const char *text;
    size_t length;
};

/* Sorted by name; written by tools/embed_profiles.py when the program is built. */
extern const struct embedded_profile EMBEDDED_PROFILES[];
extern const int EMBEDDED_PROFILE_COUNT;

#endif
