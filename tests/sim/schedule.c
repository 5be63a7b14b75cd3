/* schedule: the course of a schedule: its swarm, its faults, and what must hold at its end. */
#include "tests/sim/fields.h"
#include "tests/sim/guests.h"
#include "tests/sim/parts.h"
#include "tests/sim/values.h"

#include "base/random.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const double PATIENCE_DEFAULT = 1.1; /* of swarm.patience */

enum {
    SEAT_SAMPLES = 8,
    SAMPLE_MS = 20,
    PATIENCE = 2,
    PROGRESS_MS = 60000, /* so long after the faults the swarm must have gone on */
    COMMITS_AFTER = 3,
    /* Then time for all members to apply the last commit. Requests for results time out after four
     * times the slowest answer of the round, and rounds of one member may be shorter than its
     * results take to be sent to three others. */
    CATCH_UP_MS = 60000,
    ROLLBACK_MS = 8000,
    SLICE_BYTES = 16384, /* of an encoded slice on links with rates */
    SCHEDULE_SLICES = 6, /* the most slices of a schedule with faults */
    PAIR_AFTER = 4,      /* commits until a pair is cut */
    PAIR_ROUNDS = 3,     /* commits after that, all together this much later than without: */
    PAIR_MS = 1700,
    COPY_MS = 1500, /* A store is copied between this time and twice as much. */
    AFTER_COPY_MS = 12000,
};

/* In half of the schedules without hostile members links have rates, and in every fourth schedule
 * some members accept no connections. */
static void make_links(struct world *world) {
    static const uint64_t KIB_S[] = {0, 500, 1000, 3000, 10000};
    bool is_hostile = world->settings.members_min > 1;
    world->slice_bytes = world_draw(world, 2) == 0 && !is_hostile ? SLICE_BYTES : 0;
    bool has_nat = world_draw(world, 4) == 0;
    for (uint32_t n = 0; n < TRACKERS + world->member_count; n++) {
        struct node_link *link = &world->nodes[n].link;
        link->up.rate = KIB_S[world_draw(world, ARRAY_COUNT(KIB_S))] * 1024;
        link->down.rate = KIB_S[world_draw(world, ARRAY_COUNT(KIB_S))] * 1024;
        link->is_dial_only = has_nat && n >= TRACKERS && world_draw(world, 4) == 0;
    }
}

/* Lies that do not keep honest members from committing rounds. One hostile schedule in four has any
 * lies, and must only be safe. */
static const enum hostility LIES[] = {
    HOSTILE_SIGN,      HOSTILE_REPLAY,   HOSTILE_COPY,   HOSTILE_ZEROS,  HOSTILE_TOKENS,
    HOSTILE_SUM,       HOSTILE_DAMAGE,   HOSTILE_UNLIKE, HOSTILE_MUTE,   HOSTILE_WITHHOLD,
    HOSTILE_DRIP,      HOSTILE_TRICKLE,  HOSTILE_IDLE,   HOSTILE_VOTE,   HOSTILE_LINKS,
    HOSTILE_RATE_ZERO, HOSTILE_RATE_MAX, HOSTILE_DAY,    HOSTILE_SKETCH, HOSTILE_ACCUSE,
    HOSTILE_HIDE,      HOSTILE_SWAP,     HOSTILE_PATCH,  HOSTILE_LATE,
};

/* Up to a third of the members is hostile, in every third schedule; no round then opens without an
 * honest quorum. */
static void make_hostile(struct world *world) {
    uint64_t most = world_draw(world, 3) == 0 ? (world->member_count - 1) / 3 : 0;
    uint64_t count = most > 0 ? 1 + world_draw(world, most) : 0;
    world->may_stall = count > 0 && world_draw(world, 4) == 0;
    for (uint64_t i = 0; i < count; i++) {
        struct node *node = &world->nodes[TRACKERS + world_draw(world, world->member_count)];
        node->hostility = world->may_stall
                              ? (enum hostility)(1 + world_draw(world, HOSTILITIES - 1))
                              : LIES[world_draw(world, ARRAY_COUNT(LIES))];
        if (node->hostility == HOSTILE_SUM && !values_have_sketches(world) &&
            !values_have_lists(world)) {
            node->hostility = HOSTILE_SIGN; /* nobody would see the wrong sum */
        }
    }
    world->false_field = &FIELDS[world_draw(world, FIELD_COUNT)];
    world->false_change = (int)world_draw(world, FIELD_CHANGES);
    world->settings.members_min = 1 + 2 * (uint32_t)count;
}

/* The codecs of schedules with the real arithmetic. */
static const enum codec CODECS[] = {CODEC_INT8, CODEC_BF16, CODEC_INT4};

#ifdef SIM_SPARSE
static const struct sparse_shape SHAPES[] = {{64, 2}, {32, 1}, {128, 4}};
#else
static const struct sparse_shape SHAPES[] = {{.keep = 0}}; /* dense codecs only */
#endif

/* Clears the world and gives it its settings. */
static void begin(struct world *world, uint64_t seed, const struct steady_swarm *swarm) {
    memset(world, 0, offsetof(struct world, truths));
    world->key = random_key(seed, "schedule");
    world->member_count = swarm->members;
    world->slice_count = swarm->slices;
    world->slice_bytes = swarm->slice_bytes;
    world->codec = CODECS[seed % ARRAY_COUNT(CODECS)];
    world->sparse = SHAPES[seed % ARRAY_COUNT(SHAPES)];
    world->sample_ms = swarm->sample_ms;
    world->agreement = swarm->agreement;
    world->delay = swarm->delay_ms;
    world->settings =
        (struct tracker_settings){.slice_count = world->slice_count,
                                  .slice_elements = SLICE_ELEMENTS,
                                  .parameter_count = (uint64_t)world->slice_count * SLICE_ELEMENTS,
                                  .seat_samples = swarm->samples,
                                  .sample_tokens = 1,
                                  .is_sparse = values_have_lists(world),
                                  .zero_root = values_zero_root(world),
                                  .training = {swarm->samples, PATIENCE},
                                  .shrink_after_ms = 3000,
                                  .rollback_after_ms = ROLLBACK_MS};
    world->settings.times =
        (struct timing_times){.train_ms = swarm->sample_ms * (uint32_t)swarm->samples,
                              .contribution_ms = 100,
                              .result_ms = 100,
                              .apply_ms = 100,
                              .round_trip_ms = 60};
    world->timing = timing_derive(&world->settings.times, PATIENCE);
    world->actions = calloc(ACTIONS_MAX, sizeof(struct action));
    for (uint32_t n = 0; n < NODES; n++) {
        world->nodes[n].slow = 1;
    }
    store_begin(world);
}

/* What the real tracker assumes until members have measured anything. */
enum { ASSUMED_STEP_MS = 2000, ASSUMED_TRANSFER_MS = 60000, ASSUMED_ROUND_TRIP_MS = 100 };

void world_begin_steady(struct world *world, uint64_t seed, const struct steady_swarm *swarm) {
    begin(world, seed, swarm);
    world->is_steady = true;
    world->is_calm = true;
    world->is_measuring = true;
    world->settings.times =
        (struct timing_times){.train_ms = ASSUMED_STEP_MS * (uint32_t)swarm->samples,
                              .contribution_ms = ASSUMED_TRANSFER_MS,
                              .result_ms = ASSUMED_TRANSFER_MS,
                              .apply_ms = ASSUMED_TRANSFER_MS,
                              .round_trip_ms = ASSUMED_ROUND_TRIP_MS};
    world->timing = timing_derive(&world->settings.times, PATIENCE_DEFAULT);
    world->settings.training.patience = PATIENCE_DEFAULT;
}

/* A swarm of random size on a bad network. */
static void begin_schedule(struct world *world, uint64_t seed, enum mistake mistake) {
    struct steady_swarm swarm = {.samples = SEAT_SAMPLES, .sample_ms = SAMPLE_MS};
    memset(world, 0, offsetof(struct world, truths));
    world->key = random_key(seed, "swarm");
    swarm.members = 3 + (uint32_t)world_draw(world, MEMBERS_MOST - 2);
    swarm.slices = 1 + (uint32_t)world_draw(world, SCHEDULE_SLICES);
    swarm.delay_ms = 5 + (int64_t)world_draw(world, 60);
    begin(world, seed, &swarm);
    world->mistake = mistake;
    world->loss = (double)world_draw(world, 4) * 0.02;
    world->has_rosters = world_draw(world, 3) == 0;
    world->settings.commits_max =
        world_draw(world, 8) == 0 ? 4 + (uint32_t)world_draw(world, 8) : 0;
}

static uint32_t end_of_voters(const struct world *world) {
    return world->first_guest > 0 ? world->first_guest : TRACKERS + world->member_count;
}

static bool has_wrong_sums(const struct world *world) {
    bool has_any = false;
    for (uint32_t n = TRACKERS; n < end_of_voters(world); n++) {
        has_any |= world->nodes[n].hostility == HOSTILE_SUM;
    }
    return has_any;
}

/* Progress is owed while the present voters suffice (those that have an entry that only the other
 * copy of the tracker has are not present), the honest ones are a quorum of them, and
 * most accept connections: two members that accept none cannot exchange anything. Nor can they
 * find out whose sum is wrong, so the honest ones of those that accept connections must be a
 * quorum where an owner lies. */
static int owes_progress(const struct world *world) {
    uint32_t there = 0;
    uint32_t honest = 0;
    uint32_t reachable = 0;
    bool is_named_by_honest = has_wrong_sums(world);
    for (uint32_t n = TRACKERS; n < end_of_voters(world); n++) {
        const struct node *node = &world->nodes[n];
        bool is_there = !node->has_left && !node->is_lost && !chain_is_rejecting(world, n);
        bool is_honest = node->hostility == HONEST;
        there += is_there;
        honest += is_there && is_honest;
        reachable += is_there && !node->link.is_dial_only && (is_honest || !is_named_by_honest);
    }
    return !world->may_stall && there >= world->settings.members_min &&
           honest >= entry_quorum(there) && reachable >= entry_quorum(there);
}

static int is_over(const struct world *world) {
    uint32_t most = world->settings.commits_max;
    uint32_t commits = world->stores[0].record.head.commits;
    if (world->copied_count > 0 && world->stores[1].record.head.commits > commits) {
        commits = world->stores[1].record.head.commits;
    }
    return most > 0 && commits >= most;
}

/* A voter that has not left. */
static uint32_t still_there(const struct world *world) {
    uint32_t node = 0;
    for (uint32_t n = TRACKERS; n < end_of_voters(world); n++) {
        node = world->nodes[n].machine != NULL ? n : node;
    }
    return node;
}

/* After the faults: rounds go on. */
static void require_progress(struct world *world) {
    uint32_t wanted = world->commits + COMMITS_AFTER;
    for (int64_t end = world->now + PROGRESS_MS; world->now < end && world->commits < wanted &&
                                                 !is_over(world) && world->failure[0] == 0 &&
                                                 owes_progress(world);) {
        world_run_until(world, world->now + world->timing.heartbeat_ms, wanted);
    }
    if (world->commits < wanted && !is_over(world) && owes_progress(world)) {
        world_fail(world, "no progress: %u commits at %d ms", world->commits, (int)world->now);
    }
}

/* Rounds go on, then everybody comes to stand on the newest state, or at the run's end leaves. */
static void settle(struct world *world) {
    require_progress(world);
    for (int64_t end = world->now + CATCH_UP_MS;
         world->now < end && world->failure[0] == 0 &&
         (is_over(world) ? still_there(world) : oracle_behind(world)) > 0;) {
        world_run_until(world, world->now + world->timing.heartbeat_ms, UINT32_MAX);
    }
    if (is_over(world) && still_there(world) > 0) {
        world_fail(world, "member %u stays after the run's end", still_there(world));
    } else if (owes_progress(world) && oracle_behind(world) > 0) {
        world_fail(world, "member %u is behind at the end", oracle_behind(world));
    }
}

int world_run(struct world *world, uint64_t seed, enum mistake mistake) {
    begin_schedule(world, seed, mistake);
    make_hostile(world);
    make_links(world);
    world_start(world, 0);
    faults_plan(world);
    world_run_until(world, FAULTS_MS, UINT32_MAX);
    if (world->failure[0] == 0) {
        faults_heal(world);
        settle(world);
    }
    return world_end(world);
}

/* One guest in three is honest. The others are hostile in every way: in half of the schedules all
 * tell the same lie, else each its own. */
static void make_guests(struct world *world) {
    enum { VOTERS_MIN = 3 };
    world->member_count =
        world->member_count < VOTERS_MIN + 2 ? VOTERS_MIN + 2 : world->member_count;
    uint64_t most = world->member_count - VOTERS_MIN;
    uint32_t guests = 1 + (uint32_t)world_draw(world, most);
    world->first_guest = TRACKERS + world->member_count - guests;
    bool is_conspiracy = world_draw(world, 2) == 0;
    enum hostility shared = (enum hostility)(1 + world_draw(world, HOSTILITIES - 1));
    for (uint32_t n = world->first_guest; n < TRACKERS + world->member_count; n++) {
        enum hostility own = (enum hostility)(1 + world_draw(world, HOSTILITIES - 1));
        bool is_honest = world_draw(world, 3) == 0;
        world->nodes[n].hostility = is_honest ? HONEST : is_conspiracy ? shared : own;
    }
    world->false_field = &FIELDS[world_draw(world, FIELD_COUNT)];
    world->false_change = (int)world_draw(world, FIELD_CHANGES);
    world->settings.members_min = 1;
    world->has_rosters = false;
}

int world_run_open(struct world *world, uint64_t seed) {
    begin_schedule(world, seed, MISTAKE_NONE);
    make_guests(world);
    world_start(world, 0);
    faults_plan(world);
    world_run_until(world, FAULTS_MS, UINT32_MAX);
    if (world->failure[0] == 0) {
        faults_heal(world);
        settle(world);
    }
    return world_end(world);
}

int world_run_copied(struct world *world, uint64_t seed, bool may_fork) {
    begin_schedule(world, seed, MISTAKE_NONE);
    world->may_fork = may_fork;
    world->will_copy = true;
    world->settings.members_min = 1;
    make_links(world);
    world_start(world, 0);
    faults_plan(world);
    world_run_until(world, COPY_MS + (int64_t)world_draw(world, COPY_MS), UINT32_MAX);
    const uint32_t commits_min = world->needs_leases ? 1 : 0; /* Before, there are no electors. */
    world_run_until(world, FAULTS_MS, commits_min);
    if (world->failure[0] == 0 && world->stores[0].record.commit.commits >= commits_min) {
        faults_copy(world);
        world_run_until(world, FAULTS_MS, UINT32_MAX);
    }
    if (world->failure[0] == 0) {
        faults_heal(world);
        world_run_until(world, FAULTS_MS + AFTER_COPY_MS, UINT32_MAX);
    }
    if (world->failure[0] == 0 && world->orders > 0) {
        require_progress(world);
    }
    return world_end(world);
}

uint32_t world_commits_after_copy(const struct world *world) {
    uint32_t commits = 0;
    for (uint32_t i = 0; i < TRACKERS && world->copied_count > 0; i++) {
        for (uint32_t at = world->copied_count; at < world->stores[i].ledger_count; at++) {
            commits += world->stores[i].ledger[at].kind == ENTRY_COMMIT;
        }
    }
    return commits;
}

int world_run_equivocal(struct world *world, uint64_t seed, enum equivocation kind) {
    begin_schedule(world, seed, MISTAKE_NONE);
    world->equivocation = kind;
    memset(&world->held, 0, sizeof(world->held));
    world->will_copy = true; /* no second tracker */
    world->settings.members_min = 1;
    uint64_t chance = 2 + world_draw(world, world->member_count);
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        world->deceived |= (uint64_t)(world_draw(world, chance) == 0) << n;
    }
    make_links(world);
    world_start(world, 0);
    faults_plan(world);
    world_run_until(world, FAULTS_MS, UINT32_MAX);
    if (world->failure[0] == 0) {
        faults_heal(world);
        world_run_until(world, FAULTS_MS + AFTER_COPY_MS, UINT32_MAX);
    }
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        world->detections += chain_is_rejecting(world, n);
    }
    return world_end(world);
}

/* How long one more commit takes, at most. */
static int64_t commit_once(struct world *world) {
    int64_t since = world->now;
    world_run_until(world, since + PROGRESS_MS, world->commits + 1);
    return world->now - since;
}

/* The nodes of members whose work a commit lacks; all of them if it lacks a seat. */
static uint64_t find_missing_nodes(const struct world *world, const struct entry *commit) {
    uint64_t missing = 0;
    for (uint32_t seat = 0; seat < commit->seat_count; seat++) {
        uint64_t contributed = 0;
        for (uint32_t s = 0; s < commit->slice_count; s++) {
            contributed |= commit->slices[s].contributors >> seat & 1;
        }
        bool is_missing = commit->members[seat].weight > 0 && contributed == 0;
        missing |= (uint64_t)is_missing << commit->seats[seat].id.bytes[0];
    }
    return commit->seat_count == world->member_count ? missing : UINT64_MAX;
}

/* Each member is in one of the two newest commits. Owners do not wait for a member whose messages
 * were late in three rounds, so that a single commit may lack it. */
static bool is_whole(const struct world *world) {
    uint64_t missing = UINT64_MAX;
    uint32_t commits = 0;
    const struct tracker_store *store = &world->stores[0];
    for (uint32_t i = store->ledger_count; i > 0 && commits < 2; i--) {
        if (store->ledger[i - 1].kind == ENTRY_COMMIT) {
            missing &= find_missing_nodes(world, &store->ledger[i - 1]);
            commits++;
        }
    }
    return missing == 0;
}

static void cut_pair(struct world *world) {
    uint32_t one = TRACKERS + (uint32_t)world_draw(world, world->member_count);
    uint32_t other = TRACKERS + (uint32_t)world_draw(world, world->member_count - 1);
    other += other >= one;
    world->cut_until[one][other] = INT64_MAX;
    world->cut_until[other][one] = INT64_MAX;
}

int world_run_pair(struct world *world, uint64_t seed) {
    begin_schedule(world, seed, MISTAKE_NONE);
    world->is_calm = 1;
    world->loss = 0;
    world->settings.commits_max = 0;
    world->settings.members_min = world->member_count;
    world_start(world, 0);
    for (uint32_t n = 0; n < world->member_count; n++) {
        world_start(world, TRACKERS + n);
    }
    int64_t usual = 0;
    while (world->commits < PAIR_AFTER && world->failure[0] == 0) {
        int64_t took = commit_once(world);
        usual = took > usual ? took : usual;
    }
    world_run_until(world, world->now + (int64_t)world_draw(world, (uint64_t)usual), UINT32_MAX);
    cut_pair(world);
    int64_t since = world->now;
    for (int i = 0; i < PAIR_ROUNDS; i++) {
        (void)commit_once(world);
    }
    int64_t late = world->now - since - PAIR_ROUNDS * usual;
    if (late > PAIR_MS) {
        world_fail(world, "a cut pair costs %d ms", (int)late);
    } else if (world->adoptions > 0) {
        world_fail(world, "a member takes the state anew");
    } else if (world->member_count > 3 && !is_whole(world)) {
        world_fail(world, "round %u lacks a connected member",
                   world->stores[0].record.commit.round);
    }
    return world_end(world);
}
