/* mesh_text: reads a mesh from the text of a run key, and prints it as a table. */
#include "runtime/shard/mesh.h"

#include <string.h>

static const char SYNTAX_REMEDY[] =
    "write NAME=SIZE,... and optionally a colon and the ranks of all cells";

/* Return the end of the item at `from`: the first comma in [from, end), or `end`. */
static const char *find_item_end(const char *from, const char *end) {
    const char *comma = memchr(from, ',', (size_t)(end - from));
    return comma != NULL ? comma : end;
}

static bool parse_number(const char *from, const char *end, int64_t *value) {
    char digits[16] = "";
    size_t length = (size_t)(end - from);
    if (length == 0 || length >= sizeof digits) {
        return false;
    }
    memcpy(digits, from, length);
    return text_parse_i64(digits, value) && *value >= -1 && *value <= INT32_MAX;
}

static enum status item_fault(const char *from, const char *end, const char *expected,
                              struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, "mesh", SYNTAX_REMEDY, "\"%.*s\" is not a %s",
                     (int)(end - from), from, expected);
}

static enum status parse_dims(const char *from, const char *end, struct mesh_dim *dims, int *count,
                              struct fault *fault) {
    *count = 0;
    for (const char *item = from; item <= end; item = find_item_end(item, end) + 1) {
        const char *stop = find_item_end(item, end);
        const char *equals = memchr(item, '=', (size_t)(stop - item));
        int64_t size;
        if (equals == NULL || equals - item >= MESH_NAME_BYTES ||
            !parse_number(equals + 1, stop, &size)) {
            return item_fault(item, stop, "dimension of the form NAME=SIZE", fault);
        }
        if (*count == MESH_DIMS_MAX) {
            return fault_set(fault, STATUS_INPUT, "mesh", SYNTAX_REMEDY,
                             "the mesh has more than %d dimensions", MESH_DIMS_MAX);
        }
        dims[*count] = (struct mesh_dim){.size = (int)size};
        memcpy(dims[*count].name, item, (size_t)(equals - item));
        ++*count;
    }
    return OK;
}

static enum status parse_table(const char *from, int *table, int *count, struct fault *fault) {
    const char *end = from + strlen(from);
    *count = 0;
    for (const char *item = from; item <= end; item = find_item_end(item, end) + 1) {
        const char *stop = find_item_end(item, end);
        int64_t rank;
        if (!parse_number(item, stop, &rank)) {
            return item_fault(item, stop, "rank", fault);
        }
        if (*count == RANKS_MAX) {
            return fault_set(fault, STATUS_INPUT, "mesh", SYNTAX_REMEDY,
                             "the table of cells has more than %d ranks", RANKS_MAX);
        }
        table[(*count)++] = (int)rank;
    }
    return OK;
}

enum status mesh_parse(const char *text, struct region *region, struct mesh *mesh,
                       struct fault *fault) {
    struct mesh_dim dims[MESH_DIMS_MAX];
    struct mesh plain;
    int dim_count;
    int count;
    const char *colon = strchr(text, ':');
    const char *end = colon != NULL ? colon : text + strlen(text);
    TRY(parse_dims(text, end, dims, &dim_count, fault));
    TRY(mesh_init(dims, dim_count, NULL, region, &plain, fault));
    if (colon == NULL) {
        *mesh = plain;
        return OK;
    }
    int *table = region_alloc(region, RANKS_MAX, sizeof *table);
    TRY(parse_table(colon + 1, table, &count, fault));
    return count == plain.ranks
               ? mesh_init(dims, dim_count, table, region, mesh, fault)
               : fault_set(fault, STATUS_INPUT, "mesh", SYNTAX_REMEDY,
                           "the table has %d ranks, but the mesh has %d cells, one for each rank",
                           count, plain.ranks);
}

static void print_cells(const struct mesh *mesh, struct text *text) {
    text_add(text, " rank");
    for (int d = 0; d < mesh->dim_count; d++) {
        text_add(text, "  %*s", MESH_NAME_BYTES, mesh->dims[d].name);
    }
    text_add(text, "\n");
    for (int rank = 0; rank < mesh->ranks; rank++) {
        int coordinate[MESH_DIMS_MAX];
        mesh_get_coordinates(mesh, rank, coordinate);
        text_add(text, "%5d", rank);
        for (int d = 0; d < mesh->dim_count; d++) {
            text_add(text, "  %*d", MESH_NAME_BYTES, coordinate[d]);
        }
        text_add(text, "\n");
    }
}

/* Print every group of one dimension once, from its rank with coordinate 0. */
static void print_groups(const struct mesh *mesh, int dim, struct text *text) {
    text_add(text, "groups of %s\n", mesh->dims[dim].name);
    for (int cell = 0; cell < mesh->ranks; cell++) {
        int coordinate[MESH_DIMS_MAX];
        mesh_get_coordinates(mesh, mesh->table[cell], coordinate);
        if (coordinate[dim] != 0) {
            continue;
        }
        for (int member = 0; member < mesh->dims[dim].size; member++) {
            coordinate[dim] = member;
            text_add(text, "%5d", mesh_rank_at(mesh, coordinate));
        }
        text_add(text, "\n");
    }
}

void mesh_print(const struct mesh *mesh, struct text *text) {
    text_add(text, "mesh ");
    for (int d = 0; d < mesh->dim_count; d++) {
        text_add(text, "%s%s=%d", d > 0 ? "," : "", mesh->dims[d].name, mesh->dims[d].size);
    }
    text_add(text, " of %d rank%s\n", mesh->ranks, mesh->ranks == 1 ? "" : "s");
    print_cells(mesh, text);
    for (int d = 0; d < mesh->dim_count; d++) {
        print_groups(mesh, d, text);
    }
}
