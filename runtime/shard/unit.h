/* unit: the parameters that are gathered and freed together, laid flat in one buffer. */
#ifndef SKEP_SHARD_UNIT_H
#define SKEP_SHARD_UNIT_H

#include "runtime/model/blueprint.h"

/* Where one parameter lies in its unit. */
struct unit_param {
    int param; /* blueprint index */
    int unit;
    int64_t offset;   /* elements from the unit's beginning; a multiple of GRANULE_ELEMENTS */
    int64_t elements; /* without padding */
};

/* One flat buffer: decayed parameters, then undecayed ones, each beginning on a granule, then
 * padding. Either all parameters of a unit are frozen or none. */
struct unit {
    const char *name; /* "embed", "layers.3", "final"; with ".frozen" behind it when frozen */
    int layer;        /* PARAM_NO_LAYER unless it holds parameters of one block by default wrap */
    int first_slot, slot_count;
    int64_t elements;         /* of the buffer, padding included: a multiple of GRANULE_ELEMENTS
                                 times the ranks of the world */
    int64_t decayed_elements; /* the first so many belong to parameters of two dimensions */
    int64_t padding_elements;
    bool frozen; /* neither gradients nor optimizer */
};

struct unit_table {
    const struct unit *units; /* by first parameter, in blueprint order */
    int unit_count;
    const struct unit_param *slots; /* by unit, then offset */
    int slot_count;
    const int *slot_of_param; /* [blueprint->param_count] */
};

/* The keys that decide which parameters are one unit, and how long it is. */
struct unit_options {
    int64_t world; /* ranks of the site; every rank's part of a unit is whole granules */
    /* "block" (or NULL): embedding (with positions, and the tied head), one unit per block, final
     * norm with the head when it is not tied; "root": one unit; "size:N": blocks joined in order
     * until a unit has N parameters; or Hugging Face names (pattern.h), each a unit of what it
     * matches and no longer name does, the rest by block. */
    const char *wrap;
    const char *frozen;       /* Hugging Face names (pattern.h) that do not train, or NULL */
    const char *wrap_place;   /* of the keys, for faults; NULL: "strategy.units" */
    const char *frozen_place; /* NULL: "frozen" */
};

/* unit_table_init: every parameter in one unit. q, k and v of a layer are neighbours (as are their
 * biases), and tensors that share storage are one parameter.
 * limits  world >= 1
 * memory  arrays in `region`
 * errors  STATUS_INPUT: a bad wrap, a name that matches nothing (naming the nearest), names that
 *         part q, k and v of a layer, nothing left to train; *table untouched. None with neither
 *         wrap nor frozen. */
MUST_CHECK enum status unit_table_init(const struct blueprint *blueprint,
                                       const struct unit_options *options, struct region *region,
                                       struct unit_table *table, struct fault *fault);

/* unit_shard_elements: what each of `shards` ranks owns of a unit: the same for all.
 * limits  shards divides the world that the table was made for */
int64_t unit_shard_elements(const struct unit *unit, int64_t shards);

/* The elements [begin, end) of a unit's flat buffer that one rank owns. */
struct unit_range {
    int64_t begin, end;
};

/* unit_shard: the `shard`-th of `shards` equal slots.
 * limits  0 <= shard < shards; shards as above */
struct unit_range unit_shard(const struct unit *unit, int64_t shards, int64_t shard);

/* A part of one parameter that lies in a range of its unit. */
struct unit_part {
    int param;
    int64_t first, count; /* elements of the parameter, row-major */
    int64_t offset;       /* elements from the range's beginning */
};

/* unit_part_of: what of parameter `param` lies in elements [range.begin, range.end) of its unit's
 * flat buffer; false, and *part untouched: nothing. A range is contiguous, so there is one part.
 * limits  0 <= range.begin <= range.end <= elements */
bool unit_part_of(const struct unit_table *table, int param, struct unit_range range,
                  struct unit_part *part);

/* unit_parts: the same of every parameter of a unit, in order; padding is no part.
 * parts   room for unit->slot_count; gives how many */
int unit_parts(const struct unit_table *table, int unit, struct unit_range range,
               struct unit_part *parts);

#endif
