#include "runtime/swarm/ledger/contribution.h"

#include <string.h>

_Static_assert(SWARM_SLICES_MAX <= 1 << CONTRIBUTION_PATH_MAX, "a path has room for every tree");

uint32_t contribution_path_max(uint32_t slice_count) {
    uint32_t length = 0;
    ASSERT(slice_count > 0 && slice_count <= SWARM_SLICES_MAX);
    while ((uint32_t)1 << length < slice_count) {
        length++;
    }
    return length;
}

struct hash contribution_leaf(const struct hash *hash, double norm) {
    uint8_t bytes[1 + HASH_BYTES + sizeof(double)];
    uint64_t bits;
    memcpy(&bits, &norm, sizeof bits);
    bytes[0] = MERKLE_DECLARED_SLICE;
    memcpy(bytes + 1, hash->bytes, HASH_BYTES);
    for (size_t i = 0; i < sizeof bits; i++) {
        bytes[1 + HASH_BYTES + i] = (uint8_t)(bits >> (8 * i));
    }
    return hash_of(bytes, sizeof bytes);
}

void contribution_prove(const struct hash *nodes, const double *norms, uint32_t slice_count,
                        uint32_t slice, struct slice_proof *proof) {
    struct hash path[MERKLE_DEPTH_MAX];
    ASSERT(slice < slice_count && slice_count <= SWARM_SLICES_MAX);
    const int count = merkle_list_path(nodes, slice_count, slice, path);
    ASSERT(count <= CONTRIBUTION_PATH_MAX);
    *proof = (struct slice_proof){.norm = norms[slice], .path_count = (uint32_t)count};
    memcpy(proof->path, path, (size_t)count * sizeof path[0]);
}

bool contribution_is_proven(const struct hash *root, uint32_t slice_count, uint32_t slice,
                            const struct hash *hash, const struct slice_proof *proof) {
    const struct hash leaf = contribution_leaf(hash, proof->norm);
    return proof->path_count <= CONTRIBUTION_PATH_MAX &&
           merkle_list_verify(root, slice_count, slice, &leaf, proof->path, (int)proof->path_count);
}
