/* remedies: settings that would make a program fit, each planned before it is suggested. */
#ifndef SKEP_SESSION_REMEDIES_H
#define SKEP_SESSION_REMEDIES_H

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

/* remedies_find: first single changes (microbatch; between ranks keep_gathered, zero, live,
 * prefetch; recompute, offload where host memory is apart, moments, sequence) that fit; when no
 * single one but a shorter sequence does, changes heaped one upon another in that order until it
 * fits, without those that are not needed beside the others and offloads that the host has no
 * room for.
 * memory  scratch in a region of its own; *remedies by the caller, [REMEDIES_MAX]
 * result  how many were found; 0: none of these settings makes it fit
 * errors  STATUS_FAILED when a proof of a plan fails */
MUST_CHECK enum status remedies_find(const struct session *session, enum purpose purpose,
                                     struct remedy *remedies, int *count, struct fault *fault);

#endif
