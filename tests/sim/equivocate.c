/* equivocate: a tracker that lies: it shows some members other messages than the rest. Its own
 * machine is honest; what it sends is changed on the way, and signed with the tracker's key. */
#include "tests/sim/parts.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROUND = 2 };

static const char *const NAMES[EQUIVOCATIONS] = {
    [EQUIVOCATE_OPEN] = "open",         [EQUIVOCATE_TABLE] = "table",
    [EQUIVOCATE_PROPOSE] = "propose",   [EQUIVOCATE_ABORT] = "abort",
    [EQUIVOCATE_WITHHOLD] = "withhold",
};

const char *equivocate_name(enum equivocation kind) {
    return NAMES[kind];
}

/* Whether a member sees the other messages. */
static bool is_deceived(const struct world *world, uint32_t node) {
    return node_is_in(world->deceived, node);
}

static void sign_entry(struct entry *entry) {
    entry->hash = entry_hash(entry);
    entry->signature_count = 1;
    entry->signatures[0].seat = 0;
    entry->signatures[0].signature = post_sign(&TRACKER_ID, &entry->hash);
}

/* Other members own the slices. */
static void change_owners(const struct world *world, struct round_table *table) {
    const uint32_t seats = (uint32_t)__builtin_popcountll(table->declared_seats);
    for (uint32_t s = 0; s < world->slice_count && table->version > 0 && seats > 0; s++) {
        uint32_t owner = table->slices[s].owner;
        do {
            owner = (owner + 1) % MEMBERS_MOST;
        } while ((table->declared_seats >> owner & 1) == 0);
        table->slices[s].owner = owner;
    }
}

/* The first slice lacks a contributor. */
static void change_proposal(struct entry *entry) {
    struct entry_slice *slice = &entry->slices[0];
    const uint64_t seat = (uint64_t)__builtin_ctzll(slice->contributors);
    slice->contributors &= slice->contributors - 1;
    slice->weight -= entry->members[seat].weight;
    entry->members[seat].contributed -= 1;
    entry->results = entry_results_root(entry);
}

/* The round that a COMMIT ends was aborted. */
static void show_abort(struct world *world, struct entry *commit) {
    const struct tracker_store *store = &world->stores[0];
    for (uint32_t i = store->ledger_count; i > 0; i--) {
        if (hash_equal(&store->ledger[i - 1].hash, &commit->prev)) {
            entry_copy(commit, &store->ledger[i - 1]);
            commit->kind = ENTRY_ABORT;
            commit->prev = commit->hash;
            commit->train_ms = 0;
            memset(&commit->documents, 0, sizeof(commit->documents));
            memset(&commit->leases, 0, sizeof(commit->leases));
            cursor_return_unused(&commit->cursor, commit, 0);
            sign_entry(commit);
            return;
        }
    }
}

bool equivocate(struct world *world, uint32_t to, struct parcel *parcel) {
    struct message *message = &parcel->message;
    struct entry *entry = parcel->entry;
    if (!is_deceived(world, to) || world->stores[0].record.head.round < FIRST_ROUND) {
        return true;
    }
    const bool is_entry = message->kind == MESSAGE_ENTRY;
    const bool is_commit = is_entry && entry->kind == ENTRY_COMMIT;
    world->lies_told += 1;
    if (world->equivocation == EQUIVOCATE_OPEN && is_entry && entry->kind == ENTRY_OPEN) {
        entry->train_ms += 1;
        sign_entry(entry);
    } else if (world->equivocation == EQUIVOCATE_TABLE && message->kind == MESSAGE_TABLE &&
               message->version == 0) {
        change_owners(world, parcel->table);
    } else if (world->equivocation == EQUIVOCATE_PROPOSE && message->kind == MESSAGE_PROPOSE &&
               entry->slices[0].contributors != 0) {
        change_proposal(entry);
    } else if (world->equivocation == EQUIVOCATE_ABORT && is_commit) {
        show_abort(world, entry);
    } else if (world->equivocation == EQUIVOCATE_WITHHOLD && is_entry) {
        return world->held_count == 0;
    } else {
        world->lies_told -= 1;
    }
    return true;
}

/* ---- a commit that only deceived members see ---- */

static void show_commit(struct world *world, struct entry *commit) {
    for (uint32_t i = 0; i < world->stores[0].record.member_count; i++) {
        const uint32_t node = world->stores[0].record.members[i].id.bytes[0];
        struct message message = {.kind = MESSAGE_ENTRY,
                                  .incarnation = world->stores[0].record.incarnation,
                                  .session = world->stores[0].record.members[i].session,
                                  .root = world->stores[0].record.commit.root,
                                  .entry = commit};
        if (is_deceived(world, node)) {
            net_post(world, 0, node, parcel_copy(world, &message));
        }
    }
}

/* Adds a vote, in the order of seats, and shows the commit once it has a quorum. */
static void add_vote(struct world *world, const struct message *vote) {
    struct entry *commit = &world->held;
    uint32_t at = 0;
    uint32_t seat = 0;
    while (seat < commit->seat_count &&
           memcmp(&commit->seats[seat].id, &vote->from, sizeof(vote->from)) != 0) {
        seat++;
    }
    while (at < commit->signature_count && commit->signatures[at].seat < seat) {
        at++;
    }
    bool is_known = at < commit->signature_count && commit->signatures[at].seat == seat;
    bool is_other = commit->signature_count > 0 && !hash_equal(&commit->hash, &vote->hash);
    if (seat == commit->seat_count || is_known || is_other) {
        return;
    }
    memmove(&commit->signatures[at + 1], &commit->signatures[at],
            (commit->signature_count - at) * sizeof(commit->signatures[0]));
    commit->signatures[at] = (struct entry_signature){.seat = seat, .signature = vote->signature};
    commit->signature_count += 1;
    commit->hash = vote->hash;
    commit->root = vote->root;
    world->held_count += 1;
    if (commit->signature_count == entry_quorum(commit->seat_count)) {
        show_commit(world, commit);
    }
}

void equivocate_propose(struct world *world, const struct message *message) {
    if (world->equivocation == EQUIVOCATE_WITHHOLD && message->kind == MESSAGE_PROPOSE &&
        world->held_count == 0 && message->round >= FIRST_ROUND) {
        world->held.slices = world->held_slices;
        entry_copy(&world->held, message->entry);
        world->held_number = message->number;
    }
}

bool equivocate_vote(struct world *world, const struct message *message) {
    if (world->equivocation != EQUIVOCATE_WITHHOLD || message->kind != MESSAGE_VOTE ||
        message->round != world->held.round) {
        return true;
    }
    if (message->number == world->held_number && !hash_is_zero(&message->root)) {
        add_vote(world, message);
    }
    return false;
}
