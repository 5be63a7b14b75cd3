/* remedies: settings that would make a program fit, each planned before it is suggested. */
#ifndef SKEP_SESSION_REMEDIES_H
#define SKEP_SESSION_REMEDIES_H

#include "base/text.h"
#include "runtime/session/session.h"

enum { REMEDIES_MAX = 12, REMEDY_CHANGES_MAX = 12 };

/* One key with the value that it should have. */
struct remedy_change {
    const char *key;
    char value[32];
};

struct remedy {
    struct remedy_change changes[REMEDY_CHANGES_MAX];
    int change_count;
    uint64_t peak_bytes; /* of the space that was short, with the changes made */
};

/* remedies_find: the single changes that make the program fit, of: microbatch; with several ranks
 * keep_gathered, zero, live, prefetch; recompute, offload (unless memory is unified), moments,
 * sequence. If none of them does, except perhaps a shorter sequence, then also one combination: the
 * changes are added in this order until the program fits; afterwards those that are not needed are
 * removed. An offload that host memory has no space for is not used.
 * memory  scratch in a region of its own; `remedies` is the caller's, [REMEDIES_MAX]
 * result  *count: how many were found; 0: no combination of settings fits
 * errors  STATUS_FAILED when a proof of a plan fails */
MUST_CHECK enum status remedies_find(const struct session *session, enum purpose purpose,
                                     struct remedy *remedies, int *count, struct fault *fault);

/* remedies_write: the remedies for people, one on each line, or that there are none. */
void remedies_write(const struct remedy *remedies, int count, struct text *text);

#endif
