/* test_rates: what slow and lying members cost a swarm, compared with the same swarm without them;
 * and that the table of fields has every field of a member's messages. */
#include "tests/sim/rate.h"

#include "runtime/swarm/wire/wire.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 8, ROUNDS = 20, ROUNDS_LONG = 200, PAYLOAD_BYTES_MAX = 1 << 16, ROWS = 2 };

static const struct {
    const char *name;
    uint32_t faulty;
} CASES[] = {
    {"dial-only", 1},
    {"unlike", 1},
    {"drip", 1},
    {"trickle", 1},
    {"unlike", 2},
    {"drip", 2},
    {"trickle", 2},
    {"sign", 1},
    {"replay", 1},
    {"zeros", 1},
    {"tokens", 1},
    {"sum", 1},
    {"vote", 1},
    {"withdraw", 1},
    {"damage", 1},
    {"withhold", 1},
    {"links", 1},
    {"day", 1},
    {"rate-zero", 1},
    {"rate-max", 1},
    {"stale", 1},
    {"sign", 2},
    {"tokens", 2},
    {"zeros", 2},
    {"sum", 2},
    {"withdraw", 2},
    {"rate-max", 2},
    {"day", 2},
    {"hide", 1},
    {"hide", 2},
    {"accuse", 1},
    {"accuse", 2},
    {"FETCH_CONTRIBUTION.slice=half", 1},
    {"REPORT.reports.contributors=last", 1},
};

/* Honest members that are slower than the others. What they can send in time counts: on an uplink
 * of 1/5, all slices would take five times as long as the others' contributions. */
static const struct {
    uint32_t members;
    const char *name;
    double min_slices; /* to which such a member contributes, of RATE_SLICES */
} SLOW_CASES[] = {
    {8, "uplink/20", 0.8}, {8, "uplink/5", 4}, {8, "compute/5", RATE_SLICES},
    {4, "uplink/20", 0.3}, {4, "uplink/5", 2}, {4, "compute/5", 7},
};

enum { SLOW_ROUNDS = 60, SLOW_SEEDS_LONG = 3, SWAP_SEEDS = 3, RESTART_SEEDS = 3, FIELD_SEEDS = 17 };

static bool is_long_run(void) {
    const char *value = getenv("SKEP_LONG");
    return value != NULL && strcmp(value, "0") > 0;
}

static bool check_case(struct world *world, const char *name, const struct rate_run *run,
                       struct rate_pair *pair) {
    if (!rate_run_faulty(world, run, pair)) {
        printf("%s: %s\n", name, world->failure);
        return false;
    }
    rate_print(name, run, pair);
    return rate_check(pair);
}

/* A round takes the time of its training and of its transfers: every member sends the encoded state
 * twice, except its own part, at a rate that is up to a tenth below the highest one. Requests,
 * reports and votes may add a quarter. */
static bool check_clean(const struct rate_pair *pair, uint32_t members) {
    double bytes = 2.0 * RATE_SLICES * RATE_SLICE_BYTES * (members - 1) / members;
    double shortest_ms = RATE_SAMPLES * RATE_SAMPLE_MS * 0.97 + bytes * 1000 / RATE_UP_BYTES_S;
    double longest_ms =
        1.25 * (RATE_SAMPLES * RATE_SAMPLE_MS + bytes * 1000 / (0.9 * RATE_UP_BYTES_S));
    double round_ms = (double)pair->clean.ms / pair->clean.commits;
    bool is_good = round_ms >= shortest_ms && round_ms <= longest_ms && pair->clean.aborts == 0;
    printf("%u members, a round takes %.0f ms, expected %.0f to %.0f%s\n", members, round_ms,
           shortest_ms, longest_ms, is_good ? "" : ": FAILED");
    return is_good;
}

static bool check_cases(struct world *world, uint32_t faulty) {
    struct rate_run run = {
        .members = MEMBERS, .faulty = faulty, .rounds = is_long_run() ? ROUNDS_LONG : ROUNDS};
    struct rate_pair pair;
    bool is_good = rate_run_clean(world, &run, &pair) && check_clean(&pair, MEMBERS - faulty);
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        if (CASES[i].faulty == faulty) {
            ASSERT(rate_find_case(CASES[i].name, &run.fault));
            is_good &= check_case(world, CASES[i].name, &run, &pair);
        }
    }
    return is_good;
}

static bool check_slow_member(struct world *world, size_t index, const struct rate_run *run,
                              struct rate_pair *pair) {
    const double min_commits = 0.95;
    bool is_good = check_case(world, SLOW_CASES[index].name, run, pair);
    double slices = rate_slices_per_commit(run, &pair->faulty);
    if (pair->commits < min_commits || slices < SLOW_CASES[index].min_slices) {
        printf("    FAILED: expected %.0f %% of the commits, and %.1f slices\n", 100 * min_commits,
               SLOW_CASES[index].min_slices);
        is_good = false;
    }
    return is_good;
}

static bool check_slow_members(struct world *world, uint32_t members) {
    struct rate_run run = {.members = members, .faulty = 1, .rounds = SLOW_ROUNDS};
    struct rate_pair pair;
    bool is_good = true;
    for (; run.seed < (is_long_run() ? SLOW_SEEDS_LONG : 1); run.seed++) {
        is_good &= rate_run_clean(world, &run, &pair);
        for (size_t i = 0; i < ARRAY_COUNT(SLOW_CASES); i++) {
            ASSERT(rate_find_case(SLOW_CASES[i].name, &run.fault));
            is_good &= SLOW_CASES[i].members != members || check_slow_member(world, i, &run, &pair);
        }
    }
    return is_good;
}

/* Four steps of 200 ms: one step of a slow member takes as long as the training of the others, or
 * longer. What it cannot deliver in time does not count, and delays no other member. */
static bool check_long_steps(struct world *world, uint32_t members) {
    static const char *const SLOW[] = {"compute/4", "compute/5", "compute/8"};
    const double min_commits = 0.95;
    struct rate_run run = {
        .members = members, .faulty = 1, .rounds = SLOW_ROUNDS, .has_long_steps = true};
    struct rate_pair pair;
    bool is_good = true;
    for (; run.seed < (is_long_run() ? SLOW_SEEDS_LONG : 1); run.seed++) {
        is_good &= rate_run_clean(world, &run, &pair);
        for (size_t i = 0; i < ARRAY_COUNT(SLOW); i++) {
            ASSERT(rate_find_case(SLOW[i], &run.fault));
            is_good &= check_case(world, SLOW[i], &run, &pair);
            if (pair.commits < min_commits) {
                printf("    FAILED: expected %.0f %% of the commits\n", 100 * min_commits);
                is_good = false;
            }
        }
    }
    return is_good;
}

/* A member that fails as an owner, or is lost, in every third, fourth or fifth round is suspended
 * late or never: it owns less, or is not waited for. Its first failures are a large part of a
 * shorter run. */
static bool check_recurrent_failures(struct world *world, uint32_t members) {
    static const char *const FAILURES[] = {"fail/3", "fail/4", "fail/5",
                                           "lost/3", "lost/4", "lost/5"};
    struct rate_run run = {.members = members, .faulty = 1, .rounds = ROUNDS_LONG / 2};
    struct rate_pair pair;
    bool is_good = rate_run_clean(world, &run, &pair);
    for (size_t i = 0; i < ARRAY_COUNT(FAILURES); i++) {
        ASSERT(rate_find_case(FAILURES[i], &run.fault));
        is_good &= check_case(world, FAILURES[i], &run, &pair);
    }
    return is_good;
}

/* One of eight that lies about its values is suspended within three rounds. */
static bool check_values(struct world *world) {
    static const char *const LIES[] = {"nan",    "huge",  "scaled", "zeros",
                                       "replay", "patch", "copy",   "late"};
    const uint32_t first_copy = 6; /* copies are of the first round, or later ones */
    struct rate_run run = {.members = MEMBERS, .faulty = 1, .rounds = ROUNDS};
    struct rate_pair pair;
    bool is_good = rate_run_clean(world, &run, &pair);
    for (size_t i = 0; i < ARRAY_COUNT(LIES); i++) {
        ASSERT(rate_find_case(LIES[i], &run.fault));
        is_good &= check_case(world, LIES[i], &run, &pair);
        const uint32_t max_named_round = i < first_copy ? 3 : 4;
        if (pair.faulty.named_round == 0 || pair.faulty.named_round > max_named_round) {
            printf("    FAILED: expected to be named by round %u\n", max_named_round);
            is_good = false;
        }
    }
    return is_good;
}

/* One run with kills at the seed's moments: without the member, if there is no lie. */
static bool run_restarts(struct world *world, const struct rate_run *run, uint64_t seed,
                         const char *lie, struct rate_figures *figures) {
    struct rate_run own = *run;
    struct rate_pair pair = {.clean = *figures};
    own.seed = seed;
    bool has_held = lie == NULL
                        ? rate_run_clean(world, &own, &pair)
                        : rate_find_case(lie, &own.fault) && rate_run_faulty(world, &own, &pair);
    *figures = lie == NULL ? pair.clean : pair.faulty;
    return has_held;
}

/* What a kill costs depends on its moment, so that the figures are those of several seeds. */
static bool check_restarts_of(struct world *world, const struct rate_run *run, const char *lie,
                              bool must_be_named,
                              const struct rate_figures clean[static RESTART_SEEDS]) {
    const double min_commits = 0.9;
    double part = 0;
    uint32_t aborts = 0, named = 0, honest_named = 0;
    bool is_good = true;
    for (uint64_t seed = 0; seed < RESTART_SEEDS; seed++) {
        struct rate_figures figures = clean[seed];
        is_good &= run_restarts(world, run, seed, lie, &figures);
        part += rate_commits_per_hour(&figures) / rate_commits_per_hour(&clean[seed]);
        aborts += figures.aborts;
        named += figures.named_round > 0;
        honest_named += figures.honest_named;
    }
    part /= RESTART_SEEDS;
    is_good &= part >= min_commits && honest_named == 0;
    is_good &= !must_be_named || named == RESTART_SEEDS;
    printf(
        "tracker killed every %u commits, %-8s: commits/h %5.1f %%, aborts %u, named in %u of %d "
        "runs%s\n",
        run->kills, lie, 100 * part, aborts, named, RESTART_SEEDS, is_good ? "" : " FAILED");
    fflush(stdout);
    return is_good;
}

/* A tracker that restarts repeatedly keeps the misses of finished rounds: liars are still named,
 * perhaps later, and no honest member is. A short run has each lie with one of KILLS. */
static bool check_restarts(struct world *world) {
    static const char *const LIES[] = {"nan",  "huge", "scaled",   "replay", "zeros",
                                       "sign", "sum",  "withhold", "drip",   "trickle"};
    static const uint32_t KILLS[] = {1, 2, 3};
    const size_t named_lies = 5;
    bool is_good = true;
    for (size_t k = 0; k < ARRAY_COUNT(KILLS); k++) {
        const struct rate_run run = {
            .members = MEMBERS, .faulty = 1, .rounds = 2 * ROUNDS, .kills = KILLS[k]};
        struct rate_figures clean[RESTART_SEEDS] = {0};
        for (uint64_t seed = 0; seed < RESTART_SEEDS; seed++) {
            is_good &= run_restarts(world, &run, seed, NULL, &clean[seed]);
        }
        for (size_t i = 0; i < ARRAY_COUNT(LIES); i++) {
            is_good &= (!is_long_run() && i % ARRAY_COUNT(KILLS) != k) ||
                       check_restarts_of(world, &run, LIES[i], i < named_lies, clean);
        }
    }
    return is_good;
}

/* An owner that swaps its own contribution is found when a voter draws one of its slices. */
static bool check_swap(struct world *world) {
    const uint32_t max_named_round = 60;
    struct rate_run run = {.members = MEMBERS, .faulty = 1, .rounds = ROUNDS_LONG};
    struct rate_pair pair;
    bool is_good = rate_run_clean(world, &run, &pair);
    ASSERT(rate_find_case("swap", &run.fault));
    for (run.seed = 0; run.seed < SWAP_SEEDS; run.seed++) {
        is_good &= check_case(world, "swap", &run, &pair);
        if (pair.faulty.named_round == 0 || pair.faulty.named_round > max_named_round) {
            printf("    FAILED: expected to be named by round %u\n", max_named_round);
            is_good = false;
        }
    }
    return is_good;
}

/* Two of eight claim the same results, which no other member can fetch, and own slices again until
 * they are suspended. */
static bool check_false_claims(struct world *world) {
    struct rate_run run = {.members = MEMBERS, .faulty = 2, .rounds = ROUNDS_LONG};
    struct rate_pair pair;
    bool is_good = rate_run_clean(world, &run, &pair);
    ASSERT(rate_find_case("claim", &run.fault));
    return is_good && check_case(world, "claim", &run, &pair);
}

/* The worst figures of all cases of false fields. */
struct worst {
    uint32_t cases, failed, honest_named, aborts;
    double commits, owned, deadline;
};

static void add_case(struct worst *worst, const struct rate_pair *pair, bool is_good) {
    worst->cases += 1;
    worst->failed += !is_good;
    worst->honest_named += pair->faulty.honest_named;
    worst->aborts += pair->faulty.aborts;
    worst->commits = fmin(worst->commits, pair->commits);
    worst->owned = fmax(worst->owned, pair->faulty.owned);
    worst->deadline = fmax(worst->deadline, pair->deadline);
}

/* The bars of all cases. A member that is suspended costs up to two rounds until then, which is
 * more than a tenth of a short run: there the bar of commits is lower. */
static bool is_within_bars(const struct rate_pair *pair) {
    const double min_commits_short = 0.85;
    struct rate_pair shown = *pair;
    if (!is_long_run() && shown.commits >= min_commits_short) {
        shown.commits = 1;
    }
    return rate_check(&shown);
}

/* One member gives one field of its messages a false value, in all of them. */
static bool check_false_field(struct world *world, uint32_t field, uint32_t change,
                              struct rate_run *run, struct rate_pair *pair) {
    run->fault = (struct fault_case){.hostility = HOSTILE_FIELD,
                                     .field = &FIELDS[field],
                                     .change = (enum field_change)change,
                                     .uplink_divisor = 1,
                                     .slowness = 1};
    bool has_held = rate_run_faulty(world, run, pair);
    bool is_good = has_held && is_within_bars(pair);
    if (!is_good) {
        printf("FAILED, seed %llu, kind %d: %s\n", (unsigned long long)run->seed,
               (int)FIELDS[field].kind, world->failure);
        rate_print(FIELDS[field].name, run, pair);
    }
    return is_good;
}

/* Each field of every message kind that members send: in a short run with one of its false values,
 * in a long one with all of them, from FIELD_SEEDS seeds: more than 10,000 schedules. */
static bool check_false_fields(struct world *world) {
    const uint32_t changes = is_long_run() ? FIELD_CHANGES : 1;
    struct rate_run run = {
        .members = MEMBERS, .faulty = 1, .rounds = is_long_run() ? ROUNDS_LONG : ROUNDS};
    struct worst worst = {.commits = 1};
    struct rate_pair pair;
    bool is_good = true;
    for (run.seed = 0; run.seed < (is_long_run() ? FIELD_SEEDS : 1) && is_good; run.seed++) {
        is_good = rate_run_clean(world, &run, &pair);
        for (uint32_t i = 0; i < changes * FIELD_COUNT; i++) {
            const uint32_t field = i / changes;
            const uint32_t change = is_long_run() ? i % changes : field % FIELD_CHANGES;
            const bool is_within = check_false_field(world, field, change, &run, &pair);
            add_case(&worst, &pair, is_within);
        }
    }
    printf("%u schedules with a false field, %u failed: commits >= %.1f %%, owned <= x%.2f, "
           "deadlines <= x%.2f, %u honest members named, %u aborts\n",
           worst.cases, worst.failed, 100 * worst.commits, worst.owned, worst.deadline,
           worst.honest_named, worst.aborts);
    return is_good && worst.failed == 0;
}

/* ---- the table of fields ---- */

struct sample {
    struct message message;
    struct slice_report reports[ROWS];
    uint32_t awaited_ms[SWARM_MEMBERS_MAX];
    struct slice_proof proof;
    uint8_t bulk;
};

/* The encoding of a message, with its frame header. */
static size_t write_sample(const struct sample *sample, uint8_t *bytes) {
    struct wire_shape shape = {.slice_count = ROWS, .members_max = SWARM_MEMBERS_MAX};
    enum message_kind kind = sample->message.kind;
    bool has_bytes =
        kind == MESSAGE_CONTRIBUTION || kind == MESSAGE_RESULT || kind == MESSAGE_SKETCHES;
    struct frame frame;
    size_t count = wire_write_message(&shape, &sample->message, has_bytes, &frame,
                                      bytes + FRAME_HEADER_BYTES, PAYLOAD_BYTES_MAX);
    frame_write(&frame, bytes);
    return FRAME_HEADER_BYTES + count;
}

static bool is_listed(enum message_kind kind, enum field_part part, size_t offset) {
    for (uint32_t i = 0; i < FIELD_COUNT; i++) {
        const struct field *field = &FIELDS[i];
        if (field->kind == kind && field->part == part && offset >= field->offset &&
            offset < field->offset + field->bytes) {
            return true;
        }
    }
    return false;
}

static bool is_within(size_t offset, size_t begin, size_t bytes) {
    return offset >= begin && offset < begin + bytes;
}

/* Bytes that cannot be changed: pointers, and those of small numbers that are never written. */
static bool is_fixed(enum field_part part, size_t offset) {
    if (part == PART_MESSAGE) {
        return is_within(offset, offsetof(struct message, epoch) + 2, 2) ||
               is_within(offset, offsetof(struct message, report.parts) + 1, 3) ||
               is_within(offset, offsetof(struct message, links.awaited_ms), sizeof(void *));
    }
    if (part == PART_PROOF) {
        return is_within(offset, offsetof(struct slice_proof, path_count) + 1, 3);
    }
    return part == PART_REPORT &&
           (is_within(offset, offsetof(struct slice_report, epoch) + 2, 2) ||
            is_within(offset, offsetof(struct slice_report, changed), sizeof(uint64_t)) ||
            is_within(offset, offsetof(struct slice_report, has_result) + 1, 3));
}

/* Whether the byte at `offset` of a part is in a field of the table, or is not sent. */
static bool check_byte(struct sample *sample, enum field_part part, uint8_t *byte, size_t offset) {
    static uint8_t before[PAYLOAD_BYTES_MAX], after[PAYLOAD_BYTES_MAX];
    enum message_kind kind = sample->message.kind;
    if (is_fixed(part, offset)) {
        return true;
    }
    size_t count = write_sample(sample, before);
    *byte ^= 1;
    bool is_changed = write_sample(sample, after) != count || memcmp(before, after, count) != 0;
    *byte ^= 1;
    if (is_changed && !is_listed(kind, part, offset)) {
        printf("kind %d: byte %zu of part %d is sent, but in no field of the table\n", (int)kind,
               offset, (int)part);
        return false;
    }
    return true;
}

static bool check_kind(enum message_kind kind) {
    static const size_t POINTERS = offsetof(struct message, entry);
    static struct sample sample;
    bool is_good = true;
    memset(&sample, 0, sizeof(sample));
    sample.message.kind = kind;
    memset(&sample.message.number, 2, sizeof(sample.message.number)); /* above any base */
    sample.message.report.parts = REPORT_ALL;
    sample.message.report.rows = sample.reports;
    sample.message.proof = &sample.proof;
    sample.proof.path_count = CONTRIBUTION_PATH_MAX - 1;
    sample.message.links.awaited_ms = sample.awaited_ms;
    for (uint32_t row = 0; row < ROWS; row++) {
        memset(&sample.reports[row], 2, sizeof(sample.reports[row]));
        sample.reports[row].epoch = 2;
        sample.reports[row].has_result = 1;
        sample.reports[row].changed = 1;
        sample.reports[row].contributors = 0; /* so that a row without a result is valid, too */
    }
    for (size_t i = offsetof(struct message, from); i < POINTERS; i++) {
        is_good &= check_byte(&sample, PART_MESSAGE, (uint8_t *)&sample.message + i, i);
    }
    for (size_t i = 0; i < sizeof(struct slice_report); i++) {
        is_good &= check_byte(&sample, PART_REPORT, (uint8_t *)&sample.reports[0] + i, i);
    }
    is_good &= check_byte(&sample, PART_AWAITED, (uint8_t *)sample.awaited_ms, 0);
    for (size_t i = 0; i < sizeof(struct slice_proof); i++) {
        is_good &= check_byte(&sample, PART_PROOF, (uint8_t *)&sample.proof + i, i);
    }
    return is_good;
}

static bool check_fields(void) {
    bool is_good = true;
    for (enum message_kind kind = 0; kind < MESSAGE_KINDS; kind++) {
        bool is_sent = wire_may_send(WIRE_MEMBER, WIRE_TRACKER, (uint8_t)kind) ||
                       wire_may_send(WIRE_MEMBER, WIRE_MEMBER, (uint8_t)kind);
        is_good &= !is_sent || check_kind(kind);
    }
    return is_good;
}

int main(int argc, char **argv) {
    struct world *world = world_new();
    if (argc == 2 && strcmp(argv[1], "--restarts") == 0) {
        const bool is_right = check_restarts(world);
        world_delete(world);
        return is_right ? 0 : 1;
    }
    bool is_good = check_fields();
    if (argc == 2 && strcmp(argv[1], "--fields") == 0) {
        is_good &= check_false_fields(world);
        world_delete(world);
        return is_good ? 0 : 1;
    }
    is_good &= check_slow_members(world, MEMBERS);
    is_good &= check_slow_members(world, MEMBERS / 2);
    is_good &= check_long_steps(world, MEMBERS);
    is_good &= check_long_steps(world, MEMBERS / 2);
    is_good &= check_cases(world, 1);
    is_good &= check_cases(world, 2);
    is_good &= check_recurrent_failures(world, MEMBERS);
    is_good &= check_recurrent_failures(world, MEMBERS / 2);
    is_good &= check_values(world);
    is_good &= check_restarts(world);
    is_good &= check_swap(world);
    is_good &= check_false_claims(world);
    is_good &= check_false_fields(world);
    world_delete(world);
    return is_good ? 0 : 1;
}
