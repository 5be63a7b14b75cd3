#include "arena/search.h"

#include "base/random.h"

/* The shortest attempt goes through all choices this many times over. Attempts that succeed mostly
 * do so at once, so there are many short ones, and few long ones. */
enum { DESCENTS = 2, DESCENT_ITEMS_MIN = 200 };

/* Attempts aim at a part of the way from the lowest useful peak to the present one: lower after a
 * success, higher after a failure; every few rounds, at the lowest itself. */
enum { LOWEST_AIM_ROUNDS = 2 };

static const double AIM_FIRST = 0.5, AIM_SUCCESS = 0.6, AIM_FAILURE = 1.15, AIM_STEP = 0.01,
                    AIM_MAX = 0.95;

/* How far attempts move items in an order, in parts of its length: at random, in turn; and forward,
 * for what was most to blame for failures. */
static const double REACH_NEAR = 0.1, REACH_FAR = 0.5, REACH_BLAME = 0.7;

void search_init(const struct cluster *cluster, uint64_t target_bytes, struct effort *effort,
                 struct region *region, struct search *search) {
    ASSERT(cluster->count > 0);
    struct effort half = *effort;
    half.work_max = effort->work + (effort->work_max - effort->work) / 2;
    *search =
        (struct search){.cluster = cluster, .lowest_bytes = cluster->bound_bytes, .aim = AIM_FIRST};
    search->layout = greedy_best(cluster, target_bytes, &half, region);
    ASSERT(half.work > effort->work); /* the first layout is always finished */
    effort->work = half.work;
}

bool search_is_done(const struct search *search, uint64_t target_bytes) {
    ASSERT(search->lowest_bytes <= search->layout.peak_bytes);
    return search->layout.peak_bytes <= target_bytes ||
           search->layout.peak_bytes <= search->lowest_bytes;
}

/* 1 1 2 1 1 2 4 1 1 2 ...: with such lengths, restarts cost at most a logarithm over the best fixed
 * length (Luby, Sinclair and Zuckerman 1993). `index` from 1. */
static uint64_t luby(unsigned index) {
    ASSERT(index >= 1);
    while ((index & (index + 1)) != 0) {
        unsigned power = 1u << (31 - __builtin_clz(index));
        index -= power - 1;
    }
    return (index + 1) / 2;
}

static double most_conflicts(const struct search *search) {
    const uint64_t *blame = branch_conflicts(search->branch);
    uint64_t most = 1;
    for (int i = 0; i < search->cluster->count; i++) {
        most = blame[i] > most ? blame[i] : most;
    }
    return (double)most;
}

/* Change the order that search->ranked is in. */
static void perturb(struct search *search, int round) {
    ASSERT(round > 0);
    int count = search->cluster->count;
    const uint64_t *blame = branch_conflicts(search->branch);
    double reach = (round % 4 >= 2 ? REACH_NEAR : REACH_FAR) * count;
    double forward = round % 8 >= 4 ? REACH_BLAME * count / most_conflicts(search) : 0;
    uint64_t stream = (uint64_t)search->attempt_count << 32;
    for (int i = 0; i < count; i++) {
        int item = search->ranked[i].item;
        double place = i + reach * random_uniform(0, stream + (uint64_t)i);
        place -= forward * (double)blame[item];
        search->ranked[i] = (struct ranked){-place, 0, item};
    }
    ranked_sort(search->ranked, count);
}

/* The first round tries the greedy orders as they are. */
static void make_sequence(struct search *search, int round) {
    enum sort_key order = (enum sort_key)(search->attempt_count % ORDER_COUNT);
    greedy_rank(search->cluster, order, search->crowding, search->ranked);
    if (round > 0) {
        perturb(search, round);
    }
    for (int i = 0; i < search->cluster->count; i++) {
        search->sequence[i] = search->ranked[i].item;
    }
}

static struct effort share_of_attempt(const struct search *search, int round,
                                      const struct effort *effort) {
    ASSERT(effort->work < effort->work_max);
    uint64_t count = (uint64_t)search->cluster->count;
    uint64_t descent = BRANCH_WORK_PER_ITEM * count * (count + DESCENT_ITEMS_MIN) / 2;
    uint64_t work = DESCENTS * descent * luby((unsigned)round + 1);
    struct effort share = *effort;
    if (work < effort->work_max - effort->work) {
        share.work_max = effort->work + work;
    }
    return share;
}

static void adjust_aim(struct search *search, enum branch_result result) {
    if (result == BRANCH_FOUND) {
        search->aim *= AIM_SUCCESS;
    } else {
        search->aim = search->aim * AIM_FAILURE + AIM_STEP;
        search->aim = search->aim < AIM_MAX ? search->aim : AIM_MAX;
    }
    ASSERT(search->aim >= 0 && search->aim <= AIM_MAX);
}

static void attempt_branch(struct search *search, uint64_t target_bytes, struct effort *effort) {
    int round = search->attempt_count / ORDER_COUNT;
    bool aims_lowest = round % LOWEST_AIM_ROUNDS == LOWEST_AIM_ROUNDS - 1;
    uint64_t lowest = search->lowest_bytes > target_bytes ? search->lowest_bytes : target_bytes;
    ASSERT(lowest < search->layout.peak_bytes);
    double way = (double)(search->layout.peak_bytes - 1 - lowest);
    uint64_t ceiling = lowest + (aims_lowest ? 0 : (uint64_t)(search->aim * way));
    ASSERT(ceiling >= lowest && ceiling < search->layout.peak_bytes);
    struct effort share = share_of_attempt(search, round, effort);
    make_sequence(search, round);
    enum branch_result result =
        branch_fit(search->branch, ceiling, search->sequence, &share, &search->layout);
    ASSERT(result != BRANCH_FOUND || search->layout.peak_bytes <= ceiling);
    ASSERT(share.work >= effort->work);
    effort->work = share.work;
    if (!aims_lowest) {
        adjust_aim(search, result);
    }
    if (result == BRANCH_NONE) {
        search->lowest_bytes = ceiling + 1;
    }
}

static void attempt_init(struct search *search, struct region *region) {
    ASSERT(search->attempt_count == 0);
    size_t count = (size_t)search->cluster->count;
    if (count > BRANCH_ITEMS_MAX) {
        search->walk = walk_init(search->cluster, &search->layout, region);
        return;
    }
    search->branch = branch_init(search->cluster, region);
    search->sequence = region_alloc(region, count, sizeof *search->sequence);
    search->ranked = region_alloc(region, count, sizeof *search->ranked);
    struct sections sections = sections_of(search->cluster, region);
    search->crowding = sections_crowding(&sections, search->cluster->count, region);
}

void search_attempt(struct search *search, uint64_t target_bytes, struct effort *effort,
                    struct region *region) {
    if (search->walk == NULL && search->branch == NULL) {
        attempt_init(search, region);
    }
    ASSERT((search->walk == NULL) != (search->branch == NULL));
    uint64_t peak_bytes = search->layout.peak_bytes;
    if (search->walk != NULL) {
        walk_round(search->walk, target_bytes, effort, &search->layout);
    } else {
        attempt_branch(search, target_bytes, effort);
    }
    ASSERT(search->layout.peak_bytes <= peak_bytes);
    search->attempt_count++;
}
