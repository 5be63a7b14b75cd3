/* spans: the spans of one graph for sharding: when each unit is gathered, when its gathered bytes
 * may be freed, and when its gradients are complete. It decides the order only: it moves no bytes
 * and places no memory. */
#ifndef SKEP_SHARD_SPANS_H
#define SKEP_SHARD_SPANS_H

#include "base/region.h"
#include "runtime/model/graph.h"
#include "runtime/shard/shard.h"

/* A span of ops [first, last] that compute with the params of a split unit, which is gathered once
 * for it. Two uses belong to one span when no op between them uses the params of another unit, or
 * when one is the unit's last use in the forward pass, the other its first in the backward pass,
 * and the unit has keep_gathered. */
struct gather_span {
    int unit;
    int first, last; /* ops */
    int gather_at;   /* the gather is listed before this op; <= first */
};

/* The gradients of a unit in a microbatch: every op that writes them is in [first, last]. */
struct reduce_span {
    int unit;
    int first, last;
    int accumulate_at; /* the sum joins the accumulated gradients before this op */
};

struct spans {
    struct gather_span *gathers; /* by first op */
    int gather_count;
    struct reduce_span *reduces; /* by last op */
    int reduce_count;
};

/* spans_find: find gathers for units whose params are split, and reduces for every trained unit,
 * once in a microbatch even if its gradients are written at several places (a tied head).
 *
 *   ops        | embed | layer 0 | layer 1 | head | layer 1 back | layer 0 back |
 *   prefetch 1  GE G0   G1        GH        G1     G0
 *   reduced                                        RH             R1             R0, RE
 *
 * A gather is listed at the first op of the span that is `prefetch` spans earlier, but not
 *   - while `live` other spans are gathered (live > 0),
 *   - while the gathered bytes would exceed what splitting params saves: the sum over split units
 *   of
 *     elements * (1 - 1 / shard), so that prefetching never makes ZeRO 3 need more than ZeRO 2, or
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
