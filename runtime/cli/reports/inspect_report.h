/* inspect_report: what `skep inspect` has found out, and its two forms of print. */
#ifndef SKEP_CLI_REPORTS_INSPECT_REPORT_H
#define SKEP_CLI_REPORTS_INSPECT_REPORT_H

#include "runtime/shard/shard.h"

#include <stdbool.h>

enum { INSPECT_SHARDS_MAX = 4096 /* ranks of a site */ };

struct inspect_report {
    const char *model;   /* as the user named it */
    const char *weights; /* the file that holds or lists the weights, or NULL */
    const struct blueprint *blueprint;
    const struct unit_table *units;
    int64_t sequence; /* of the operations per token */
    int64_t shards;   /* 0 when not asked for */
    bool full;        /* text: each rank's parts of every parameter */
    /* Room for what lies in one shard: [units->param_count]. */
    struct unit_part *parts;
};

/* inspect_alike_end: blocks are alike, so their lines are folded: the end of the units from `first`
 * on that have the same content. inspect_units_name: "layers.0..11" for those. */
int inspect_alike_end(const struct inspect_report *report, int first);
const char *inspect_units_name(const struct inspect_report *report, int first, int end,
                               char buffer[static 48]);

void inspect_print_text(const struct inspect_report *report);
void inspect_print_shards(const struct inspect_report *report); /* the text's part of them */
void inspect_print_json(const struct inspect_report *report);

#endif
