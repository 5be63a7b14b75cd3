/* mesh: arranges the ranks of a site in a grid of one to four named dimensions. */
#ifndef SKEP_SHARD_MESH_H
#define SKEP_SHARD_MESH_H

#include "base/fault.h"
#include "base/limits.h"
#include "base/region.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    MESH_DIMS_MAX = 4,    /* maximum number of dimensions */
    MESH_NAME_BYTES = 16, /* size of the name of a dimension, with its NUL */
};

struct mesh_dim {
    char name[MESH_NAME_BYTES]; /* "replicate", "shard" */
    int size;                   /* number of cells along the dimension */
};

/* Cells are numbered in row-major order: the last dimension varies fastest. */
struct mesh {
    struct mesh_dim dims[MESH_DIMS_MAX];
    int dim_count;
    int ranks;        /* number of ranks: the product of the dimension sizes */
    const int *table; /* [ranks]: rank of each cell */
    const int *cell;  /* [ranks]: cell of each rank */
};

/* mesh_init: make a mesh from its dimensions and its rank table. If `table` is NULL, the rank
 * equals the cell.
 * memory  in `region`
 * errors  STATUS_INPUT: no dimensions or too many, a size below 1, more than RANKS_MAX ranks, an
 *         empty or duplicate name, a table that is not a permutation (the fault gives the
 *         duplicate, missing or out-of-range rank); *mesh untouched */
MUST_CHECK enum status mesh_init(const struct mesh_dim *dims, int dim_count, const int *table,
                                 struct region *region, struct mesh *mesh, struct fault *fault);

/* mesh_parse: parse a text such as "replicate=2,shard=4", or with a rank table
 * "replicate=2,shard=4:0,2,4,6,1,3,5,7".
 * memory  in `region`
 * errors  STATUS_INPUT: as mesh_init, a syntax error, or a table of the wrong length; *mesh
 *         untouched */
MUST_CHECK enum status mesh_parse(const char *text, struct region *region, struct mesh *mesh,
                                  struct fault *fault);

int mesh_dim_find(const struct mesh *mesh, const char *name); /* -1: none */

/* mesh_get_coordinates: compute the coordinates of a rank. mesh_rank_at: return the rank at a
 * coordinate.
 * limits  0 <= rank < ranks; each coordinate within its dimension */
void mesh_get_coordinates(const struct mesh *mesh, int rank, int coordinate[MESH_DIMS_MAX]);
int mesh_rank_at(const struct mesh *mesh, const int *coordinate);

/* mesh_list_group: list the ranks whose coordinates equal those of `rank` except in the dimensions
 * whose bit is set in `dims`, in row-major order. Returns the number of ranks.
 * limits  no bit beyond dim_count
 * ranks   [product of the sizes of those dimensions]
 * index   set to the position of `rank` among them */
int mesh_list_group(const struct mesh *mesh, unsigned dims, int rank, int *ranks, int *index);

/* mesh_place_ranks: choose a rank for each cell so that the ranks receive the fewest bytes from
 * other nodes. Ranks are numbered node by node with `per_node` ranks each (the last node may have
 * fewer). traffic_bytes[d] is the number of bytes that a rank receives in a step along dimension d,
 * in equal parts from the other ranks of its group. Fills table[ranks] for mesh_init with the best
 * of all dimension orders and all tiles that divide the mesh; if none is better, the rank equals
 * the cell.
 * limits  1 to 4 dimensions, at most RANKS_MAX ranks, per_node >= 1, traffic_bytes >= 0 */
void mesh_place_ranks(const struct mesh_dim *dims, int dim_count, const double *traffic_bytes,
                      int per_node, int *table);

/* mesh_print: append a table of the cells and their ranks, and the groups of every dimension. */
void mesh_print(const struct mesh *mesh, struct text *text);

#endif
