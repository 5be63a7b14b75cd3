/* world: the clock, the heap of happenings, the nodes' lives, and the course of a schedule. */
#include "tests/sim/world.h"

#include "base/random.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROGRESS_MS = 60000, /* so long after the faults the swarm must have gone on */
    COMMITS_AFTER = 3,
    CATCH_UP_MS = 15000, /* and so long after that everyone stands on a last commit's root */
    ROLLBACK_MS = 8000,
    ANSWER_MS = 1000,      /* who does not answer for so long is said not to */
    MISHEARD_ONE_IN = 300, /* heartbeats: somebody is, who would answer */
    PAIR_AFTER = 4,        /* commits until a pair is cut */
    PAIR_ROUNDS = 3,       /* commits after that, all together this much later than without: */
    PAIR_MS = 1700,
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

static void drop(struct happening *happening) {
    if (happening->parcel != NULL) {
        post_free(happening->parcel);
    }
    if (happening->record != NULL) {
        store_free(happening->record);
    }
    free(happening);
}

void world_stop(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    free(node->machine);
    node->machine = NULL;
    node->start += 1;
    node->adopting.job = 0;
    node->leaves = 0;
    memset(node->feedback, 0, sizeof(node->feedback));
    for (int i = 0; i < STORE_ROWS; i++) {
        if (!node->store[i].is_durable) {
            node->store[i].round = 0;
        }
    }
    oracle_restarted(world, index);
}

static void start_tracker(struct world *world, struct node *node) {
    world->record.incarnation += 1;
    node->machine = aligned_alloc(64, tracker_memory_bytes(&world->settings));
    tracker_init(node->machine, &world->settings, &world->record, world->now + node->clock_ahead);
    for (uint32_t i = 0; i < world->ledger_count; i++) {
        enum entry_kind kind = world->ledger[i].kind;
        if (kind == ENTRY_GENESIS || kind == ENTRY_COMMIT || kind == ENTRY_ROLLBACK) {
            tracker_replay_entry(node->machine, &world->ledger[i]);
        }
    }
}

static void start_member(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    struct slice_report reports[SLICES_MOST];
    struct member_initial_state start = {.id = {{(uint8_t)index}},
                                         .start_id = 1 + world_draw(world, UINT64_C(1) << 60),
                                         .slice_count = world->slice_count,
                                         .stored = reports};
    start.root = plane_root(world, &node->outer);
    start.stored_round = plane_stored(world, node, reports);
    node->machine = aligned_alloc(64, member_memory_bytes(world->slice_count));
    member_init(node->machine, &start);
    if (world_draw(world, 4) > 0) {
        static const uint32_t UPS[] = {0, TIMING_UNKNOWN, 100, 1000, 3000, 10000};
        struct timing_measured measured = {.step_ms = 5 + (uint32_t)world_draw(world, 10),
                                           .transfer_ms = 50 + (uint32_t)world_draw(world, 200),
                                           .round_trip_ms = 10 + (uint32_t)world_draw(world, 100)};
        measured.upload_kib_s = UPS[world_draw(world, ARRAY_COUNT(UPS))];
        member_set_measured(node->machine, &measured);
    }
}

void world_start(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    if (node->machine != NULL || node->has_left || node->is_lost) {
        return;
    }
    node->start += 1;
    if (index < TRACKERS) {
        start_tracker(world, node);
    } else {
        start_member(world, index);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        world->answered[index][n] = world->now;
    }
    world_add(world, HAPPEN_TICK, index, (int64_t)world_draw(world, 100));
}

void world_step(struct world *world, uint32_t index, const struct event *event,
                const struct parcel *parcel) {
    struct node *node = &world->nodes[index];
    struct actions actions = {world->actions, 0, ACTIONS_MAX};
    if (index < TRACKERS) {
        tracker_step(node->machine, event, world->now + node->clock_ahead, &actions);
        world->heartbeat_ms = tracker_timing(node->machine)->heartbeat_ms;
    } else {
        member_step(node->machine, event, &actions);
    }
    for (uint32_t i = 0; i < actions.count && world->observe != NULL; i++) {
        world->observe(world, index, &actions.rows[i]);
    }
    plane_act(world, index, &actions, parcel);
    if (node->has_left && node->machine != NULL) {
        world_stop(world, index);
    }
}

/* Who does not answer a member's pings, as its host sees it, or says. */
static void tell_cut(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    struct identity cut[MEMBERS_MOST];
    uint32_t count = 0;
    uint32_t misheard = !world->is_calm && world_draw(world, MISHEARD_ONE_IN) == 0
                            ? TRACKERS + (uint32_t)world_draw(world, world->member_count)
                            : index;
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        const struct node *other = &world->nodes[n];
        if (other->machine != NULL && other->paused_until <= world->now &&
            world->cut_until[index][n] <= world->now && world->cut_until[n][index] <= world->now) {
            world->answered[index][n] = world->now;
        }
        if (n != index && (world->now - world->answered[index][n] > ANSWER_MS || n == misheard ||
                           node->hostility == HOSTILE_LINKS)) {
            cut[count++] = (struct identity){{(uint8_t)n}};
        }
    }
    member_set_unreachable(node->machine, cut, count);
}

/* A host that has a commit which follows the state that stands gives that to its machine instead of
 * the newest, if it likes. */
static void lead(struct world *world, uint32_t index, struct message *message) {
    struct hash root = plane_root(world, &world->nodes[index].outer);
    if (message->kind != MESSAGE_ENTRY || message->entry->kind != ENTRY_COMMIT ||
        hash_equal(&message->root, &root) || world_draw(world, 2) == 0) {
        return;
    }
    const struct entry *next = NULL;
    const struct hash *base = &world->ledger[0].root;
    for (uint32_t i = 1; i < world->ledger_count; i++) {
        const struct entry *entry = &world->ledger[i];
        if (entry->kind == ENTRY_COMMIT || entry->kind == ENTRY_ROLLBACK) {
            int follows = entry->kind == ENTRY_COMMIT && hash_equal(base, &root);
            next = follows ? entry : entry->kind == ENTRY_ROLLBACK ? NULL : next;
            base = &entry->root;
        }
    }
    if (next != NULL && next->round < message->entry->round) {
        message->entry = next;
        message->root = root;
        world->replays += 1;
    }
}

static void happen(struct world *world, struct happening *happening) {
    struct node *node = &world->nodes[happening->node];
    if (happening->kind == HAPPEN_FAULT) {
        faults_happen(world, happening);
        return;
    }
    if (happening->kind == HAPPEN_WRITTEN) {
        store_written(world, happening);
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
    if (happening->kind == HAPPEN_TICK) {
        event.kind = EVENT_TICK;
        if (happening->node >= TRACKERS) {
            tell_cut(world, happening->node);
        }
        world_add(world, HAPPEN_TICK, happening->node, world->heartbeat_ms);
    } else if (happening->kind == HAPPEN_PARCEL) {
        if (!post_take(happening->parcel)) {
            return;
        }
        event.kind = EVENT_MESSAGE;
        if (happening->node >= TRACKERS) {
            lead(world, happening->node, &happening->parcel->message);
        }
        event.message = &happening->parcel->message;
    } else {
        event.hashes = happening->hashes;
    }
    world_step(world, happening->node, &event, happening->parcel);
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
            drop(happening);
        }
    }
    if (world->commits < commits && world->failure[0] == 0) {
        world->now = until;
    }
}

/* Up to a third of the members is hostile, in every third schedule; no round then opens without an
 * honest quorum. */
static void make_hostile(struct world *world) {
    uint64_t most = world_draw(world, 3) == 0 ? (world->member_count - 1) / 3 : 0;
    uint64_t count = most > 0 ? 1 + world_draw(world, most) : 0;
    for (uint64_t i = 0; i < count; i++) {
        struct node *node = &world->nodes[TRACKERS + world_draw(world, world->member_count)];
        node->hostility = (enum hostility)(1 + world_draw(world, HOSTILITIES - 1));
    }
    world->settings.members_min = 1 + 2 * (uint32_t)count;
}

static void begin(struct world *world, uint64_t seed, enum mistake mistake) {
    memset(world, 0, offsetof(struct world, truths));
    world->key = random_key(seed, "schedule");
    world->mistake = mistake;
    world->heartbeat_ms = 100;
    world->member_count = 3 + (uint32_t)world_draw(world, MEMBERS_MOST - 2);
    world->slice_count = 1 + (uint32_t)world_draw(world, SLICES_MOST);
    world->loss = (double)world_draw(world, 4) * 0.02;
    world->delay = 5 + (int64_t)world_draw(world, 60);
    struct timing_measured measured = {.step_ms = 10, .transfer_ms = 100, .round_trip_ms = 60};
    world->settings = (struct tracker_settings){
        .slice_count = world->slice_count,
        .slice_elements = SLICE_ELEMENTS,
        .parameter_count = (uint64_t)world->slice_count * SLICE_ELEMENTS,
        .seat_samples = 8,
        .sample_tokens = 1,
        .training = {20, 2},
        .shrink_after_ms = 3000,
        .rollback_after_ms = ROLLBACK_MS,
        .timing = timing_derive(&measured, 1, &(struct timing_training){20, 2})};
    world->settings.commits_max =
        world_draw(world, 8) == 0 ? 4 + (uint32_t)world_draw(world, 8) : 0;
    world->actions = calloc(ACTIONS_MAX, sizeof(struct action));
    for (uint32_t n = 0; n < NODES; n++) {
        world->nodes[n].slow = 1;
    }
}

static void start(struct world *world) {
    store_begin(world);
    world_start(world, 0);
}

/* Progress is owed while those who are there suffice, and the honest ones are a quorum of them. */
static int owes_progress(const struct world *world) {
    uint32_t there = 0;
    uint32_t honest = 0;
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        const struct node *node = &world->nodes[n];
        there += !node->has_left && !node->is_lost;
        honest += !node->has_left && !node->is_lost && node->hostility == HONEST;
    }
    return there >= world->settings.members_min && honest >= entry_quorum(there);
}

static int is_over(const struct world *world) {
    uint32_t most = world->settings.commits_max;
    return most > 0 && world->record.head.commits >= most;
}

static uint32_t still_there(const struct world *world) {
    uint32_t node = 0;
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        node = world->nodes[n].machine != NULL ? n : node;
    }
    return node;
}

/* After the faults: rounds go on, then everybody comes to stand on the newest state, or at the
 * run's end leaves. */
static void settle(struct world *world) {
    uint32_t wanted = world->commits + COMMITS_AFTER;
    for (int64_t end = world->now + PROGRESS_MS; world->now < end && world->commits < wanted &&
                                                 !is_over(world) && world->failure[0] == 0 &&
                                                 owes_progress(world);) {
        run_until(world, world->now + world->heartbeat_ms, wanted);
    }
    if (world->commits < wanted && !is_over(world) && owes_progress(world)) {
        world_fail(world, "no progress: %u commits at %d ms", world->commits, (int)world->now);
    }
    for (int64_t end = world->now + CATCH_UP_MS;
         world->now < end && world->failure[0] == 0 &&
         (is_over(world) ? still_there(world) : oracle_behind(world)) > 0;) {
        run_until(world, world->now + world->heartbeat_ms, UINT32_MAX);
    }
    if (is_over(world) && still_there(world) > 0) {
        world_fail(world, "member %u stays after the run's end", still_there(world));
    } else if (owes_progress(world) && oracle_behind(world) > 0) {
        world_fail(world, "member %u is behind at the end", oracle_behind(world));
    }
}

static int end(struct world *world) {
    while (world->heap_count > 0) {
        drop(pop(world));
    }
    for (uint32_t n = 0; n < NODES; n++) {
        free(world->nodes[n].machine);
    }
    free(world->heap);
    free(world->actions);
    store_finish(world);
    return world->failure[0] == 0;
}

int world_run(struct world *world, uint64_t seed, enum mistake mistake) {
    begin(world, seed, mistake);
    make_hostile(world);
    start(world);
    faults_plan(world);
    run_until(world, FAULTS_MS, UINT32_MAX);
    faults_heal(world);
    settle(world);
    return end(world);
}

/* How long one more commit takes, at most. */
static int64_t commit_once(struct world *world) {
    int64_t since = world->now;
    run_until(world, since + PROGRESS_MS, world->commits + 1);
    return world->now - since;
}

/* Whoever has trained is in the newest commit. */
static int is_whole(const struct world *world) {
    const struct entry *commit = &world->record.commit;
    uint64_t left_out = 0;
    for (uint32_t seat = 0; seat < commit->seat_count; seat++) {
        left_out |= commit->members[seat].weight > 0 ? UINT64_C(1) << seat : 0;
    }
    for (uint32_t s = 0; s < commit->slice_count; s++) {
        left_out &= ~commit->slices[s].contributors;
    }
    return left_out == 0 && commit->seat_count == world->member_count;
}

static void cut_pair(struct world *world) {
    uint32_t one = TRACKERS + (uint32_t)world_draw(world, world->member_count);
    uint32_t other = TRACKERS + (uint32_t)world_draw(world, world->member_count - 1);
    other += other >= one;
    world->cut_until[one][other] = INT64_MAX;
    world->cut_until[other][one] = INT64_MAX;
}

int world_run_pair(struct world *world, uint64_t seed) {
    begin(world, seed, MISTAKE_NONE);
    world->is_calm = 1;
    world->loss = 0;
    world->settings.commits_max = 0;
    world->settings.members_min = world->member_count;
    start(world);
    for (uint32_t n = 0; n < world->member_count; n++) {
        world_start(world, TRACKERS + n);
    }
    int64_t usual = 0;
    while (world->commits < PAIR_AFTER && world->failure[0] == 0) {
        int64_t took = commit_once(world);
        usual = took > usual ? took : usual;
    }
    run_until(world, world->now + (int64_t)world_draw(world, (uint64_t)usual), UINT32_MAX);
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
        world_fail(world, "round %u lacks somebody who is there", world->record.commit.round);
    }
    return end(world);
}
