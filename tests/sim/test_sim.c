/* test_sim: seeded schedules of faults over the real machines; and mistakes that oracles must see.
 * use  test_sim                      500 schedules (SKEP_LONG=1: 10,000), a fifth as many cut
 *                                    pairs, then the planes' mistakes
 *      test_sim --seeds FIRST:COUNT  just these
 *      test_sim --catch NAME         until an oracle sees the mistake in this build's machines */
#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    enum mistake mistake;
    const char *name;
} MISTAKES[] = {
    {MISTAKE_SUM_ORDER, "sum order"},
    {MISTAKE_FEEDBACK, "feedback advanced on abort"},
    {MISTAKE_FENCE, "two trackers unfenced"},
    {MISTAKE_UNDURABLE, "not durable"},
};

enum { SEEDS = 500, SEEDS_LONG = 10000, MISTAKE_SEEDS = 500, PAIR_PART = 5 };

struct tally {
    uint64_t failed, commits, aborts, rollbacks, salvages, partial, replays, happenings;
};

static void add_to(struct tally *tally, const struct world *world) {
    tally->commits += world->commits;
    tally->aborts += world->aborts;
    tally->rollbacks += world->rollbacks;
    tally->salvages += world->salvages;
    tally->partial += world->partial;
    tally->replays += world->replays;
    tally->happenings += world->happenings;
}

static int run_schedules(struct world *world, uint64_t first, uint64_t count) {
    struct tally tally = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!world_run(world, seed, MISTAKE_NONE)) {
            printf("seed %" PRIu64 ": %s\n", seed, world->failure);
            tally.failed++;
        }
        add_to(&tally, world);
    }
    printf("%" PRIu64 " schedules, %" PRIu64 " failed; %" PRIu64 " commits, %" PRIu64
           " aborts, %" PRIu64 " rollbacks, %" PRIu64 " salvaged and %" PRIu64
           " partial slices, %" PRIu64 " older commits heard, %" PRIu64 " events\n",
           count, tally.failed, tally.commits, tally.aborts, tally.rollbacks, tally.salvages,
           tally.partial, tally.replays, tally.happenings);
    return tally.failed == 0;
}

static int run_pairs(struct world *world, uint64_t first, uint64_t count) {
    uint64_t failed = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!world_run_pair(world, seed)) {
            printf("pair, seed %" PRIu64 ": %s\n", seed, world->failure);
            failed++;
        }
    }
    printf("%" PRIu64 " cut pairs, %" PRIu64 " failed\n", count, failed);
    return failed == 0;
}

static int catch_mistake(struct world *world, enum mistake mistake, const char *name) {
    uint64_t seed = 0;
    while (seed < MISTAKE_SEEDS && world_run(world, seed, mistake) && world_run_pair(world, seed)) {
        seed++;
    }
    if (seed == MISTAKE_SEEDS) {
        printf("mistake \"%s\": not caught in %d seeds\n", name, MISTAKE_SEEDS);
        return 0;
    }
    printf("mistake \"%s\": caught by seed %" PRIu64 ": %s\n", name, seed, world->failure);
    return 1;
}

static int run_all(struct world *world) {
    const char *is_long = getenv("SKEP_LONG");
    uint64_t seeds = is_long != NULL && strcmp(is_long, "0") > 0 ? SEEDS_LONG : SEEDS;
    int is_good = run_schedules(world, 0, seeds) & run_pairs(world, 0, seeds / PAIR_PART);
    for (size_t i = 0; i < ARRAY_COUNT(MISTAKES); i++) {
        is_good &= catch_mistake(world, MISTAKES[i].mistake, MISTAKES[i].name);
    }
    return is_good;
}

int main(int argc, char **argv) {
    struct world *world = calloc(1, sizeof(*world));
    int is_good = 0;
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        char *colon = NULL;
        uint64_t first = strtoull(argv[2], &colon, 10);
        uint64_t count = *colon == ':' ? strtoull(colon + 1, NULL, 10) : 1;
        is_good = run_schedules(world, first, count) & run_pairs(world, first, count);
    } else if (argc == 3 && strcmp(argv[1], "--catch") == 0) {
        is_good = catch_mistake(world, MISTAKE_NONE, argv[2]);
    } else {
        is_good = run_all(world);
    }
    free(world);
    return is_good ? 0 : 1;
}
