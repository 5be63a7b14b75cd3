/* inspect_report: what `skep inspect` has found out, and its two forms of print. */
#ifndef SKEP_CLI_INSPECT_REPORT_H
#define SKEP_CLI_INSPECT_REPORT_H

#include "runtime/shard/unit.h"

enum { INSPECT_SHARDS_MAX = 4096 /* ranks of a site */ };

struct inspect_report {
    const char *model;   /* as the user named it */
    const char *weights; /* the file that holds or lists the weights, or NULL */
    const struct blueprint *blueprint;
    const struct unit_table *units;
    int64_t sequence; /* of the operations per token */
    int64_t shards;   /* 0 when not asked for */
};

void inspect_print_text(const struct inspect_report *report);
void inspect_print_json(const struct inspect_report *report);

#endif
