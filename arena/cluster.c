#include "arena/cluster.h"

#include <stdlib.h>

static const uint64_t TOTAL_BYTES_MAX = (uint64_t)1 << 62;

/* The step at which an item's life begins or ends. */
struct event {
    uint32_t step;  /* program step */
    bool is_birth;  /* true: a life begins; false: a life ends */
    uint64_t bytes; /* size of the item in bytes */
};

/* At equal steps, sort deaths before births: lives are half-open, so bytes that are freed at a
 * step can be reused at the same step. */
static int compare_events(const void *left, const void *right) {
    const struct event *a = left, *b = right;
    if (a->step != b->step) {
        return a->step < b->step ? -1 : 1;
    }
    return (int)a->is_birth - (int)b->is_birth;
}

static struct cluster cluster_alloc(int capacity, struct region *region) {
    ASSERT(capacity >= 0);
    size_t count = (size_t)capacity;
    return (struct cluster){
        .bytes = region_alloc(region, count, sizeof(uint64_t)),
        .align = region_alloc(region, count, sizeof(uint64_t)),
        .first = region_alloc(region, count, sizeof(uint32_t)),
        .end = region_alloc(region, count, sizeof(uint32_t)),
        .source = region_alloc(region, count, sizeof(int)),
    };
}

static void cluster_copy_item(struct cluster *to, const struct cluster *from, int item) {
    ASSERT(item >= 0 && item < from->count);
    to->bytes[to->count] = from->bytes[item];
    to->align[to->count] = from->align[item];
    to->first[to->count] = from->first[item];
    to->end[to->count] = from->end[item];
    to->source[to->count] = from->source[item];
    to->count++;
}

static void cluster_compute_bound(struct cluster *cluster, struct region *region) {
    size_t event_count = (size_t)cluster->count * 2;
    struct event *events = region_alloc(region, event_count, sizeof *events);
    for (int i = 0; i < cluster->count; i++) {
        events[2 * i] = (struct event){cluster->first[i], true, cluster->bytes[i]};
        events[2 * i + 1] = (struct event){cluster->end[i], false, cluster->bytes[i]};
    }
    qsort(events, event_count, sizeof *events, compare_events);
    uint64_t live_bytes = cluster->base_bytes;
    cluster->bound_bytes = live_bytes;
    cluster->bound_step = event_count > 0 ? events[0].step : 0;
    for (size_t i = 0; i < event_count; i++) {
        live_bytes += events[i].is_birth ? events[i].bytes : -events[i].bytes;
        if (live_bytes > cluster->bound_bytes) {
            cluster->bound_bytes = live_bytes;
            cluster->bound_step = events[i].step;
        }
    }
    ASSERT(live_bytes == cluster->base_bytes); /* every item has died by the last event */
    ASSERT(cluster->count == 0 || cluster->bound_bytes > cluster->base_bytes);
}

struct cluster cluster_of_space(const struct arena_problem *problem, enum space space,
                                struct region *region) {
    int count = 0;
    for (int i = 0; i < problem->extent_count; i++) {
        count += problem->extents[i].space == space;
    }
    struct cluster cluster = cluster_alloc(count, region);
    uint64_t total_bytes = 0;
    for (int i = 0; i < problem->extent_count; i++) {
        const struct extent *extent = &problem->extents[i];
        ASSERT(extent->bytes > 0 && extent->bytes < TOTAL_BYTES_MAX);
        ASSERT(extent->first < extent->last && extent->space < SPACE_COUNT);
        ASSERT(extent->align > 0 && (extent->align & (extent->align - 1)) == 0);
        if (extent->space != space) {
            continue;
        }
        /* The total includes `align`, because alignment may waste up to align - 1 bytes under each
         * item. */
        ASSERT(extent->align < TOTAL_BYTES_MAX);
        total_bytes += extent->bytes + extent->align;
        ASSERT(total_bytes < TOTAL_BYTES_MAX);
        cluster.bytes[cluster.count] = extent->bytes;
        cluster.align[cluster.count] = extent->align;
        cluster.first[cluster.count] = extent->first;
        cluster.end[cluster.count] = extent->last;
        cluster.source[cluster.count] = i;
        cluster.count++;
    }
    ASSERT(cluster.count == count);
    cluster_compute_bound(&cluster, region);
    return cluster;
}

void cluster_round_sizes(struct cluster *cluster, struct region *region) {
    uint64_t align = UINT64_MAX, exact_bound_bytes = cluster->bound_bytes;
    for (int i = 0; i < cluster->count; i++) {
        align = cluster->align[i] < align ? cluster->align[i] : align;
    }
    for (int i = 0; i < cluster->count; i++) {
        cluster->bytes[i] = align_up(cluster->bytes[i], align);
    }
    cluster_compute_bound(cluster, region);
    ASSERT(cluster->bound_bytes >= exact_bound_bytes);
}

/* The steps from the first birth to the last death in a cluster. */
struct span {
    uint32_t begin, end; /* program steps [begin, end) */
};

static struct span cluster_span(const struct cluster *cluster) {
    struct span span = {UINT32_MAX, 0};
    for (int i = 0; i < cluster->count; i++) {
        span.begin = cluster->first[i] < span.begin ? cluster->first[i] : span.begin;
        span.end = cluster->end[i] > span.end ? cluster->end[i] : span.end;
    }
    ASSERT(cluster->count == 0 || span.begin < span.end);
    return span;
}

/* Whether the item is alive during the whole span of its cluster. */
static bool is_permanent(const struct cluster *cluster, int item, struct span span) {
    ASSERT(cluster->first[item] >= span.begin && cluster->end[item] <= span.end);
    return cluster->first[item] == span.begin && cluster->end[item] == span.end;
}

/* Stack the items that are alive for the whole span, largest alignment first to keep gaps rare.
 * Returns the offset of the stack's end. */
static uint64_t stack_permanent_items(const struct cluster *cluster, struct span span,
                                      uint64_t *offsets) {
    uint64_t align_bits = 0;
    for (int i = 0; i < cluster->count; i++) {
        align_bits |= cluster->align[i];
    }
    uint64_t top_bytes = cluster->base_bytes;
    for (uint64_t align = TOTAL_BYTES_MAX; align > 0; align >>= 1) {
        if ((align_bits & align) == 0) {
            continue;
        }
        for (int i = 0; i < cluster->count; i++) {
            if (is_permanent(cluster, i, span) && cluster->align[i] == align) {
                uint64_t offset = align_up(top_bytes, align);
                ASSERT(offset >= top_bytes); /* no wrap-around */
                offsets[cluster->source[i]] = offset;
                top_bytes = offset + cluster->bytes[i];
            }
        }
    }
    return top_bytes;
}

/* Return the items that are not alive for the whole span as a cluster above `base_bytes`, sorted
 * by birth. */
static struct cluster cluster_without_permanent_items(const struct cluster *cluster,
                                                      struct span span, uint64_t base_bytes,
                                                      struct region *region) {
    ASSERT(base_bytes >= cluster->base_bytes);
    struct cluster rest = cluster_alloc(cluster->count, region);
    rest.base_bytes = base_bytes;
    for (int i = 0; i < cluster->count; i++) {
        if (!is_permanent(cluster, i, span)) {
            cluster_copy_item(&rest, cluster, i);
        }
    }
    return rest;
}

/* Split a cluster, whose items are sorted by birth, into parts that share no step, and push them
 * onto `worklist`. */
static void cluster_split(const struct cluster *cluster, struct region *region,
                          struct cluster **worklist) {
    for (int start = 0; start < cluster->count;) {
        ASSERT(start == 0 || cluster->first[start - 1] <= cluster->first[start]);
        uint32_t end = cluster->end[start];
        int stop = start + 1;
        for (; stop < cluster->count && cluster->first[stop] < end; stop++) {
            end = cluster->end[stop] > end ? cluster->end[stop] : end;
        }
        struct cluster *part = region_alloc(region, 1, sizeof *part);
        *part = cluster_alloc(stop - start, region);
        part->base_bytes = cluster->base_bytes;
        part->next = *worklist;
        for (; start < stop; start++) {
            cluster_copy_item(part, cluster, start);
        }
        ASSERT(part->count > 0);
        *worklist = part;
    }
}

/* One round: remove the permanent items of every pending cluster, and split what remains. A cluster
 * without permanent items is pushed onto `done`. */
static struct cluster *run_reduction_round(struct cluster *pending, uint64_t *offsets,
                                           struct region *region, struct cluster **done) {
    struct cluster *parts = NULL;
    while (pending != NULL) {
        struct cluster *cluster = pending;
        pending = cluster->next;
        struct span span = cluster_span(cluster);
        uint64_t top_bytes = stack_permanent_items(cluster, span, offsets);
        struct cluster rest = cluster_without_permanent_items(cluster, span, top_bytes, region);
        ASSERT((rest.count == cluster->count) == (top_bytes == cluster->base_bytes));
        if (rest.count == cluster->count) {
            cluster->next = *done;
            *done = cluster;
        } else {
            cluster_split(&rest, region, &parts);
        }
    }
    return parts;
}

/* Sorts clusters by descending bound, then by birth, so that their order is deterministic. */
static int compare_clusters(const void *left, const void *right) {
    const struct cluster *a = left, *b = right;
    if (a->bound_bytes != b->bound_bytes) {
        return a->bound_bytes > b->bound_bytes ? -1 : 1;
    }
    return a->first[0] < b->first[0] ? -1 : a->first[0] > b->first[0];
}

static struct cluster_list sorted_cluster_list(struct cluster *done, struct region *region) {
    struct cluster_list list = {0};
    for (const struct cluster *cluster = done; cluster != NULL; cluster = cluster->next) {
        list.count++;
    }
    list.clusters = region_alloc(region, (size_t)list.count, sizeof *list.clusters);
    int filled = 0;
    for (struct cluster *cluster = done; cluster != NULL; cluster = cluster->next) {
        ASSERT(cluster->count > 0);
        cluster_compute_bound(cluster, region);
        list.clusters[filled++] = *cluster;
    }
    ASSERT(filled == list.count);
    qsort(list.clusters, (size_t)list.count, sizeof *list.clusters, compare_clusters);
    return list;
}

struct birth {
    uint32_t first; /* first program step of the item */
    int item;       /* index of the item in the cluster */
};

static int compare_births(const void *left, const void *right) {
    const struct birth *a = left, *b = right;
    if (a->first != b->first) {
        return a->first < b->first ? -1 : 1;
    }
    return a->item < b->item ? -1 : a->item > b->item;
}

static struct cluster sort_cluster_by_birth(const struct cluster *cluster, struct region *region) {
    size_t count = (size_t)cluster->count;
    struct birth *births = region_alloc(region, count, sizeof *births);
    for (int i = 0; i < cluster->count; i++) {
        births[i] = (struct birth){cluster->first[i], i};
    }
    qsort(births, count, sizeof *births, compare_births);
    struct cluster sorted = cluster_alloc(cluster->count, region);
    sorted.base_bytes = cluster->base_bytes;
    for (int i = 0; i < cluster->count; i++) {
        cluster_copy_item(&sorted, cluster, births[i].item);
    }
    ASSERT(sorted.count == cluster->count);
    return sorted;
}

struct cluster_list cluster_reduce(const struct cluster *whole, uint64_t *offsets,
                                   struct region *region) {
    struct cluster sorted = sort_cluster_by_birth(whole, region);
    struct cluster *pending = NULL, *done = NULL;
    cluster_split(&sorted, region, &pending);
    for (int depth = 0; depth < CLUSTER_DEPTH_MAX; depth++) {
        pending = run_reduction_round(pending, offsets, region, &done);
    }
    while (pending != NULL) {
        struct cluster *cluster = pending;
        pending = cluster->next;
        cluster->next = done;
        done = cluster;
    }
    return sorted_cluster_list(done, region);
}
