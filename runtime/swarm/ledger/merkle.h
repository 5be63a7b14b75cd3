/* merkle: names for bytes: leaves of 1 MiB, each named by its hash, under one root, so that any
 * leaf can be checked alone against the root with a short path.
 *
 *     root = H(2, bytes of the whole, top)          count of leaves n = ceil(bytes / 1 MiB)
 *     top        o                                  inner node = H(1, left, right)
 *              /   \                                the last node of an odd level moves up as it is
 *            o       \
 *          /   \      \
 *        l0    l1     l2                            leaf name = H(0, its bytes)
 *
 * H is BLAKE2b-256 and each kind begins with a byte of its own, so no inner node passes for a leaf;
 * the root holds the length, so no tree passes for one of another shape and no leaf is longer or
 * shorter than its place. The root of nothing has a top of zeros. */
#ifndef SKEP_SWARM_LEDGER_MERKLE_H
#define SKEP_SWARM_LEDGER_MERKLE_H

#include "base/check.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LEAF_BYTES = 1 << 20,
    MERKLE_DEPTH_MAX =
        42, /* HIDDEN_MAX's bound of 2^58 parameters, 8 bytes each, are 2^41 leaves */
};
#define MERKLE_BYTES_MAX ((uint64_t)1 << 61)

/* Names of leaves on their way to a root: nodes of complete subtrees, one per bit of the count. */
struct merkle_stack {
    struct hash nodes[MERKLE_DEPTH_MAX];
    uint64_t leaf_count;
};

/* Bytes on their way to a root, cut into leaves. */
struct merkle_stream {
    struct hash_state leaf;
    struct merkle_stack stack;
    uint64_t bytes; /* so far */
};

/* merkle_leaf_count: leaves of `bytes`. merkle_leaf_bytes: how long leaf `index` of them is. */
uint64_t merkle_leaf_count(uint64_t bytes);
size_t merkle_leaf_bytes(uint64_t bytes, uint64_t index);

/* merkle_leaf: a leaf's name.
 * limits  1 <= count <= LEAF_BYTES */
struct hash merkle_leaf(const void *bytes, size_t count);

/* merkle_leaf_joined: the name of a leaf whose bytes lie in two places.
 * limits  1 <= the counts together <= LEAF_BYTES */
struct hash merkle_leaf_joined(const void *first, size_t first_count, const void *second,
                               size_t second_count);

/* merkle_begin, merkle_add, merkle_end: the root of a stream, in pieces of any size. Nothing is
 * allocated; a stream begun anew forgets the old one.
 * limits  MERKLE_BYTES_MAX together */
void merkle_begin(struct merkle_stream *stream);
void merkle_add(struct merkle_stream *stream, const void *bytes, size_t count);
struct hash merkle_end(struct merkle_stream *stream);

/* merkle_push, merkle_top: the same for leaves that have their names already: zero a stack, push
 * the names in order, and give the top to merkle_root. */
void merkle_push(struct merkle_stack *stack, const struct hash *leaf);
struct hash merkle_top(const struct merkle_stack *stack);
struct hash merkle_root(uint64_t bytes, const struct hash *top);

/* merkle_root_of: the root over the names of all leaves of `bytes`. */
struct hash merkle_root_of(uint64_t bytes, const struct hash *leaves);

/* merkle_path: what proves leaf `index`: the nodes beside its way up, lowest first. Gives their
 * number back.
 * shapes  leaves [merkle_leaf_count(bytes)]
 * limits  index < merkle_leaf_count(bytes)
 * notes   hashes each name of the tree but its own once */
int merkle_path(uint64_t bytes, const struct hash *leaves, uint64_t index,
                struct hash path[static MERKLE_DEPTH_MAX]);

/* merkle_verify: whether `root` has the leaf of this name at `index` of `bytes`. All arguments may
 * come from a peer, but `root`; any value of them is looked at without harm. */
MUST_CHECK bool merkle_verify(const struct hash *root, uint64_t bytes, uint64_t index,
                              const struct hash *leaf, const struct hash *path, int path_count);

#endif
