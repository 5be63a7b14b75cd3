/* mesh_report: the report of `skep mesh`, as text and as JSON. */
#include "runtime/cli/reports/reports.h"

#include <stdio.h>

enum { TABLE_BYTES = 1 << 18 }; /* maximum size of the text of the table of ranks */

/* Returns the bytes that a rank receives from other nodes, as a mean over all ranks. */
static double remote_bytes(const struct mesh_report *report, const struct mesh *mesh) {
    double sum = 0;
    for (int rank = 0; rank < mesh->ranks; rank++) {
        for (int d = 0; d < mesh->dim_count; d++) {
            int members[RANKS_MAX];
            int index;
            int remote_count = 0;
            int count = mesh_list_group(mesh, 1u << d, rank, members, &index);
            for (int i = 0; i < count; i++) {
                remote_count +=
                    members[i] / report->ranks_per_node != rank / report->ranks_per_node;
            }
            sum += count > 1 ? report->bytes[d] * remote_count / (count - 1) : 0;
        }
    }
    return sum / mesh->ranks;
}

static void print_dims(const struct mesh *mesh, unsigned mask) {
    const char *separator = "";
    for (int d = 0; d < mesh->dim_count; d++) {
        if ((mask & 1u << d) != 0) {
            printf("%s%s", separator, mesh->dims[d].name);
            separator = ",";
        }
    }
}

/* Fills in the group of `rank` along the dimensions in `mask`. Returns whether `rank` is the first
 * member of that group, so that a caller can list each group once. */
static bool is_first_in_group(const struct mesh *mesh, unsigned mask, int rank, int *members,
                              int *count) {
    int index;
    *count = mesh_list_group(mesh, mask, rank, members, &index);
    return index == 0;
}

static void print_groups_along(const struct mesh *mesh, unsigned mask) {
    int members[RANKS_MAX];
    int count;
    printf("groups of ");
    print_dims(mesh, mask);
    printf("\n");
    for (int cell = 0; cell < mesh->ranks; cell++) {
        if (is_first_in_group(mesh, mask, mesh->table[cell], members, &count)) {
            for (int i = 0; i < count; i++) {
                printf("%5d", members[i]);
            }
            printf("\n");
        }
    }
}

static bool has_one_dimension(unsigned mask) {
    return (mask & (mask - 1)) == 0;
}

static void print_table(const struct mesh *mesh) {
    for (int cell = 0; cell < mesh->ranks; cell++) {
        printf("%s%d", cell > 0 ? "," : "", mesh->table[cell]);
    }
}

static void print_remote_bytes(const struct mesh_report *report) {
    const char *unit =
        report->has_bytes ? "bytes" : "(1 along each dimension; pass the volumes with --bytes)";
    double current = remote_bytes(report, &report->mesh);
    double suggested = remote_bytes(report, &report->placed);
    printf("\nwith %d ranks per node, each rank receives from other nodes:\n",
           report->ranks_per_node);
    printf("  %.6g %s with this table\n", current, unit);
    if (!(suggested < current)) {
        printf("  no order of the dimensions lowers this number\n");
        return;
    }
    printf("  %.6g %s with --table ", suggested, unit);
    print_table(&report->placed);
    printf("\n");
}

void mesh_report_text(const struct mesh_report *report) {
    static char buffer[TABLE_BYTES];
    const struct mesh *mesh = &report->mesh;
    struct text text = text_over(buffer, sizeof buffer);
    mesh_print(mesh, &text);
    ASSERT(!text.truncated);
    fputs(buffer, stdout);
    unsigned all = (1u << mesh->dim_count) - 1;
    for (unsigned mask = 1; mask < all; mask++) {
        if (!has_one_dimension(mask)) {
            print_groups_along(mesh, mask);
        }
    }
    if (report->ranks_per_node > 0) {
        print_remote_bytes(report);
    }
}

static void add_numbers(struct json_writer *json, const char *name, const int *numbers, int count) {
    json_begin_array(json, name);
    for (int i = 0; i < count; i++) {
        json_add_i64(json, NULL, numbers[i]);
    }
    json_end(json);
}

static void add_coordinates(struct json_writer *json, const struct mesh *mesh) {
    add_numbers(json_newline(json, 0), "table", mesh->table, mesh->ranks);
    json_begin_array(json_newline(json, 0), "coordinates");
    for (int rank = 0; rank < mesh->ranks; rank++) {
        int coordinate[MESH_DIMS_MAX];
        mesh_get_coordinates(mesh, rank, coordinate);
        add_numbers(json, NULL, coordinate, mesh->dim_count);
    }
    json_end(json);
}

static void add_groups_along(struct json_writer *json, const struct mesh *mesh, unsigned mask) {
    int members[RANKS_MAX];
    int count;
    json_begin_object(json_newline(json, 0), NULL);
    json_begin_array(json, "dims");
    for (int d = 0; d < mesh->dim_count; d++) {
        if ((mask & 1u << d) != 0) {
            json_add_text(json, NULL, mesh->dims[d].name);
        }
    }
    json_end(json);
    json_begin_array(json, "ranks");
    for (int cell = 0; cell < mesh->ranks; cell++) {
        if (is_first_in_group(mesh, mask, mesh->table[cell], members, &count)) {
            add_numbers(json, NULL, members, count);
        }
    }
    json_end(json);
    json_end(json);
}

static void add_groups(struct json_writer *json, const struct mesh *mesh) {
    unsigned all = (1u << mesh->dim_count) - 1;
    json_begin_array(json_newline(json, 0), "groups");
    for (unsigned mask = 1; mask <= all; mask++) {
        add_groups_along(json, mesh, mask);
    }
    json_end(json);
}

static void add_placement(struct json_writer *json, const struct mesh_report *report) {
    json_begin_object(json_newline(json, 0), "placement");
    json_add_i64(json, "per_node", report->ranks_per_node);
    json_add_f64(json, "far_bytes", remote_bytes(report, &report->mesh), 17);
    json_begin_object(json, "suggested");
    add_numbers(json, "table", report->placed.table, report->mesh.ranks);
    json_add_f64(json, "far_bytes", remote_bytes(report, &report->placed), 17);
    json_end(json);
    json_end(json);
}

void mesh_report_json(const struct mesh_report *report) {
    const struct mesh *mesh = &report->mesh;
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_i64(json, "ranks", mesh->ranks);
    json_begin_array(json, "dims");
    for (int d = 0; d < mesh->dim_count; d++) {
        json_begin_object(json, NULL);
        json_add_text(json, "name", mesh->dims[d].name);
        json_add_i64(json, "size", mesh->dims[d].size);
        json_end(json);
    }
    json_end(json);
    add_coordinates(json, mesh);
    add_groups(json, mesh);
    if (report->ranks_per_node > 0) {
        add_placement(json, report);
    }
    json_stdout_end(&out);
}
