#include "arena/search.h"

#include "base/random.h"

/* The shortest attempt goes through all choices this many times over. Attempts that succeed mostly
 * do so at once, so there are many short ones, and few long ones. */
enum { DESCENTS = 2, DESCENT_ITEMS_MIN = 200 };

/* The parts of the way from the lowest useful peak to the present one that attempts aim at, in
 * turn. */
static const double AIMS[] = {0.5, 0.9, 0.25, 0.0};

void search_init(const struct cluster *cluster, uint64_t target_bytes, struct effort *effort,
                 struct region *region, struct search *search) {
    struct effort half = *effort;
    half.work_max = effort->work + (effort->work_max - effort->work) / 2;
    *search = (struct search){.cluster = cluster, .lowest_bytes = cluster->bound_bytes};
    search->layout = greedy_best(cluster, target_bytes, &half, region);
    effort->work = half.work;
}

bool search_is_done(const struct search *search, uint64_t target_bytes) {
    return search->layout.peak_bytes <= target_bytes ||
           search->layout.peak_bytes <= search->lowest_bytes;
}

/* 1 1 2 1 1 2 4 1 1 2 ...: with such lengths, restarts cost at most a logarithm over the best fixed
 * length (Luby, Sinclair and Zuckerman 1993). `index` from 1. */
static uint64_t luby(unsigned index) {
    while ((index & (index + 1)) != 0) {
        unsigned power = 1u << (31 - __builtin_clz(index));
        index -= power - 1;
    }
    return (index + 1) / 2;
}

/* The first attempts try the greedy orders as they are, the others change them by a tenth of their
 * length or, every second round, by half. */
static void make_sequence(struct search *search, enum order order, int round) {
    const struct cluster *cluster = search->cluster;
    greedy_rank(cluster, order, search->crowding, search->ranked);
    if (round > 0) {
        double reach = (round % 2 == 1 ? 0.1 : 0.5) * cluster->count;
        uint64_t stream = (uint64_t)search->attempt_count << 32;
        for (int i = 0; i < cluster->count; i++) {
            double moved = i + reach * random_uniform(0, stream + (uint64_t)i);
            search->ranked[i] = (struct ranked){-moved, 0, search->ranked[i].item};
        }
        ranked_sort(search->ranked, cluster->count);
    }
    for (int i = 0; i < cluster->count; i++) {
        search->sequence[i] = search->ranked[i].item;
    }
}

static void attempt_branch(struct search *search, uint64_t target_bytes, struct effort *effort) {
    int round = search->attempt_count / ORDER_COUNT;
    make_sequence(search, (enum order)(search->attempt_count % ORDER_COUNT), round);
    uint64_t lowest = search->lowest_bytes > target_bytes ? search->lowest_bytes : target_bytes;
    double way = (double)(search->layout.peak_bytes - 1 - lowest);
    double aim = AIMS[(unsigned)round % ARRAY_COUNT(AIMS)];
    uint64_t ceiling = lowest + (uint64_t)(aim * way);
    struct effort share = *effort;
    uint64_t count = (uint64_t)search->cluster->count;
    uint64_t descent = BRANCH_WORK_PER_ITEM * count * (count + DESCENT_ITEMS_MIN) / 2;
    uint64_t work = DESCENTS * descent * luby((unsigned)round + 1);
    if (work < effort->work_max - effort->work) {
        share.work_max = effort->work + work;
    }
    enum branch_result result =
        branch_fit(search->branch, ceiling, search->sequence, &share, &search->layout);
    effort->work = share.work;
    if (result == BRANCH_NONE) {
        search->lowest_bytes = ceiling + 1;
    }
}

static void attempt_init(struct search *search, struct region *region) {
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
    if (search->walk != NULL) {
        walk_round(search->walk, target_bytes, effort, &search->layout);
    } else {
        attempt_branch(search, target_bytes, effort);
    }
    search->attempt_count++;
}
