/* strategy: what of a unit is whole on every rank of the shard group, and what is split. */
#ifndef SKEP_SHARD_STRATEGY_H
#define SKEP_SHARD_STRATEGY_H

#include "base/dtype.h"
#include "base/fault.h"
#include "base/region.h"
#include "runtime/shard/unit.h"

#include <stdbool.h>

/* ZeRO 0: nothing is split; 1: optimizer (masters, moments); 2: gradients too; 3: params too. */
enum { ZERO_STAGES = 4 };

struct zero_row {
    bool params, gradients, optimizer; /* split */
};

/* zero_row: the table {params, gradients, optimizer} x {whole, split}.
 * limits  0 <= stage < ZERO_STAGES */
const struct zero_row *zero_row(int stage);

/* One unit's. */
struct unit_strategy {
    int zero;
    bool keep_gathered; /* ZeRO 3: from forward to backward */
};

enum reduce_at { REDUCE_AT_MICROBATCH, REDUCE_AT_STEP };

/* Sums over ranks: in the order of the group, or as a ring meets them. */
enum wire_sum { WIRE_SUM_EXACT, WIRE_SUM_RING };

/* How a program is spread over the ranks of a site. Rank r of the world has the cell
 * [r / shard][r % shard] of the mesh [replicate, shard], unless a rank table says otherwise. */
struct sharding {
    int shard;                         /* ranks that split a unit; 1: nothing is split */
    int replicate;                     /* groups of them */
    const struct unit_strategy *units; /* [unit_count] */
    int prefetch;                      /* gathers ahead of the one that is computed with; 0: none */
    int live;                 /* most gathered units at a time, 0: no bound but bytes (spans.h) */
    enum reduce_at reduce_at; /* REDUCE_AT_STEP: ZeRO 0 and 1 only */
    enum dtype reduce;        /* of gradients on the wire: f32 or bf16 */
    enum wire_sum wire_sum;   /* between GPUs; elsewhere all sums are exact */
};

/* strategy_read: every unit's strategy from the run's keys.
 * zero, keep_gathered  of all units
 * overrides   NULL or "", or "NAME=KEY:VALUE[;KEY:VALUE],...": NAME a unit's name or a prefix
 *             ending in *; KEY zero or keep_gathered: "embed=zero:1,layers.*=keep_gathered:true";
 *             of several that match a unit the last one counts
 * place       of the overrides' key, for faults; NULL: "strategy.overrides"
 * limits      0 <= zero < ZERO_STAGES
 * memory      in `region`
 * errors      STATUS_INPUT: a name that matches no unit (naming the nearest), an unknown key, a bad
 *             value; *strategies untouched */
struct strategy_keys {
    int zero;
    bool keep_gathered;
    const char *overrides, *place;
};
MUST_CHECK enum status strategy_read(const struct strategy_keys *keys,
                                     const struct unit_table *units, struct region *region,
                                     const struct unit_strategy **strategies, struct fault *fault);

/* strategy_check_reduction: gradients that are kept whole over a step's microbatches cannot be
 * split.
 * place   of the key, for faults; NULL: "strategy.reduce_at"
 * errors  STATUS_INPUT: REDUCE_AT_STEP with a unit that trains at ZeRO 2 or 3, naming it */
MUST_CHECK enum status strategy_check_reduction(const struct unit_strategy *strategies,
                                                const struct unit_table *units,
                                                enum reduce_at reduce_at, const char *place,
                                                struct fault *fault);

#endif
