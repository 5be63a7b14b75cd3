/* mesh: `skep mesh DIMS [--table R,R,...] [--per-node K] [--bytes NAME=B,...] [--json]`: who sits
 * where among the ranks of a site, who is grouped with whom, and which order of the ranks keeps the
 * most bytes inside a node. */
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/reports/mesh_report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 16 * 1024 /* the longest table of RANKS_MAX ranks, and its dimensions */ };

struct request {
    const char *table, *bytes;
    int64_t per_node; /* 0: not asked for */
    bool json;
};

static enum status bad_bytes(const char *given, const struct mesh *mesh, struct fault *fault) {
    char remedy[sizeof fault->remedy];
    struct text text = text_over(remedy, sizeof remedy);
    text_add(&text, "write --bytes ");
    for (int d = 0; d < mesh->dim_count; d++) {
        text_add(&text, "%s%s=1e9", d > 0 ? "," : "", mesh->dims[d].name);
    }
    return fault_set(fault, STATUS_USAGE, "--bytes", remedy,
                     "\"%s\" is not a dimension of the mesh with a number of bytes", given);
}

/* "replicate=1e9,shard=3e9"; what is not named is 0. */
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
            return bad_bytes(name, mesh, fault);
        }
        *equals = '\0';
        int dim = mesh_dim_find(mesh, name);
        if (dim < 0) {
            return bad_bytes(name, mesh, fault);
        }
        bytes[dim] = value;
        word += length + (word[length] == ',');
    }
    return OK;
}

static enum status open_mesh(const char *dims, const char *table, struct region *region,
                             struct mesh *mesh, struct fault *fault) {
    char *whole = region_alloc(region, TEXT_BYTES, 1);
    struct text text = text_over(whole, TEXT_BYTES);
    text_add(&text, "%s%s%s", dims, table != NULL ? ":" : "", table != NULL ? table : "");
    if (text.truncated) {
        return fault_set(fault, STATUS_USAGE, "mesh", NULL, "more than %d characters", TEXT_BYTES);
    }
    return mesh_parse(whole, region, mesh, fault);
}

static enum status place(const struct request *request, struct region *region,
                         struct mesh_report *report, struct fault *fault) {
    const struct mesh *mesh = &report->mesh;
    report->per_node = (int)request->per_node;
    for (int d = 0; d < mesh->dim_count; d++) {
        report->bytes[d] = request->bytes == NULL ? 1 : 0;
    }
    report->bytes_given = request->bytes != NULL;
    enum status status =
        request->bytes == NULL ? OK : read_bytes(request->bytes, mesh, report->bytes, fault);
    if (status != OK || report->per_node == 0) {
        return status;
    }
    int *table = region_alloc(region, (size_t)mesh->ranks, sizeof *table);
    mesh_node_aware(mesh->dims, mesh->dim_count, report->bytes, report->per_node, table);
    return mesh_init(mesh->dims, mesh->dim_count, table, region, &report->placed, fault);
}

static enum status read_request(int argc, char **argv, struct request *request,
                                struct arguments *arguments, struct fault *fault) {
    const char *per_node = NULL;
    const struct flag flags[] = {{"--table", &request->table, NULL},
                                 {"--per-node", &per_node, NULL},
                                 {"--bytes", &request->bytes, NULL},
                                 {"--json", NULL, &request->json}};
    TRY(arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, arguments, fault));
    TRY(arguments_only(arguments, argv[0], fault));
    TRY(argument_i64("--per-node", per_node, 1, &request->per_node, fault));
    if (request->per_node > RANKS_MAX) {
        return fault_set(fault, STATUS_USAGE, "--per-node", NULL, "%s ranks; at most %d", per_node,
                         RANKS_MAX);
    }
    if (request->bytes != NULL && per_node == NULL) {
        return fault_set(fault, STATUS_USAGE, "--bytes", "add --per-node K",
                         "bytes are asked for where ranks are placed on nodes");
    }
    return OK;
}

int command_mesh(int argc, char **argv) {
    struct request request = {.per_node = 0};
    static struct mesh_report report;
    struct arguments arguments;
    struct region region = {0};
    struct fault fault;
    enum status status = read_request(argc, argv, &request, &arguments, &fault);
    if (status == OK) {
        status = open_mesh(arguments.positionals[0], request.table, &region, &report.mesh, &fault);
    }
    if (status == OK) {
        status = place(&request, &region, &report, &fault);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    } else if (request.json) {
        mesh_report_json(&report);
    } else {
        mesh_report_text(&report, &region);
    }
    region_finish(&region);
    return fault_exit_code(status);
}
