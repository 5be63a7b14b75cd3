/* mesh: the ranks of a site as a grid of one to four named dimensions. */
#ifndef SKEP_SHARD_MESH_H
#define SKEP_SHARD_MESH_H

#include "base/fault.h"
#include "base/limits.h"
#include "base/region.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { MESH_DIMS_MAX = 4, MESH_NAME_BYTES = 16 };

struct mesh_dim {
    char name[MESH_NAME_BYTES]; /* "replicate", "shard" */
    int size;
};

/* Cells are in row-major order, the last dimension fastest. `table` maps cells to ranks. */
struct mesh {
    struct mesh_dim dims[MESH_DIMS_MAX];
    int dim_count;
    int ranks;        /* product of the sizes */
    const int *table; /* [ranks]: rank of each cell */
    const int *cell;  /* [ranks]: cell of each rank */
};

/* mesh_init: `table` NULL: rank = cell.
 * memory  in `region`
 * errors  STATUS_INPUT: no or too many dimensions, a size below 1, more than RANKS_MAX ranks, an
 *         empty or duplicate name, a table that is no permutation (with the rank that is duplicate,
 *         missing or out of range); *mesh untouched */
MUST_CHECK enum status mesh_init(const struct mesh_dim *dims, int dim_count, const int *table,
                                 struct region *region, struct mesh *mesh, struct fault *fault);

/* mesh_parse: "replicate=2,shard=4", or "replicate=2,shard=4:0,2,4,6,1,3,5,7" with a rank table.
 * memory  in `region`
 * errors  STATUS_INPUT: as mesh_init, anything else, a table of another length; *mesh untouched */
MUST_CHECK enum status mesh_parse(const char *text, struct region *region, struct mesh *mesh,
                                  struct fault *fault);

int mesh_dim_find(const struct mesh *mesh, const char *name); /* -1: none */

/* mesh_coordinate: the cell of a rank. mesh_rank: the rank of a cell.
 * limits  0 <= rank < ranks; each coordinate within its dimension */
void mesh_coordinate(const struct mesh *mesh, int rank, int coordinate[MESH_DIMS_MAX]);
int mesh_rank(const struct mesh *mesh, const int *coordinate);

/* mesh_group: the ranks that differ from `rank` only in the dimensions whose bit is set in `dims`,
 * row-major over those dimensions. Returns the number of ranks.
 * limits  no bit beyond dim_count
 * ranks   [product of the sizes of those dimensions]
 * index   set to the position of `rank` among them */
int mesh_group(const struct mesh *mesh, unsigned dims, int rank, int *ranks, int *index);

/* mesh_node_aware: choose a rank for each cell so that the fewest bytes come from other nodes.
 * Ranks are numbered node by node, `per_node` each (the last node may have fewer). `bytes` is what
 * a rank receives in a step along each dimension, equally from all other ranks of its group. Fills
 * table[ranks] for mesh_init with the best of all orders of the dimensions over all tiles that
 * divide the mesh; rank = cell if none is better.
 * limits  1 to 4 dimensions, at most RANKS_MAX ranks, per_node >= 1, bytes >= 0 */
void mesh_node_aware(const struct mesh_dim *dims, int dim_count, const double *bytes, int per_node,
                     int *table);

/* mesh_print: a table of the cells, the ranks and the groups of every dimension. */
void mesh_print(const struct mesh *mesh, struct text *text);

#endif
