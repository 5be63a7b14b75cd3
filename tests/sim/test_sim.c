/* test_sim: seeded schedules of faults over the real machines; and mistakes that oracles must see.
 * use  test_sim [--seeds FIRST:COUNT] */
#include "tests/sim/world.h"

#include "base/clock.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    enum mistake mistake;
    const char *name;
} MISTAKES[] = {
    {MISTAKE_SUM_ORDER, "sum order"},   {MISTAKE_HASH_CHECK, "missing hash check"},
    {MISTAKE_QUORUM, "small quorum"},   {MISTAKE_FENCE, "two trackers unfenced"},
    {MISTAKE_UNDURABLE, "not durable"}, {MISTAKE_CURSOR, "cursor returned twice"},
};

enum { SEEDS_DEFAULT = 300, MISTAKE_SEEDS = 60 };

static int run_schedules(struct world *world, uint64_t first, uint64_t count) {
    uint64_t failed = 0;
    uint64_t commits = 0;
    uint64_t aborts = 0;
    uint64_t salvages = 0;
    uint64_t partial = 0;
    uint64_t happenings = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!world_run(world, seed, MISTAKE_NONE)) {
            printf("seed %" PRIu64 ": %s\n", seed, world->failure);
            failed++;
        }
        commits += world->commits;
        aborts += world->aborts;
        salvages += world->salvages;
        partial += world->partial;
        happenings += world->happenings;
    }
    printf("%" PRIu64 " schedules, %" PRIu64 " failed; %" PRIu64 " commits, %" PRIu64
           " aborts, %" PRIu64 " salvaged and %" PRIu64 " partial slices, %" PRIu64 " events\n",
           count, failed, commits, aborts, salvages, partial, happenings);
    return failed == 0;
}

static int catch_mistakes(struct world *world) {
    int is_caught = 1;
    for (size_t i = 0; i < ARRAY_COUNT(MISTAKES); i++) {
        uint64_t seed = 0;
        while (seed < MISTAKE_SEEDS && world_run(world, seed, MISTAKES[i].mistake)) {
            seed++;
        }
        printf("mistake \"%s\": ", MISTAKES[i].name);
        if (seed == MISTAKE_SEEDS) {
            printf("not caught in %d seeds\n", MISTAKE_SEEDS);
            is_caught = 0;
        } else {
            printf("caught by seed %" PRIu64 ": %s\n", seed, world->failure);
        }
    }
    return is_caught;
}

int main(int argc, char **argv) {
    struct world *world = malloc(sizeof(*world));
    int is_good = 1;
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        char *colon = NULL;
        uint64_t first = strtoull(argv[2], &colon, 10);
        uint64_t count = *colon == ':' ? strtoull(colon + 1, NULL, 10) : 1;
        is_good = run_schedules(world, first, count);
    } else {
        is_good = run_schedules(world, 0, SEEDS_DEFAULT);
        is_good &= catch_mistakes(world);
    }
    free(world);
    return is_good ? 0 : 1;
}
