/* test_real: schedules in which members compute as the program does: the replica with its codecs,
 * sketches, norms, feedback and leaves, and each member at another CPU level.
 * use  test_real                     schedules and clean rounds, few or many (SKEP_LONG=1)
 *      test_real --seeds FIRST:COUNT just these schedules
 *      test_real --clean ROUNDS      just these rounds of swarms without faults: no member is
 *                                    named, and no sum is computed again
 *      test_real --wrong ROUNDS      just these rounds of swarms with an owner that changes its
 *                                    results by a tenth, or its lists: no commit has one, and it is
 *                                    named, or with lists suspended
 *      test_real --sign ROUNDS       just these rounds of swarms with a member that changes all
 *                                    signs of its contributions: it is named
 *      test_real --catch NAME        until an oracle sees the mistake in this build's replica */
#include "tests/sim/parts.h"

#include "kernels/cpu_level.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A build with large slices is slower, and runs fewer schedules. */
#ifdef SIM_REAL_FEW
enum { SEEDS = 6, SEEDS_LONG = 100, CLEAN = 10, CLEAN_LONG = 200, WRONG = 4, WRONG_LONG = 40 };
#else
enum {
    SEEDS = 120,
    SEEDS_LONG = 2000,
    CLEAN = 60,
    CLEAN_LONG = 2000,
    WRONG = 40,
    WRONG_LONG = 400
};
#endif

enum {
    MISTAKE_SEEDS = 300,
    CLEAN_MEMBERS = 8,
    CLEAN_ROUNDS = 200, /* of one swarm; its ledger holds so many */
    WRONG_ROUNDS = 4,   /* of one swarm, which names the owner in the first one */
    SIGN_ROUNDS = 8,    /* of one swarm */
    OPENED_MS = 150,    /* after a commit, the next round is open, and not committed */
    HOUR_MS = 3600 * 1000,
};

/* With a sparse codec every member checks every list: an owner that lies has no result, and is
 * suspended for that. Opposite signs are not found. */
#ifdef SIM_SPARSE
static const bool HAS_LISTS = true;
#else
static const bool HAS_LISTS = false;
#endif

static const float AGREEMENT = 2; /* where all members learn the same */

struct tally {
    uint64_t failed, commits, aborts, rollbacks, suspended, named, rechecks, adoptions;
};

static void add_to(struct tally *tally, const struct world *world) {
    tally->commits += world->commits;
    tally->aborts += world->aborts;
    tally->rollbacks += world->rollbacks;
    tally->suspended += world->suspended;
    tally->named += world->named;
    tally->rechecks += world->rechecks;
    tally->adoptions += world->adoptions;
}

static bool run_schedules(struct world *world, uint64_t first, uint64_t count) {
    struct tally tally = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!world_run(world, seed, MISTAKE_NONE)) {
            printf("seed %" PRIu64 ": %s\n", seed, world->failure);
            tally.failed++;
        }
        add_to(&tally, world);
    }
    printf("%" PRIu64 " schedules with slices of %d elements, %" PRIu64 " failed; %" PRIu64
           " commits, %" PRIu64 " aborts, %" PRIu64 " rollbacks, %" PRIu64 " liars named, %" PRIu64
           " right sums computed again, %" PRIu64 " states fetched\n",
           count, (int)SLICE_ELEMENTS, tally.failed, tally.commits, tally.aborts, tally.rollbacks,
           tally.named, tally.rechecks, tally.adoptions);
    return tally.failed == 0;
}

/* The tracker restarts after every second commit, with the next round open. */
static void run_with_restarts(struct world *world, uint32_t rounds) {
    while (world->commits + 2 < rounds && world->failure[0] == 0 && world->now < HOUR_MS) {
        world_run_until(world, HOUR_MS, world->commits + 2);
        world_run_until(world, world->now + OPENED_MS, rounds);
        world_stop(world, 0);
        world_start(world, 0);
    }
}

/* A swarm without faults, whose first member may be a liar. */
static bool run_swarm(struct world *world, uint64_t seed, uint32_t rounds, enum hostility first) {
    static const enum codec CODECS[] = {CODEC_INT8, CODEC_BF16};
    struct steady_swarm swarm = {.members = CLEAN_MEMBERS,
                                 .slices = SLICES_MOST,
                                 .delay_ms = 10,
                                 .samples = 8,
                                 .sample_ms = 20,
                                 .agreement = first == HOSTILE_SIGN ? AGREEMENT : 0};
    world_begin_steady(world, seed, &swarm);
    world->codec = CODECS[seed % ARRAY_COUNT(CODECS)];
    world->settings.members_min = CLEAN_MEMBERS - (first != HONEST);
    world->nodes[TRACKERS].hostility = first;
    for (uint32_t n = 0; n <= CLEAN_MEMBERS; n++) {
        world_start(world, n == 0 ? 0 : TRACKERS + n - 1);
    }
    if (first == HOSTILE_SIGN && seed % 2 == 1) {
        run_with_restarts(world, rounds);
    }
    world_run_until(world, HOUR_MS, rounds);
    return world_end(world) && world->commits == rounds;
}

static bool run_clean(struct world *world, uint32_t rounds) {
    struct tally tally = {0};
    for (uint64_t seed = 0; tally.commits < rounds && tally.failed == 0; seed++) {
        uint64_t left = rounds - tally.commits;
        uint32_t count = (uint32_t)(left < CLEAN_ROUNDS ? left : CLEAN_ROUNDS);
        if (!run_swarm(world, seed, count, HONEST)) {
            printf("clean swarm, seed %" PRIu64 ": %s\n", seed, world->failure);
            tally.failed++;
        }
        add_to(&tally, world);
    }
    printf("%" PRIu64 " clean rounds of %d members with slices of %d elements, levels",
           tally.commits, (int)CLEAN_MEMBERS, (int)SLICE_ELEMENTS);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        bool is_supported = cpu_supports_level((enum cpu_level)level);
        printf("%s%s", is_supported ? " " : "",
               is_supported ? cpu_level_name((enum cpu_level)level) : "");
    }
    printf(" in turn: %" PRIu64 " sums checked, %" PRIu64 " computed again, %" PRIu64
           " members suspended, %" PRIu64 " aborts\n",
           tally.commits * CLEAN_MEMBERS * SLICES_MOST, tally.rechecks, tally.suspended,
           tally.aborts);
    return tally.failed == 0 && tally.rechecks == 0 && tally.suspended == 0 && tally.aborts == 0;
}

/* Whether the first member owned a slice in any round. */
static bool has_summed(const struct world *world) {
    bool has_any = false;
    for (uint32_t i = 0; i < world->sum_count; i++) {
        has_any |= world->sums[i].owner == TRACKERS;
    }
    return has_any;
}

/* The oracle finds the commits with wrong sums. */
static bool run_wrong(struct world *world, uint32_t rounds) {
    struct tally tally = {0};
    uint64_t swarms = 0, lies = 0;
    for (; tally.commits < rounds && tally.failed == 0; swarms++) {
        if (!run_swarm(world, swarms, WRONG_ROUNDS, HOSTILE_SUM)) {
            printf("wrong sums, seed %" PRIu64 ": %s\n", swarms, world->failure);
            tally.failed++;
        }
        lies += has_summed(world);
        add_to(&tally, world);
    }
    const uint64_t found = HAS_LISTS ? tally.suspended : tally.named;
    printf("%" PRIu64 " swarms with an owner that changes its results%s: %" PRIu64
           " commits, none with such a result, %" PRIu64 " of %" PRIu64 " %s, %" PRIu64 " aborts\n",
           swarms, HAS_LISTS ? "" : " by a tenth", tally.commits, found, lies,
           HAS_LISTS ? "suspended" : "named", tally.aborts);
    return tally.failed == 0 && lies > 0 && found == lies;
}

/* A member that changes all signs of its contributions is suspended, and no other one; also if the
 * tracker restarts, in every second swarm. */
static bool run_signs(struct world *world, uint32_t rounds) {
    struct tally tally = {0};
    uint64_t swarms = 0;
    for (; tally.commits < rounds && tally.failed == 0; swarms++) {
        if (!run_swarm(world, swarms, SIGN_ROUNDS, HOSTILE_SIGN)) {
            printf("opposite signs, seed %" PRIu64 ": %s\n", swarms, world->failure);
            tally.failed++;
        }
        add_to(&tally, world);
    }
    printf("%" PRIu64 " swarms with a member that changes all signs: %" PRIu64 " commits, %" PRIu64
           " named, %" PRIu64 " suspended, %" PRIu64 " aborts\n",
           swarms, tally.commits, tally.named, tally.suspended, tally.aborts);
    return tally.failed == 0 && tally.named == swarms && tally.suspended == swarms;
}

static bool catch_mistake(struct world *world, const char *name) {
    for (uint64_t seed = 0; seed < MISTAKE_SEEDS; seed++) {
        if (!world_run(world, seed, MISTAKE_NONE) ||
            !run_swarm(world, seed, WRONG_ROUNDS, HOSTILE_SUM)) {
            printf("mistake \"%s\": caught by seed %" PRIu64 ": %s\n", name, seed, world->failure);
            return true;
        }
    }
    printf("mistake \"%s\": not caught in %d seeds\n", name, MISTAKE_SEEDS);
    return false;
}

int main(int argc, char **argv) {
    struct world *world = world_new();
    const char *value = getenv("SKEP_LONG");
    bool is_long = value != NULL && strcmp(value, "0") > 0;
    bool is_good = false;
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        char *colon = NULL;
        uint64_t first = strtoull(argv[2], &colon, 10);
        is_good = run_schedules(world, first, *colon == ':' ? strtoull(colon + 1, NULL, 10) : 1);
    } else if (argc == 3 && strcmp(argv[1], "--clean") == 0) {
        is_good = run_clean(world, (uint32_t)strtoul(argv[2], NULL, 10));
    } else if (argc == 3 && strcmp(argv[1], "--wrong") == 0) {
        is_good = run_wrong(world, (uint32_t)strtoul(argv[2], NULL, 10));
    } else if (argc == 3 && strcmp(argv[1], "--sign") == 0) {
        is_good = run_signs(world, (uint32_t)strtoul(argv[2], NULL, 10));
    } else if (argc == 3 && strcmp(argv[1], "--catch") == 0) {
        is_good = catch_mistake(world, argv[2]);
    } else {
        is_good = run_schedules(world, 0, is_long ? SEEDS_LONG : SEEDS);
        is_good &= run_clean(world, is_long ? CLEAN_LONG : CLEAN);
        is_good &= run_wrong(world, is_long ? WRONG_LONG : WRONG);
        is_good &= HAS_LISTS || run_signs(world, is_long ? WRONG_LONG : WRONG);
    }
    world_delete(world);
    return is_good ? 0 : 1;
}
