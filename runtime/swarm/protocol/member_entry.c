/* member_entry: what the ledger's entries and the proposal of one change: rounds and states. */
#include "runtime/swarm/protocol/member_state.h"

#include <string.h>

void member_end_round(struct member *member) {
    member->round = 0;
    member->seat = NO_SEAT;
    member->has_trained = 0;
    member->table.version = 0;
    member->has_proposal = 0;
    member->has_vote = 0;
    member_abandon_job(member);
}

static void forget_results(struct member *member, uint32_t round) {
    member->reports_round = round;
    memset(member->reports, 0, member->slice_count * sizeof(*member->reports));
}

static void take_open(struct member *member, const struct entry *entry, struct actions *actions) {
    if (entry->round <= member->round_seen || !hash_equal(&entry->root, &member->root)) {
        return;
    }
    member_end_round(member);
    member->has_commit = 0;
    member->round_seen = entry->round;
    member->round = entry->round;
    entry_copy(&member->open, entry);
    forget_results(member, entry->round);
    member_request_clear(member);
    memset(member->wanting, 0, member->slice_count * sizeof(*member->wanting));
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_seat *at = &member->open.seats[seat];
        if (at->session == member->session && member_is_self(member, &at->id)) {
            member->seat = (int)seat;
            struct action *train = member_add_action(actions, ACTION_TRAIN);
            train->round = entry->round;
            train->commits = entry->commits;
            train->deadline_ms = entry->deadline_ms;
            train->range_count = at->range_count;
            train->ranges = at->ranges;
        }
    }
}

/* A quorum of distinct seats; the caller has checked each signature. */
static int has_quorum(const struct entry *entry) {
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        uint32_t least = i == 0 ? 0 : entry->signatures[i - 1].seat + 1;
        if (entry->signatures[i].seat < least || entry->signatures[i].seat >= entry->seat_count) {
            return 0;
        }
    }
    return entry->signature_count >= entry_quorum(entry->seat_count);
}

/* Bytes alone do not say whose sum they are: that of others may look the same, and an owner, or the
 * tracker, may name who is not in it. */
static int is_line(const struct slice_report *report, const struct entry_slice *line) {
    return report->held && hash_equal(&report->hash, &line->hash) && report->epoch == line->epoch &&
           report->contributors == line->contributors;
}

/* Results that are not the entry's are dropped, so that the entry's are asked for; what was asked
 * of the seats of another entry no longer is. */
static void want_results(struct member *member, const struct entry *entry, int is_same_roster) {
    if (member->reports_round != entry->round) {
        forget_results(member, entry->round);
    }
    if (!is_same_roster) {
        member_request_clear(member);
    }
    for (uint32_t s = 0; s < member->slice_count; s++) {
        member->reports[s].held = is_line(&member->reports[s], &entry->slices[s]);
    }
}

/* A commit or a rollback that is newer than what stands and than what is wanted. */
static int is_news(const struct member *member, const struct entry *entry) {
    int is_present = member->round == entry->round;
    int is_right = entry->kind == ENTRY_ROLLBACK ||
                   (entry->slice_count == member->slice_count && has_quorum(entry));
    int is_newer = member->has_commit
                       ? entry->round > member->commit.round ||
                             (entry->round == member->commit.round &&
                              entry->kind == ENTRY_ROLLBACK && member->commit.kind == ENTRY_COMMIT)
                       : entry->round > member->committed_round || entry->kind == ENTRY_ROLLBACK;
    return is_right && is_newer && entry->round >= member->committed_round &&
           !hash_equal(&entry->root, &member->root) &&
           (!is_present || entry->kind == ENTRY_ROLLBACK ||
            hash_equal(&entry->prev, &member->open.hash));
}

/* What led away from the state that stands is over. */
static void stay(struct member *member, const struct entry *entry) {
    if (member->has_commit && member->commit.round <= entry->round) {
        member->has_commit = 0;
        member_abandon_job(member);
    }
    member_end_round(member);
    member->committed_round = entry->round;
}

static void take_state(struct member *member, const struct message *message) {
    const struct entry *entry = message->entry;
    if (entry->kind == ENTRY_ROLLBACK && entry->round >= member->committed_round &&
        hash_equal(&entry->root, &member->root)) {
        stay(member, entry);
    }
    if (!is_news(member, entry)) {
        return;
    }
    int is_present = member->round == entry->round;
    member_abandon_job(member);
    member->has_commit = 1;
    member->commit_base = message->root;
    member->is_astray =
        entry->kind == ENTRY_ROLLBACK || !hash_equal(&member->commit_base, &member->root);
    entry_copy(&member->commit, entry);
    if (entry->kind == ENTRY_COMMIT) {
        want_results(member, &member->commit, is_present);
    }
}

void member_handle_entry(struct member *member, const struct message *message,
                         struct actions *actions) {
    const struct entry *entry = message->entry;
    if (entry->kind == ENTRY_OPEN) {
        take_open(member, entry, actions);
    } else if (entry->kind == ENTRY_COMMIT || entry->kind == ENTRY_ROLLBACK) {
        take_state(member, message);
    } else if (entry->kind == ENTRY_ABORT && entry->round == member->round &&
               hash_equal(&entry->prev, &member->open.hash)) {
        member_end_round(member);
    }
}

void member_handle_proposal(struct member *member, const struct message *message) {
    const struct entry *entry = message->entry;
    if (member->has_proposal && message->number == member->proposal_number &&
        message->round == member->round) {
        member_request_set_holders(member, message->holders); /* there are more of them by now */
        return;
    }
    if (message->round != member->round || member->table.version == 0 || member->has_commit ||
        message->number <= member->proposal_number || entry->slice_count != member->slice_count ||
        !hash_equal(&entry->prev, &member->open.hash)) {
        return;
    }
    member_abandon_job(member);
    member->has_vote = 0;
    member->has_proposal = 1;
    member->proposal_number = message->number;
    entry_copy(&member->proposal, entry);
    want_results(member, &member->proposal, 1);
    memset(member->holders, 0, member->slice_count * sizeof(*member->holders));
    member_request_set_holders(member, message->holders);
}
