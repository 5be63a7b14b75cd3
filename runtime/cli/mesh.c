/* mesh: `skep mesh NAME=SIZE,...` prints the coordinates and groups of every rank of a site, and
 * the placement of ranks on nodes that transfers the fewest bytes between nodes. */
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"

#include <stdio.h>
#include <string.h>

/* size of the report: enough for the dimensions and a table of RANKS_MAX ranks */
enum { TEXT_BYTES = 16 * 1024 };

struct request {               /* options of `skep mesh` and its report */
    const char *table, *bytes; /* values of --table and --bytes; NULL: not given */
    int64_t ranks_per_node;    /* ranks per node; 0: no placement is requested */
    bool json;                 /* --json */
    struct mesh_report report;
};

static enum status invalid_byte_count_fault(const char *given, const struct mesh *mesh,
                                            struct fault *fault) {
    char remedy[sizeof fault->remedy];
    struct text text = text_over(remedy, sizeof remedy);
    text_add(&text, "write --bytes ");
    for (int d = 0; d < mesh->dim_count; d++) {
        text_add(&text, "%s%s=1e9", d > 0 ? "," : "", mesh->dims[d].name);
    }
    return fault_set(fault, STATUS_USAGE, "--bytes", remedy,
                     "\"%s\" is not of the form DIMENSION=BYTES", given);
}

/* Reads the bytes that a rank receives along each dimension, a list such as
 * "replicate=1e9,shard=3e9". The value of a dimension that is not listed stays 0. */
static enum status read_bytes(const char *given, const struct mesh *mesh,
                              double bytes[static MESH_DIMS_MAX], struct fault *fault) {
    for (const char *word = given; *word != '\0';) {
        char name[64];
        size_t length = strcspn(word, ",");
        struct text text = text_over(name, sizeof name);
        text_add_bytes(&text, word, length);
        char *equals = strchr(name, '=');
        double value;
        if (text.truncated || equals == NULL || !text_parse_f64(equals + 1, &value) ||
            !(value >= 0 && value < 1e30)) {
            return invalid_byte_count_fault(name, mesh, fault);
        }
        *equals = '\0';
        int dim = mesh_dim_find(mesh, name);
        if (dim < 0) {
            return invalid_byte_count_fault(name, mesh, fault);
        }
        bytes[dim] = value;
        word += length + (word[length] == ',');
    }
    return OK;
}

static enum status open_mesh(const char *dims, const char *table, struct region *region,
                             struct mesh *mesh, struct fault *fault) {
    char *description = region_alloc(region, TEXT_BYTES, 1);
    struct text text = text_over(description, TEXT_BYTES);
    text_add(&text, "%s%s%s", dims, table != NULL ? ":" : "", table != NULL ? table : "");
    if (text.truncated) {
        return fault_set(fault, STATUS_USAGE, "mesh", "write a shorter one",
                         "the description has more than %d characters", TEXT_BYTES);
    }
    return mesh_parse(description, region, mesh, fault);
}

/* Computes the order of ranks that transfers the fewest bytes between nodes. */
static enum status suggest_placement(struct mesh_report *report, struct region *region,
                                     struct fault *fault) {
    const struct mesh *mesh = &report->mesh;
    int *table = region_alloc(region, (size_t)mesh->ranks, sizeof *table);
    mesh_place_ranks(mesh->dims, mesh->dim_count, report->bytes, report->ranks_per_node, table);
    return mesh_init(mesh->dims, mesh->dim_count, table, region, &report->placed, fault);
}

static enum status run_mesh(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct mesh_report *report = &request->report;
    struct region *region = &invocation->region;
    struct fault *fault = &invocation->fault;
    if (request->bytes != NULL && request->ranks_per_node == 0) {
        return fault_set(fault, STATUS_USAGE, "--bytes", "add --per-node K",
                         "--bytes is only used to place ranks on nodes");
    }
    TRY(open_mesh(invocation->positionals[0], request->table, region, &report->mesh, fault));
    report->ranks_per_node = (int)request->ranks_per_node;
    report->has_bytes = request->bytes != NULL;
    for (int d = 0; d < report->mesh.dim_count && !report->has_bytes; d++) {
        report->bytes[d] = 1;
    }
    if (report->has_bytes) {
        TRY(read_bytes(request->bytes, &report->mesh, report->bytes, fault));
    }
    if (report->ranks_per_node > 0) {
        TRY(suggest_placement(report, region, fault));
    }
    (request->json ? mesh_report_json : mesh_report_text)(report);
    return OK;
}

static const struct option OPTIONS[] = {
    {OPTION("--table", TEXT, table), .value_name = "RANK,...",
     .help = "rank of each cell, in row-major order; default: ascending",
     .example = "shard=4 --table 3,2,1,0"},
    {OPTION("--per-node", INTEGER, ranks_per_node), .minimum = 1, .maximum = RANKS_MAX,
     .value_name = "K", .help = "ranks per node: suggest a placement of the ranks on nodes",
     .example = "replicate=2,shard=4 --per-node 4"},
    {OPTION("--bytes", TEXT, bytes), .value_name = "NAME=B,...",
     .help = "bytes that a rank receives along each dimension; needs --per-node",
     .example = "replicate=2,shard=4 --per-node 4 --bytes shard=1e9"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "shard=4 --json"},
};

const struct command COMMAND_MESH = {
    .name = "mesh",
    .arguments = "NAME=SIZE,...",
    .summary = "print the coordinates and groups of each rank, and their placement on nodes",
    .details = "The argument lists the dimensions of the mesh with their sizes. Ranks "
               "that differ only in the last one have consecutive numbers.",
    .example = "replicate=2,shard=4",
    .positional_count = 1,
    REQUEST_OPTIONS,
    .run = run_mesh,
};
