/* spans: finds in one graph the op spans that sharding needs: when each unit is gathered, when
 * its gathered copy may be freed, and when its gradients are complete. It only determines the
 * order; it transfers no data and allocates no extents. */
#ifndef SKEP_SHARD_SPANS_H
#define SKEP_SHARD_SPANS_H

#include "base/region.h"
#include "runtime/model/graph.h"
#include "runtime/shard/shard.h"

/* A span of ops [first, last] that use the params of a split unit. The unit is gathered once for
 * the whole span. Two uses belong to the same span if no op between them uses params of another
 * unit, or if the unit has keep_gathered and they are its last use in the forward pass and its
 * first use in the backward pass. */
struct gather_span {
    int unit;        /* index in unit_table.units */
    int first, last; /* indices of the first and last op */
    int gather_at;   /* op before which the gather is listed; <= first */
};

/* The span of ops [first, last] that contains every op that writes a unit's gradients. */
struct reduce_span {
    int unit;
    int first, last;
    int accumulate_at; /* op before which the reduced sum is added to the accumulated gradients */
};

struct spans {
    struct gather_span *gathers; /* [gather_count] gathers, sorted by first op */
    int gather_count;
    struct reduce_span *reduces; /* [reduce_count] reductions, sorted by last op */
    int reduce_count;
};

/* spans_find: find the gathers of units whose params are split, and one reduce per microbatch for
 * every trained unit, even if several ops write its gradients (a tied head).
 *
 *   ops        | embed | layer 0 | layer 1 | head | layer 1 back | layer 0 back |
 *   prefetch 1  GE G0   G1        GH        G1     G0
 *   reduced                                        RH             R1             R0, RE
 *
 * A gather is listed at the first op of the span that is `prefetch` spans earlier, but not
 *   - while gathered_units_max other spans are gathered (gathered_units_max > 0),
 *   - while the gathered bytes would exceed what splitting params saves: the sum over split units
 *     of elements * (1 - 1 / shard), so that prefetching never makes ZeRO 3 need more than ZeRO 2,
 *     or
 *   - while its unit is still gathered for an earlier span,
 * and at its own first op at the latest. Gathers are listed in the order of their spans.
 * A reduced sum is added when the next unit's reduction is listed (prefetch > 0) or at once
 * (prefetch 0).
 * limits  sharding->shard >= 1; every param that one op's operand covers lies in one unit
 * memory  in `region`
 * errors  none */
void spans_find(const struct graph *graph, const struct unit_table *units,
                const struct sharding *sharding, struct region *region, struct spans *spans);

#endif
