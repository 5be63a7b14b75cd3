/* pattern: lists of Hugging Face names in run keys, and the parameters that they match. */
#ifndef SKEP_SHARD_PATTERN_H
#define SKEP_SHARD_PATTERN_H

#include "runtime/model/model.h"

enum { PATTERNS_MAX = 4096 /* of one key; more than any model has modules */ };

/* "model.layers.0" matches that name and all names below it, after a dot: not model.layers.01. A
 * pattern that ends in * matches any name with that beginning. */
struct name_patterns {
    const char *const *texts;
    int count;
};

/* patterns_read: "A,B*,C", spaces around commas allowed; each must match a parameter.
 * text    NULL or "": no pattern
 * subject   location of the key, for faults
 * memory  in `region`
 * errors  STATUS_INPUT: an empty pattern, too many of them, one that matches no parameter (with the
 *         nearest name); *patterns untouched */
MUST_CHECK enum status patterns_read(const char *text, const char *subject,
                                     const struct blueprint *blueprint, struct region *region,
                                     struct name_patterns *patterns, struct fault *fault);

/* patterns_find: index of the longest pattern that matches `name`, the first among equals; -1 when
 * none does. */
int patterns_find(const struct name_patterns *patterns, const char *name);

#endif
