/* shard: how a model is spread over the ranks of a site. Units group parameters into flat buffers,
 * a sharding states which parts of each unit are split, spans.h finds when a graph needs each unit,
 * volumes.h counts the bytes that a step transfers, and mesh.h arranges ranks in a grid. The room
 * plans only and moves no bytes; its tables are in the caller's region. runtime/schedule makes
 * instructions from them, and runtime/settings reads the keys.
 *
 * public   mesh.h spans.h volumes.h */
#ifndef SKEP_SHARD_SHARD_H
#define SKEP_SHARD_SHARD_H

#include "base/dtype.h"
#include "base/fault.h"
#include "base/region.h"
#include "runtime/model/model.h"

#include <stdbool.h>

/* ---- units ---- */

/* The place of one parameter in its unit. */
struct unit_param {
    int param; /* blueprint index */
    int unit;
    int64_t offset;   /* elements from the unit's beginning; a multiple of GRANULE_ELEMENTS */
    int64_t elements; /* without padding */
};

/* One flat buffer: parameters with weight decay, then those without, each starting on a granule,
 * then padding. Either all parameters of a unit are frozen or none is. */
struct unit {
    const char *name; /* "embed", "layers.3", "final"; ".frozen" is appended when frozen */
    int layer; /* PARAM_NO_LAYER unless all parameters are of one block by the default wrapping */
    int first_param, param_count;
    /* Of the buffer with padding: a multiple of GRANULE_ELEMENTS times the ranks of the world. */
    int64_t elements;
    int64_t decayed_elements; /* the first of them, which belong to matrices and decay */
    int64_t padding_elements;
    bool frozen; /* it has neither gradients nor an optimizer */
};

struct unit_table {
    const struct unit *units; /* by first parameter, in blueprint order */
    int unit_count;
    const struct unit_param *params; /* by unit, then offset */
    int param_count;
    const int *index_of_param; /* [blueprint->param_count] */
};

/* The keys that decide which parameters form a unit, and its length. */
struct unit_options {
    int64_t world; /* ranks of the site; each rank's shard is a whole number of granules */
    /* "block" (or NULL): one unit for the embedding (with positions and a tied head), one for each
     * block, one for the final norm with a head that is not tied. "root": one unit. "size:N":
     * blocks joined in order until a unit has N parameters. Otherwise Hugging Face names
     * (pattern.h): each is a unit of the parameters that it matches and no longer name does; the
     * rest is wrapped by block. */
    const char *wrap;
    const char *frozen;         /* names (pattern.h) of parameters that do not train, or NULL */
    const char *wrap_subject;   /* location of the key, for faults; NULL: "strategy.units" */
    const char *frozen_subject; /* NULL: "frozen" */
};

/* unit_table_init: assign every parameter to one unit. q, k and v of a layer are adjacent (as are
 * their biases), and tensors that share storage are one parameter.
 * limits  world >= 1
 * memory  arrays in `region`
 * errors  STATUS_INPUT: an invalid wrap, a name that matches no parameter (with the nearest name),
 *         names that separate q, k and v of a layer, no parameter left to train; *table untouched.
 *         None with neither wrap nor frozen. */
MUST_CHECK enum status unit_table_init(const struct blueprint *blueprint,
                                       const struct unit_options *options, struct region *region,
                                       struct unit_table *table, struct fault *fault);

/* unit_shard_elements: elements of a unit that each of `shards` ranks holds. `shards` divides the
 * world that the table was made for. */
int64_t unit_shard_elements(const struct unit *unit, int64_t shards);

/* The elements [begin, end) of a unit's flat buffer. */
struct unit_range {
    int64_t begin, end;
};

/* unit_shard: the range of the `shard`-th of `shards` equal shards.
 * limits  0 <= shard < shards; shards as above */
struct unit_range unit_shard(const struct unit *unit, int64_t shards, int64_t shard);

/* The part of one parameter that is in a range of its unit. */
struct unit_part {
    int param;
    int64_t first, count; /* elements of the parameter, row-major */
    int64_t offset;       /* elements from the range's beginning */
};

/* unit_part_of: find the part of parameter `param` in elements [range.begin, range.end) of its
 * unit's flat buffer. Returns false, and leaves *part untouched, when there is none. A range is
 * contiguous, so there is at most one part.
 * limits  0 <= range.begin <= range.end <= elements */
bool unit_part_of(const struct unit_table *table, int param, struct unit_range range,
                  struct unit_part *part);

/* unit_parts: the parts of all parameters of a unit, in order, without padding. Returns the number.
 * parts   room for unit->param_count */
int unit_parts(const struct unit_table *table, int unit, struct unit_range range,
               struct unit_part *parts);

/* ---- strategies ---- */

/* ZeRO 0: nothing is split; 1: masters and moments; 2: gradients too; 3: params too. */
enum { ZERO_STAGES = 4 };

struct zero_row {
    bool params, gradients, optimizer; /* split */
};

/* zero_row: what a ZeRO stage splits.
 * limits  0 <= stage < ZERO_STAGES */
const struct zero_row *zero_row(int stage);

/* The strategy of one unit. */
struct unit_strategy {
    int zero;
    bool keep_gathered; /* ZeRO 3: keep the unit gathered from forward to backward pass */
};

enum reduce_at { REDUCE_AT_MICROBATCH, REDUCE_AT_STEP };

/* How sums over ranks are rounded: in the order of the group, or as a ring adds them up. */
enum wire_sum { WIRE_SUM_EXACT, WIRE_SUM_RING };

/* How a program is spread over the ranks of a site. Rank r of the world has the cell [r / shard][r
 * % shard] of the mesh [replicate, shard], unless a rank table says otherwise. */
struct sharding {
    int shard;                         /* ranks that share a unit; 1: nothing is split */
    int replicate;                     /* shard groups */
    const struct unit_strategy *units; /* [unit_count] */
    int prefetch;                      /* gathers started ahead of the one in use; 0: none */
    int live;                 /* gathered units at a time; 0: bounded by bytes only (spans.h) */
    enum reduce_at reduce_at; /* REDUCE_AT_STEP: ZeRO 0 and 1 only */
    enum dtype reduce;        /* of gradients on the wire: f32 or bf16 */
    enum wire_sum wire_sum;   /* between GPUs; elsewhere all sums are exact */
};

/* strategy_read: the strategy of every unit, from the keys of the run.
 * zero, keep_gathered  for all units
 * overrides   NULL or "", or "NAME=KEY:VALUE[;KEY:VALUE],...": NAME a unit's name or a prefix
 *             ending in *; KEY zero or keep_gathered: "embed=zero:1,layers.*=keep_gathered:true";
 *             if several match a unit, the last one applies
 * subject     location of the overrides' key, for faults; NULL: "strategy.overrides"
 * limits      0 <= zero < ZERO_STAGES
 * memory      in `region`
 * errors      STATUS_INPUT: a name that matches no unit (with the nearest name), an unknown key, an
 *             invalid value; *strategies untouched */
struct strategy_keys {
    int zero;
    bool keep_gathered;
    const char *overrides, *subject;
};
MUST_CHECK enum status strategy_read(const struct strategy_keys *keys,
                                     const struct unit_table *units, struct region *region,
                                     const struct unit_strategy **strategies, struct fault *fault);

/* strategy_check_reduction: check that no gradients are split that must stay whole over the
 * microbatches of a step.
 * subject location of the key, for faults; NULL: "strategy.reduce_at"
 * errors  STATUS_INPUT: REDUCE_AT_STEP with a unit that trains at ZeRO 2 or 3, naming it */
MUST_CHECK enum status strategy_check_reduction(const struct unit_strategy *strategies,
                                                const struct unit_table *units,
                                                enum reduce_at reduce_at, const char *subject,
                                                struct fault *fault);

#endif
