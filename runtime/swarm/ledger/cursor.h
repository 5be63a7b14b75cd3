/* cursor: the samples that can still be handed out: a position and a bounded list of returned
 * ranges. */
#ifndef SKEP_SWARM_LEDGER_CURSOR_H
#define SKEP_SWARM_LEDGER_CURSOR_H

#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>

/* cursor_hand_out: the next range of at most `count` samples: the first returned range or its head,
 * else new samples at the position. Never empty.
 * limits  count > 0 */
struct sample_range cursor_hand_out(struct data_cursor *cursor, uint64_t count);

/* cursor_reclaim: remove exactly `range` from the returned samples. False when not all of it is
 * returned; the cursor is then untouched. */
bool cursor_reclaim(struct data_cursor *cursor, struct sample_range range);

/* cursor_return: add a range that was handed out and not used. A range that would need a row beyond
 * SWARM_RETURNED_MAX is never used: no sample is used twice.
 * limits  range.end <= position; disjoint from every returned range */
void cursor_return(struct data_cursor *cursor, struct sample_range range);

#endif
