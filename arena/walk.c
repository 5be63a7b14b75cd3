#include "arena/walk.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

/* After this many rounds without a lower peak, the walk restarts from the best sequence. */
enum { ROUNDS_BEFORE_RESTART = 64 };

struct walk { /* a random walk over the sequences in which items are placed */
    const struct cluster *cluster;
    int *sequence;             /* [cluster->count] the current sequence, which each round changes */
    int *best_sequence;        /* [cluster->count] the sequence that gave the lowest peak */
    struct placed_item *shelf; /* [cluster->count] scratch: the items placed so far */
    struct layout current;     /* layout that placing items by `sequence` gives */
    uint64_t random_index;     /* next index in the random stream */
    /* rounds until a restart; at 0 the walk restarts from the best sequence */
    int rounds_left;
};

struct item_end {
    uint64_t offset; /* end offset of the item in bytes */
    int item;        /* index of the item in the cluster */
};

static int compare_item_ends(const void *left, const void *right) {
    const struct item_end *a = left, *b = right;
    if (a->offset != b->offset) {
        return a->offset < b->offset ? -1 : 1;
    }
    return a->item < b->item ? -1 : a->item > b->item;
}

/* Fill `sequence` with the items sorted by offset. Placing the items in this order gives the same
 * layout or one with a lower peak. */
static void sequence_of_layout(const struct cluster *cluster, const struct layout *layout,
                               struct region *region, int *sequence) {
    size_t count = (size_t)cluster->count;
    struct item_end *heights = region_alloc(region, count, sizeof *heights);
    for (int i = 0; i < cluster->count; i++) {
        heights[i] = (struct item_end){layout->offset[i], i};
    }
    qsort(heights, count, sizeof *heights, compare_item_ends);
    for (int i = 0; i < cluster->count; i++) {
        sequence[i] = heights[i].item;
    }
}

struct walk *walk_init(const struct cluster *cluster, const struct layout *layout,
                       struct region *region) {
    size_t count = (size_t)cluster->count;
    struct walk *walk = region_alloc(region, 1, sizeof *walk);
    *walk = (struct walk){
        .cluster = cluster,
        .sequence = region_alloc(region, count, sizeof(int)),
        .best_sequence = region_alloc(region, count, sizeof(int)),
        .shelf = region_alloc(region, count, sizeof(struct placed_item)),
        .current = {.offset = region_alloc(region, count, sizeof(uint64_t))},
    };
    sequence_of_layout(cluster, layout, region, walk->best_sequence);
    return walk;
}

static uint64_t random_below(struct walk *walk, uint64_t below) {
    ASSERT(below > 0);
    uint64_t value = (uint64_t)(random_uniform(0, walk->random_index++) * (double)below);
    return value < below ? value : below - 1;
}

/* Move every item that ends above the target to a random earlier position. */
static void move_high_items_forward(struct walk *walk, uint64_t target_bytes) {
    int *sequence = walk->sequence;
    for (int i = 1; i < walk->cluster->count; i++) {
        int item = sequence[i];
        if (walk->current.offset[item] + walk->cluster->bytes[item] <= target_bytes) {
            continue;
        }
        int to = (int)random_below(walk, (uint64_t)i);
        ASSERT(to >= 0 && to < i);
        memmove(&sequence[to + 1], &sequence[to], (size_t)(i - to) * sizeof *sequence);
        sequence[to] = item;
    }
}

static void layout_copy(int count, const struct layout *from, struct layout *to) {
    ASSERT(from->offset != to->offset);
    memcpy(to->offset, from->offset, (size_t)count * sizeof *to->offset);
    to->peak_bytes = from->peak_bytes;
}

void walk_run_round(struct walk *walk, uint64_t target_bytes, struct effort *effort,
                    struct layout *layout) {
    size_t sequence_bytes = (size_t)walk->cluster->count * sizeof *walk->sequence;
    if (walk->rounds_left == 0) {
        memcpy(walk->sequence, walk->best_sequence, sequence_bytes);
        layout_copy(walk->cluster->count, layout, &walk->current);
        walk->rounds_left = ROUNDS_BEFORE_RESTART;
    }
    ASSERT(walk->rounds_left > 0 && walk->rounds_left <= ROUNDS_BEFORE_RESTART);
    walk->rounds_left--;
    move_high_items_forward(walk, target_bytes);
    walk->current.peak_bytes = UINT64_MAX;
    bool placed = greedy_place_items(walk->cluster, walk->sequence, FIT_FIRST, walk->shelf, effort,
                                     &walk->current);
    ASSERT(placed && walk->current.peak_bytes >= walk->cluster->bound_bytes);
    if (walk->current.peak_bytes < layout->peak_bytes) {
        layout_copy(walk->cluster->count, &walk->current, layout);
        layout->heuristic = "random walk over orders of placement";
        memcpy(walk->best_sequence, walk->sequence, sequence_bytes);
        walk->rounds_left = ROUNDS_BEFORE_RESTART;
    }
}
