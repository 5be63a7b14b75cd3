/* unit: the parameters that are gathered and freed together, laid flat in one buffer. */
#ifndef SKEP_SHARD_UNIT_H
#define SKEP_SHARD_UNIT_H

#include "runtime/model/blueprint.h"

/* Where one parameter lies in its unit. */
struct unit_slot {
    int param; /* blueprint index */
    int unit;
    int64_t offset;   /* elements from the unit's beginning; a multiple of GRANULE_ELEMENTS */
    int64_t elements; /* without padding */
};

/* One flat buffer: decayed parameters, then undecayed ones, each beginning on a granule. */
struct unit {
    const char *name; /* "embed", "layers.3", "final" */
    int layer;        /* PARAM_NO_LAYER for embed and final */
    int first_slot, slot_count;
    int64_t elements;         /* of the buffer, padding included; a multiple of GRANULE_ELEMENTS */
    int64_t decayed_elements; /* the first so many belong to parameters of two dimensions */
    int64_t padding_elements;
};

struct unit_table {
    const struct unit *units;
    int unit_count;
    const struct unit_slot *slots; /* by unit, then offset */
    int slot_count;
    const int *slot_of_param; /* [blueprint->param_count] */
};

/* unit_table_init: embedding (with positions, and the tied head), one unit per block, final norm
 * with the head when it is not tied.
 * memory  arrays in `region`
 * errors  none */
void unit_table_init(const struct blueprint *blueprint, struct region *region,
                     struct unit_table *table);

/* The elements [begin, end) of a unit's flat buffer that one rank owns. */
struct unit_range {
    int64_t begin, end;
};

/* unit_shard: what rank `rank` of `ranks` owns: whole granules, ceil(granules / ranks) a rank, so
 * the last ranks may own less or nothing.
 * limits  0 <= rank < ranks */
struct unit_range unit_shard(const struct unit *unit, int64_t ranks, int64_t rank);

#endif
