/* merkle: hashes bytes as a tree: leaves of 1 MiB, each with its leaf hash, under one Merkle root,
 * so that a short path verifies one leaf against the root. The same tree over a list of leaf hashes
 * is at the end.
 *
 *     root = H(2, bytes of the whole, top)          count of leaves n = ceil(bytes / 1 MiB)
 *     top        o                                  inner node = H(1, left, right)
 *              /   \                                the last node of an odd level moves up as it is
 *            o       \
 *          /   \      \
 *        l0    l1     l2                            leaf hash = H(0, its bytes)
 *
 * H is BLAKE2b-256. Each kind begins with a different byte, so that an inner node cannot be
 * presented as a leaf. The root covers the length, which fixes the shape of the tree and the
 * length of each leaf. For 0 bytes, the top is all zeros. */
#ifndef SKEP_SWARM_LEDGER_MERKLE_H
#define SKEP_SWARM_LEDGER_MERKLE_H

#include "base/check.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LEAF_BYTES = 1 << 20, /* size of each leaf but the last */
    /* Number of levels of the largest tree: 2^58 parameters of 8 bytes have 2^41 leaves. */
    MERKLE_DEPTH_MAX = 42,
};
#define MERKLE_BYTES_MAX ((uint64_t)1 << 61)

/* The first byte that is hashed for each kind of node, so that no node can be presented as one of
 * another kind. */
enum merkle_kind {
    MERKLE_LEAF,           /* a leaf of bytes */
    MERKLE_NODE,           /* an inner node */
    MERKLE_ROOT,           /* the root over bytes */
    MERKLE_LIST_ROOT,      /* the root over a list of leaf hashes */
    MERKLE_DECLARED_SLICE, /* a leaf of a list: a slice of a contribution (contribution.h) */
    MERKLE_RESULT,         /* a leaf of a list: a row of a commit (entry.h) */
};

/* The state of computing a root from leaf hashes: the nodes of complete subtrees, one for each set
 * bit of leaf_count. */
struct merkle_stack {
    struct hash nodes[MERKLE_DEPTH_MAX]; /* roots of complete subtrees, largest first */
    uint64_t leaf_count;                 /* number of leaves pushed so far */
};

/* The state of computing a root from a stream of bytes. */
struct merkle_stream {
    struct hash_state leaf;    /* hash of the leaf that is not complete yet */
    struct merkle_stack stack; /* hashes of the complete leaves */
    uint64_t bytes;            /* Number of bytes added so far. */
};

/* merkle_leaf_count: the number of leaves of `bytes` bytes. merkle_leaf_bytes: the size of leaf
 * `index`. */
uint64_t merkle_leaf_count(uint64_t bytes);
size_t merkle_leaf_bytes(uint64_t bytes, uint64_t index);

/* merkle_leaf_hash: the hash of a leaf.
 * limits  1 <= count <= LEAF_BYTES */
struct hash merkle_leaf_hash(const void *bytes, size_t count);

/* merkle_leaf_hash_joined: the hash of a leaf whose bytes are in two buffers.
 * limits  1 <= the sum of the counts <= LEAF_BYTES */
struct hash merkle_leaf_hash_joined(const void *first, size_t first_count, const void *second,
                                    size_t second_count);

/* merkle_begin, merkle_add, merkle_end: compute the root of a stream of bytes that arrives in
 * pieces of any size. They allocate nothing. merkle_begin discards any earlier bytes.
 * limits  at most MERKLE_BYTES_MAX bytes in total */
void merkle_begin(struct merkle_stream *stream);
void merkle_add(struct merkle_stream *stream, const void *bytes, size_t count);
struct hash merkle_end(struct merkle_stream *stream);

/* merkle_push_leaf, merkle_tree_top: compute a root from leaf hashes: zero a stack, push the
 * leaf hashes in order, and pass the top to merkle_root_from_top. */
void merkle_push_leaf(struct merkle_stack *stack, const struct hash *leaf);
struct hash merkle_tree_top(const struct merkle_stack *stack);
struct hash merkle_root_from_top(uint64_t bytes, const struct hash *top);

/* merkle_root_from_leaves: the root of `bytes` bytes from the hashes of all leaves. */
struct hash merkle_root_from_leaves(uint64_t bytes, const struct hash *leaves);

/* merkle_path: the proof for leaf `index`: its sibling nodes on each level, lowest level first.
 * Returns their number.
 * shapes  leaves [merkle_leaf_count(bytes)]
 * limits  index < merkle_leaf_count(bytes)
 * notes   uses every leaf hash except that of `index` once */
int merkle_path(uint64_t bytes, const struct hash *leaves, uint64_t index,
                struct hash path[static MERKLE_DEPTH_MAX]);

/* merkle_verify: whether `root` has a leaf with this hash at `index` of `bytes`. All arguments but
 * `root` may come from a peer; every value of them is safe. */
MUST_CHECK bool merkle_verify(const struct hash *root, uint64_t bytes, uint64_t index,
                              const struct hash *leaf, const struct hash *path, int path_count);

/* A tree over a list of `count` leaf hashes, which the caller computes with its own kind of leaf:
 *
 *     root = H(3, count, top)            top, inner nodes and paths as above
 *
 * The whole tree is an array of nodes: the leaf hashes, then each level above them; a last node
 * without a sibling is in both levels. Paths are then read without hashing.
 *
 * merkle_list_node_count: the number of nodes of the array.
 * merkle_list_build: compute all nodes above the leaf hashes, nodes [0, count).
 * merkle_tree_root: the root of a built tree over `leaf_count` leaves.
 * merkle_list_path: the proof for leaf `index` of a built tree; returns the number of hashes.
 * merkle_list_verify: as merkle_verify, for a list.
 * limits  1 <= count <= 2^32 */
uint64_t merkle_list_node_count(uint64_t count);
void merkle_list_build(struct hash *nodes, uint64_t count);
struct hash merkle_tree_root(const struct hash *nodes, uint64_t leaf_count);
int merkle_list_path(const struct hash *nodes, uint64_t count, uint64_t index,
                     struct hash path[static MERKLE_DEPTH_MAX]);
MUST_CHECK bool merkle_list_verify(const struct hash *root, uint64_t count, uint64_t index,
                                   const struct hash *leaf, const struct hash *path,
                                   int path_count);

/* merkle_list_root_from_top: the root of a list whose leaf hashes were pushed to a stack. */
struct hash merkle_list_root_from_top(uint64_t count, const struct hash *top);

#endif
