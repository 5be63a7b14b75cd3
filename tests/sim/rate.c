#include "tests/sim/rate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_ROUNDS = 3, /* rounds in which deadlines still come from the settings */
    SLICES = 32,
    SLICE_BYTES = 65536,
    UP_BYTES_S = 4 << 20,
    DOWN_BYTES_S = 20 << 20,
    DELAY_MS = 10,
    SAMPLES = 16,
    SAMPLE_MS = 50,
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
    double fair = (double)SLICES / (double)__builtin_popcountll(table->declared_seats);
    for (uint32_t s = 0; s < SLICES; s++) {
        owned[table->slices[s].owner] += 1;
    }
    for (uint32_t seat = 0; seat < record->head.seat_count; seat++) {
        if (is_faulty(run, record->head.seats[seat].id.bytes[0])) {
            figures->owned = fmax(figures->owned, owned[seat] / fair);
        }
    }
}

static void watch_deadlines(const struct swarm_timing *timing, struct swarm_timing *max) {
    max->heartbeat_ms = max_u32(max->heartbeat_ms, timing->heartbeat_ms);
    max->silence_ms = max_u32(max->silence_ms, timing->silence_ms);
    max->train_ms = max_u32(max->train_ms, timing->train_ms);
    max->exchange_ms = max_u32(max->exchange_ms, timing->exchange_ms);
    max->round_ms = max_u32(max->round_ms, timing->round_ms);
}

static void watch_writes(struct world *world, uint32_t node, const struct action *action) {
    const struct watch *watch = world->observed;
    if (action->kind != ACTION_WRITE || action->record->head.round <= FIRST_ROUNDS) {
        return;
    }
    if ((action->parts & RECORD_PLANS) != 0 && action->record->table.version > 0) {
        watch_owners(watch->run, action->record, watch->figures);
    }
    watch->figures->aborts += action->entry != NULL && action->entry->kind == ENTRY_ABORT;
    if (node == 0) {
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
        node->link.up.rate = draw_rate(world, UP_BYTES_S);
        node->link.down.rate = draw_rate(world, DOWN_BYTES_S);
        if (n < run->faulty) {
            node->hostility = run->fault.hostility;
            node->slow = run->fault.slowness;
            node->link.up.rate /= run->fault.uplink_divisor;
        }
    }
    world->false_field = run->fault.field;
    world->false_change = run->fault.change;
}

static bool run_swarm(struct world *world, const struct rate_run *run,
                      struct rate_figures *figures) {
    struct watch watch = {run, figures};
    struct steady_swarm swarm = {.members = run->members,
                                 .slices = SLICES,
                                 .slice_bytes = SLICE_BYTES,
                                 .delay_ms = DELAY_MS,
                                 .samples = SAMPLES,
                                 .sample_ms = SAMPLE_MS};
    *figures = (struct rate_figures){0};
    world_begin_steady(world, run->seed, &swarm);
    world->settings.members_min = run->members - run->faulty;
    world->observe = watch_writes;
    world->observed = &watch;
    make_swarm(world, run);
    world_start(world, 0);
    for (uint32_t n = run->is_clean ? run->faulty : 0; n < run->members; n++) {
        world_start(world, TRACKERS + n);
    }
    world_run_until(world, run->limit_ms, FIRST_ROUNDS);
    figures->first_ms = world->now;
    world_run_until(world, run->limit_ms, run->rounds);
    figures->commits = world->commits > FIRST_ROUNDS ? world->commits - FIRST_ROUNDS : 0;
    figures->ms = world->now - figures->first_ms;
    world->observe = NULL;
    return world_end(world);
}

static double ratio_of(uint32_t faulty, uint32_t clean) {
    return (double)faulty / (double)clean;
}

double rate_commits_per_hour(const struct rate_figures *figures) {
    return figures->ms > 0 ? (double)figures->commits * HOUR_MS / (double)figures->ms : 0;
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
    const struct swarm_timing *a = &pair->faulty.max;
    const struct swarm_timing *b = &pair->clean.max;
    pair->commits = rate_commits_per_hour(&pair->faulty) / rate_commits_per_hour(&pair->clean);
    pair->deadline =
        fmax(ratio_of(a->train_ms, b->train_ms), ratio_of(a->exchange_ms, b->exchange_ms));
    pair->deadline = fmax(pair->deadline, ratio_of(a->heartbeat_ms, b->heartbeat_ms));
    pair->deadline = fmax(pair->deadline, ratio_of(a->silence_ms, b->silence_ms));
    pair->deadline = fmax(pair->deadline, ratio_of(a->round_ms, b->round_ms));
    return is_good;
}

static const struct {
    const char *name;
    uint32_t uplink_divisor, slowness;
} DEGRADED[] = {{"uplink/20", 20, 1}, {"uplink/5", 5, 1}, {"compute/5", 1, 5}};

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
};

/* In this order: degraded members, lies, false fields. */
static struct fault_case case_of(uint32_t index) {
    struct fault_case fault = HEALTHY;
    if (index < ARRAY_COUNT(DEGRADED)) {
        fault.uplink_divisor = DEGRADED[index].uplink_divisor;
        fault.slowness = DEGRADED[index].slowness;
        return fault;
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
