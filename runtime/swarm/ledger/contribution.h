/* contribution: how a member declares its contribution to a round: with one Merkle root over all
 * slices, so that a short proof shows the hash and norm of one slice.
 *
 *     leaf of a slice = H(MERKLE_DECLARED_SLICE, hash of the encoded slice, its norm)
 *     root            = Merkle root over the leaves of all slices (merkle_tree_root)
 *
 * The norm of a slice is the L2 norm of its decoded values, fp64, little-endian. */
#ifndef SKEP_SWARM_LEDGER_CONTRIBUTION_H
#define SKEP_SWARM_LEDGER_CONTRIBUTION_H

#include "base/check.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/merkle.h"

enum { CONTRIBUTION_PATH_MAX = 14 }; /* length of the longest path, for SWARM_SLICES_MAX leaves */

/* The declared norm of one slice, and the path from its leaf to the declared root. */
struct slice_proof {
    double norm;         /* L2 norm of the decoded values of the slice */
    uint32_t path_count; /* number of hashes of the path */
    /* [path_count]: the siblings on the way to the root, lowest level first */
    struct hash path[CONTRIBUTION_PATH_MAX];
};

/* A contribution as it is listed in the result of a sparse codec, beside its encoding. */
struct contribution_part {
    uint64_t weight; /* weight of the contribution in the mean */
    float clip;      /* factor in [0, 1] that limits the contribution's norm (norms.h) */
    struct slice_proof proof;
};

/* contribution_path_max: the length of the longest path in a tree over `slice_count` slices. */
uint32_t contribution_path_max(uint32_t slice_count);

/* contribution_leaf: the leaf of a slice with this hash and norm. */
struct hash contribution_leaf(const struct hash *hash, double norm);

/* contribution_prove: the proof for a slice, from a tree that merkle_list_build completed.
 * shapes  norms [slice_count]; nodes [merkle_list_node_count(slice_count)]
 * limits  slice < slice_count <= SWARM_SLICES_MAX */
void contribution_prove(const struct hash *nodes, const double *norms, uint32_t slice_count,
                        uint32_t slice, struct slice_proof *proof);

/* contribution_is_proven: whether the contribution with this root declares the hash, and the norm
 * of the proof, for the slice. All arguments may come from a peer; every value of them is safe. */
MUST_CHECK bool contribution_is_proven(const struct hash *root, uint32_t slice_count,
                                       uint32_t slice, const struct hash *hash,
                                       const struct slice_proof *proof);

#endif
