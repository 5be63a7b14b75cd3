/* mesh_report: what `skep mesh` has found out, and its two forms of print. */
#ifndef SKEP_CLI_REPORTS_MESH_REPORT_H
#define SKEP_CLI_REPORTS_MESH_REPORT_H

#include "runtime/shard/mesh.h"

struct mesh_report {
    struct mesh mesh;
    int per_node;                /* ranks of a node; 0: not asked for, and what follows is unused */
    double bytes[MESH_DIMS_MAX]; /* a rank receives along each dimension */
    bool bytes_given;            /* else 1 along each */
    struct mesh placed;          /* the same dimensions with the suggested table */
};

/* mesh_report_text: scratch in `region`. */
void mesh_report_text(const struct mesh_report *report, struct region *region);
void mesh_report_json(const struct mesh_report *report);

#endif
