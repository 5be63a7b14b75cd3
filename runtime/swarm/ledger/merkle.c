#include "runtime/swarm/ledger/merkle.h"

#include <string.h>

#define LIST_LEAVES_MAX ((uint64_t)1 << 32)

_Static_assert(MERKLE_BYTES_MAX / LEAF_BYTES <= (uint64_t)1 << (MERKLE_DEPTH_MAX - 1), "depth");

static void start_leaf_hash(struct hash_state *state) {
    hash_begin(state);
    hash_add(state, &(uint8_t){MERKLE_LEAF}, 1);
}

static struct hash hash_children(const struct hash *left, const struct hash *right) {
    uint8_t bytes[1 + 2 * HASH_BYTES];
    bytes[0] = MERKLE_NODE;
    memcpy(bytes + 1, left->bytes, HASH_BYTES);
    memcpy(bytes + 1 + HASH_BYTES, right->bytes, HASH_BYTES);
    return hash_of(bytes, sizeof bytes);
}

uint64_t merkle_leaf_count(uint64_t bytes) {
    ASSERT(bytes <= MERKLE_BYTES_MAX);
    return (bytes + LEAF_BYTES - 1) / LEAF_BYTES;
}

size_t merkle_leaf_bytes(uint64_t bytes, uint64_t index) {
    ASSERT(index < merkle_leaf_count(bytes));
    uint64_t left = bytes - index * LEAF_BYTES;
    return left < LEAF_BYTES ? (size_t)left : LEAF_BYTES;
}

struct hash merkle_leaf_hash(const void *bytes, size_t count) {
    return merkle_leaf_hash_joined(bytes, count, bytes, 0);
}

struct hash merkle_leaf_hash_joined(const void *first, size_t first_count, const void *second,
                                    size_t second_count) {
    struct hash_state state;
    ASSERT(first_count <= LEAF_BYTES && second_count <= LEAF_BYTES - first_count);
    ASSERT(first_count + second_count >= 1);
    start_leaf_hash(&state);
    hash_add(&state, first, first_count);
    hash_add(&state, second, second_count);
    return hash_end(&state);
}

/* Pushes a leaf hash. The stack works like a binary counter: a carry out of a bit completes the
 * subtree of that size. */
void merkle_push_leaf(struct merkle_stack *stack, const struct hash *leaf) {
    struct hash node = *leaf;
    int level = 0;
    ASSERT(stack->leaf_count < MERKLE_BYTES_MAX / LEAF_BYTES);
    for (uint64_t count = stack->leaf_count; count & 1; count >>= 1) {
        node = hash_children(&stack->nodes[level++], &node);
    }
    stack->nodes[level] = node;
    stack->leaf_count++;
}

struct hash merkle_tree_top(const struct merkle_stack *stack) {
    struct hash top = {{0}};
    bool any = false;
    for (int level = 0; stack->leaf_count >> level != 0; level++) {
        if ((stack->leaf_count >> level & 1) == 0) {
            continue;
        }
        top = any ? hash_children(&stack->nodes[level], &top) : stack->nodes[level];
        any = true;
    }
    return top;
}

/* Hashes the top of a tree together with the byte or leaf count that determines the tree's
 * shape. */
static struct hash hash_root(enum merkle_kind kind, uint64_t size, const struct hash *top) {
    uint8_t packed[1 + 8 + HASH_BYTES];
    packed[0] = (uint8_t)kind;
    for (int i = 0; i < 8; i++) {
        packed[1 + i] = (uint8_t)(size >> (8 * i));
    }
    memcpy(packed + 9, top->bytes, HASH_BYTES);
    return hash_of(packed, sizeof packed);
}

struct hash merkle_root_from_top(uint64_t bytes, const struct hash *top) {
    return hash_root(MERKLE_ROOT, bytes, top);
}

void merkle_begin(struct merkle_stream *stream) {
    stream->stack.leaf_count = 0;
    stream->bytes = 0;
}

void merkle_add(struct merkle_stream *stream, const void *bytes, size_t count) {
    ASSERT(count <= MERKLE_BYTES_MAX - stream->bytes);
    while (count > 0) {
        size_t filled = stream->bytes % LEAF_BYTES;
        size_t room = LEAF_BYTES - filled;
        size_t piece = count < room ? count : room;
        if (filled == 0) {
            start_leaf_hash(&stream->leaf);
        }
        hash_add(&stream->leaf, bytes, piece);
        if (piece == room) {
            const struct hash leaf = hash_end(&stream->leaf);
            merkle_push_leaf(&stream->stack, &leaf);
        }
        stream->bytes += piece;
        bytes = (const uint8_t *)bytes + piece;
        count -= piece;
    }
}

struct hash merkle_end(struct merkle_stream *stream) {
    if (stream->bytes % LEAF_BYTES != 0) {
        const struct hash leaf = hash_end(&stream->leaf);
        merkle_push_leaf(&stream->stack, &leaf);
    }
    const struct hash top = merkle_tree_top(&stream->stack);
    return merkle_root_from_top(stream->bytes, &top);
}

/* Returns the root of the subtree over leaves [first, first + count). */
static struct hash subtree_root(const struct hash *leaves, uint64_t first, uint64_t count) {
    struct merkle_stack stack = {.leaf_count = 0};
    for (uint64_t i = first; i < first + count; i++) {
        merkle_push_leaf(&stack, &leaves[i]);
    }
    return merkle_tree_top(&stack);
}

struct hash merkle_root_from_leaves(uint64_t bytes, const struct hash *leaves) {
    const struct hash top = subtree_root(leaves, 0, merkle_leaf_count(bytes));
    return merkle_root_from_top(bytes, &top);
}

int merkle_path(uint64_t bytes, const struct hash *leaves, uint64_t index,
                struct hash path[static MERKLE_DEPTH_MAX]) {
    uint64_t count = merkle_leaf_count(bytes);
    int depth = 0;
    ASSERT(index < count);
    for (int level = 0; (count - 1) >> level != 0; level++) {
        uint64_t first = ((index >> level) ^ 1) << level;
        if (first < count) {
            uint64_t max = (uint64_t)1 << level;
            path[depth++] = subtree_root(leaves, first, count - first < max ? count - first : max);
        }
    }
    return depth;
}

/* Computes the top of a tree of `count` leaves from one leaf hash and its path. Returns false if
 * the path of this leaf has another length. */
static bool compute_top_from_path(uint64_t count, uint64_t index, const struct hash *path,
                                  int path_count, struct hash *node) {
    int used = 0;
    for (uint64_t last = count - 1; last > 0; last >>= 1, index >>= 1) {
        if (index == last && index % 2 == 0) {
            continue; /* The last node of an odd level has no sibling. */
        }
        if (used == path_count) {
            return false;
        }
        const struct hash *sibling = &path[used++];
        *node = index % 2 == 1 ? hash_children(sibling, node) : hash_children(node, sibling);
    }
    return used == path_count;
}

bool merkle_verify(const struct hash *root, uint64_t bytes, uint64_t index, const struct hash *leaf,
                   const struct hash *path, int path_count) {
    struct hash node = *leaf;
    if (path_count < 0 || bytes > MERKLE_BYTES_MAX || index >= merkle_leaf_count(bytes) ||
        !compute_top_from_path(merkle_leaf_count(bytes), index, path, path_count, &node)) {
        return false;
    }
    const struct hash found = merkle_root_from_top(bytes, &node);
    return hash_equal(&found, root);
}

/* ---- lists ---- */

uint64_t merkle_list_node_count(uint64_t count) {
    ASSERT(count > 0 && count <= LIST_LEAVES_MAX);
    uint64_t nodes = count;
    for (; count > 1; count = (count + 1) / 2) {
        nodes += (count + 1) / 2;
    }
    return nodes;
}

void merkle_list_build(struct hash *nodes, uint64_t count) {
    ASSERT(count > 0 && count <= LIST_LEAVES_MAX);
    for (; count > 1; nodes += count, count = (count + 1) / 2) {
        for (uint64_t i = 0; i < count; i += 2) {
            nodes[count + i / 2] =
                i + 1 < count ? hash_children(&nodes[i], &nodes[i + 1]) : nodes[i];
        }
    }
}

struct hash merkle_list_root_from_top(uint64_t count, const struct hash *top) {
    return hash_root(MERKLE_LIST_ROOT, count, top);
}

struct hash merkle_tree_root(const struct hash *nodes, uint64_t leaf_count) {
    return merkle_list_root_from_top(leaf_count, &nodes[merkle_list_node_count(leaf_count) - 1]);
}

int merkle_list_path(const struct hash *nodes, uint64_t count, uint64_t index,
                     struct hash path[static MERKLE_DEPTH_MAX]) {
    int depth = 0;
    ASSERT(index < count);
    for (; count > 1; nodes += count, count = (count + 1) / 2, index /= 2) {
        uint64_t sibling = index ^ 1;
        if (sibling < count) {
            path[depth++] = nodes[sibling];
        }
    }
    return depth;
}

bool merkle_list_verify(const struct hash *root, uint64_t count, uint64_t index,
                        const struct hash *leaf, const struct hash *path, int path_count) {
    struct hash node = *leaf;
    if (path_count < 0 || index >= count ||
        !compute_top_from_path(count, index, path, path_count, &node)) {
        return false;
    }
    const struct hash found = merkle_list_root_from_top(count, &node);
    return hash_equal(&found, root);
}
