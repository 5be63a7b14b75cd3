/* faults: what goes wrong in a schedule, when, and how everything is well again. */
#include "tests/sim/parts.h"

#include <string.h>

enum fault_kind {
    FAULT_CRASH,
    FAULT_PAUSE,
    FAULT_CUT_PAIR,
    FAULT_CUT_NODE,
    FAULT_SLOW,
    FAULT_LEAVE,
    FAULT_WIPE,      /* a member starts again with an empty disk */
    FAULT_DISK_FULL, /* a member's or the tracker's */
    FAULT_TRACKER_CRASH,
    FAULT_TRACKER_SECOND,
    FAULT_TRACKER_PAUSE,
    FAULT_TRACKER_CLOCK, /* its clock jumps ahead */
    FAULT_ALL_CRASH,
    FAULT_ALL_BACK, /* all members start again from their last snapshot */
    FAULT_ALL_LOST, /* all members but one never come back */
    FAULT_ROSTER,   /* the operator signs another roster, if the swarm has one */
    FAULT_KINDS,
    FAULT_START, /* a node begins */
    FAULT_MOVE,  /* a member connects to the tracker on the other copy of the store */
};

/* How often each kind is drawn. */
static const uint8_t SHARES[FAULT_KINDS] = {
    [FAULT_CRASH] = 4,          [FAULT_PAUSE] = 3,         [FAULT_CUT_PAIR] = 3,
    [FAULT_CUT_NODE] = 3,       [FAULT_SLOW] = 2,          [FAULT_LEAVE] = 2,
    [FAULT_WIPE] = 1,           [FAULT_DISK_FULL] = 2,     [FAULT_TRACKER_CRASH] = 3,
    [FAULT_TRACKER_SECOND] = 1, [FAULT_TRACKER_PAUSE] = 2, [FAULT_TRACKER_CLOCK] = 1,
    [FAULT_ALL_CRASH] = 1,      [FAULT_ALL_BACK] = 1,      [FAULT_ALL_LOST] = 1,
    [FAULT_ROSTER] = 4,
};

enum { FAULTS_MOST = 9, MOVES_MOST = 6, LEAVES_MOST = 6, SOON_MS = 100, CLOCK_MS = 3600000 };
enum {
    OPERATOR_MS = 2000, /* from the word of a possible fork to the operator's order */
    RETIRED_MS = 100,   /* from the stop of a copy until its last write has ended */
};

static uint32_t any_member(struct world *world) {
    return TRACKERS + (uint32_t)world_draw(world, world->member_count);
}

static int draw_kind(struct world *world) {
    uint32_t total = 0;
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        total += SHARES[kind];
    }
    uint64_t drawn = world_draw(world, total);
    int kind = 0;
    for (; drawn >= SHARES[kind]; kind++) {
        drawn -= SHARES[kind];
    }
    return kind;
}

static uint32_t draw_node(struct world *world, int kind) {
    switch (kind) {
    case FAULT_TRACKER_SECOND:
        return 1;
    case FAULT_TRACKER_CRASH:
    case FAULT_TRACKER_PAUSE:
    case FAULT_TRACKER_CLOCK:
        return 0;
    case FAULT_DISK_FULL:
        return world_draw(world, 2) == 0 ? 0 : any_member(world);
    default:
        return any_member(world);
    }
}

static void plan_start(struct world *world, uint32_t node, int64_t delay) {
    world_add(world, HAPPEN_FAULT, node, delay)->fault = FAULT_START;
}

static void plan_move(struct world *world, uint32_t node, int64_t delay) {
    world_add(world, HAPPEN_FAULT, node, delay)->fault = FAULT_MOVE;
}

static void change_roster(struct world *world, uint64_t excluded);

/* Every other fault comes soon after the one before: in the same round. */
void faults_plan(struct world *world) {
    if (world->has_rosters) {
        change_roster(world, 0);
    }
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        int is_late = n > TRACKERS && world_draw(world, 5) == 0;
        plan_start(world, n, is_late ? (int64_t)world_draw(world, FAULTS_MS) : 0);
    }
    uint64_t count = world_draw(world, FAULTS_MOST);
    int64_t at = 0;
    for (uint64_t i = 0; i < count; i++) {
        int kind = draw_kind(world);
        at = i % 2 == 1 ? at + (int64_t)world_draw(world, SOON_MS)
                        : 500 + (int64_t)world_draw(world, FAULTS_MS - 500);
        at = at < FAULTS_MS ? at : FAULTS_MS - 1; /* Then everything heals. */
        struct happening *fault = world_add(world, HAPPEN_FAULT, draw_node(world, kind), at);
        fault->fault = kind;
        fault->other = (uint32_t)world_draw(world, TRACKERS + world->member_count);
        fault->lasts = 50 + (int64_t)world_draw(world, 3000);
    }
}

static void tell_closed(struct world *world, uint32_t to, uint32_t about) {
    if (world->nodes[to].machine != NULL) {
        struct happening *closed =
            world_add(world, HAPPEN_EVENT, to, 1 + (int64_t)world_draw(world, 40));
        closed->event.kind = EVENT_CLOSED;
        closed->event.peer.bytes[0] = (uint8_t)about;
    }
}

/* One way or both; now and then the channel breaks instead of being silent. */
static void cut(struct world *world, uint32_t a, uint32_t b, int64_t lasts) {
    world->cut_until[a][b] = world->now + lasts;
    if (world_draw(world, 4) > 0) {
        world->cut_until[b][a] = world->now + lasts;
    }
    if (world_draw(world, 3) == 0) {
        tell_closed(world, a, b);
        tell_closed(world, b, a);
    }
}

/* Its peers see their channels break, unless it went in silence. */
static void crash(struct world *world, uint32_t index, int64_t lasts) {
    if (world->nodes[index].machine == NULL) {
        return;
    }
    world_stop(world, index);
    for (uint32_t other = 0; other < TRACKERS + world->member_count; other++) {
        if (other != index && world_draw(world, 4) > 0) {
            tell_closed(world, other, index);
        }
    }
    plan_start(world, index, lasts);
}

/* It loses the connection to its tracker, which may not notice at once. */
static void move(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    if (world->nodes[1 - node->store].is_lost) {
        return;
    }
    if (world_draw(world, 4) > 0) {
        tell_closed(world, node->store, index);
        tell_closed(world, index, node->store);
    }
    node->store = 1 - node->store;
    node->has_moved = true;
    chain_connect(world, index);
}

void faults_copy(struct world *world) {
    if (world_draw(world, 2) == 0) {
        crash(world, 0, 1 + (int64_t)world_draw(world, 500));
    }
    store_copy(world);
    plan_start(world, 1, (int64_t)world_draw(world, 300));
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        if (world_draw(world, 2) == 0) {
            plan_move(world, n, (int64_t)world_draw(world, 500));
        }
    }
    for (uint64_t leaves = world_draw(world, LEAVES_MOST); leaves > 0 && world->needs_leases;
         leaves--) {
        const int64_t at = (int64_t)world_draw(world, FAULTS_MS);
        world_add(world, HAPPEN_FAULT, any_member(world), at)->fault = FAULT_LEAVE;
    }
    for (uint64_t moves = world_draw(world, MOVES_MOST); moves > 0; moves--) {
        plan_move(world, any_member(world), (int64_t)world_draw(world, FAULTS_MS));
    }
}

void faults_return(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    if (!world->needs_leases || world->copied_count == 0 || world_draw(world, 4) == 0) {
        return;
    }
    node->has_left = 0;
    if (world_draw(world, 2) == 0 && !world->nodes[1 - node->store].is_lost) {
        node->store = 1 - node->store;
        node->has_moved = true;
    }
    plan_start(world, index, 20 + (int64_t)world_draw(world, 500));
}

static void close_excluded(struct world *world, uint32_t tracker) {
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        struct event closed = {.kind = EVENT_CLOSED, .peer.bytes[0] = (uint8_t)n};
        if (node_is_in(world->excluded, n)) {
            world_step(world, tracker, &closed, NULL);
        }
    }
}

/* Signs a roster without the excluded members, and gives it to each tracker. These close the
 * connections of excluded members, and open those of members that return. */
static void change_roster(struct world *world, uint64_t excluded) {
    const struct key_pairs operator_keys = keys_of(&OPERATOR_ID);
    const struct hash swarm = {{0}};
    struct roster_epoch *roster = &world->roster;
    uint64_t returned = world->excluded & ~excluded;
    *roster = (struct roster_epoch){.serial = roster->serial + 1};
    world->excluded = excluded;
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        if (!node_is_in(excluded, n)) {
            roster->members[roster->count++][0] = (uint8_t)n;
        }
        if (node_is_in(returned, n)) {
            chain_connect(world, n);
        }
    }
    roster_epoch_sign(&operator_keys, &swarm, roster);
    for (uint32_t tracker = 0; tracker < TRACKERS; tracker++) {
        if (world->nodes[tracker].machine != NULL) {
            close_excluded(world, tracker);
            tracker_queue_roster_epoch(world->nodes[tracker].machine, roster);
        }
    }
}

static uint64_t draw_excluded(struct world *world) {
    uint64_t excluded = 0;
    for (uint64_t most = world_draw(world, world->member_count); most > 0; most--) {
        excluded |= UINT64_C(1) << any_member(world);
    }
    return excluded;
}

static void wipe(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    memset(&node->outer, 0, sizeof(node->outer));
    memset(&node->snapshot, 0, sizeof(node->snapshot));
    memset(node->results, 0, sizeof(node->results));
    node->copy_count = 0;
    memset(&node->lease, 0, sizeof(node->lease));
}

static void happen_to_all(struct world *world, int fault, uint32_t survivor) {
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        struct node *node = &world->nodes[n];
        if (fault == FAULT_ALL_LOST && n == survivor) {
            continue;
        }
        crash(world, n, 100 + (int64_t)world_draw(world, 1000));
        if (fault == FAULT_ALL_BACK) {
            node->outer = node->snapshot;
            memset(node->results, 0, sizeof(node->results));
        }
        node->is_lost |= fault == FAULT_ALL_LOST;
    }
}

void faults_happen(struct world *world, const struct happening *happening) {
    uint32_t index = happening->node;
    struct node *node = &world->nodes[index];
    int64_t lasts = happening->lasts;
    struct event leave = {.kind = EVENT_LEAVE};
    switch (happening->fault) {
    case FAULT_CRASH:
    case FAULT_TRACKER_CRASH:
        crash(world, index, lasts);
        break;
    case FAULT_PAUSE:
    case FAULT_TRACKER_PAUSE:
        node->paused_until = world->now + lasts;
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
        node->slow = 4;
        break;
    case FAULT_LEAVE:
        if (node->machine != NULL) {
            world_step(world, index, &leave, NULL);
        }
        break;
    case FAULT_WIPE:
        crash(world, index, lasts);
        if (!world->will_copy || !world->needs_leases) { /* a lost disk can be enough for a fork */
            wipe(world, index);
        }
        break;
    case FAULT_DISK_FULL:
        node->disk_full_until = world->now + lasts;
        break;
    case FAULT_TRACKER_CLOCK:
        node->clock_ahead += (int64_t)world_draw(world, CLOCK_MS);
        break;
    case FAULT_ROSTER:
        if (world->has_rosters) {
            change_roster(world, draw_excluded(world));
        }
        break;
    case FAULT_MOVE:
        move(world, index);
        break;
    case FAULT_ALL_CRASH:
    case FAULT_ALL_BACK:
    case FAULT_ALL_LOST:
        happen_to_all(world, happening->fault, index);
        break;
    default: /* FAULT_START, FAULT_TRACKER_SECOND */
        if (index != 1 || !world->will_copy || world->copied_count > 0) {
            world_start(world, index);
        }
        break;
    }
}

/* Cuts heal, disks have room, the stopped wake when they would, what is down starts, and the
 * second tracker goes away, unless it has a store of its own. */
void faults_heal(struct world *world) {
    memset(world->cut_until, 0, sizeof(world->cut_until));
    world->loss = 0.01;
    if (world->excluded != 0) {
        change_roster(world, 0);
    }
    if (world->nodes[1].machine != NULL && world->copied_count == 0) {
        world_stop(world, 1);
        world_stop(world, 0);
    }
    for (uint32_t n = 0; n < TRACKERS + world->member_count; n++) {
        world->nodes[n].disk_full_until = 0;
        if (n != 1 || world->copied_count > 0) {
            world_start(world, n);
        }
    }
}

/* ---- the operator ---- */

/* Stops a tracker for good. All members that ever followed it restart with the address of the other
 * one: a process ignores a tracker that has started less often than the one that it followed. */
static void retire_tracker(struct world *world, uint32_t tracker) {
    struct node *node = &world->nodes[tracker];
    if (node->is_lost) {
        return;
    }
    if (node->machine != NULL) {
        world_stop(world, tracker);
    }
    node->is_lost = 1;
    world->retired_ms = world->now;
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        struct node *member = &world->nodes[n];
        if (member->store == node->store || member->has_moved) {
            member->store = 1 - node->store;
            crash(world, n, (int64_t)world_draw(world, 500));
        }
    }
}

/* Which of two copies the operator keeps: the one with the newer state, as an order for the other
 * one would make the fork; of equals the one that waits. */
static uint32_t choose_copy(const struct world *world, uint32_t waiting) {
    const uint32_t other = 1 - waiting;
    return world->stores[other].record.commit.round > world->stores[waiting].record.commit.round
               ? other
               : waiting;
}

/* A write of a stopped copy can still become durable, so the operator looks at the stores only
 * then. */
static bool is_only_copy(struct world *world, uint32_t tracker) {
    const uint32_t kept = world->copied_count > 0 ? choose_copy(world, tracker) : tracker;
    if (world->copied_count == 0) {
        return true;
    }
    if (world->nodes[kept].is_lost) { /* its last write became durable */
        world->nodes[kept].is_lost = 0;
        world_start(world, kept);
    }
    retire_tracker(world, 1 - kept);
    return kept == tracker && world->now - world->retired_ms >= RETIRED_MS;
}

/* A member that has entries which its tracker lacks follows the other copy. If it has entries of
 * both, it stays away for good. */
static void redirect_members(struct world *world, uint32_t tracker) {
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        struct node *node = &world->nodes[n];
        if (world->copied_count > 0 && world->now > FAULTS_MS && chain_is_rejecting(world, n) &&
            node->store == world->nodes[tracker].store && !node->is_redirected) {
            node->is_redirected = true;
            move(world, n);
        }
    }
}

void faults_operate(struct world *world, uint32_t tracker) {
    const struct key_pairs operator_keys = keys_of(&OPERATOR_ID);
    const struct hash swarm = {{0}};
    struct node *node = &world->nodes[tracker];
    struct elector_count count = {0};
    struct hash state;
    struct tracker_start start;
    struct continue_order order;
    redirect_members(world, tracker);
    if (node->machine == NULL || !tracker_is_fork_possible(node->machine, &count) ||
        count.is_enough) {
        node->waits_since = world->now;
        return;
    }
    if (world->now - node->waits_since < OPERATOR_MS || !is_only_copy(world, tracker)) {
        return;
    }
    tracker_fill_continue_order(node->machine, &state, &start, &order);
    if (order.count > 0) {
        continue_order_sign(&operator_keys, &swarm, &state, &start, &order);
        tracker_set_continue_order(node->machine, &order);
        node->waits_since = world->now;
        world->orders += 1;
    }
}
