/* world: the clock, the heap of happenings, and the starts and stops of nodes. */
#include "tests/sim/guests.h"
#include "tests/sim/parts.h"
#include "tests/sim/values.h"

#include "base/random.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    ANSWER_MS = 1000,      /* a member that sends no answer for so long counts as unreachable */
    MISHEARD_ONE_IN = 300, /* heartbeats: a member wrongly counts as unreachable */
};

struct world *world_new(void) {
    void *memory = mmap(NULL, sizeof(struct world), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT(memory != MAP_FAILED);
    return memory;
}

void world_delete(struct world *world) {
    munmap(world, sizeof(*world));
}

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

void world_push(struct world *world, struct happening *happening) {
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
    world_push(world, happening);
    return happening;
}

static void drop(struct happening *happening) {
    if (happening->parcel != NULL) {
        parcel_free(happening->parcel);
    }
    if (happening->record != NULL) {
        store_free(happening->record);
    }
    free(happening->page);
    free(happening);
}

void world_stop(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    chain_stop(world, index);
    free(node->machine);
    node->machine = NULL;
    node->start += 1;
    node->adopting.job = 0;
    node->leaves = 0;
    node->measures = (struct measures){0};
    net_stop(world, index);
    values_stop(world, index);
    for (int i = 0; i < STORE_ROWS; i++) {
        if (!node->results[i].is_durable) {
            node->results[i].round = 0;
        }
    }
    oracle_restarted(world, index);
}

static void start_tracker(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    struct tracker_store *store = store_of(world, index);
    store->record.incarnation += 1;
    node->machine = aligned_alloc(64, tracker_memory_bytes(&world->settings));
    tracker_init(node->machine, &world->settings, &store->record, world->now + node->clock_ahead);
    tracker_restore_roster_epoch(node->machine, &store->chain.roster_epoch);
    if (world->needs_leases) {
        const uint32_t drawn = (uint32_t)world_draw(world, UINT32_MAX);
        tracker_use_leases(node->machine, tracker_start_number(store->place, drawn), &store->chain);
    }
    for (uint32_t i = 0; i < store->ledger_count; i++) {
        enum entry_kind kind = store->ledger[i].kind;
        if (kind == ENTRY_GENESIS || kind == ENTRY_COMMIT || kind == ENTRY_ROLLBACK ||
            kind == ENTRY_SUSPEND) {
            tracker_replay_entry(node->machine, &store->ledger[i]);
        }
    }
    if (world->roster.serial == 0) {
        guests_sign_roster(world, &store->chain.swarm);
    }
    if (world->roster.serial > store->chain.roster_epoch.serial) {
        tracker_queue_roster_epoch(node->machine, &world->roster);
    }
    for (uint32_t n = TRACKERS; n < NODES; n++) {
        if (world->nodes[n].store == node->store) {
            chain_connect(world, n);
        }
    }
}

static void start_member(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    static struct slice_report reports[SLICES_MOST];
    struct member_initial_state start = {.id = {{(uint8_t)index}},
                                         .start_id = 1 + world_draw(world, UINT64_C(1) << 60),
                                         .slice_count = world->slice_count,
                                         .sample_tokens = 1,
                                         .sent_values = values_sent_values(world),
                                         .has_sketches = values_have_sketches(world),
                                         .stored = reports};
    start.audit_secret = hash_of(&start.start_id, sizeof(start.start_id));
    start.root = plane_root(world, &node->outer);
    start.lease = node->lease;
    start.stored_round = plane_stored(world, node, reports);
    node->machine = aligned_alloc(64, member_memory_bytes(world->slice_count));
    member_init(node->machine, &start);
    chain_start(world, index);
    values_start(world, index);
    measure_draw(world, index);
}

void world_start(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    if (node->machine != NULL || node->has_left || node->is_lost) {
        return;
    }
    node->start += 1;
    net_start(world, index);
    if (index < TRACKERS) {
        start_tracker(world, index);
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
        struct hash random = hash_of(&world->happenings, sizeof(world->happenings));
        tracker_set_next_seed(node->machine, &random);
        tracker_step(node->machine, event, world->now + node->clock_ahead, &actions);
        world->timing = *tracker_timing(node->machine);
    } else {
        const struct event heard = guests_mishear(world, index, event);
        member_step(node->machine, &heard, world->now, &actions);
    }
    for (uint32_t i = 0; i < actions.count && world->observe != NULL; i++) {
        world->observe(world, index, &actions.rows[i]);
    }
    plane_act(world, index, &actions, parcel);
    if (node->has_left && node->machine != NULL) {
        world_stop(world, index);
        faults_return(world, index);
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
            net_is_connected(world, index, n) && net_is_connected(world, n, index)) {
            world->answered[index][n] = world->now;
        }
        if (n != index && (world->now - world->answered[index][n] > ANSWER_MS || n == misheard ||
                           node->hostility == HOSTILE_LINKS)) {
            cut[count++] = (struct identity){{(uint8_t)n}};
        }
    }
    member_set_unreachable_members(node->machine, cut, count);
}

static void tick(struct world *world, uint32_t index) {
    struct event event = {.kind = EVENT_TICK};
    if (index >= TRACKERS) {
        tell_cut(world, index);
        net_mark_arriving(world, index);
        measure_ping(world, index);
        measure_report(world, index);
        theft_tick(world, index);
    }
    world_add(world, HAPPEN_TICK, index, world->timing.heartbeat_ms);
    if (index < TRACKERS || chain_is_synced(world, index)) {
        world_step(world, index, &event, NULL);
    }
    if (index < TRACKERS && world->needs_leases) {
        faults_operate(world, index);
    }
}

/* Whether the sender stopped before it had sent the last byte. */
static bool is_truncated(const struct world *world, const struct parcel *parcel) {
    uint32_t from = parcel->message.from.bytes[0];
    return parcel->bytes > 0 && world->nodes[from].start != parcel->sender_start;
}

static void receive(struct world *world, struct happening *happening) {
    struct node *node = &world->nodes[happening->node];
    struct parcel *parcel = happening->parcel;
    struct event event = {.kind = EVENT_MESSAGE};
    uint32_t *arriving = &node->link.arriving[parcel->message.from.bytes[0]];
    *arriving -= *arriving > 0 && node->start == happening->start;
    if (is_truncated(world, parcel) ||
        (parcel->message.kind == MESSAGE_RESULT &&
         !values_restore(world, happening->node, &parcel->message, &parcel->coded))) {
        return;
    }
    if (happening->node < TRACKERS) {
        if (node_is_in(world->excluded, parcel->message.from.bytes[0])) {
            return; /* of a closed connection */
        }
        bool is_given =
            post_accept(world, NULL, parcel) && equivocate_vote(world, &parcel->message);
        event.message = is_given ? &parcel->message : NULL;
    } else {
        event.message = chain_receive(world, happening->node, parcel);
    }
    if (event.message == NULL) {
        return;
    }
    if (happening->node >= TRACKERS) {
        measure_message(world, happening->node, event.message);
        theft_take(world, happening->node, parcel);
    }
    world_step(world, happening->node, &event, parcel);
}

/* Gives a message to a member's machine that its host kept. */
static void deliver(struct world *world, uint32_t index, const struct message *message) {
    struct event event = {.kind = EVENT_MESSAGE, .message = message};
    if (message != NULL) {
        world_step(world, index, &event, NULL);
    }
}

static void happen(struct world *world, struct happening *happening) {
    struct node *node = &world->nodes[happening->node];
    bool is_message = happening->kind == HAPPEN_PARCEL || happening->kind == HAPPEN_ARRIVAL;
    if (happening->kind == HAPPEN_FAULT) {
        faults_happen(world, happening);
        return;
    }
    if (happening->kind == HAPPEN_WRITTEN) {
        store_written(world, happening);
        return;
    }
    if (node->machine == NULL || (node->start != happening->start && !is_message)) {
        return;
    }
    switch (happening->kind) {
    case HAPPEN_TICK:
        tick(world, happening->node);
        break;
    case HAPPEN_ARRIVAL:
        net_arrive(world, happening);
        break;
    case HAPPEN_PARCEL:
        receive(world, happening);
        break;
    case HAPPEN_UPLINK:
        node->link.is_flush_planned = false;
        net_flush(world, happening->node);
        break;
    case HAPPEN_PING:
        measure_answer(world, happening);
        break;
    case HAPPEN_PONG:
        measure_pong(world, happening);
        break;
    case HAPPEN_LEAF:
        plane_leaf(world, happening->node, happening->event.job);
        break;
    case HAPPEN_REQUEST:
        chain_answer(world, happening);
        break;
    case HAPPEN_PAGE:
        deliver(world, happening->node, chain_on_page(world, happening));
        break;
    default:
        world_step(world, happening->node, &happening->event, NULL);
        if (happening->event.kind == EVENT_APPLIED && node->machine != NULL) {
            deliver(world, happening->node, chain_on_applied(world, happening->node));
        }
        break;
    }
    if (happening->node >= TRACKERS && node->machine != NULL) {
        deliver(world, happening->node, chain_next_message(world, happening->node));
    }
    if (happening->node >= TRACKERS && node->machine != NULL) {
        chain_request(world, happening->node);
    }
}

/* A stopped process meets nothing; when it wakes, everything else comes before its tick. */
static int postpone(struct world *world, struct happening *happening) {
    const struct node *node = &world->nodes[happening->node];
    if (node->paused_until <= world->now || happening->kind == HAPPEN_FAULT) {
        return 0;
    }
    happening->at = node->paused_until + (happening->kind == HAPPEN_TICK);
    world_push(world, happening);
    return 1;
}

void world_run_until(struct world *world, int64_t until, uint32_t commits) {
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

int world_end(struct world *world) {
    while (world->heap_count > 0) {
        drop(pop(world));
    }
    for (uint32_t n = 0; n < NODES; n++) {
        net_stop(world, n);
        chain_stop(world, n);
        free(world->nodes[n].field_memory);
        free(world->nodes[n].theft);
        free(world->nodes[n].machine);
        values_stop(world, n);
    }
    free(world->heap);
    free(world->actions);
    store_finish(world);
    return world->failure[0] == 0;
}
