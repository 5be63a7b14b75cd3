#include "runtime/cli/reports/mesh_report.h"

#include <stdio.h>

enum { MASKS = 1 << MESH_DIMS_MAX, TABLE_BYTES = 1 << 18 };

/* Of report->bytes what comes from other nodes, on average over the ranks. */
static double far_bytes(const struct mesh_report *report, const struct mesh *mesh) {
    double sum = 0;
    for (int rank = 0; rank < mesh->ranks; rank++) {
        for (int d = 0; d < mesh->dim_count; d++) {
            int members[RANKS_MAX];
            int index;
            int far = 0;
            int count = mesh_group(mesh, 1u << d, rank, members, &index);
            for (int i = 0; i < count; i++) {
                far += members[i] / report->per_node != rank / report->per_node;
            }
            sum += count > 1 ? report->bytes[d] * far / (count - 1) : 0;
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

/* Each group once: by its first member. */
static bool leads(const struct mesh *mesh, unsigned mask, int rank, int *members, int *count) {
    int index;
    *count = mesh_group(mesh, mask, rank, members, &index);
    return index == 0;
}

static void print_projection(const struct mesh *mesh, unsigned mask) {
    int members[RANKS_MAX];
    int count;
    printf("groups of ");
    print_dims(mesh, mask);
    printf("\n");
    for (int cell = 0; cell < mesh->ranks; cell++) {
        if (leads(mesh, mask, mesh->table[cell], members, &count)) {
            for (int i = 0; i < count; i++) {
                printf("%5d", members[i]);
            }
            printf("\n");
        }
    }
}

static bool one_dimension(unsigned mask) {
    return (mask & (mask - 1)) == 0;
}

static void print_table(const struct mesh *mesh) {
    for (int cell = 0; cell < mesh->ranks; cell++) {
        printf("%s%d", cell > 0 ? "," : "", mesh->table[cell]);
    }
}

static void print_placement(const struct mesh_report *report) {
    const char *unit =
        report->bytes_given ? "bytes" : "(1 along each dimension; --bytes says more)";
    double now = far_bytes(report, &report->mesh);
    double then = far_bytes(report, &report->placed);
    printf("\nnodes of %d ranks: a rank receives from other nodes\n", report->per_node);
    printf("  %.6g %s with this table\n", now, unit);
    if (!(then < now)) {
        printf("  no order of the dimensions does better\n");
        return;
    }
    printf("  %.6g %s with --table ", then, unit);
    print_table(&report->placed);
    printf("\n");
}

void mesh_report_text(const struct mesh_report *report, struct region *region) {
    const struct mesh *mesh = &report->mesh;
    char *buffer = region_alloc(region, TABLE_BYTES, 1);
    struct text text = text_over(buffer, TABLE_BYTES);
    mesh_print(mesh, &text);
    ASSERT(!text.cut);
    fputs(buffer, stdout);
    unsigned all = (1u << mesh->dim_count) - 1;
    for (unsigned mask = 1; mask < all; mask++) {
        if (!one_dimension(mask)) {
            print_projection(mesh, mask);
        }
    }
    if (report->per_node > 0) {
        print_placement(report);
    }
}

static void print_numbers(const int *numbers, int count) {
    printf("[");
    for (int i = 0; i < count; i++) {
        printf("%s%d", i > 0 ? ", " : "", numbers[i]);
    }
    printf("]");
}

static void print_name(const char *name) {
    char buffer[6 * MESH_NAME_BYTES + 3];
    struct text text = text_over(buffer, sizeof buffer);
    text_add_json(&text, name);
    printf("%s", buffer);
}

static void print_names(const struct mesh *mesh, unsigned mask) {
    const char *separator = "";
    for (int d = 0; d < mesh->dim_count; d++) {
        if ((mask & 1u << d) != 0) {
            printf("%s", separator);
            print_name(mesh->dims[d].name);
            separator = ", ";
        }
    }
}

static void print_coordinates(const struct mesh *mesh) {
    printf(",\n\"table\": ");
    print_numbers(mesh->table, mesh->ranks);
    printf(",\n\"coordinates\": [");
    for (int rank = 0; rank < mesh->ranks; rank++) {
        int coordinate[MESH_DIMS_MAX];
        mesh_coordinate(mesh, rank, coordinate);
        printf("%s", rank > 0 ? ", " : "");
        print_numbers(coordinate, mesh->dim_count);
    }
    printf("]");
}

static void print_groups(const struct mesh *mesh) {
    unsigned all = (1u << mesh->dim_count) - 1;
    printf(",\n\"groups\": [");
    for (unsigned mask = 1; mask <= all; mask++) {
        int members[RANKS_MAX];
        int count;
        const char *separator = "";
        printf("%s\n{\"dims\": [", mask > 1 ? "," : "");
        print_names(mesh, mask);
        printf("], \"ranks\": [");
        for (int cell = 0; cell < mesh->ranks; cell++) {
            if (leads(mesh, mask, mesh->table[cell], members, &count)) {
                printf("%s", separator);
                print_numbers(members, count);
                separator = ", ";
            }
        }
        printf("]}");
    }
    printf("]");
}

void mesh_report_json(const struct mesh_report *report) {
    const struct mesh *mesh = &report->mesh;
    printf("{\"format\": 1, \"ranks\": %d, \"dims\": [", mesh->ranks);
    for (int d = 0; d < mesh->dim_count; d++) {
        printf("%s{\"name\": ", d > 0 ? ", " : "");
        print_name(mesh->dims[d].name);
        printf(", \"size\": %d}", mesh->dims[d].size);
    }
    printf("]");
    print_coordinates(mesh);
    print_groups(mesh);
    if (report->per_node > 0) {
        printf(",\n\"placement\": {\"per_node\": %d, \"far_bytes\": %.17g, \"suggested\": "
               "{\"table\": ",
               report->per_node, far_bytes(report, mesh));
        print_numbers(report->placed.table, mesh->ranks);
        printf(", \"far_bytes\": %.17g}}", far_bytes(report, &report->placed));
    }
    printf("}\n");
}
