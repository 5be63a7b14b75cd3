
#include "arena/search.h"
#include "base/clock.h"

#include <stdlib.h>

/* The state of arena_pack: one search for each part of the problem. */
struct pack {
    struct cluster all_items;  /* all items of the problem */
    struct cluster_list parts; /* parts that share no program step */
    struct search *searches;   /* [parts.count] search of each part */
    uint64_t capacity_bytes;   /* maximum peak; UINT64_MAX: no maximum */
    uint64_t target_bytes;     /* the search stops when the peak is at most this many bytes */
    bool is_exact;        /* whether bounds proved for one part also hold for the whole problem */
    struct effort effort; /* work done so far by all searches, and the limits on it */
};

static int find_highest_part(const struct pack *pack) {
    ASSERT(pack->parts.count > 0);
    int highest = 0;
    for (int i = 1; i < pack->parts.count; i++) {
        if (pack->searches[i].layout.peak_bytes > pack->searches[highest].layout.peak_bytes) {
            highest = i;
        }
    }
    return highest;
}

/* Stacking the permanent items is optimal if every alignment divides every size. Otherwise, the
 * bounds that the searches prove hold only for layouts with such a stack. */
static bool is_reduction_exact(const struct cluster *whole) {
    uint64_t align_bits = 0, size_bits = 0;
    for (int i = 0; i < whole->count; i++) {
        align_bits |= whole->align[i];
        size_bits |= whole->bytes[i];
    }
    /* Alignments are powers of two: the largest one divides all sizes if none has a lower bit
     * set. */
    ASSERT((align_bits == 0) == (whole->count == 0));
    uint64_t highest = align_bits == 0 ? 1 : (uint64_t)1 << (63 - __builtin_clzll(align_bits));
    return (size_bits & (highest - 1)) == 0;
}

static uint64_t proved_bound_bytes(const struct pack *pack) {
    uint64_t lowest = pack->all_items.bound_bytes;
    for (int i = 0; i < pack->parts.count; i++) {
        uint64_t proved = pack->searches[i].lowest_bytes;
        lowest = pack->is_exact && proved > lowest ? proved : lowest;
    }
    return lowest;
}

/* Search only the part with the highest layout for a lower peak, because that part determines the
 * peak of the whole. */
static void improve_highest_part(struct pack *pack, struct region *region) {
    while (!effort_is_exhausted(&pack->effort) &&
           proved_bound_bytes(pack) <= pack->capacity_bytes) {
        struct search *search = &pack->searches[find_highest_part(pack)];
        if (search_is_done(search, pack->target_bytes)) {
            return;
        }
        search_make_attempt(search, pack->target_bytes, &pack->effort, region);
    }
}

static void fill_plan(const struct pack *pack, struct plan *plan) {
    uint64_t peak_bytes = 0;
    for (int i = 0; i < plan->problem.extent_count; i++) {
        uint64_t end = plan_extent_end(plan, i);
        peak_bytes = end > peak_bytes ? end : peak_bytes;
    }
    for (enum space space = 0; space < SPACE_COUNT; space++) {
        plan->heuristic[space] = "empty";
    }
    ASSERT(peak_bytes >= pack->all_items.bound_bytes);
    plan->peak_bytes[SPACE_DEVICE] = peak_bytes;
    plan->bound_bytes[SPACE_DEVICE] = pack->all_items.bound_bytes;
    plan->peak_step[SPACE_DEVICE] = pack->all_items.bound_step;
    if (plan->problem.extent_count > 0) {
        plan->heuristic[SPACE_DEVICE] =
            pack->parts.count > 0 ? pack->searches[find_highest_part(pack)].layout.heuristic
                                  : "stacked";
    }
}

void arena_pack(const struct arena_problem *problem, const struct pack_request *request,
                struct region *region, struct plan *plan, struct pack_outcome *outcome) {
    ASSERT(request->time_limit_s >= 0);
    int64_t start_ns = clock_monotonic_ns();
    struct pack pack = {
        .all_items = cluster_of_space(problem, SPACE_DEVICE, region),
        .capacity_bytes = request->capacity_bytes > 0 ? request->capacity_bytes : UINT64_MAX,
        .effort = {.work_max = UINT64_MAX,
                   .deadline_ns = start_ns + (int64_t)(request->time_limit_s * 1e9)},
    };
    ASSERT(pack.all_items.count == problem->extent_count);
    uint64_t *offsets = region_alloc(region, (size_t)problem->extent_count, sizeof *offsets);
    pack.parts = cluster_reduce(&pack.all_items, offsets, region);
    pack.is_exact = is_reduction_exact(&pack.all_items);
    pack.target_bytes = pack.all_items.bound_bytes;
    if (request->capacity_bytes > pack.target_bytes) {
        pack.target_bytes = request->capacity_bytes;
    }
    pack.searches = region_alloc(region, (size_t)pack.parts.count, sizeof *pack.searches);
    for (int i = 0; i < pack.parts.count; i++) {
        search_init(&pack.parts.clusters[i], pack.target_bytes, &pack.effort, region,
                    &pack.searches[i]);
    }
    if (pack.parts.count > 0) {
        improve_highest_part(&pack, region);
    }
    for (int i = 0; i < pack.parts.count; i++) {
        search_store_offsets(&pack.searches[i], offsets);
    }
    *plan = (struct plan){.problem = *problem, .offsets = offsets};
    fill_plan(&pack, plan);
    *outcome = (struct pack_outcome){
        .lowest_bytes = proved_bound_bytes(&pack),
        .seconds = clock_seconds_since(start_ns),
    };
    ASSERT(outcome->lowest_bytes <= plan->peak_bytes[SPACE_DEVICE]);
}
