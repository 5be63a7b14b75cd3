#include "arena/search.h"

#include "base/random.h"

/* Successful attempts usually succeed early, so most attempts are short and few are long. */
enum {
    PASSES_MIN = 2, /* the work limit of the shortest attempt, in passes over all items */
    /* number added to the items of a pass, so that attempts at small clusters get more work */
    PASS_ITEMS_MIN = 200
};

/* The target of an attempt is between the lowest useful peak and the current peak. It becomes lower
 * after a success, and higher after a failure. Every second round uses the lowest target. */
enum { LOWEST_TARGET_ROUNDS = 2 }; /* one round in this many uses the lowest target */

static const double AIM_FIRST = 0.5, AIM_SUCCESS = 0.6, AIM_FAILURE = 1.15, AIM_STEP = 0.01,
                    AIM_MAX = 0.95;

/* How far an attempt moves items in the sequence, as a fraction of the sequence's length. NEAR and
 * FAR are random distances; CONFLICTS moves forward the items that most often did not fit. */
static const double MOVE_NEAR = 0.1, MOVE_FAR = 0.5, MOVE_CONFLICTS = 0.7;

void search_init(const struct cluster *cluster, uint64_t target_bytes, struct effort *effort,
                 struct region *region, struct search *search) {
    ASSERT(cluster->count > 0);
    struct effort half = *effort;
    half.work_max = effort->work + (effort->work_max - effort->work) / 2;
    *search = (struct search){
        .cluster = cluster, .lowest_bytes = cluster->bound_bytes, .target_fraction = AIM_FIRST};
    search->layout = greedy_best_layout(cluster, target_bytes, &half, region);
    ASSERT(half.work > effort->work); /* the first greedy layout is always completed */
    effort->work = half.work;
}

bool search_is_done(const struct search *search, uint64_t target_bytes) {
    ASSERT(search->lowest_bytes <= search->layout.peak_bytes);
    return search->layout.peak_bytes <= target_bytes ||
           search->layout.peak_bytes <= search->lowest_bytes;
}

/* Term `index` (from 1) of the Luby sequence 1 1 2 1 1 2 4 1 1 2 ... If a search restarts after
 * these lengths, its time exceeds that with the best fixed length by at most a logarithmic factor
 * (Luby, Sinclair and Zuckerman 1993). */
static uint64_t luby_term(unsigned index) {
    ASSERT(index >= 1);
    while ((index & (index + 1)) != 0) {
        unsigned power = 1u << (31 - __builtin_clz(index));
        index -= power - 1;
    }
    return (index + 1) / 2;
}

static double max_conflicts(const struct search *search) {
    const uint64_t *conflicts = branch_conflict_counts(search->branch);
    uint64_t max = 1;
    for (int i = 0; i < search->cluster->count; i++) {
        max = conflicts[i] > max ? conflicts[i] : max;
    }
    return (double)max;
}

/* Change the sort keys in search->ranked at random, which perturbs the sequence of the next
 * attempt. */
static void perturb_sort_keys(struct search *search, int round) {
    ASSERT(round > 0);
    int count = search->cluster->count;
    const uint64_t *conflicts = branch_conflict_counts(search->branch);
    double reach = (round % 4 >= 2 ? MOVE_NEAR : MOVE_FAR) * count;
    double forward = round % 8 >= 4 ? MOVE_CONFLICTS * count / max_conflicts(search) : 0;
    uint64_t stream = (uint64_t)search->attempt_count << 32;
    for (int i = 0; i < count; i++) {
        int item = search->ranked[i].item;
        double position = i + reach * random_uniform(0, stream + (uint64_t)i);
        position -= forward * (double)conflicts[item];
        search->ranked[i] = (struct ranked_item){-position, 0, item};
    }
    sort_ranked_items(search->ranked, count);
}

/* Set search->sequence for the next attempt. The attempts of the first round use one sort key each,
 * without a perturbation. */
static void make_sequence(struct search *search, int round) {
    enum sort_key key = (enum sort_key)(search->attempt_count % SORT_COUNT);
    greedy_rank_items(search->cluster, key, search->life_peak_bytes, search->ranked);
    if (round > 0) {
        perturb_sort_keys(search, round);
    }
    for (int i = 0; i < search->cluster->count; i++) {
        search->sequence[i] = search->ranked[i].item;
    }
}

static struct effort attempt_effort(const struct search *search, int round,
                                    const struct effort *effort) {
    ASSERT(effort->work < effort->work_max);
    uint64_t count = (uint64_t)search->cluster->count;
    uint64_t descent = BRANCH_WORK_PER_ITEM * count * (count + PASS_ITEMS_MIN) / 2;
    uint64_t work = PASSES_MIN * descent * luby_term((unsigned)round + 1);
    struct effort share = *effort;
    if (work < effort->work_max - effort->work) {
        share.work_max = effort->work + work;
    }
    return share;
}

static void adjust_target(struct search *search, enum branch_result result) {
    if (result == BRANCH_FOUND) {
        search->target_fraction *= AIM_SUCCESS;
    } else {
        search->target_fraction = search->target_fraction * AIM_FAILURE + AIM_STEP;
        search->target_fraction =
            search->target_fraction < AIM_MAX ? search->target_fraction : AIM_MAX;
    }
    ASSERT(search->target_fraction >= 0 && search->target_fraction <= AIM_MAX);
}

static void run_branch_attempt(struct search *search, uint64_t target_bytes,
                               struct effort *effort) {
    int round = search->attempt_count / SORT_COUNT;
    bool aims_lowest = round % LOWEST_TARGET_ROUNDS == LOWEST_TARGET_ROUNDS - 1;
    uint64_t lowest = search->lowest_bytes > target_bytes ? search->lowest_bytes : target_bytes;
    ASSERT(lowest < search->layout.peak_bytes);
    double range = (double)(search->layout.peak_bytes - 1 - lowest);
    uint64_t ceiling = lowest + (aims_lowest ? 0 : (uint64_t)(search->target_fraction * range));
    ASSERT(ceiling >= lowest && ceiling < search->layout.peak_bytes);
    struct effort share = attempt_effort(search, round, effort);
    make_sequence(search, round);
    enum branch_result result =
        branch_find_layout(search->branch, ceiling, search->sequence, &share, &search->layout);
    ASSERT(result != BRANCH_FOUND || search->layout.peak_bytes <= ceiling);
    ASSERT(share.work >= effort->work);
    effort->work = share.work;
    if (!aims_lowest) {
        adjust_target(search, result);
    }
    if (result == BRANCH_IMPOSSIBLE) {
        search->lowest_bytes = ceiling + 1;
    }
}

/* Allocates the state of the attempts: an exact search, or a random walk if there are too many
 * items for exact search. */
static void init_attempts(struct search *search, struct region *region) {
    ASSERT(search->attempt_count == 0);
    size_t count = (size_t)search->cluster->count;
    if (count > BRANCH_ITEMS_MAX) {
        search->walk = walk_init(search->cluster, &search->layout, region);
        return;
    }
    search->branch = branch_init(search->cluster, region);
    search->sequence = region_alloc(region, count, sizeof *search->sequence);
    search->ranked = region_alloc(region, count, sizeof *search->ranked);
    struct sections sections = sections_of_cluster(search->cluster, region);
    search->life_peak_bytes = sections_life_peaks(&sections, search->cluster->count, region);
}

void search_make_attempt(struct search *search, uint64_t target_bytes, struct effort *effort,
                         struct region *region) {
    if (search->walk == NULL && search->branch == NULL) {
        init_attempts(search, region);
    }
    ASSERT((search->walk == NULL) != (search->branch == NULL));
    uint64_t peak_bytes = search->layout.peak_bytes;
    if (search->walk != NULL) {
        walk_run_round(search->walk, target_bytes, effort, &search->layout);
    } else {
        run_branch_attempt(search, target_bytes, effort);
    }
    ASSERT(search->layout.peak_bytes <= peak_bytes);
    search->attempt_count++;
}

void search_store_offsets(const struct search *search, uint64_t *offsets) {
    const struct cluster *cluster = search->cluster;
    const struct layout *layout = &search->layout;
    for (int i = 0; i < cluster->count; i++) {
        ASSERT(layout->offset[i] >= cluster->base_bytes);
        ASSERT((layout->offset[i] & (cluster->align[i] - 1)) == 0);
        ASSERT(layout->offset[i] + cluster->bytes[i] <= layout->peak_bytes);
        offsets[cluster->source[i]] = layout->offset[i];
    }
}
