/* spans: the sharding rewrite of one graph: when each unit is gathered, when its bytes may go, when
 * its gradients are complete. Pure order: no bytes move here and no memory is placed. */
#ifndef SKEP_SHARD_SPANS_H
#define SKEP_SHARD_SPANS_H

#include "base/region.h"
#include "runtime/model/graph.h"
#include "runtime/shard/strategy.h"
#include "runtime/shard/unit.h"

/* A stretch of ops [first, last] that computes with the params of a split unit, gathered once.
 * Two uses are one span when no op between them uses another unit's params, or when one is the
 * unit's last in the forward pass, the other its first in the backward pass, and the unit keeps
 * gathered. */
struct gather_span {
    int unit;
    int first, last; /* ops */
    int gather_at;   /* op before which the gather is listed; <= first */
};

/* A unit's gradients over a microbatch: every op that writes them lies in [first, last]. */
struct reduce_span {
    int unit;
    int first, last;
    int accumulate_at; /* op before which the sum is added to the accumulated gradients; op_count:
                          at the end */
};

struct spans {
    struct gather_span *gathers; /* by first op */
    int gather_count;
    struct reduce_span *reduces; /* by last op */
    int reduce_count;
};

/* spans_find: gathers for units whose params are split, reduces for every unit that trains, once in
 * a microbatch even when its gradients are written far apart (a tied head).
 *
 *   ops        | embed | layer 0 | layer 1 | head | layer 1 back | layer 0 back |
 *   prefetch 1  GE G0   G1        GH        G1     G0
 *   reduced                                        RH             R1             R0, RE
 *
 * A gather is listed at the first op of the span `prefetch` places earlier, but
 *   - not while `live` others are gathered (live > 0),
 *   - not while gathered bytes would exceed what split params save: the sum over split units of
 *     elements * (1 - 1 / shard); so prefetching never makes ZeRO 3 need more than ZeRO 2, and
 *   - not while its unit is still gathered for an earlier span,
 * yet never later than its own first op, whatever is gathered then. Gathers are listed in span
 * order.
 * A reduced sum is added when the next unit's reduction is listed (prefetch > 0) or at once
 * (prefetch 0).
 * limits  sharding->shard >= 1; every param that one op's operand covers lies in one unit
 * memory  in `region`
 * errors  none */
void spans_find(const struct graph *graph, const struct unit_table *units,
                const struct sharding *sharding, struct region *region, struct spans *spans);

/* spans_gathered_most: most elements that are gathered at a time, padding included. */
int64_t spans_gathered_most(const struct spans *spans, const struct unit_table *units);

#endif
