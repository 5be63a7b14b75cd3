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

/* Cells in row-major order, the last dimension fastest; `table` says which rank sits in each. */
struct mesh {
    struct mesh_dim dims[MESH_DIMS_MAX];
    int dim_count;
    int ranks;        /* product of the sizes */
    const int *table; /* [ranks]: rank of each cell */
    const int *cell;  /* [ranks]: cell of each rank */
};

/* mesh_init: `table` NULL: rank = cell.
 * memory  in `region`
 * errors  STATUS_INPUT: no or too many dimensions, a size below 1, more than RANKS_MAX ranks, a
 *         name twice or empty, a table that is no permutation (naming the rank that is twice,
 *         missing or beyond); *mesh untouched */
MUST_CHECK enum status mesh_init(const struct mesh_dim *dims, int dim_count, const int *table,
                                 struct region *region, struct mesh *mesh, struct fault *fault);

/* mesh_parse: "replicate=2,shard=4", or "replicate=2,shard=4:0,2,4,6,1,3,5,7" with a rank table.
 * memory  in `region`
 * errors  STATUS_INPUT: as mesh_init, anything else, a table of another length; *mesh untouched */
MUST_CHECK enum status mesh_parse(const char *text, struct region *region, struct mesh *mesh,
                                  struct fault *fault);

int mesh_dim_find(const struct mesh *mesh, const char *name); /* -1: none */

/* mesh_coordinate, mesh_rank: where a rank sits, and who sits there.
 * limits  0 <= rank < ranks; each coordinate within its dimension */
void mesh_coordinate(const struct mesh *mesh, int rank, int coordinate[MESH_DIMS_MAX]);
int mesh_rank(const struct mesh *mesh, const int *coordinate);

/* mesh_group: the ranks that differ from `rank` only in the dimensions whose bit is set in `dims`,
 * row-major over those: one dimension's group, or a projection onto several.
 * limits  no bit beyond dim_count
 * ranks   [product of those sizes]; gives how many, and *index, own place among them */
int mesh_group(const struct mesh *mesh, unsigned dims, int rank, int *ranks, int *index);

/* mesh_node_aware: put the busiest dimensions inside a node. Ranks are numbered node by node,
 * `per_node` each (the last may have fewer). `bytes` is what a rank receives a step along each
 * dimension, from all others of its group alike. Fills table[ranks] for mesh_init so that the least
 * bytes come from other nodes, among all orders of the dimensions over all tiles that divide the
 * mesh; rank = cell where nothing is better.
 * limits  1 to 4 dimensions, at most RANKS_MAX ranks, per_node >= 1, bytes >= 0 */
void mesh_node_aware(const struct mesh_dim *dims, int dim_count, const double *bytes, int per_node,
                     int *table);

/* mesh_print: cells, ranks, and every dimension's groups, as a table. */
void mesh_print(const struct mesh *mesh, struct text *text);

#endif
