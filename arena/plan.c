
#include "arena/search.h"

/* The work limit of one space in units of struct effort: WORK_MIN, plus WORK_PER_EXTENT for each
 * extent. With it, 2,000 extents take at most about 50 ms, 12,000 extents about 300 ms. Most
 * programs reach their bound with one of the first heuristics. */
static const uint64_t WORK_MIN = 10000000, WORK_PER_EXTENT = 15000;

static uint64_t highest_end_offset(const struct cluster *cluster, const struct plan *plan) {
    uint64_t highest = 0;
    for (int i = 0; i < cluster->count; i++) {
        uint64_t end = plan_extent_end(plan, cluster->source[i]);
        highest = end > highest ? end : highest;
    }
    return highest;
}

static void plan_space(enum space space, uint64_t *offsets, struct region *region,
                       struct plan *plan) {
    struct cluster whole = cluster_of_space(&plan->problem, space, region);
    plan->bound_bytes[space] = whole.bound_bytes;
    plan->peak_step[space] = whole.bound_step;
    cluster_round_sizes(&whole, region);
    struct cluster_list parts = cluster_reduce(&whole, offsets, region);
    struct effort effort = {.work_max = WORK_MIN + WORK_PER_EXTENT * (uint64_t)whole.count};
    uint64_t searched_bytes = 0;
    const char *heuristic = whole.count > 0 ? "stacked" : "empty";
    /* The parts are sorted by descending bound. A part needs no further search once its peak is at
     * most the peak of an earlier part, because the highest peak counts. */
    uint64_t target_bytes = whole.bound_bytes;
    for (int i = 0; i < parts.count; i++) {
        const struct cluster *part = &parts.clusters[i];
        ASSERT(i == 0 || part->bound_bytes <= parts.clusters[i - 1].bound_bytes);
        struct search search;
        search_init(part, target_bytes, &effort, region, &search);
        while (!search_is_done(&search, target_bytes) && !effort_is_exhausted(&effort)) {
            search_make_attempt(&search, target_bytes, &effort, region);
        }
        ASSERT(search.layout.peak_bytes >= part->bound_bytes);
        search_store_offsets(&search, offsets);
        if (search.layout.peak_bytes > searched_bytes) {
            searched_bytes = search.layout.peak_bytes;
            heuristic = search.layout.heuristic;
        }
        target_bytes = searched_bytes > target_bytes ? searched_bytes : target_bytes;
    }
    plan->peak_bytes[space] = highest_end_offset(&whole, plan);
    plan->heuristic[space] = heuristic;
    ASSERT(plan->peak_bytes[space] >= plan->bound_bytes[space]);
    ASSERT((whole.count == 0) == (plan->peak_bytes[space] == 0));
}

void arena_plan(const struct arena_problem *problem, struct region *region, struct plan *plan) {
    ASSERT(problem->extent_count >= 0);
    uint64_t *offsets = region_alloc(region, (size_t)problem->extent_count, sizeof *offsets);
    *plan = (struct plan){.problem = *problem, .offsets = offsets};
    for (enum space space = 0; space < SPACE_COUNT; space++) {
        plan_space(space, offsets, region, plan);
    }
}
