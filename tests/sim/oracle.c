/* oracle: what must hold of every entry that is appended, every state applied, and at the end. */
#include "tests/sim/guests.h"
#include "tests/sim/parts.h"
#include "tests/sim/values.h"

#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/norms.h"

#include <math.h>
#include <string.h>

static void check_signatures(struct world *world, const struct entry *entry) {
    uint64_t signers = 0;
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        uint32_t seat = entry->signatures[i].seat;
        struct signature good = post_sign(&entry->seats[seat].id, &entry->hash);
        if (memcmp(&good, &entry->signatures[i].signature, sizeof(good)) == 0) {
            signers |= UINT64_C(1) << seat;
        }
    }
    const uint64_t voters = guests_voters(world, entry);
    if (2 * __builtin_popcountll(signers & voters) <= __builtin_popcountll(voters)) {
        world_fail(world, "round %u has %d good signatures of %d", entry->round,
                   __builtin_popcountll(signers & voters), __builtin_popcountll(voters));
    }
}

/* Every sample that a named member trained on counts as used, once; -1 takes that back. */
static void use_samples(struct world *world, const struct entry *entry, int by) {
    uint64_t named = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        named |= entry->slices[s].contributors;
    }
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_seat *at = &entry->seats[seat];
        uint64_t samples = 0;
        uint64_t trained = entry->members[seat].samples;
        for (uint32_t r = 0; (named >> seat & 1) != 0 && r < at->range_count; r++) {
            samples += at->ranges[r].end - at->ranges[r].begin;
            for (uint64_t k = at->ranges[r].begin; k < at->ranges[r].end && trained > 0;
                 k++, trained--) {
                uint8_t *used = &world->used[k % SAMPLES_MOST];
                *used = (uint8_t)(*used + by);
                if (*used > 1) {
                    world_fail(world, "sample %u is used twice", (uint32_t)k);
                    return;
                }
            }
        }
        if ((named >> seat & 1) != 0 && entry->members[seat].weight > samples) {
            world_fail(world, "round %u: seat %u weighs more than it was given", entry->round,
                       seat);
        }
    }
}

enum { KNOWN_MS = 1000 }; /* the tracker has heard of a state after so long */

/* A running voter that can reach the tracker has the root that is given up; guests are not asked. A
 * member that came from another tracker may ignore this one, because its incarnation is lower. */
static void check_lost(struct world *world, uint32_t tracker, const struct hash *root) {
    const uint32_t voters = world->first_guest > 0 ? world->first_guest : UINT32_MAX;
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count && n < voters; n++) {
        const struct node *node = &world->nodes[n];
        struct hash have = plane_root(world, &node->outer);
        if (node->machine != NULL && world->now - node->since >= KNOWN_MS &&
            node->paused_until <= world->now && net_is_connected(world, n, tracker) &&
            !node->has_moved && hash_equal(&have, root)) {
            world_fail(world, "a committed round is lost while member %u has it", n);
        }
    }
}

/* The same entry in the other copy of the store, or NULL. Both can append the same commit, with the
 * votes of different members. */
static const struct entry *find_in_copy(const struct world *world,
                                        const struct tracker_store *store, uint32_t at,
                                        const struct hash *hash) {
    const struct tracker_store *other = &world->stores[store == &world->stores[0]];
    const bool is_there = world->copied_count > 0 && at < other->ledger_count &&
                          hash_equal(&other->ledger[at].hash, hash);
    return is_there ? &other->ledger[at] : NULL;
}

static bool is_undone_in_copy(const struct world *world, const struct tracker_store *store,
                              uint32_t at) {
    const struct tracker_store *other = &world->stores[store == &world->stores[0]];
    return find_in_copy(world, store, at, &store->ledger[at].hash) != NULL &&
           other->is_undone[at] != 0;
}

/* What a rollback undoes: every commit after the state that it names. */
static void undo(struct world *world, struct tracker_store *store, const struct entry *entry) {
    check_lost(world, (uint32_t)(store - world->stores), &store->record.commit.root);
    uint32_t at = store->ledger_count;
    while (at > 0 && (store->is_undone[at - 1] || store->ledger[at - 1].kind == ENTRY_ABORT ||
                      !hash_equal(&store->ledger[at - 1].root, &entry->root))) {
        at--;
        if (!store->is_undone[at] && store->ledger[at].kind == ENTRY_COMMIT &&
            !is_undone_in_copy(world, store, at)) {
            use_samples(world, &store->ledger[at], -1);
        }
        store->is_undone[at] = 1;
    }
    if (at == 0) {
        world_fail(world, "round %u goes back to a state that never was", entry->round);
    }
}

/* Of two copies of a store, one commits rounds after they were made. */
static void check_fork(struct world *world, const struct tracker_store *store,
                       const struct entry *entry) {
    const struct tracker_store *other = &world->stores[store == &world->stores[0]];
    for (uint32_t i = world->copied_count; i > 0 && i < other->ledger_count; i++) {
        const struct hash *hash = &other->ledger[i].hash;
        const bool is_same =
            hash_equal(hash, &entry->hash) || find_in_copy(world, other, i, hash) != NULL;
        if (other->ledger[i].kind == ENTRY_COMMIT && !world->may_fork && !is_same) {
            world_fail(world, "fork: one copy of a store commits round %u, the other one round %u",
                       other->ledger[i].round, entry->round);
            return;
        }
    }
}

static void check_commit(struct world *world, const struct tracker_store *store,
                         const struct entry *entry) {
    check_fork(world, store, entry);
    check_signatures(world, entry);
    if (find_in_copy(world, store, store->ledger_count, &entry->hash) == NULL) {
        use_samples(world, entry, 1);
    }
    for (uint32_t s = 0; s < world->slice_count; s++) {
        oracle_check_slice(world, store, entry, s);
        world->salvages += entry->slices[s].epoch > 0;
        world->partial += entry->slices[s].contributors != entry->slices[0].contributors;
    }
    theft_check(world, entry);
    world->commits += 1;
}

static void check_chain(struct world *world, struct tracker_store *store,
                        const struct entry *entry) {
    const struct entry *last = &store->ledger[store->ledger_count - 1];
    int is_open = entry->kind == ENTRY_OPEN;
    int follows_open = last->kind == ENTRY_OPEN;
    int is_next = is_open ? entry->round == last->round + 1 : entry->round == last->round;
    bool is_between = entry->kind == ENTRY_ROLLBACK || entry->kind == ENTRY_SUSPEND || is_open;
    bool is_turn = is_between ? !follows_open : follows_open;
    if (!hash_equal(&entry->prev, &last->hash) || !is_next || !is_turn ||
        entry->commits != last->commits + (entry->kind == ENTRY_COMMIT)) {
        world_fail(world, "two histories: round %u follows round %u", entry->round, last->round);
    }
    const char *wrong = ledger_append(&store->chain, entry);
    if (wrong != NULL) {
        world_fail(world, "round %u: the entry %s", entry->round, wrong);
    }
    if (entry_voting_seats(entry) != guests_voters(world, entry)) {
        world_fail(world, "round %u: a guest has the seat of a voter", entry->round);
    }
}

/* Whether any member declared the newest norm of the suspended member for a commit before the start
 * of the tracker, which only knows the norms of these. */
static bool has_earlier_norm(const struct tracker_store *store, const struct entry *suspend) {
    double norm = 0;
    bool is_found = false;
    for (uint32_t i = 0; i < store->ledger_count; i++) {
        const struct entry *entry = &store->ledger[store->ledger_count - 1 - i];
        for (uint32_t seat = 0; entry->kind == ENTRY_COMMIT && seat < entry->seat_count; seat++) {
            bool is_own = oracle_node_of(entry, seat) == suspend->suspension.id.bytes[0];
            is_found |= norm > 0 && entry->members[seat].norm == norm &&
                        entry->incarnation < suspend->incarnation;
            norm = is_own && norm == 0 ? entry->members[seat].norm : norm;
        }
    }
    return is_found;
}

/* Only a member that signed a false statement, repeated a contribution, sent values that are not
 * valid, or changed all signs, is named for it. The few values of a small sparse contribution have
 * few norms, and a tracker compares norms after its restart. */
static void check_suspension(struct world *world, const struct tracker_store *store,
                             const struct entry *entry) {
    const struct entry_suspension *suspension = &entry->suspension;
    const uint32_t node = suspension->id.bytes[0];
    bool is_known_norm = values_have_lists(world) && suspension->reason == SUSPENSION_REPETITION &&
                         has_earlier_norm(store, entry);
    if (!lie_explains(world->nodes[node].hostility, suspension->reason) && !is_known_norm) {
        world_fail(world, "round %u: member %u is named for a lie that it did not tell",
                   entry->round, node);
    }
    world->suspended += 1;
    world->named += entry_has_evidence(suspension) || suspension->reason == SUSPENSION_OPPOSED;
}

void oracle_append(struct world *world, struct tracker_store *store, const struct entry *entry) {
    if (store->ledger_count == LEDGER_MOST) {
        world_fail(world, "the ledger of a schedule is full");
        return;
    }
    check_chain(world, store, entry);
    if (entry->kind == ENTRY_COMMIT) {
        check_commit(world, store, entry);
    } else if (entry->kind == ENTRY_ROLLBACK) {
        undo(world, store, entry);
        world->rollbacks += 1;
    } else if (entry->kind == ENTRY_SUSPEND) {
        check_suspension(world, store, entry);
    }
    world->aborts += entry->kind == ENTRY_ABORT;
    store->is_undone[store->ledger_count] = 0;
    struct entry *kept = &store->ledger[store->ledger_count];
    kept->slices = store->ledger_slices[store->ledger_count++];
    entry_copy(kept, entry);
}

void oracle_restarted(struct world *world, uint32_t node) {
    memset(world->feedback[node], 0, sizeof(world->feedback[node]));
}

/* What the encoding of the mean left out of the slice of an owner. */
static void advance_of_owner(struct world *world, const struct tracker_store *store, uint32_t seat,
                             const struct entry *entry, uint32_t slice) {
    static float mean[SLICE_ELEMENTS], residual[SLICE_ELEMENTS];
    const struct entry_slice *line = &entry->slices[slice];
    const struct entry_member *member = &entry->members[seat];
    const uint32_t node = oracle_node_of(entry, seat);
    bool is_in = (line->contributors >> seat & 1) != 0 && line->weight > 0;
    if (line->owner != seat || !is_in || !plane_made_result(world, node, entry, slice)) {
        return;
    }
    float share = (float)((double)member->weight / (double)line->weight) *
                  norms_clip_factor(member->norm, entry->reference_norm);
    oracle_find_mean(world, store, entry, slice, mean);
    uint32_t count = (uint32_t)__builtin_popcountll(line->contributors);
    if (values_owner_residual(world, mean, share, count, residual)) {
        for (uint32_t i = 0; i < SLICE_ELEMENTS; i++) {
            float *feedback = &world->feedback[node][slice * SLICE_ELEMENTS + i];
            *feedback = residual[i] + *feedback;
        }
    }
}

/* Whether the commit names the seat in any slice, with a weight. */
static bool has_contributed(const struct entry *entry, uint32_t seat) {
    uint64_t contributors = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        contributors |= entry->slices[s].contributors;
    }
    return (contributors >> seat & 1) != 0 && entry->members[seat].weight > 0;
}

/* What the encoding left out is carried over in the slices that the commit names the member in.
 * With a sparse codec, all that it meant to contribute is carried over in the others. */
static void advance(struct world *world, const struct tracker_store *store, uint32_t node,
                    const struct entry *entry) {
    const struct truth *truth = oracle_truth_of(world, store, entry->round, node);
    int is_own = truth != NULL && truth->start == world->nodes[node].start;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        for (uint32_t s = 0; oracle_node_of(entry, seat) == node && s < entry->slice_count; s++) {
            for (uint32_t i = s * SLICE_ELEMENTS; i < (s + 1) * SLICE_ELEMENTS; i++) {
                bool is_named = (entry->slices[s].contributors >> seat & 1) != 0 &&
                                entry->members[seat].weight > 0;
                bool is_kept = is_own && values_have_lists(world) && has_contributed(entry, seat);
                float left = is_own ? truth->residual[i] : 0;
                float other = is_kept ? truth->meant[i] : world->feedback[node][i];
                world->feedback[node][i] = is_named ? left : other;
            }
            if (is_own) {
                advance_of_owner(world, store, seat, entry, s);
            }
        }
    }
}

/* Members that apply the same number of commits have the same state. */
static void check_same_state(struct world *world, uint32_t node, const struct entry *entry) {
    struct hash *applied = &world->applied[entry->commits];
    ASSERT(entry->commits < LEDGER_MOST);
    if (entry->commits >= world->applied_count) {
        memset(&world->applied[world->applied_count], 0,
               (entry->commits + 1 - world->applied_count) * sizeof(*applied));
        world->applied_count = entry->commits + 1;
    }
    if (!hash_is_zero(applied) && !hash_equal(applied, &entry->root) && !world->may_fork) {
        world_fail(world, "two states: member %u applies another one as commit %u than others",
                   node, entry->commits);
    }
    *applied = entry->root;
}

/* Whether a ledger has the root of the member's current state. */
static bool apply_from(struct world *world, const struct entry *entries, uint32_t count,
                       uint32_t node, const struct hash *root, int is_adopted) {
    for (uint32_t i = count; i > 0; i--) {
        const struct entry *entry = &entries[i - 1];
        /* without momentum, a round without contributions leaves the root as it was */
        const bool is_other = entry->kind == ENTRY_COMMIT && !is_adopted &&
                              entry->round != world->nodes[node].outer.round;
        if (!hash_equal(&entry->root, root) || is_other) {
            continue;
        }
        if (is_adopted) {
            oracle_restarted(world, node);
        } else if (entry->kind == ENTRY_COMMIT) {
            check_same_state(world, node, entry);
            advance(world, store_of(world, node), node, entry);
        } else {
            continue; /* the commit that it stands on comes before */
        }
        return true;
    }
    return false;
}

void oracle_applied(struct world *world, uint32_t node, const struct hash *root, int is_adopted) {
    uint32_t index = world->nodes[node].store;
    const struct tracker_store *store = &world->stores[index];
    const struct tracker_store *other = &world->stores[1 - index];
    world->nodes[node].since = world->now;
    if (apply_from(world, store->ledger, store->ledger_count, node, root, is_adopted)) {
        return;
    }
    if (world->copied_count > 0 && /* It may have moved to the other tracker meanwhile. */
        apply_from(world, other->ledger, other->ledger_count, node, root, is_adopted)) {
        return;
    }
    if (world->equivocation != EQUIVOCATE_NOT && /* The tracker showed it what it did not write. */
        apply_from(world, world->pool, world->pool_count, node, root, is_adopted)) {
        return;
    }
    world_fail(world, "member %u has a root that no commit has", node);
}

/* A right sum is checked again where a sketch is false, and otherwise with a probability of 2e-10.
 * Where contributors are silent, less is known. */
void oracle_rechecked(struct world *world, uint32_t node, const struct action *action,
                      const struct message_refusal *refusal) {
    const struct node *at = &world->nodes[node];
    if (at->checked_round != action->entry->round || at->suspected_slice != action->slice) {
        return; /* It has drawn the slice, or another voter suspects it. */
    }
    world->rechecks += refusal->reason == REFUSAL_NONE;
    if (refusal->reason == REFUSAL_NONE && !lie_has_teller(world) && action->silent == 0) {
        world_fail(world, "round %u slice %u: member %u suspects a right sum", action->entry->round,
                   action->slice, node);
    }
}

void oracle_trained(struct world *world, uint32_t node) {
    size_t bytes = world->slice_count * SLICE_ELEMENTS * sizeof(float);
    const float *feedback = values_feedback(world, node);
    bool is_liar = world->nodes[node].hostility != HONEST;
    if (feedback != NULL && !is_liar && memcmp(feedback, world->feedback[node], bytes) != 0) {
        world_fail(world, "member %u encodes with feedback that no commit left", node);
    }
}

uint32_t oracle_behind(const struct world *world) {
    const struct tracker_store *store = &world->stores[0];
    const struct hash *roots[2] = {&store->ledger[0].root, &store->ledger[0].root};
    for (uint32_t i = 0; i < store->ledger_count; i++) {
        const struct entry *entry = &store->ledger[i];
        if (entry->kind == ENTRY_COMMIT || entry->kind == ENTRY_ROLLBACK) {
            roots[0] = roots[1];
            roots[1] = &entry->root;
        }
    }
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        const struct node *node = &world->nodes[n];
        bool is_guest = world->first_guest > 0 && n >= world->first_guest;
        if (node->machine == NULL || node->has_left || is_guest) {
            continue; /* no round waits for a guest */
        }
        struct hash root = plane_root(world, &node->outer);
        if (!hash_equal(&root, roots[0]) && !hash_equal(&root, roots[1])) {
            return n;
        }
    }
    return 0;
}
