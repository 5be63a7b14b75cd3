/* replica_declare: computes the declaration of a member's encoded contribution, and the proofs
 * that it sends with the slices. */
#include "base/bytes.h"
#include "runtime/swarm/replica/replica_state.h"

#include <math.h>

/* Returns the offset of the norms in `declared`. The tree and the norms share one extent, with the
 * norms after the tree. */
static uint64_t declared_norms_offset(uint32_t slice_count) {
    return align_up(merkle_list_node_count(slice_count) * sizeof(struct hash), sizeof(double));
}

uint64_t replica_declared_bytes(uint32_t slice_count) {
    return declared_norms_offset(slice_count) + slice_count * sizeof(double);
}

void replica_bind_declared(struct replica *replica, void *memory) {
    replica->declared_nodes = memory;
    replica->declared_norms =
        (double *)((char *)memory + declared_norms_offset(replica->shape.slices.count));
}

/* Stores the hash of a slice where its leaf will be, and its energy where its norm will be. */
static void measure_slice(void *context, int64_t item, int thread) {
    (void)thread;
    struct replica *replica = context;
    const uint32_t slice = (uint32_t)item;
    const uint8_t *bytes = replica_own_contribution(replica, slice);
    replica->declared_nodes[slice] =
        hash_of(bytes, slices_range(&replica->shape.slices, slice).bytes);
    replica->declared_norms[slice] = replica_slice_energy(replica, slice, bytes);
}

struct hash replica_declare_contribution(struct replica *replica, double *norm) {
    const uint32_t count = replica->shape.slices.count;
    double energy = 0;
    pool_run(replica->compute->pool, measure_slice, replica, count);
    for (uint32_t slice = 0; slice < count; slice++) {
        struct hash *leaf = &replica->declared_nodes[slice];
        energy += replica->declared_norms[slice];
        replica->declared_norms[slice] = sqrt(replica->declared_norms[slice]);
        *leaf = contribution_leaf(leaf, replica->declared_norms[slice]);
    }
    merkle_list_build(replica->declared_nodes, count);
    *norm = sqrt(energy);
    return merkle_tree_root(replica->declared_nodes, count);
}

void replica_prove_slice(const struct replica *replica, uint32_t slice, struct slice_proof *proof) {
    contribution_prove(replica->declared_nodes, replica->declared_norms,
                       replica->shape.slices.count, slice, proof);
}
