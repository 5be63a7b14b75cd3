/* mesh_placement: chooses the rank of each cell so that the fewest bytes leave a node. */
#include "runtime/shard/mesh.h"

enum { ORDERS_MAX = 24 /* of four dimensions */ };

/* One numbering of the cells: tile after tile, and in each tile cell by cell, with the dimensions
 * from slowest to fastest in `order`. */
struct numbering {
    int order[MESH_DIMS_MAX];
    int tile[MESH_DIMS_MAX];
};

struct search {
    const struct mesh_dim *dims;
    int dim_count, ranks, per_node;
    const double *bytes;
    int stride[MESH_DIMS_MAX]; /* cells from one coordinate to the next */
    int rank_of[RANKS_MAX];    /* by cell, for the current numbering */
    int in_node[RANKS_MAX];    /* ranks of one group, by node */
};

static void number_cells(struct search *search, const struct numbering *numbering) {
    for (int cell = 0; cell < search->ranks; cell++) {
        int outer = 0;
        int inner = 0;
        int tile = 1;
        for (int k = 0; k < search->dim_count; k++) {
            int d = numbering->order[k];
            int at = cell / search->stride[d] % search->dims[d].size;
            outer = outer * (search->dims[d].size / numbering->tile[d]) + at / numbering->tile[d];
            inner = inner * numbering->tile[d] + at % numbering->tile[d];
            tile *= numbering->tile[d];
        }
        search->rank_of[cell] = outer * tile + inner;
    }
}

/* The number of ordered pairs of ranks on different nodes, in the group that is_first at `cell`
 * along `dim`. */
static int pairs_on_two_nodes(struct search *search, int cell, int dim) {
    int size = search->dims[dim].size;
    int together = 0;
    for (int i = 0; i < size; i++) {
        int node = search->rank_of[cell + i * search->stride[dim]] / search->per_node;
        together += 2 * search->in_node[node]++ + 1; /* n^2 is the sum of the first n odd numbers */
    }
    for (int i = 0; i < size; i++) {
        search->in_node[search->rank_of[cell + i * search->stride[dim]] / search->per_node] = 0;
    }
    return size * size - together;
}

/* The bytes of a step that come from other nodes, summed over all ranks. A rank receives the bytes
 * of a dimension equally from all others of its group. */
static double bytes_between_nodes(struct search *search) {
    double sum = 0;
    for (int d = 0; d < search->dim_count; d++) {
        int64_t pairs = 0;
        for (int cell = 0; cell < search->ranks; cell++) {
            bool is_first = cell / search->stride[d] % search->dims[d].size == 0;
            pairs += is_first ? pairs_on_two_nodes(search, cell, d) : 0;
        }
        int others = search->dims[d].size - 1;
        sum += others > 0 ? (double)pairs * search->bytes[d] / others : 0;
    }
    return sum;
}

/* Advance to the next tile whose sides divide those of the mesh. Returns false after the last. */
static bool next_tile(const struct search *search, int tile[MESH_DIMS_MAX]) {
    for (int d = 0; d < search->dim_count; d++) {
        do {
            tile[d]++;
        } while (tile[d] <= search->dims[d].size && search->dims[d].size % tile[d] != 0);
        if (tile[d] <= search->dims[d].size) {
            return true;
        }
        tile[d] = 1;
    }
    return false;
}

static int cells_of_tile(const struct search *search, const int tile[MESH_DIMS_MAX]) {
    int cells = 1;
    for (int d = 0; d < search->dim_count; d++) {
        cells *= tile[d];
    }
    return cells;
}

/* The `index`-th permutation of the dimensions; 0 is the identity. */
static void make_order(int dim_count, int index, int order[MESH_DIMS_MAX]) {
    bool used[MESH_DIMS_MAX] = {false};
    int orders = 1;
    for (int k = 2; k <= dim_count; k++) {
        orders *= k;
    }
    for (int k = 0; k < dim_count; k++) {
        orders /= dim_count - k;
        int skip = index / orders;
        index %= orders;
        int d = 0;
        while (used[d] || skip-- > 0) {
            d++;
        }
        used[d] = true;
        order[k] = d;
    }
}

static void begin(struct search *search) {
    ASSERT(search->dim_count >= 1 && search->dim_count <= MESH_DIMS_MAX && search->per_node >= 1);
    search->ranks = 1;
    for (int d = search->dim_count - 1; d >= 0; d--) {
        int size = search->dims[d].size;
        search->stride[d] = search->ranks;
        ASSERT(size >= 1 && size <= RANKS_MAX / search->ranks);
        search->ranks *= size;
    }
}

void mesh_node_aware(const struct mesh_dim *dims, int dim_count, const double *bytes, int per_node,
                     int *table) {
    static const int ORDERS[MESH_DIMS_MAX + 1] = {1, 1, 2, 6, ORDERS_MAX};
    struct search search = {
        .dims = dims, .dim_count = dim_count, .per_node = per_node, .bytes = bytes};
    begin(&search);
    struct numbering numbering = {.tile = {1, 1, 1, 1}};
    double lowest = -1;
    do {
        if (cells_of_tile(&search, numbering.tile) > per_node) {
            continue;
        }
        for (int index = 0; index < ORDERS[dim_count]; index++) {
            make_order(dim_count, index, numbering.order);
            number_cells(&search, &numbering);
            double apart = bytes_between_nodes(&search);
            if (lowest >= 0 && apart >= lowest * (1 - 1e-12)) {
                continue;
            }
            lowest = apart;
            for (int cell = 0; cell < search.ranks; cell++) {
                table[cell] = search.rank_of[cell];
            }
        }
    } while (next_tile(&search, numbering.tile));
}
