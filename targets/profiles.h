/* profiles: the files of targets/profiles/, embedded in the program. */
#ifndef SKEP_TARGETS_PROFILES_H
#define SKEP_TARGETS_PROFILES_H

#include <stddef.h>

struct embedded_profile {
    const char *name; /* the file's name without .yaml */
    const char *text; /* [length]: content of the file */
    size_t length;
};

/* Sorted by name. targets/meson.build generates the definition. */
extern const struct embedded_profile EMBEDDED_PROFILES[];
extern const int EMBEDDED_PROFILE_COUNT;

#endif
