/* profile: reads and writes a target as YAML, the format of targets/profiles/NAME.yaml. */
#ifndef SKEP_TARGETS_PROFILE_H
#define SKEP_TARGETS_PROFILE_H

#include "base/text.h"
#include "targets/targets.h"

#include <stddef.h>

/* profile_read: fill *target from `length` bytes of YAML.
 * limits  those of yaml_open
 * memory  strings and tables live in `region`
 * errors  STATUS_INPUT at "subject:line:column" for a missing or unknown key, a value out of its
 *         range, or declared uses above the capacity; *target is then unchanged */
MUST_CHECK enum status profile_read(const char *text, size_t length, const char *subject,
                                    struct region *region, struct target *target,
                                    struct fault *fault);

/* profile_write: append the target as YAML, from which profile_read gets the same values. */
void profile_write(const struct target *target, struct text *text);

#endif
