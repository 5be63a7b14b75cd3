/* pattern: lists of Hugging Face names in run keys, and the parameters that they match. */
#ifndef SKEP_SHARD_PATTERN_H
#define SKEP_SHARD_PATTERN_H

#include "runtime/model/model.h"

enum {
    PATTERNS_MAX = 4096 /* maximum number of patterns of one key; more than any model has modules */
};

/* The patterns of one key. A pattern such as "model.layers.0" matches that name and all names that
 * continue it after a dot, as in model.layers.0.mlp, but not model.layers.01. A pattern that ends
 * in * matches any name with that prefix. */
struct name_patterns {
    const char *const *texts; /* [count]: the patterns */
    int count;
};

/* patterns_read: parse a list "A,B*,C". Spaces around commas are allowed; each pattern must match a
 * parameter.
 * text    NULL or "": an empty list
 * subject   location of the key, for faults
 * memory  in `region`
 * errors  STATUS_INPUT: an empty pattern, too many patterns, or one that matches no parameter
 *         (the fault gives the nearest name); *patterns untouched */
MUST_CHECK enum status patterns_read(const char *text, const char *subject,
                                     const struct blueprint *blueprint, struct region *region,
                                     struct name_patterns *patterns, struct fault *fault);

/* patterns_find_match: return the index of the longest pattern that matches `name`, the first
 * one on a tie; -1 if none matches. */
int patterns_find_match(const struct name_patterns *patterns, const char *name);

#endif
