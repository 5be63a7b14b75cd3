#include "tests/sim/rate.h"

#include "tests/sim/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_ROUNDS = 3, /* rounds in which no time is known at first */
    HOUR_MS = 3600 * 1000,
    CLEAN_LIMIT_MS = 24 * HOUR_MS,
    /* A faulty run ends after the sum of this and a multiple of the clean run's time. */
    FIRST_LIMIT_MS = 15 * 60 * 1000,
    LIMIT_FACTOR = 4,
};

static const struct fault_case HEALTHY = {.uplink_divisor = 1, .slowness = 1};

struct watch {
    const struct rate_run *run;
    struct rate_figures *figures;
    uint64_t expected[RATE_SLICES]; /* seats that the first table of the round waits for */
};

static uint32_t max_u32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static bool is_faulty(const struct rate_run *run, uint32_t node) {
    return node >= TRACKERS && node < TRACKERS + run->faulty;
}

static void watch_owners(const struct rate_run *run, const struct tracker_record *record,
                         struct rate_figures *figures) {
    const struct round_table *table = &record->table;
    uint32_t owned[SWARM_MEMBERS_MAX] = {0};
    double fair = (double)RATE_SLICES / (double)__builtin_popcountll(table->declared_seats);
    for (uint32_t s = 0; s < RATE_SLICES; s++) {
        owned[table->slices[s].owner] += 1;
    }
    for (uint32_t seat = 0; seat < record->head.seat_count; seat++) {
        if (is_faulty(run, record->head.seats[seat].id.bytes[0])) {
            figures->owned = fmax(figures->owned, owned[seat] / fair);
        }
    }
}

/* In a rate run all members stay connected, so that only closes drop contributors. */
static void watch_closes(struct watch *watch, const struct round_table *table) {
    for (uint32_t s = 0; s < RATE_SLICES; s++) {
        uint64_t expected = table->slices[s].expected_seats;
        if (table->version == 1) {
            watch->expected[s] = expected;
        }
        double part = (double)__builtin_popcountll(expected) /
                      (double)__builtin_popcountll(watch->expected[s]);
        watch->figures->kept = fmin(watch->figures->kept, part);
    }
}

static void watch_deliveries(const struct rate_run *run, const struct entry *commit,
                             struct rate_figures *figures) {
    for (uint32_t seat = 0; seat < commit->seat_count; seat++) {
        bool is_counted = is_faulty(run, commit->seats[seat].id.bytes[0]);
        for (uint32_t s = 0; s < commit->slice_count && is_counted; s++) {
            figures->delivered += commit->slices[s].contributors >> seat & 1;
        }
    }
}

static void watch_suspensions(const struct rate_run *run, const struct entry *entry,
                              struct rate_figures *figures) {
    if (entry->kind != ENTRY_SUSPEND) {
        return;
    }
    bool is_liar = is_faulty(run, entry->suspension.id.bytes[0]) && run->fault.hostility != HONEST;
    if (!is_liar) {
        figures->honest_named += 1;
    } else if (figures->named_round == 0) {
        figures->named_round = entry->round;
    }
}

static void watch_deadlines(const struct swarm_timing *timing, union deadlines *max) {
    const union deadlines now = {.timing = *timing};
    for (int i = 0; i < DEADLINE_COUNT; i++) {
        max->values[i] = max_u32(max->values[i], now.values[i]);
    }
}

static void watch_writes(struct world *world, uint32_t node, const struct action *action) {
    struct watch *watch = world->observed;
    if (action->kind == ACTION_WRITE && action->entry != NULL) {
        watch_suspensions(watch->run, action->entry, watch->figures);
    }
    if (action->kind != ACTION_WRITE || action->record->head.round <= FIRST_ROUNDS) {
        return;
    }
    if ((action->parts & RECORD_PLANS) != 0 && action->record->table.version > 0) {
        watch_owners(watch->run, action->record, watch->figures);
        watch_closes(watch, &action->record->table);
    }
    if (action->entry != NULL) {
        watch->figures->aborts += action->entry->kind == ENTRY_ABORT;
    }
    if (action->entry != NULL && action->entry->kind == ENTRY_COMMIT) {
        watch_deliveries(watch->run, action->entry, watch->figures);
    }
    if (node < TRACKERS) {
        watch_deadlines(tracker_timing(world->nodes[node].machine), &watch->figures->max);
    }
}

/* Rates differ by up to a tenth. */
static uint64_t draw_rate(struct world *world, uint64_t bytes_s) {
    return bytes_s - world_draw(world, bytes_s / 10);
}

static void make_swarm(struct world *world, const struct rate_run *run) {
    for (uint32_t n = 0; n < run->members; n++) {
        struct node *node = &world->nodes[TRACKERS + n];
        node->link.up.rate = draw_rate(world, RATE_UP_BYTES_S);
        node->link.down.rate = draw_rate(world, RATE_DOWN_BYTES_S);
        if (n < run->faulty) {
            node->hostility = run->fault.hostility;
            node->slow = run->fault.slowness;
            node->link.is_dial_only = run->fault.is_dial_only;
            node->link.up.rate /= run->fault.uplink_divisor;
        }
    }
    world->false_field = run->fault.field;
    world->false_change = run->fault.change;
}

/* Runs up to this number of commits. The tracker loses its memory at some moment of every
 * run->kills-th round. */
static void run_commits(struct world *world, const struct rate_run *run, uint32_t commits) {
    while (run->kills > 0 && world->commits + run->kills < commits && world->now < run->limit_ms &&
           world->failure[0] == 0) {
        world_run_until(world, run->limit_ms, world->commits + run->kills);
        world_run_until(world, world->now + (int64_t)world_draw(world, 1000), commits);
        world_stop(world, 0);
        world_start(world, 0);
    }
    world_run_until(world, run->limit_ms, commits);
}

static bool run_swarm(struct world *world, const struct rate_run *run,
                      struct rate_figures *figures) {
    struct watch watch = {.run = run, .figures = figures};
    struct steady_swarm swarm = {.members = run->members,
                                 .slices = RATE_SLICES,
                                 .slice_bytes = RATE_SLICE_BYTES,
                                 .delay_ms = RATE_DELAY_MS,
                                 .samples = RATE_SAMPLES,
                                 .sample_ms = RATE_SAMPLE_MS};
    if (run->has_long_steps) {
        swarm.samples = RATE_LONG_SAMPLES;
        swarm.sample_ms = RATE_LONG_SAMPLE_MS;
    }
    *figures = (struct rate_figures){.kept = 1};
    world_begin_steady(world, run->seed, &swarm);
    world->settings.members_min = run->members - run->faulty;
    world->observe = watch_writes;
    world->observed = &watch;
    make_swarm(world, run);
    world_start(world, 0);
    for (uint32_t n = run->is_clean ? run->faulty : 0; n < run->members; n++) {
        world_start(world, TRACKERS + n);
    }
    run_commits(world, run, FIRST_ROUNDS);
    figures->first_ms = world->now;
    run_commits(world, run, run->rounds);
    figures->commits = world->commits > FIRST_ROUNDS ? world->commits - FIRST_ROUNDS : 0;
    figures->ms = world->now - figures->first_ms;
    world->observe = NULL;
    return world_end(world);
}

double rate_commits_per_hour(const struct rate_figures *figures) {
    return figures->ms > 0 ? (double)figures->commits * HOUR_MS / (double)figures->ms : 0;
}

double rate_slices_per_commit(const struct rate_run *run, const struct rate_figures *figures) {
    double commits = (double)figures->commits * run->faulty;
    return commits > 0 ? (double)figures->delivered / commits : 0;
}

bool rate_run_clean(struct world *world, const struct rate_run *run, struct rate_pair *pair) {
    struct rate_run clean = *run;
    clean.is_clean = true;
    clean.fault = HEALTHY;
    clean.limit_ms = CLEAN_LIMIT_MS;
    return run_swarm(world, &clean, &pair->clean);
}

bool rate_run_faulty(struct world *world, const struct rate_run *run, struct rate_pair *pair) {
    struct rate_run faulty = *run;
    faulty.limit_ms = FIRST_LIMIT_MS + LIMIT_FACTOR * pair->clean.ms;
    bool is_good = run_swarm(world, &faulty, &pair->faulty);
    pair->commits = rate_commits_per_hour(&pair->faulty) / rate_commits_per_hour(&pair->clean);
    pair->start = (double)pair->faulty.first_ms / (double)pair->clean.first_ms;
    pair->deadline = 0;
    for (int i = 0; i < DEADLINE_COUNT; i++) {
        double ratio = (double)pair->faulty.max.values[i] / (double)pair->clean.max.values[i];
        pair->deadline = fmax(pair->deadline, ratio);
    }
    return is_good;
}

void rate_print(const char *name, const struct rate_run *run, const struct rate_pair *pair) {
    const struct rate_figures *faulty = &pair->faulty;
    const struct rate_figures *clean = &pair->clean;
    printf("%-34s %u of %u: commits/h %5.0f of %5.0f (%5.1f %%), start %4.1f of %4.1f s, "
           "aborts %2u, owned x%.2f, "
           "delivers %4.1f of %u slices, "
           "deadlines x%.2f (train %u of %u, exchange %u of %u ms), named %u after round %u%s\n",
           name, run->faulty, run->members, rate_commits_per_hour(faulty),
           rate_commits_per_hour(clean), 100 * pair->commits, (double)faulty->first_ms / 1000,
           (double)clean->first_ms / 1000, faulty->aborts, faulty->owned,
           rate_slices_per_commit(run, faulty), RATE_SLICES, pair->deadline,
           faulty->max.timing.train_ms, clean->max.timing.train_ms, faulty->max.timing.exchange_ms,
           clean->max.timing.exchange_ms, faulty->named_round > 0, faulty->named_round,
           rate_check(pair) ? "" : " FAILED");
    if (faulty->honest_named > 0) {
        printf("    %u suspensions of honest members\n", faulty->honest_named);
    }
    fflush(stdout);
}

bool rate_check(const struct rate_pair *pair) {
    const double min_commits = 0.9;
    const double max_owned = 2;
    const double max_deadline = 2;
    const double max_start = 3;
    const double min_kept = 0.5;
    return pair->commits >= min_commits && pair->faulty.aborts == 0 &&
           pair->faulty.owned <= max_owned && pair->faulty.kept >= min_kept &&
           pair->deadline <= max_deadline && pair->start <= max_start &&
           pair->faulty.honest_named == 0;
}

static const struct {
    const char *name;
    struct fault_case fault;
} DEGRADED[] = {
    {"uplink/20", {.uplink_divisor = 20, .slowness = 1}},
    {"uplink/5", {.uplink_divisor = 5, .slowness = 1}},
    {"compute/4", {.uplink_divisor = 1, .slowness = 4}},
    {"compute/5", {.uplink_divisor = 1, .slowness = 5}},
    {"compute/8", {.uplink_divisor = 1, .slowness = 8}},
    {"dial-only", {.uplink_divisor = 1, .slowness = 1, .is_dial_only = true}},
};

static const char *const KIND_NAMES[MESSAGE_KINDS] = {
    [MESSAGE_HELLO] = "HELLO",
    [MESSAGE_REPORT] = "REPORT",
    [MESSAGE_DECLARE] = "DECLARE",
    [MESSAGE_VOTE] = "VOTE",
    [MESSAGE_LEAVE] = "LEAVE",
    [MESSAGE_CONTRIBUTION] = "CONTRIBUTION",
    [MESSAGE_RESULT] = "RESULT",
    [MESSAGE_FETCH_CONTRIBUTION] = "FETCH_CONTRIBUTION",
    [MESSAGE_FETCH_RESULT] = "FETCH_RESULT",
    [MESSAGE_FETCH_SKETCHES] = "FETCH_SKETCHES",
    [MESSAGE_SKETCHES] = "SKETCHES",
    [MESSAGE_RESIGN] = "RESIGN",
};

/* In this order: degraded members, lies, false fields. */
static struct fault_case case_of(uint32_t index) {
    struct fault_case fault = HEALTHY;
    if (index < ARRAY_COUNT(DEGRADED)) {
        return DEGRADED[index].fault;
    }
    index -= (uint32_t)ARRAY_COUNT(DEGRADED);
    fault.hostility = (enum hostility)(index + 1 < HOSTILE_FIELD ? index + 1 : HOSTILE_FIELD);
    if (fault.hostility == HOSTILE_FIELD) {
        index -= HOSTILE_FIELD - 1;
        fault.field = &FIELDS[index / FIELD_CHANGES];
        fault.change = (enum field_change)(index % FIELD_CHANGES);
    }
    return fault;
}

uint32_t rate_case_count(void) {
    return ARRAY_COUNT(DEGRADED) + (HOSTILE_FIELD - 1) + FIELD_COUNT * FIELD_CHANGES;
}

const char *rate_case_name(uint32_t index, char *text, size_t capacity) {
    struct fault_case fault = case_of(index);
    if (index < ARRAY_COUNT(DEGRADED)) {
        snprintf(text, capacity, "%s", DEGRADED[index].name);
    } else if (fault.hostility != HOSTILE_FIELD) {
        snprintf(text, capacity, "%s", lie_name(fault.hostility));
    } else {
        snprintf(text, capacity, "%s.%s=%s", KIND_NAMES[fault.field->kind], fault.field->name,
                 FIELD_CHANGE_NAMES[fault.change]);
    }
    return text;
}

bool rate_find_case(const char *name, struct fault_case *fault) {
    char text[80];
    for (uint32_t i = 0; i < rate_case_count(); i++) {
        if (strcmp(rate_case_name(i, text, sizeof(text)), name) == 0) {
            *fault = case_of(i);
            return true;
        }
    }
    return false;
}
