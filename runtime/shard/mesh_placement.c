/* mesh_placement: assigns ranks to the cells of a mesh so that ranks receive the fewest bytes
 * from other nodes. */
#include "runtime/shard/mesh.h"

enum { ORDERS_MAX = 24 /* maximum number of orders of the dimensions: the permutations of four */ };

/* An order in which cells are numbered: tile by tile, and cell by cell within a tile. `order`
 * lists the dimensions from slowest to fastest. */
struct numbering {
    int order[MESH_DIMS_MAX]; /* dimensions, the slowest varying first */
    int tile[MESH_DIMS_MAX];  /* size of a tile along each dimension */
};

struct placement_search {
    const struct mesh_dim *dims;
    /* number of dimensions, of all ranks, and of ranks on each node */
    int dim_count, ranks, per_node;
    const double *traffic_bytes; /* bytes that a rank receives along each dimension in a step */
    /* distance, in cells, between neighbouring indices of each dimension */
    int stride[MESH_DIMS_MAX];
    int rank_of[RANKS_MAX];       /* rank of each cell in the current numbering */
    int ranks_on_node[RANKS_MAX]; /* scratch: number of ranks of a group on each node */
};

static void assign_ranks_to_cells(struct placement_search *search,
                                  const struct numbering *numbering) {
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

/* Returns the number of ordered pairs of ranks on different nodes, in the group along `dim` that
 * begins at `cell`. */
static int count_pairs_on_different_nodes(struct placement_search *search, int cell, int dim) {
    int size = search->dims[dim].size;
    int together = 0;
    for (int i = 0; i < size; i++) {
        int node = search->rank_of[cell + i * search->stride[dim]] / search->per_node;
        /* together becomes the sum of n^2 over nodes with n ranks: n^2 is the sum of the first n
         * odd numbers */
        together += 2 * search->ranks_on_node[node]++ + 1;
    }
    for (int i = 0; i < size; i++) {
        search->ranks_on_node[search->rank_of[cell + i * search->stride[dim]] / search->per_node] =
            0;
    }
    return size * size - together;
}

/* Returns the bytes that all ranks together receive from other nodes in a step. A rank receives the
 * traffic of a dimension in equal parts from the other ranks of its group. */
static double bytes_between_nodes(struct placement_search *search) {
    double sum = 0;
    for (int d = 0; d < search->dim_count; d++) {
        int64_t pairs = 0;
        for (int cell = 0; cell < search->ranks; cell++) {
            bool is_first = cell / search->stride[d] % search->dims[d].size == 0;
            pairs += is_first ? count_pairs_on_different_nodes(search, cell, d) : 0;
        }
        int others = search->dims[d].size - 1;
        sum += others > 0 ? (double)pairs * search->traffic_bytes[d] / others : 0;
    }
    return sum;
}

/* Advance to the next tile whose sides divide those of the mesh. Returns false after the last
 * tile. */
static bool next_tile(const struct placement_search *search, int tile[MESH_DIMS_MAX]) {
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

static int tile_cell_count(const struct placement_search *search, const int tile[MESH_DIMS_MAX]) {
    int cells = 1;
    for (int d = 0; d < search->dim_count; d++) {
        cells *= tile[d];
    }
    return cells;
}

/* Sets `order` to the `index`-th permutation of the dimensions; 0 is the identity. */
static void make_permutation(int dim_count, int index, int order[MESH_DIMS_MAX]) {
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

static void compute_strides(struct placement_search *search) {
    ASSERT(search->dim_count >= 1 && search->dim_count <= MESH_DIMS_MAX && search->per_node >= 1);
    search->ranks = 1;
    for (int d = search->dim_count - 1; d >= 0; d--) {
        int size = search->dims[d].size;
        search->stride[d] = search->ranks;
        ASSERT(size >= 1 && size <= RANKS_MAX / search->ranks);
        search->ranks *= size;
    }
}

void mesh_place_ranks(const struct mesh_dim *dims, int dim_count, const double *traffic_bytes,
                      int per_node, int *table) {
    static const int ORDERS[MESH_DIMS_MAX + 1] = {1, 1, 2, 6, ORDERS_MAX};
    struct placement_search search = {
        .dims = dims, .dim_count = dim_count, .per_node = per_node, .traffic_bytes = traffic_bytes};
    compute_strides(&search);
    struct numbering numbering = {.tile = {1, 1, 1, 1}};
    double lowest = -1;
    do {
        if (tile_cell_count(&search, numbering.tile) > per_node) {
            continue;
        }
        for (int index = 0; index < ORDERS[dim_count]; index++) {
            make_permutation(dim_count, index, numbering.order);
            assign_ranks_to_cells(&search, &numbering);
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
