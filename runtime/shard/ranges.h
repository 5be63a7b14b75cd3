/* ranges: any layout of a tensor over a mesh to any other, as copies of ranges. For layouts that
 * cut tensors by their dimensions, as other programs do. The program itself cuts flat units, whose
 * parts unit_parts lists, and saves whole tensors, so that no step of it needs these copies. */
#ifndef SKEP_SHARD_RANGES_H
#define SKEP_SHARD_RANGES_H

#include "base/region.h"

#include <stdint.h>

/* How one dimension of a tensor lies over one dimension of a mesh. */
enum placement_kind {
    PLACEMENT_REPLICATE, /* whole on every rank */
    PLACEMENT_SHARD,     /* dimension `dim` in chunks of ceil(n / ranks); the last may be short or
                            empty */
};
struct placement {
    enum placement_kind kind;
    int dim;
};

/* A tensor over a mesh: one placement for each dimension of the mesh, applied in order. */
struct tensor_layout {
    int rank;
    int64_t shape[4];
    int mesh_dims;
    int mesh_sizes[4];
    struct placement placements[4];
};

/* Elements [from, from + count) of the source rank's local buffer become [to, to + count) of the
 * target rank's. */
struct range_copy {
    int source, target; /* cells of either mesh, row-major */
    int64_t from, to, count;
};

/* ranges_local_elements: what cell `cell` holds; 0 where chunks run out.
 * limits  1 to 4 dimensions, 0 to 4 of the mesh, sizes above 0 */
int64_t ranges_local_elements(const struct tensor_layout *layout, int cell);

/* ranges_between: the copies that fill cell `target` of `to` from cells of `from`: each element
 * once, merged where they touch, in the target's order; among replicas the nearest cell is the
 * source: the one with the coordinates of cell `target` modulo the source's cells. Gives how many.
 * memory  *copies in `region`
 * limits  the same shape in both; a mesh may be another */
int ranges_between(const struct tensor_layout *from, const struct tensor_layout *to, int target,
                   struct region *region, struct range_copy **copies);

#endif
