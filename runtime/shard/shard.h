/* shard: describes how a model is split over the ranks of a site. A unit groups parameters in one
 * flat buffer, struct sharding defines the split, spans.h finds when a graph needs each unit,
 * volumes.h counts the bytes that a step transfers, and mesh.h arranges ranks in a grid. This
 * module only plans and transfers no data; its tables are in the caller's region. runtime/schedule
 * makes instructions from them, and runtime/settings reads the run keys.
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

/* The position of one parameter in its unit. */
struct unit_param {
    int param;        /* index in blueprint->params */
    int unit;         /* index in unit_table.units */
    int64_t offset;   /* first element in the unit; a multiple of GRANULE_ELEMENTS */
    int64_t elements; /* number of elements without padding */
};

/* One flat buffer: parameters with weight decay, then those without, each aligned to a granule,
 * then padding. Either all parameters of a unit are frozen or none is. */
struct unit {
    /* name of the unit: "embed", "layers.3", "final"; ".frozen" is appended if frozen */
    const char *name;
    int layer; /* layer if all parameters belong to one block; else PARAM_NO_LAYER */
    int first_param, param_count; /* the unit's range of unit_table.params */
    /* Elements of the buffer with padding: a multiple of GRANULE_ELEMENTS times the world size. */
    int64_t elements;
    int64_t decayed_elements; /* number of elements with weight decay, which come first */
    int64_t padding_elements; /* number of elements that belong to no parameter */
    bool frozen; /* true: the unit is not trained: no gradients and no optimizer state */
};

struct unit_table {
    const struct unit *units; /* units, sorted by their first parameter in blueprint order */
    int unit_count;
    const struct unit_param *params; /* parameters, sorted by unit, then offset */
    int param_count;
    /* [blueprint->param_count]: index of each parameter in `params` */
    const int *position_of_param;
};

/* The settings that determine the units and their lengths. */
struct unit_options {
    /* number of ranks of the site; each rank's shard is a whole number of granules */
    int64_t world;
    /* "block" (or NULL): one unit for the embedding (with positions and a tied head), one for each
     * block, one for the final norm with a head that is not tied. "root": one unit. "size:N":
     * consecutive blocks are joined until a unit has N parameters. Otherwise a list of Hugging
     * Face names (pattern.h): each name makes a unit of the parameters that it matches, unless a
     * longer name matches them; the other parameters are wrapped by block. */
    const char *wrap;
    const char *frozen;         /* names (pattern.h) of parameters that are not trained, or NULL */
    const char *wrap_subject;   /* location of the key `wrap`, for faults; NULL: "strategy.units" */
    const char *frozen_subject; /* location of the key `frozen`, for faults; NULL: "frozen" */
};

/* unit_table_init: assign every parameter to one unit. q, k and v of a layer are adjacent (as are
 * their biases), and tensors that share storage are one parameter.
 * limits  world >= 1
 * memory  arrays in `region`
 * errors  STATUS_INPUT: an invalid wrap, a name that matches no parameter (the fault gives the
 *         nearest name), names that separate q, k and v of a layer, or no parameter left to
 *         train; *table untouched. Cannot fail if wrap and frozen are both NULL. */
MUST_CHECK enum status unit_table_init(const struct blueprint *blueprint,
                                       const struct unit_options *options, struct region *region,
                                       struct unit_table *table, struct fault *fault);

/* unit_shard_elements: return the number of elements of a unit that each of `shards` ranks
 * holds. `shards` must divide the world size of the table. */
int64_t unit_shard_elements(const struct unit *unit, int64_t shards);

/* The elements [begin, end) of a unit's flat buffer. */
struct unit_range {
    int64_t begin, end; /* first element, and one past the last element */
};

/* unit_shard_range: return the element range of shard number `shard` of `shards` equal shards.
 * limits  0 <= shard < shards; shards divides the world size of the table */
struct unit_range unit_shard_range(const struct unit *unit, int64_t shards, int64_t shard);

/* The part of one parameter that lies in a range of its unit. */
struct unit_part {
    int param;
    int64_t first, count; /* elements [first, first + count) of the parameter, row-major */
    int64_t offset;       /* position of the first element in the range */
};

/* unit_find_param_part: find the part of parameter `param` in elements [range.begin, range.end) of
 * its unit's flat buffer. Returns false, and leaves *part untouched, if the range contains none of
 * its elements. A range is contiguous, so there is at most one part.
 * limits  0 <= range.begin <= range.end <= elements */
bool unit_find_param_part(const struct unit_table *table, int param, struct unit_range range,
                          struct unit_part *part);

/* unit_list_parts: list the parts of all parameters of a unit that lie in a range, in order,
 * without padding. Returns their number.
 * parts   capacity of unit->param_count entries */
int unit_list_parts(const struct unit_table *table, int unit, struct unit_range range,
                    struct unit_part *parts);

/* ---- strategies ---- */

/* ZeRO stage 0 splits nothing; 1: master weights and moments; 2: also gradients; 3: also params. */
enum { ZERO_STAGE_COUNT = 4 };

struct zero_stage_row {                /* the row of one ZeRO stage in the table of what is split */
    bool params, gradients, optimizer; /* whether the ranks of the shard group split these values */
};

/* zero_stage_row: return which parts of a unit a ZeRO stage splits.
 * limits  0 <= stage < ZERO_STAGE_COUNT */
const struct zero_stage_row *zero_stage_row(int stage);

/* The ZeRO stage of one unit and its options. */
struct unit_strategy {
    int zero;           /* ZeRO stage, 0 to 3 */
    bool keep_gathered; /* ZeRO 3: keep the unit gathered between its forward and backward pass */
};

enum reduce_at { REDUCE_AT_MICROBATCH, REDUCE_AT_STEP };

/* Order of additions in a sum over ranks, which determines its rounding: by group index, or
 * along a ring. */
enum wire_sum { WIRE_SUM_EXACT, WIRE_SUM_RING };

/* How a program is split over the ranks of a site. Rank r has the cell [r / shard][r % shard] of
 * the mesh [replicate, shard], unless a rank table defines a different one. */
struct sharding {
    int shard;                         /* number of ranks that a unit is split over; 1: no split */
    int replicate;                     /* number of shard groups */
    const struct unit_strategy *units; /* [unit_count] */
    /* maximum number of gathers that are started in advance; 0: none */
    int prefetch;
    /* maximum number of units that are gathered at the same time; 0: only the limit of bytes
     * (spans.h) */
    int gathered_units_max;
    enum reduce_at reduce_at; /* REDUCE_AT_STEP is valid only for ZeRO 0 and 1 */
    enum dtype reduce;        /* type of gradients on the wire: f32 or bf16 */
    enum wire_sum wire_sum;   /* how sums between GPUs are computed; CPU sums are exact */
};

/* strategy_read: read the strategy of every unit from the run keys.
 * zero, keep_gathered  values for units without an override
 * overrides   NULL or "", or "NAME=KEY:VALUE[;KEY:VALUE],...", where NAME is a unit's name or a
 *             prefix followed by *, and KEY is zero or keep_gathered:
 *             "embed=zero:1,layers.*=keep_gathered:true"; if several match a unit, the last one
 *             applies
 * subject       location of the key `overrides`, for faults; NULL: "strategy.overrides"
 * limits      0 <= zero < ZERO_STAGE_COUNT
 * memory      in `region`
 * errors      STATUS_INPUT: a name that matches no unit (the fault gives the nearest name), an
 *             unknown key, or an invalid value; *strategies untouched */
struct strategy_keys {
    int zero;              /* ZeRO stage of units without an override */
    bool keep_gathered;    /* keep_gathered of units without an override */
    const char *overrides; /* text of the settings of individual units */
    const char *subject;   /* location of the key `overrides`, for faults */
};
MUST_CHECK enum status strategy_read(const struct strategy_keys *keys,
                                     const struct unit_table *units, struct region *region,
                                     const struct unit_strategy **strategies, struct fault *fault);

/* strategy_check_reduction: with REDUCE_AT_STEP, gradients must stay whole over the microbatches of
 * a step; check that no strategy splits them.
 * subject   location of the key, for faults; NULL: "strategy.reduce_at"
 * errors  STATUS_INPUT: REDUCE_AT_STEP and a trained unit at ZeRO 2 or 3, naming the unit */
MUST_CHECK enum status strategy_check_reduction(const struct unit_strategy *strategies,
                                                const struct unit_table *units,
                                                enum reduce_at reduce_at, const char *subject,
                                                struct fault *fault);

#endif
