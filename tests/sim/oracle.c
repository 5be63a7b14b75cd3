/* oracle: what must hold of every entry that is appended, every state applied, and at the end. */
#include "tests/sim/world.h"

#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/norms.h"

#include <math.h>
#include <string.h>

static const struct truth *truth_of(const struct world *world, uint32_t round, uint32_t node) {
    for (uint32_t i = 0; i < world->truth_count; i++) {
        if (world->truths[i].round == round && world->truths[i].node == node) {
            return &world->truths[i];
        }
    }
    return NULL;
}

static uint32_t node_of(const struct entry *entry, uint32_t seat) {
    return entry->seats[seat].id.bytes[0];
}

/* The sum of the weights of all contributors; -1: one of them made no contribution that may be
 * added. */
static double check_contributors(struct world *world, const struct entry *entry, uint32_t slice) {
    double weight = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        if ((entry->slices[slice].contributors >> seat & 1) == 0) {
            continue;
        }
        const struct truth *truth = truth_of(world, entry->round, node_of(entry, seat));
        if (truth == NULL || !plane_is_sound(&truth->slices[slice])) {
            world_fail(world, "round %u names seat %u, which has no valid contribution",
                       entry->round, seat);
            return -1;
        }
        weight += (double)entry->members[seat].weight;
    }
    return weight;
}

/* How far a result may be from the sum of its contributors: contributors that died before the vote
 * sent no sketches, and a change within their part cannot be told from theirs. */
static double allowed_difference(const struct entry *entry, uint32_t slice, double weight) {
    const struct entry_slice *line = &entry->slices[slice];
    uint64_t silent = line->contributors;
    double allowed = 0;
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        silent &= ~(UINT64_C(1) << entry->signatures[i].seat);
    }
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_member *member = &entry->members[seat];
        double clip = (double)norms_clip(member->norm, entry->reference_norm);
        bool is_silent = (silent >> seat & 1) != 0 && weight > 0;
        allowed += is_silent ? clip * member->norm * (double)member->weight / weight : 0;
    }
    return allowed;
}

/* Whether an owner that sums wrongly made a result within these bounds. No other owner may. */
static bool is_within_silence(const struct world *world, const struct entry *entry, uint32_t slice,
                              double weight, const float *mean) {
    const struct entry_slice *line = &entry->slices[slice];
    const struct node *owner = &world->nodes[node_of(entry, line->owner)];
    if (owner->hostility != HOSTILE_SUM) {
        return false;
    }
    const struct stored *stored =
        plane_find((struct node *)(uintptr_t)owner, entry->round, slice, &line->hash);
    double energy = 0;
    for (int i = 0; stored != NULL && i < SLICE_ELEMENTS; i++) {
        double found = (double)((float)stored->coded.steps[i] * stored->coded.scale);
        energy += (found - (double)mean[i]) * (found - (double)mean[i]);
    }
    return stored != NULL && sqrt(energy) <= 1.05 * allowed_difference(entry, slice, weight);
}

/* Computes the result of a slice again, from what its contributors made. */
static void check_sum(struct world *world, const struct entry *entry, uint32_t slice) {
    const struct entry_slice *line = &entry->slices[slice];
    float mean[SLICE_ELEMENTS] = {0};
    double weight = check_contributors(world, entry, slice);
    for (uint32_t seat = 0; weight >= 0 && seat < entry->seat_count; seat++) {
        if ((line->contributors >> seat & 1) == 0) {
            continue;
        }
        const struct truth *truth = truth_of(world, entry->round, node_of(entry, seat));
        plane_add(&entry->members[seat], entry->reference_norm, weight > 0 ? (float)weight : 1,
                  &truth->slices[slice], mean);
    }
    struct coded coded = plane_encode(mean);
    struct hash hash = hash_of(&coded, sizeof(coded));
    if ((!hash_equal(&hash, &line->hash) &&
         !is_within_silence(world, entry, slice, weight, mean)) ||
        (double)line->weight != weight) {
        world_fail(world, "round %u slice %u is not the sum of its contributors", entry->round,
                   slice);
    }
}

/* The line names who made the result, in which epoch, of whose contributions. */
static void check_owner(struct world *world, const struct entry *entry, uint32_t slice) {
    const struct entry_slice *line = &entry->slices[slice];
    for (uint32_t i = 0; i < world->sum_count; i++) {
        const struct summed *sum = &world->sums[i];
        if (sum->round == entry->round && sum->slice == slice && sum->epoch == line->epoch &&
            sum->owner == node_of(entry, line->owner) && sum->contributors == line->contributors &&
            hash_equal(&sum->hash, &line->hash)) {
            return;
        }
    }
    world_fail(world, "round %u slice %u: its owner made no such result in epoch %u", entry->round,
               slice, line->epoch);
}

static void check_signatures(struct world *world, const struct entry *entry) {
    uint64_t signers = 0;
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        uint32_t seat = entry->signatures[i].seat;
        struct signature good = post_sign(&entry->seats[seat].id, &entry->hash);
        if (memcmp(&good, &entry->signatures[i].signature, sizeof(good)) == 0) {
            signers |= UINT64_C(1) << seat;
        }
    }
    if (2 * (uint32_t)__builtin_popcountll(signers) <= entry->seat_count) {
        world_fail(world, "round %u has %d good signatures of %u", entry->round,
                   __builtin_popcountll(signers), entry->seat_count);
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

/* A node that is there, reaches the tracker and stands on the root that is given up. */
static void check_lost(struct world *world, const struct hash *root) {
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        const struct node *node = &world->nodes[n];
        struct hash have = plane_root(world, &node->outer);
        if (node->machine != NULL && world->now - node->since >= KNOWN_MS &&
            node->paused_until <= world->now && net_is_connected(world, n, 0) &&
            hash_equal(&have, root)) {
            world_fail(world, "a committed round is lost while member %u has it", n);
        }
    }
}

/* What a rollback undoes: every commit after the state that it names. */
static void undo(struct world *world, const struct entry *entry) {
    check_lost(world, &world->record.commit.root);
    uint32_t at = world->ledger_count;
    while (at > 0 && (world->is_undone[at - 1] || world->ledger[at - 1].kind == ENTRY_ABORT ||
                      !hash_equal(&world->ledger[at - 1].root, &entry->root))) {
        at--;
        if (!world->is_undone[at] && world->ledger[at].kind == ENTRY_COMMIT) {
            use_samples(world, &world->ledger[at], -1);
        }
        world->is_undone[at] = 1;
    }
    if (at == 0) {
        world_fail(world, "round %u goes back to a state that never was", entry->round);
    }
}

static void check_commit(struct world *world, const struct entry *entry) {
    check_signatures(world, entry);
    use_samples(world, entry, 1);
    for (uint32_t s = 0; s < world->slice_count; s++) {
        check_sum(world, entry, s);
        check_owner(world, entry, s);
        world->salvages += entry->slices[s].epoch > 0;
        world->partial += entry->slices[s].contributors != entry->slices[0].contributors;
    }
    world->commits += 1;
}

static void check_chain(struct world *world, const struct entry *entry) {
    const struct entry *last = &world->ledger[world->ledger_count - 1];
    int is_open = entry->kind == ENTRY_OPEN;
    int follows_open = last->kind == ENTRY_OPEN;
    int is_next = is_open ? entry->round == last->round + 1 : entry->round == last->round;
    bool is_between = entry->kind == ENTRY_ROLLBACK || entry->kind == ENTRY_SUSPEND || is_open;
    bool is_turn = is_between ? !follows_open : follows_open;
    if (!hash_equal(&entry->prev, &last->hash) || !is_next || !is_turn ||
        entry->commits != last->commits + (entry->kind == ENTRY_COMMIT)) {
        world_fail(world, "two histories: round %u follows round %u", entry->round, last->round);
    }
    struct hash hash = plane_entry_hash(entry, &entry->root);
    const char *wrong = entry_error(entry);
    if (!hash_equal(&hash, &entry->hash) || wrong != NULL) {
        world_fail(world, "round %u: the entry %s", entry->round,
                   wrong != NULL ? wrong : "has another's hash");
    }
}

/* Only a member that signed a false statement is named for one. */
static void check_suspension(struct world *world, const struct entry *entry) {
    const struct entry_suspension *suspension = &entry->suspension;
    enum hostility hostility = world->nodes[suspension->id.bytes[0]].hostility;
    bool is_true = (suspension->reason != SUSPENSION_WRONG_SUM || hostility == HOSTILE_SUM) &&
                   (suspension->reason != SUSPENSION_WRONG_SKETCH || hostility == HOSTILE_SKETCH);
    if (!is_true) {
        world_fail(world, "round %u: member %u is named for a lie that it did not tell",
                   entry->round, suspension->id.bytes[0]);
    }
    world->named += entry_has_evidence(suspension);
}

void oracle_append(struct world *world, const struct entry *entry) {
    if (world->ledger_count == LEDGER_MOST) {
        world_fail(world, "the ledger of a schedule is full");
        return;
    }
    check_chain(world, entry);
    if (entry->kind == ENTRY_COMMIT) {
        check_commit(world, entry);
    } else if (entry->kind == ENTRY_ROLLBACK) {
        undo(world, entry);
        world->rollbacks += 1;
    } else if (entry->kind == ENTRY_SUSPEND) {
        check_suspension(world, entry);
    }
    world->aborts += entry->kind == ENTRY_ABORT;
    world->is_undone[world->ledger_count] = 0;
    struct entry *kept = &world->ledger[world->ledger_count];
    kept->slices = world->ledger_slices[world->ledger_count++];
    entry_copy(kept, entry);
}

void oracle_restarted(struct world *world, uint32_t node) {
    memset(world->feedback[node], 0, sizeof(world->feedback[node]));
}

/* What the encoding left out is carried over in the slices that the commit names the member in. */
static void advance(struct world *world, uint32_t node, const struct entry *entry) {
    const struct truth *truth = truth_of(world, entry->round, node);
    int is_own = truth != NULL && truth->start == world->nodes[node].start;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        for (uint32_t s = 0; node_of(entry, seat) == node && s < entry->slice_count; s++) {
            for (uint32_t i = s * SLICE_ELEMENTS; i < (s + 1) * SLICE_ELEMENTS; i++) {
                int is_named = (entry->slices[s].contributors >> seat & 1) != 0;
                float left = is_own ? truth->residual[i] : 0;
                world->feedback[node][i] = is_named ? left : world->feedback[node][i];
            }
        }
    }
}

void oracle_applied(struct world *world, uint32_t node, const struct hash *root, int is_adopted) {
    world->nodes[node].since = world->now;
    for (uint32_t i = world->ledger_count; i > 0; i--) {
        const struct entry *entry = &world->ledger[i - 1];
        if (!hash_equal(&entry->root, root)) {
            continue;
        }
        if (is_adopted) {
            oracle_restarted(world, node);
        } else if (entry->kind == ENTRY_COMMIT) {
            advance(world, node, entry);
        } else {
            continue; /* the commit that it stands on comes before */
        }
        return;
    }
    world_fail(world, "member %u stands on a root that no commit has", node);
}

void oracle_trained(struct world *world, uint32_t node) {
    const struct node *at = &world->nodes[node];
    size_t bytes = world->slice_count * SLICE_ELEMENTS * sizeof(float);
    if (memcmp(at->feedback, world->feedback[node], bytes) != 0) {
        world_fail(world, "member %u encodes with feedback that no commit left", node);
    }
}

uint32_t oracle_behind(const struct world *world) {
    const struct hash *roots[2] = {&world->ledger[0].root, &world->ledger[0].root};
    for (uint32_t i = 0; i < world->ledger_count; i++) {
        const struct entry *entry = &world->ledger[i];
        if (entry->kind == ENTRY_COMMIT || entry->kind == ENTRY_ROLLBACK) {
            roots[0] = roots[1];
            roots[1] = &entry->root;
        }
    }
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        const struct node *node = &world->nodes[n];
        if (node->machine == NULL || node->has_left) {
            continue;
        }
        struct hash root = plane_root(world, &node->outer);
        if (!hash_equal(&root, roots[0]) && !hash_equal(&root, roots[1])) {
            return n;
        }
    }
    return 0;
}
