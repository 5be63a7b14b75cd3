/* test_sim: seeded schedules of faults over the real machines; and mistakes that oracles must see.
 * use  test_sim                      500 schedules (SKEP_LONG=1: 10,000), a fifth as many cut
 *                                    pairs, seeds that failed once, then the planes' mistakes
 *      test_sim --seeds FIRST:COUNT  just these
 *      test_sim --leases FIRST:COUNT  just these, with leases, and an operator
 *      test_sim --copied FIRST:COUNT  just these schedules in which a tracker's store is copied,
 *                                    with leases
 *      test_sim --open FIRST:COUNT    just these schedules of open swarms, whose guests lie
 *      test_sim --lie NAME FIRST:COUNT  just these schedules in which the tracker shows members
 *                                    different messages: open, table, propose, abort, withhold
 *      test_sim --catch NAME FIRST   until an oracle sees the mistake in this build's machines
 *      test_sim --catch-fork NAME FIRST  the same, with a copied store and leases
 *      test_sim --rate CASE [MEMBERS FAULTY ROUNDS [FIRST:COUNT]]
 *                                    a steady swarm with and without FAULTY members of this case
 *                                    (see rate.h; "all", "fields") */
#include "tests/sim/guests.h"
#include "tests/sim/parts.h"
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
static const uint64_t FAILED_SCHEDULES[] = {5910, 6886};
static const uint64_t FAILED_PAIRS[] = {544};
static const uint64_t FAILED_COPIES[] = {1790};

enum {
    SEEDS = 500,
    SEEDS_LONG = 10000,
    MISTAKE_SEEDS = 500,
    PAIR_PART = 5,
    OPEN_PART = 2,
    LEASES_PART = 5,
    COPIED_PART = 5,
    FORK_SEEDS = 50,
    LEASE_SEEDS = 600, /* of --catch-fork */
    LIE_PART = 10,
    LIE_SEEDS = 200
};

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

static int run_open(struct world *world, uint64_t first, uint64_t count) {
    struct tally tally = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!world_run_open(world, seed)) {
            printf("open swarm, seed %" PRIu64 ": %s\n", seed, world->failure);
            tally.failed++;
        }
        add_to(&tally, world);
    }
    printf("%" PRIu64 " open swarms, %" PRIu64 " failed; %" PRIu64 " commits, %" PRIu64
           " aborts, %" PRIu64 " liars named\n",
           count, tally.failed, tally.commits, tally.aborts, tally.named);
    return tally.failed == 0;
}

/* The schedules of swarms that refuse forks. */
static int run_leases(struct world *world, uint64_t first, uint64_t count) {
    uint64_t failed = 0, commits = 0, orders = 0;
    world->needs_leases = true;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!world_run(world, seed, MISTAKE_NONE)) {
            printf("leases, seed %" PRIu64 ": %s\n", seed, world->failure);
            failed++;
        }
        commits += world->commits;
        orders += world->orders;
    }
    world->needs_leases = false;
    printf("%" PRIu64 " schedules with leases, %" PRIu64 " failed; %" PRIu64 " commits, %" PRIu64
           " orders to continue\n",
           count, failed, commits, orders);
    return failed == 0;
}

static int run_copied(struct world *world, uint64_t first, uint64_t count) {
    uint64_t failed = 0, copied = 0, commits = 0, orders = 0;
    world->needs_leases = true;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!world_run_copied(world, seed, false)) {
            printf("copied store, seed %" PRIu64 ": %s\n", seed, world->failure);
            failed++;
        }
        copied += world->copied_count > 0;
        commits += world_commits_after_copy(world);
        orders += world->orders;
    }
    world->needs_leases = false;
    printf("%" PRIu64 " schedules, in %" PRIu64 " of which a store is copied, %" PRIu64
           " failed; %" PRIu64 " commits after the copy, %" PRIu64 " orders to continue\n",
           count, copied, failed, commits, orders);
    return failed == 0;
}

/* Without leases, two trackers with copies of one store can commit rounds each. The oracles must
 * see that: two histories, and if these may be, samples that are used twice. */
static int catch_fork(struct world *world, bool may_fork, const char *expected) {
    for (uint64_t seed = 0; seed < FORK_SEEDS; seed++) {
        if (!world_run_copied(world, seed, may_fork)) {
            bool is_expected = strncmp(world->failure, expected, strlen(expected)) == 0;
            printf("copied store: caught by seed %" PRIu64 ": %s\n", seed, world->failure);
            return is_expected;
        }
    }
    printf("copied store: not caught in %d seeds\n", FORK_SEEDS);
    return 0;
}

/* A mistake in the rules of leases lets both copies of a store commit. */
static int catch_lease_mistake(struct world *world, const char *name, uint64_t first) {
    world->needs_leases = true;
    for (uint64_t seed = first; seed < first + LEASE_SEEDS; seed++) {
        if (!world_run_copied(world, seed, false)) {
            printf("mistake \"%s\": caught by seed %" PRIu64 ": %s\n", name, seed, world->failure);
            return strncmp(world->failure, "fork: ", strlen("fork: ")) == 0 ||
                   strncmp(world->failure, "two states: ", strlen("two states: ")) == 0;
        }
    }
    printf("mistake \"%s\": not caught in %d seeds\n", name, LEASE_SEEDS);
    return 0;
}

static int run_lies(struct world *world, enum equivocation kind, uint64_t first, uint64_t count) {
    uint64_t failed = 0, commits = 0, told = 0, detections = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!world_run_equivocal(world, seed, kind)) {
            printf("lying tracker, seed %" PRIu64 ": %s\n", seed, world->failure);
            failed++;
        }
        commits += world->commits;
        told += world->lies_told;
        detections += world->detections;
    }
    printf("%" PRIu64 " schedules in which the tracker lies in %s, %" PRIu64 " failed; %" PRIu64
           " commits, %" PRIu64 " lies, %" PRIu64 " members rejected its ledger\n",
           count, equivocate_name(kind), failed, commits, told, detections);
    bool is_detectable = kind == EQUIVOCATE_OPEN || kind == EQUIVOCATE_ABORT;
    return failed == 0 && told > 0 && (detections > 0 || !is_detectable);
}

static int run_named_lie(struct world *world, const char *name, uint64_t first, uint64_t count) {
    for (int kind = 1; kind < EQUIVOCATIONS; kind++) {
        if (strcmp(name, equivocate_name((enum equivocation)kind)) == 0) {
            return run_lies(world, (enum equivocation)kind, first, count);
        }
    }
    return 0;
}

/* A tracker that shows one member a commit, and all others that the round was aborted, is beyond
 * what votes protect from. The oracle must see the two states. */
static int catch_withheld_commit(struct world *world) {
    for (uint64_t seed = 0; seed < LIE_SEEDS; seed++) {
        if (!world_run_equivocal(world, seed, EQUIVOCATE_WITHHOLD)) {
            printf("withheld commit: caught by seed %" PRIu64 ": %s\n", seed, world->failure);
            return strncmp(world->failure, "two states: ", strlen("two states: ")) == 0;
        }
    }
    printf("withheld commit: not caught in %d seeds\n", LIE_SEEDS);
    return 0;
}

/* Tries MISTAKE_SEEDS seeds, from `first` on and then those before it. */
static int catch_mistake(struct world *world, enum mistake mistake, const char *name,
                         uint64_t first) {
    uint64_t tried = 0;
    uint64_t seed = first % MISTAKE_SEEDS;
    while (tried < MISTAKE_SEEDS && world_run(world, seed, mistake) &&
           world_run_pair(world, seed) && world_run_open(world, seed)) {
        tried++;
        seed = (first + tried) % MISTAKE_SEEDS;
    }
    if (tried == MISTAKE_SEEDS) {
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
    for (uint32_t i = 0; i < rate_case_count(); i++) {
        char name[80];
        (void)rate_find_case(rate_case_name(i, name, sizeof(name)), &run.fault);
        if (is_selected(argument, name, &run.fault)) {
            if (!rate_run_faulty(world, &run, &pair)) {
                printf("%s: seed %" PRIu64 ": %s\n", name, run.seed, world->failure);
                is_good = false;
            }
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
        is_good &= catch_mistake(world, MISTAKES[i].mistake, MISTAKES[i].name, 0);
    }
    is_good &= run_open(world, 0, seeds / OPEN_PART);
    for (int kind = 1; kind < EQUIVOCATE_WITHHOLD; kind++) {
        is_good &= run_lies(world, (enum equivocation)kind, 0, seeds / LIE_PART);
    }
    is_good &= catch_withheld_commit(world);
    is_good &= run_leases(world, 0, seeds / LEASES_PART);
    is_good &= run_copied(world, 0, seeds / COPIED_PART);
    for (size_t i = 0; i < ARRAY_COUNT(FAILED_COPIES); i++) {
        is_good &= run_copied(world, FAILED_COPIES[i], 1);
    }
    is_good &= catch_fork(world, false, "fork: ");
    is_good &= catch_fork(world, true, "sample ");
    return is_good;
}

int main(int argc, char **argv) {
    struct world *world = world_new();
    int is_good = 0;
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        uint64_t first;
        uint64_t count;
        read_range(argv[2], &first, &count);
        is_good = run_schedules(world, first, count) & run_pairs(world, first, count);
    } else if (argc == 3 && strcmp(argv[1], "--leases") == 0) {
        uint64_t first;
        uint64_t count;
        read_range(argv[2], &first, &count);
        is_good = run_leases(world, first, count);
    } else if (argc == 3 && strcmp(argv[1], "--copied") == 0) {
        uint64_t first;
        uint64_t count;
        read_range(argv[2], &first, &count);
        is_good = run_copied(world, first, count);
    } else if (argc == 3 && strcmp(argv[1], "--open") == 0) {
        uint64_t first;
        uint64_t count;
        read_range(argv[2], &first, &count);
        is_good = run_open(world, first, count);
    } else if (argc == 4 && strcmp(argv[1], "--lie") == 0) {
        uint64_t first;
        uint64_t count;
        read_range(argv[3], &first, &count);
        is_good = run_named_lie(world, argv[2], first, count);
    } else if (argc == 4 && strcmp(argv[1], "--catch") == 0) {
        is_good = catch_mistake(world, MISTAKE_NONE, argv[2], strtoull(argv[3], NULL, 10));
    } else if (argc == 4 && strcmp(argv[1], "--catch-fork") == 0) {
        is_good = catch_lease_mistake(world, argv[2], strtoull(argv[3], NULL, 10));
    } else if (argc >= 3 && strcmp(argv[1], "--rate") == 0) {
        is_good = run_rates(world, argc - 2, argv + 2);
    } else {
        is_good = run_all(world);
    }
    world_delete(world);
    return is_good ? 0 : 1;
}
