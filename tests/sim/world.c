/* world: the clock, the heap of happenings, the nodes' lives, and the faults of a schedule. */
#include "tests/sim/world.h"

#include "base/check.h"
#include "base/random.h"
#include "runtime/swarm/cursor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEARTBEAT_MS = 100,
    FAULTS_MS = 8000,    /* faults happen up to here */
    PROGRESS_MS = 40000, /* and so long after it the swarm must have gone on */
    COMMITS_AFTER = 3,
    CATCH_UP_MS = 10000, /* and so long after that everyone stands on a last commit's root */
};

enum fault_kind {
    FAULT_CRASH,
    FAULT_PAUSE,
    FAULT_CUT_PAIR,
    FAULT_CUT_NODE,
    FAULT_SLOW,
    FAULT_LEAVE,
    FAULT_TRACKER_CRASH,
    FAULT_TRACKER_SECOND,
    FAULT_TRACKER_PAUSE,
    FAULT_ALL_CRASH,
    FAULT_KINDS,
    FAULT_START, /* a node begins */
};

uint64_t world_draw(struct world *world, uint64_t below) {
    uint32_t words[4];
    random_block(world->key, world->drawn++, words);
    return (((uint64_t)words[0] << 32) | words[1]) % below;
}

void world_fail(struct world *world, const char *format, ...) {
    if (world->failure[0] == 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(world->failure, sizeof(world->failure), format, arguments);
        va_end(arguments);
    }
}

static int comes_before(const struct happening *a, const struct happening *b) {
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(struct world *world, struct happening *happening) {
    if (world->heap_count == world->heap_capacity) {
        world->heap_capacity = world->heap_capacity * 2 + 256;
        world->heap = realloc(world->heap, world->heap_capacity * sizeof(*world->heap));
    }
    happening->order = world->order++;
    uint32_t at = world->heap_count++;
    while (at > 0 && comes_before(happening, world->heap[(at - 1) / 2])) {
        world->heap[at] = world->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->heap[at] = happening;
}

static struct happening *pop(struct world *world) {
    struct happening *first = world->heap[0];
    struct happening *last = world->heap[--world->heap_count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < world->heap_count; child = 2 * at + 1) {
        if (child + 1 < world->heap_count &&
            comes_before(world->heap[child + 1], world->heap[child])) {
            child++;
        }
        if (!comes_before(world->heap[child], last)) {
            break;
        }
        world->heap[at] = world->heap[child];
        at = child;
    }
    world->heap[at] = last;
    return first;
}

struct happening *world_add(struct world *world, int kind, uint32_t node, int64_t delay) {
    struct happening *happening = calloc(1, sizeof(*happening));
    happening->kind = kind;
    happening->node = node;
    happening->start = world->nodes[node].start;
    happening->at = world->now + delay;
    push(world, happening);
    return happening;
}

static void drop(struct world *world, struct happening *happening) {
    (void)world;
    if (happening->parcel != NULL) {
        plane_free(happening->parcel);
    }
    if (happening->record != NULL) {
        plane_record_finish(happening->record);
        free(happening->record);
    }
    free(happening);
}

/* Its peers see their channels break, unless it went in silence. */
static void tell_closed(struct world *world, uint32_t index) {
    for (uint32_t other = 0; other < TRACKERS + world->member_count; other++) {
        if (other != index && world->nodes[other].machine != NULL && world_draw(world, 4) > 0) {
            struct happening *closed =
                world_add(world, HAPPEN_EVENT, other, 1 + (int64_t)world_draw(world, 40));
            closed->event.kind = EVENT_CLOSED;
            closed->event.peer.bytes[0] = (uint8_t)index;
        }
    }
}

static void stop_node(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    free(node->machine);
    node->machine = NULL;
    node->start += 1;
    node->adopting.job = 0;
    tell_closed(world, index);
    for (int i = 0; i < STORE_ROWS; i++) {
        if (!node->store[i].is_durable) {
            node->store[i].round = 0;
        }
    }
}

/* The newest round whose results are all on disk. */
static uint32_t stored_round(const struct world *world, const struct node *node,
                             struct slice_report *reports) {
    uint32_t round = 0;
    for (int i = 0; i < STORE_ROWS; i++) {
        round = node->store[i].round > round ? node->store[i].round : round;
    }
    memset(reports, 0, world->slice_count * sizeof(*reports));
    for (int i = 0; i < STORE_ROWS; i++) {
        const struct stored *stored = &node->store[i];
        if (round > 0 && stored->round == round) {
            struct slice_report *report = &reports[stored->slice];
            report->held = 1;
            report->epoch = stored->epoch;
            report->contributors = stored->contributors;
            report->hash = hash_of(&stored->coded, sizeof(stored->coded));
        }
    }
    return round;
}

static void start_node(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    if (node->machine != NULL || node->has_left) {
        return;
    }
    node->start += 1;
    if (index < TRACKERS) {
        world->record.incarnation += 1;
        node->machine = aligned_alloc(64, tracker_bytes(&world->settings));
        tracker_init(node->machine, &world->settings, &world->record, world->now);
    } else {
        struct slice_report reports[SLICES_MOST];
        struct member_start start = {.id = {{(uint8_t)index}},
                                     .number = 1 + world_draw(world, UINT64_C(1) << 60),
                                     .slice_count = world->slice_count,
                                     .stored = reports};
        start.root = plane_root(world, &node->outer);
        start.stored_round = stored_round(world, node, reports);
        node->machine = aligned_alloc(64, member_bytes(world->slice_count));
        member_init(node->machine, &start);
    }
    world_add(world, HAPPEN_TICK, index, (int64_t)world_draw(world, HEARTBEAT_MS));
}

static void step(struct world *world, uint32_t index, const struct event *event,
                 const struct parcel *parcel) {
    struct node *node = &world->nodes[index];
    struct actions actions = {world->actions, 0, ACTIONS_MAX};
    if (index < TRACKERS) {
        tracker_step(node->machine, event, world->now, &actions);
    } else {
        member_step(node->machine, event, &actions);
    }
    plane_act(world, index, &actions, parcel);
    if (node->has_left && node->machine != NULL) {
        stop_node(world, index);
    }
}

static void spoil_entry(struct world *world, struct entry *entry) {
    if (world->mistake == MISTAKE_QUORUM && entry->seat_count > 1) {
        entry->signature_count = entry->seat_count / 2;
    }
    for (uint32_t seat = 0; world->mistake == MISTAKE_CURSOR && seat < entry->seat_count; seat++) {
        if ((entry->slices[0].contributors >> seat & 1) != 0) {
            cursor_return(&entry->cursor, entry->seats[seat].ranges[0]);
            return;
        }
    }
}

/* A write that ends: durable if no later tracker has written and the disk had room. A tracker that
 * was killed meanwhile never hears of it. */
static void end_write(struct world *world, struct happening *happening) {
    struct node *node = &world->nodes[happening->node];
    struct tracker_record *written = happening->record;
    int is_alive = node->machine != NULL && node->start == happening->start;
    struct event event = {.kind = EVENT_WRITTEN, .written = WRITTEN};
    struct hash hash = written->head.hash;
    if (happening->is_appending && written->head.kind != ENTRY_COMMIT) {
        struct identity id = {{(uint8_t)happening->node}};
        hash = plane_entry_hash(&written->head, &written->head.root);
        event.signature = plane_sign(&id, &hash);
    }
    if (written->incarnation < world->record.incarnation && world->mistake != MISTAKE_FENCE) {
        event.written = WRITE_FENCED;
    } else if (world_draw(world, 50) == 0 || (!is_alive && world_draw(world, 2) == 0)) {
        event.written = world->mistake == MISTAKE_UNDURABLE ? WRITTEN : WRITE_FAILED;
    } else {
        written->head.hash = hash;
        struct hash base = world->record.commit.root;
        if (happening->is_appending) {
            oracle_append(world, &written->head);
        }
        if (happening->is_appending && written->head.kind == ENTRY_COMMIT) {
            spoil_entry(world, &written->head);
            if (world->mistake == MISTAKE_QUORUM) {
                world->ledger_count -= 1;
                memset(world->used, 0, sizeof(world->used));
                oracle_append(world, &written->head);
            }
            entry_copy(&written->commit, &written->head);
            written->base = base;
        }
        plane_record_copy(&world->record, written, world->slice_count);
    }
    event.hash = hash;
    if (is_alive) {
        step(world, happening->node, &event, NULL);
    }
}

static uint32_t any_member(struct world *world) {
    return TRACKERS + (uint32_t)world_draw(world, world->member_count);
}

static void cut(struct world *world, uint32_t a, uint32_t b, int64_t lasts) {
    world->cut_until[a][b] = world->now + lasts;
    if (world_draw(world, 4) > 0) {
        world->cut_until[b][a] = world->now + lasts;
    }
}

static void crash(struct world *world, uint32_t index, int64_t lasts) {
    if (world->nodes[index].machine != NULL) {
        stop_node(world, index);
        world_add(world, HAPPEN_FAULT, index, lasts)->fault = FAULT_START;
    }
}

static void happen_fault(struct world *world, const struct happening *happening) {
    uint32_t index = happening->node;
    int64_t lasts = happening->lasts;
    struct event leave = {.kind = EVENT_LEAVE};
    switch (happening->fault) {
    case FAULT_CRASH:
    case FAULT_TRACKER_CRASH:
        crash(world, index, lasts);
        break;
    case FAULT_PAUSE:
    case FAULT_TRACKER_PAUSE:
        world->nodes[index].paused_until = world->now + lasts;
        break;
    case FAULT_CUT_PAIR:
        cut(world, index, happening->other, lasts);
        break;
    case FAULT_CUT_NODE:
        for (uint32_t other = 0; other < TRACKERS + world->member_count; other++) {
            cut(world, index, other, lasts);
        }
        break;
    case FAULT_SLOW:
        world->nodes[index].slow = 4;
        break;
    case FAULT_LEAVE:
        if (world->nodes[index].machine != NULL) {
            step(world, index, &leave, NULL);
        }
        break;
    case FAULT_ALL_CRASH:
        for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
            crash(world, n, 100 + (int64_t)world_draw(world, 1000));
        }
        break;
    default: /* FAULT_START, FAULT_TRACKER_SECOND */
        start_node(world, index);
        break;
    }
}

static void happen(struct world *world, struct happening *happening) {
    struct node *node = &world->nodes[happening->node];
    if (happening->kind == HAPPEN_FAULT) {
        happen_fault(world, happening);
        return;
    }
    if (happening->kind == HAPPEN_WRITTEN) {
        end_write(world, happening);
        return;
    }
    int is_same = node->start == happening->start || happening->kind == HAPPEN_PARCEL;
    if (node->machine == NULL || !is_same) {
        return;
    }
    struct event event = happening->event;
    if (happening->kind == HAPPEN_LEAF) {
        plane_leaf(world, happening->node, event.job);
        return;
    }
    if (happening->kind == HAPPEN_PARCEL && !plane_take(world, happening->parcel)) {
        return;
    }
    if (happening->kind == HAPPEN_TICK) {
        event.kind = EVENT_TICK;
        world_add(world, HAPPEN_TICK, happening->node, HEARTBEAT_MS);
    } else if (happening->kind == HAPPEN_PARCEL) {
        event.kind = EVENT_MESSAGE;
        event.message = &happening->parcel->message;
    } else {
        event.hashes = happening->hashes;
    }
    step(world, happening->node, &event, happening->parcel);
}

/* A stopped process meets nothing; when it wakes, everything else comes before its tick. */
static int postpone(struct world *world, struct happening *happening) {
    const struct node *node = &world->nodes[happening->node];
    if (node->paused_until <= world->now || happening->kind == HAPPEN_FAULT) {
        return 0;
    }
    happening->at = node->paused_until + (happening->kind == HAPPEN_TICK);
    push(world, happening);
    return 1;
}

static void run_until(struct world *world, int64_t until, uint32_t commits) {
    while (world->heap_count > 0 && world->failure[0] == 0 && world->heap[0]->at <= until &&
           world->commits < commits) {
        struct happening *happening = pop(world);
        world->now = happening->at;
        world->happenings += 1;
        if (!postpone(world, happening)) {
            happen(world, happening);
            drop(world, happening);
        }
    }
}

static void plan_faults(struct world *world) {
    uint64_t count = world_draw(world, 9);
    for (uint64_t i = 0; i < count; i++) {
        int kind = (int)world_draw(world, FAULT_KINDS);
        int is_tracker = kind == FAULT_TRACKER_CRASH || kind == FAULT_TRACKER_PAUSE;
        uint32_t node = kind == FAULT_TRACKER_SECOND ? 1 : is_tracker ? 0 : any_member(world);
        struct happening *fault =
            world_add(world, HAPPEN_FAULT, node, 500 + (int64_t)world_draw(world, FAULTS_MS - 500));
        fault->fault = kind;
        fault->other = (uint32_t)world_draw(world, TRACKERS + world->member_count);
        fault->lasts = 50 + (int64_t)world_draw(world, 3000);
    }
}

static void begin(struct world *world, uint64_t seed, enum mistake mistake) {
    memset(world, 0, sizeof(*world));
    world->key = random_key(seed, "schedule");
    world->mistake = mistake;
    world->member_count = 3 + (uint32_t)world_draw(world, MEMBERS_MOST - 2);
    world->slice_count = 1 + (uint32_t)world_draw(world, SLICES_MOST);
    world->loss = (double)world_draw(world, 4) * 0.02;
    world->delay = 5 + (int64_t)world_draw(world, 60);
    struct timing_measured measured = {.step_ms = 10, .transfer_ms = 100, .round_trip_ms = 60};
    world->settings =
        (struct tracker_settings){.slice_count = world->slice_count,
                                  .slice_elements = SLICE_ELEMENTS,
                                  .parameter_count = (uint64_t)world->slice_count * SLICE_ELEMENTS,
                                  .inner_steps = 20,
                                  .seat_samples = 8,
                                  .sample_tokens = 1,
                                  .members_min = 1,
                                  .shrink_after_ms = 3000,
                                  .timing = timing_derive(&measured, 1, 20)};
    world->actions = calloc(ACTIONS_MAX, sizeof(struct action));
    plane_record_init(&world->record, world->slice_count);
    world->record.session_next = 1;
    world->record.head.kind = ENTRY_GENESIS;
    world->record.head.root = plane_root(world, &world->nodes[0].outer);
    world->record.head.hash = plane_entry_hash(&world->record.head, &world->record.head.root);
    entry_copy(&world->record.commit, &world->record.head);
    world->ledger[0] = world->record.head;
    world->ledger_count = 1;
    start_node(world, 0);
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        int is_late = n > TRACKERS && world_draw(world, 5) == 0;
        world->nodes[n].slow = 1;
        world_add(world, HAPPEN_FAULT, n, is_late ? (int64_t)world_draw(world, FAULTS_MS) : 0)
            ->fault = FAULT_START;
    }
    plan_faults(world);
}

/* Faults stop: cuts heal, the stopped wake, what is down starts, the second tracker goes away. */
static void heal(struct world *world) {
    memset(world->cut_until, 0, sizeof(world->cut_until));
    world->loss = 0.01;
    if (world->nodes[1].machine != NULL) {
        stop_node(world, 1);
        stop_node(world, 0);
    }
    start_node(world, 0);
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        start_node(world, n);
    }
}

/* Progress is owed while somebody is there, unless leavers took the newest outer state along. */
static int owes_progress(const struct world *world) {
    uint32_t there = 0;
    uint32_t left = 0;
    uint32_t on_head = 0;
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        const struct node *node = &world->nodes[n];
        struct hash root = plane_root(world, &node->outer);
        left += node->has_left;
        there += !node->has_left;
        on_head += !node->has_left && hash_equal(&root, &world->record.commit.root);
    }
    return there > 0 && (left == 0 || on_head > 0);
}

int world_run(struct world *world, uint64_t seed, enum mistake mistake) {
    begin(world, seed, mistake);
    run_until(world, FAULTS_MS, UINT32_MAX);
    heal(world);
    uint32_t wanted = world->commits + COMMITS_AFTER;
    run_until(world, world->now + PROGRESS_MS, wanted);
    if (world->commits < wanted && owes_progress(world)) {
        world_fail(world, "no progress: %u commits at %d ms", world->commits, (int)world->now);
    }
    for (int64_t end = world->now + CATCH_UP_MS; world->now < end && oracle_behind(world) > 0;) {
        run_until(world, world->now + HEARTBEAT_MS, UINT32_MAX);
        if (world->failure[0] != 0) {
            break;
        }
    }
    if (owes_progress(world) && oracle_behind(world) > 0) {
        world_fail(world, "member %u is behind at the end", oracle_behind(world));
    }
    while (world->heap_count > 0) {
        drop(world, pop(world));
    }
    for (uint32_t n = 0; n < NODES; n++) {
        free(world->nodes[n].machine);
    }
    free(world->heap);
    free(world->actions);
    plane_record_finish(&world->record);
    return world->failure[0] == 0;
}
