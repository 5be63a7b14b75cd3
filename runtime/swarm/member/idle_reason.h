/* idle_reason: why this member takes no part in rounds, as a text for the operator. The tracker's
 * rejection and the check of its ledger both set it; the newest text replaces the older one. */
#ifndef SKEP_SWARM_MEMBER_IDLE_REASON_H
#define SKEP_SWARM_MEMBER_IDLE_REASON_H

#include "runtime/swarm/wire/wire.h"

struct idle_reason {
    char text[WIRE_REASON_BYTES]; /* "": the member takes part, or waits for an answer */
};

/* idle_reason_set: longer text is truncated. True when the text changed.
 * idle_reason_clear: the obstacle was removed. */
bool idle_reason_set(struct idle_reason *reason, const char *text);
void idle_reason_clear(struct idle_reason *reason);

#endif
