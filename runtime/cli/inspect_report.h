/* inspect_report: what `skep inspect` has found out, and its two forms of print. */
#ifndef SKEP_CLI_INSPECT_REPORT_H
#define SKEP_CLI_INSPECT_REPORT_H

#include "runtime/model/blueprint.h"

enum {
    INSPECT_UNITS_MAX = LAYERS_MAX + 2, /* blocks, the embedding, the final norm with its head */
    INSPECT_SHARDS_MAX = 4096,          /* ranks of a site */
};

/* What is gathered and freed together: parameters [first_param, first_param + param_count) in one
 * flat buffer, each starting on a granule of GRANULE_ELEMENTS. */
struct inspect_unit {
    int first_param;
    int param_count;
    int layer; /* PARAM_NO_LAYER for the embedding and the final unit */
    int64_t elements;
    int64_t granules; /* gaps included */
};

struct inspect_report {
    const char *model;   /* as the user named it */
    const char *weights; /* the file that holds or lists the weights, or NULL */
    const struct blueprint *blueprint;
    const struct inspect_unit *units; /* [unit_count]: the embedding, the blocks, the final unit */
    int unit_count;
    int64_t sequence; /* of the operations per token */
    int64_t shards;   /* 0 when not asked for */
};

/* inspect_list_units: the units of a blueprint; a tied head lives in the embedding's.
 * shapes  units [blueprint->layers + 2] */
void inspect_list_units(const struct blueprint *blueprint, struct inspect_unit *units);

/* inspect_unit_name: "embedding", "block 7", "final". Gives `buffer` back. */
const char *inspect_unit_name(const struct inspect_unit *unit, char buffer[static 24]);

/* The elements [begin, end) of a unit's flat buffer that rank `rank` of `shards` owns: whole
 * granules, ceil(granules / shards) a rank, so the last ranks may own less or nothing. */
struct inspect_range {
    int64_t begin;
    int64_t end;
};

struct inspect_range inspect_shard(const struct inspect_unit *unit, int64_t shards, int64_t rank);

void inspect_print_text(const struct inspect_report *report);
void inspect_print_json(const struct inspect_report *report);

#endif
