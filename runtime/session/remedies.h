/* remedies: finds changes to the settings that make a program fit. Each is planned before it is
 * suggested. */
#ifndef SKEP_SESSION_REMEDIES_H
#define SKEP_SESSION_REMEDIES_H

#include "base/text.h"
#include "runtime/session/session.h"

enum {
    REMEDIES_MAX = 12,       /* maximum number of remedies that are suggested for a run */
    REMEDY_CHANGES_MAX = 12, /* maximum number of settings that one remedy changes */
};

/* A key and its new value. */
struct remedy_change {
    const char *key; /* run key to change */
    char value[32];  /* new value of the key */
};

struct remedy {
    struct remedy_change changes[REMEDY_CHANGES_MAX];
    int change_count;
    uint64_t peak_bytes; /* peak of the space that was too small, after the changes */
};

/* remedies_find: finds the single changes that make the program fit. It tries microbatch; with
 * several ranks keep_gathered, zero, live, prefetch; recompute, offload (unless memory is unified),
 * moments, sequence. If no single change other than a shorter sequence is enough, it also searches
 * one combination: it adds changes in this order until the program fits, and then removes those
 * that are not needed. It never suggests an offload for which host memory has no space.
 * memory  scratch memory in a separate region; `remedies` is the caller's, [REMEDIES_MAX]
 * result  *count: number of remedies found; 0: no combination of settings fits
 * errors  STATUS_FAILED when a proof of a plan fails */
MUST_CHECK enum status remedies_find(const struct session *session, enum purpose purpose,
                                     struct remedy *remedies, int *count, struct fault *fault);

/* remedies_write: writes the remedies as text for people, one per line, or a line that there are
 * none. */
void remedies_write(const struct remedy *remedies, int count, struct text *text);

#endif
