#include "arena/search.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

/* After this many rounds without a lower peak the search starts again from the best order. */
enum { ROUNDS_BEFORE_RETURN = 64 };

/* A walk through orders of placement. */
struct walk {
    const struct cluster *cluster;
    uint64_t target_bytes;
    int *sequence;         /* the order that is being changed */
    struct placed *shelf;  /* (cluster count) */
    struct layout current; /* made from `sequence` */
    uint64_t draw_index;   /* position in the random stream */
};

struct height {
    uint64_t offset;
    int item;
};

static int compare_heights(const void *left, const void *right) {
    const struct height *a = left, *b = right;
    if (a->offset != b->offset) {
        return a->offset < b->offset ? -1 : 1;
    }
    return a->item < b->item ? -1 : a->item > b->item;
}

/* Placing a layout's items from the bottom up gives that layout again, or a lower one. */
static void sequence_of_layout(const struct cluster *cluster, const struct layout *layout,
                               struct region *region, int *sequence) {
    size_t count = (size_t)cluster->count;
    struct height *heights = region_alloc(region, count, sizeof *heights);
    for (int i = 0; i < cluster->count; i++) {
        heights[i] = (struct height){layout->offset[i], i};
    }
    qsort(heights, count, sizeof *heights, compare_heights);
    for (int i = 0; i < cluster->count; i++) {
        sequence[i] = heights[i].item;
    }
}

static uint64_t draw(struct walk *walk, uint64_t below) {
    uint64_t value = (uint64_t)(random_uniform(0, walk->draw_index++) * (double)below);
    return value < below ? value : below - 1;
}

static bool sticks_out(const struct walk *walk, int item) {
    return walk->current.offset[item] + walk->cluster->bytes[item] > walk->target_bytes;
}

/* Move every item that sticks out to a place drawn from the part of the order before it. */
static void promote(struct walk *walk) {
    int *sequence = walk->sequence;
    for (int i = 1; i < walk->cluster->count; i++) {
        int item = sequence[i];
        if (!sticks_out(walk, item)) {
            continue;
        }
        int to = (int)draw(walk, (uint64_t)i);
        memmove(&sequence[to + 1], &sequence[to], (size_t)(i - to) * sizeof *sequence);
        sequence[to] = item;
    }
}

static void layout_copy(int count, const struct layout *from, struct layout *to) {
    memcpy(to->offset, from->offset, (size_t)count * sizeof *to->offset);
    to->peak_bytes = from->peak_bytes;
}

void search_improve(const struct cluster *cluster, uint64_t target_bytes, struct effort *effort,
                    struct region *region, struct layout *layout) {
    if (layout->peak_bytes <= target_bytes || effort_spent(effort)) {
        return;
    }
    size_t count = (size_t)cluster->count;
    struct walk walk = {
        .cluster = cluster,
        .target_bytes = target_bytes,
        .sequence = region_alloc(region, count, sizeof(int)),
        .shelf = region_alloc(region, count, sizeof(struct placed)),
        .current = {.offset = region_alloc(region, count, sizeof(uint64_t))},
    };
    int *best_sequence = region_alloc(region, count, sizeof *best_sequence);
    sequence_of_layout(cluster, layout, region, best_sequence);
    int rounds_left = 0;
    while (layout->peak_bytes > target_bytes && !effort_spent(effort)) {
        if (rounds_left == 0) {
            memcpy(walk.sequence, best_sequence, count * sizeof *best_sequence);
            layout_copy(cluster->count, layout, &walk.current);
            rounds_left = ROUNDS_BEFORE_RETURN;
        }
        rounds_left--;
        promote(&walk);
        walk.current.peak_bytes = UINT64_MAX;
        bool placed =
            greedy_place(cluster, walk.sequence, FIT_FIRST, walk.shelf, effort, &walk.current);
        ASSERT(placed);
        if (walk.current.peak_bytes < layout->peak_bytes) {
            layout_copy(cluster->count, &walk.current, layout);
            layout->heuristic = "search";
            memcpy(best_sequence, walk.sequence, count * sizeof *best_sequence);
            rounds_left = ROUNDS_BEFORE_RETURN;
        }
    }
}
