#include "runtime/shard/mesh.h"

#include <string.h>

static enum status dimension_fault(struct fault *fault, const char *remedy, const char *reason,
                                   const char *name) {
    return fault_set(fault, STATUS_INPUT, "mesh", remedy, "%s \"%s\"", reason, name);
}

static enum status check_dims(const struct mesh_dim *dims, int dim_count, int *ranks,
                              struct fault *fault) {
    if (dim_count < 1 || dim_count > MESH_DIMS_MAX) {
        return fault_set(fault, STATUS_INPUT, "mesh",
                         "use 1 to 4 dimensions, for example replicate=2,shard=4", "%d dimensions",
                         dim_count);
    }
    int product = 1;
    for (int d = 0; d < dim_count; d++) {
        const char *name = dims[d].name;
        if (name[0] == '\0') {
            return fault_set(fault, STATUS_INPUT, "mesh", "give every dimension a name",
                             "dimension %d has no name", d + 1);
        }
        for (int other = 0; other < d; other++) {
            if (strcmp(dims[other].name, name) == 0) {
                return dimension_fault(fault, "use a different name for each dimension",
                                       "two dimensions have the name", name);
            }
        }
        if (dims[d].size < 1) {
            return dimension_fault(fault, "use sizes of at least 1",
                                   "the size is below 1 in dimension", name);
        }
        if (dims[d].size > RANKS_MAX / product) {
            return fault_set(fault, STATUS_INPUT, "mesh", "use smaller dimensions",
                             "the mesh has more than %d ranks", RANKS_MAX);
        }
        product *= dims[d].size;
    }
    *ranks = product;
    return OK;
}

/* Set cell[rank] to the position of the rank in the table, for every rank. Each rank must occur
 * exactly once. */
static enum status invert_table(const int *table, int ranks, int *cell, struct fault *fault) {
    static const char REMEDY[] = "list every rank once, numbered from 0";
    int duplicate = -1;
    for (int rank = 0; rank < ranks; rank++) {
        cell[rank] = -1;
    }
    for (int position = 0; position < ranks; position++) {
        int rank = table[position];
        if (rank < 0 || rank >= ranks) {
            return fault_set(fault, STATUS_INPUT, "mesh", REMEDY,
                             "the table contains rank %d, but the mesh has ranks 0 to %d", rank,
                             ranks - 1);
        }
        duplicate = cell[rank] >= 0 && duplicate < 0 ? rank : duplicate;
        cell[rank] = position;
    }
    if (duplicate < 0) {
        return OK;
    }
    int missing = 0;
    while (cell[missing] >= 0) {
        missing++;
    }
    return fault_set(fault, STATUS_INPUT, "mesh", REMEDY,
                     "the table contains rank %d twice and does not contain rank %d", duplicate,
                     missing);
}

enum status mesh_init(const struct mesh_dim *dims, int dim_count, const int *table,
                      struct region *region, struct mesh *mesh, struct fault *fault) {
    struct mesh built = {.dim_count = dim_count};
    TRY(check_dims(dims, dim_count, &built.ranks, fault));
    memcpy(built.dims, dims, (size_t)dim_count * sizeof built.dims[0]);
    int *own = region_alloc(region, (size_t)built.ranks, sizeof *own);
    int *cell = region_alloc(region, (size_t)built.ranks, sizeof *cell);
    for (int position = 0; position < built.ranks; position++) {
        own[position] = table != NULL ? table[position] : position;
    }
    TRY(invert_table(own, built.ranks, cell, fault));
    built.table = own;
    built.cell = cell;
    *mesh = built;
    return OK;
}

int mesh_dim_find(const struct mesh *mesh, const char *name) {
    for (int d = 0; d < mesh->dim_count; d++) {
        if (strcmp(mesh->dims[d].name, name) == 0) {
            return d;
        }
    }
    return -1;
}

void mesh_get_coordinates(const struct mesh *mesh, int rank, int coordinate[MESH_DIMS_MAX]) {
    ASSERT(rank >= 0 && rank < mesh->ranks);
    int cell = mesh->cell[rank];
    for (int d = mesh->dim_count - 1; d >= 0; d--) {
        coordinate[d] = cell % mesh->dims[d].size;
        cell /= mesh->dims[d].size;
    }
}

int mesh_rank_at(const struct mesh *mesh, const int *coordinate) {
    int cell = 0;
    for (int d = 0; d < mesh->dim_count; d++) {
        ASSERT(coordinate[d] >= 0 && coordinate[d] < mesh->dims[d].size);
        cell = cell * mesh->dims[d].size + coordinate[d];
    }
    return mesh->table[cell];
}

int mesh_list_group(const struct mesh *mesh, unsigned dims, int rank, int *ranks, int *index) {
    ASSERT(dims >> mesh->dim_count == 0);
    int coordinate[MESH_DIMS_MAX];
    mesh_get_coordinates(mesh, rank, coordinate);
    int count = 1;
    for (int d = 0; d < mesh->dim_count; d++) {
        count *= dims >> d & 1 ? mesh->dims[d].size : 1;
    }
    for (int member = 0; member < count; member++) {
        int rest = member;
        for (int d = mesh->dim_count - 1; d >= 0; d--) {
            if (dims >> d & 1) {
                coordinate[d] = rest % mesh->dims[d].size;
                rest /= mesh->dims[d].size;
            }
        }
        ranks[member] = mesh_rank_at(mesh, coordinate);
        if (ranks[member] == rank) {
            *index = member;
        }
    }
    return count;
}
