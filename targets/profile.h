/* profile: a target as text: the reader and the writer of targets/profiles/NAME.yaml. */
#ifndef SKEP_TARGETS_PROFILE_H
#define SKEP_TARGETS_PROFILE_H

#include "base/text.h"
#include "targets/target.h"

#include <stddef.h>

/* profile_read: fill *target from `length` bytes of YAML.
 * limits  yaml_open's; PROFILE_DECLARED_MAX declared lines a space
 * memory  strings and tables live in `region`
 * errors  STATUS_INPUT at place:line:column: a missing, unknown or misspelt key, a value out of its
 *         range, declared lines above the capacity; *target is then untouched */
MUST_CHECK enum status profile_read(const char *text, size_t length, const char *place,
                                    struct region *region, struct target *target,
                                    struct fault *fault);

/* profile_write: the target as YAML that profile_read reads back to the same values. */
void profile_write(const struct target *target, struct text *text);

#endif
