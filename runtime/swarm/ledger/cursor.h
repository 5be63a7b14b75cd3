/* cursor: which samples may still be given out: a position and a bounded list of returned ones. */
#ifndef SKEP_SWARM_LEDGER_CURSOR_H
#define SKEP_SWARM_LEDGER_CURSOR_H

#include "runtime/swarm/ledger/entry.h"

/* cursor_hand_out: the next range of at most `count` samples, returned ones first (whole or their
 * head), else new ones at the position. Never empty.
 * limits  count > 0 */
struct sample_range cursor_hand_out(struct data_cursor *cursor, uint64_t count);

/* cursor_reclaim: take exactly `range` out of the returned ones. 1 if all of it was there, else 0
 * with the cursor untouched. */
int cursor_reclaim(struct data_cursor *cursor, struct sample_range range);

/* cursor_return: put a range that was given out and not used back. A range that would need a row
 * beyond SWARM_RETURNED_MAX is skipped for good: no sample is ever used twice.
 * limits  range.end <= position; disjoint from every returned range */
void cursor_return(struct data_cursor *cursor, struct sample_range range);

#endif
