/* test_sim: seeded schedules of faults over the real machines; and mistakes that oracles must see.
 * use  test_sim                      500 schedules (SKEP_LONG=1: 10,000), a fifth as many cut
 *                                    pairs, seeds that failed once, then the planes' mistakes
 *      test_sim --seeds FIRST:COUNT  just these
 *      test_sim --catch NAME         until an oracle sees the mistake in this build's machines
 *      test_sim --rate CASE [MEMBERS FAULTY ROUNDS [FIRST:COUNT]]
 *                                    a steady swarm with and without FAULTY members of this case
 *                                    (see rate.h; "all", "fields") */
#include "tests/sim/rate.h"

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

/* Seeds outside the short run that failed once. */
static const uint64_t FAILED_SCHEDULES[] = {5910};
static const uint64_t FAILED_PAIRS[] = {544};

enum { SEEDS = 500, SEEDS_LONG = 10000, MISTAKE_SEEDS = 500, PAIR_PART = 5 };

struct tally {
    uint64_t failed, commits, aborts, rollbacks, named, salvages, partial, replays, happenings;
};

static void add_to(struct tally *tally, const struct world *world) {
    tally->commits += world->commits;
    tally->aborts += world->aborts;
    tally->rollbacks += world->rollbacks;
    tally->named += world->named;
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
           " aborts, %" PRIu64 " rollbacks, %" PRIu64 " liars named, %" PRIu64
           " salvaged and %" PRIu64 " partial slices, %" PRIu64 " older commits heard, %" PRIu64
           " events\n",
           count, tally.failed, tally.commits, tally.aborts, tally.rollbacks, tally.named,
           tally.salvages, tally.partial, tally.replays, tally.happenings);
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

static void read_range(const char *text, uint64_t *first, uint64_t *count) {
    char *colon = NULL;
    *first = strtoull(text, &colon, 10);
    *count = *colon == ':' ? strtoull(colon + 1, NULL, 10) : 1;
}

/* Whether --rate ARGUMENT includes a case: its own name, "fields" or "all" others. */
static bool is_selected(const char *argument, const char *name, const struct fault_case *fault) {
    bool is_field = fault->hostility == HOSTILE_FIELD;
    return strcmp(argument, name) == 0 || strcmp(argument, is_field ? "fields" : "all") == 0;
}

/* Runs the selected cases, all after the same run without the faulty members. */
static int run_cases(struct world *world, const char *argument, struct rate_run run) {
    struct rate_pair pair;
    bool is_good = rate_run_clean(world, &run, &pair);
    uint32_t selected = 0;
    for (uint32_t i = 0; i < rate_case_count() && is_good; i++) {
        char name[80];
        (void)rate_find_case(rate_case_name(i, name, sizeof(name)), &run.fault);
        if (is_selected(argument, name, &run.fault)) {
            is_good = rate_run_faulty(world, &run, &pair);
            rate_print(name, &run, &pair);
            selected++;
        }
    }
    if (!is_good) {
        printf("seed %" PRIu64 ": %s\n", run.seed, world->failure);
    }
    return is_good && selected > 0;
}

static int run_rates(struct world *world, int count, char **arguments) {
    struct rate_run run = {.members = 8, .faulty = 1, .rounds = 60};
    uint64_t seeds = 1;
    int is_good = 1;
    if (count >= 4) {
        run.members = (uint32_t)strtoul(arguments[1], NULL, 10);
        run.faulty = (uint32_t)strtoul(arguments[2], NULL, 10);
        run.rounds = (uint32_t)strtoul(arguments[3], NULL, 10);
    }
    if (count >= 5) {
        read_range(arguments[4], &run.seed, &seeds);
    }
    for (uint64_t end = run.seed + seeds; run.seed < end; run.seed++) {
        is_good &= run_cases(world, arguments[0], run);
    }
    return is_good;
}

static int run_all(struct world *world) {
    const char *is_long = getenv("SKEP_LONG");
    uint64_t seeds = is_long != NULL && strcmp(is_long, "0") > 0 ? SEEDS_LONG : SEEDS;
    int is_good = run_schedules(world, 0, seeds) & run_pairs(world, 0, seeds / PAIR_PART);
    for (size_t i = 0; i < ARRAY_COUNT(FAILED_SCHEDULES); i++) {
        is_good &= run_schedules(world, FAILED_SCHEDULES[i], 1);
    }
    for (size_t i = 0; i < ARRAY_COUNT(FAILED_PAIRS); i++) {
        is_good &= run_pairs(world, FAILED_PAIRS[i], 1);
    }
    for (size_t i = 0; i < ARRAY_COUNT(MISTAKES); i++) {
        is_good &= catch_mistake(world, MISTAKES[i].mistake, MISTAKES[i].name);
    }
    return is_good;
}

int main(int argc, char **argv) {
    struct world *world = calloc(1, sizeof(*world));
    int is_good = 0;
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        uint64_t first;
        uint64_t count;
        read_range(argv[2], &first, &count);
        is_good = run_schedules(world, first, count) & run_pairs(world, first, count);
    } else if (argc == 3 && strcmp(argv[1], "--catch") == 0) {
        is_good = catch_mistake(world, MISTAKE_NONE, argv[2]);
    } else if (argc >= 3 && strcmp(argv[1], "--rate") == 0) {
        is_good = run_rates(world, argc - 2, argv + 2);
    } else {
        is_good = run_all(world);
    }
    free(world);
    return is_good ? 0 : 1;
}
