/* member_entry: handles the tracker's entries and proposals, votes on them, and records the
 * outer state. */
#include "runtime/swarm/member_machine/member_state.h"

void member_entry_init(struct member *member, const struct hash *root) {
    ASSERT(!member->commit.is_pending && !member->proposal.is_current);
    member->outer.root = *root;
    member->outer.durable_root = *root;
}

const struct entry *member_target_entry(const struct member *member) {
    ASSERT(!member->proposal.is_current || member->round.is_open);
    return member->commit.is_pending     ? &member->commit.entry
           : member->proposal.is_current ? &member->proposal.entry
                                         : NULL;
}

const struct entry *member_roster(const struct member *member) {
    const struct entry *target = member_target_entry(member);
    return target != NULL ? target : &member->round.open;
}

void proposal_withdraw(struct member_proposal *proposal) {
    ASSERT(!proposal->vote.is_ready || proposal->is_current);
    proposal->is_current = false;
    proposal->vote = (struct member_vote){.is_ready = false};
}

void commit_clear(struct member_commit *commit) {
    commit->is_pending = false;
    commit->has_diverged = false;
}

void commit_mark_diverged(struct member_commit *commit) {
    ASSERT(commit->is_pending && !commit->has_diverged);
    commit->has_diverged = true;
}

static void handle_open(struct member *member, const struct entry *entry, struct actions *actions) {
    if (entry->round > member->round.open.round && hash_equal(&entry->root, &member->outer.root)) {
        member_end_round(member);
        commit_clear(&member->commit);
        member_lease_begin_round(&member->lease, entry);
        member_open_round(member, entry, actions);
    }
}

/* Returns whether a quorum of distinct seats signed the entry. The caller has verified each
 * signature. */
static bool has_quorum(const struct entry *entry) {
    ASSERT(entry->signature_count <= SWARM_MEMBERS_MAX);
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        uint32_t seat_min = i == 0 ? 0 : entry->signatures[i - 1].seat + 1;
        if (entry->signatures[i].seat < seat_min ||
            entry->signatures[i].seat >= entry->seat_count) {
            return false;
        }
    }
    return entry->signature_count >= entry_votes_needed(entry);
}

/* Drops stored results that the entry does not list, so that the member requests the listed ones.
 * Requests to the seats of another roster are withdrawn. */
static void drop_unlisted_results(struct member *member, const struct entry *entry,
                                  bool is_same_roster) {
    ASSERT(entry->slice_count == member->slice_count);
    ASSERT(member->job.kind == JOB_NONE || member->job.is_abandoned);
    if (member->results.round != entry->round) {
        results_reset(&member->results, entry->round, member->slice_count);
    }
    if (!is_same_roster) {
        member_requests_clear(member);
    }
    results_keep_listed(&member->results, entry);
}

/* Whether a COMMIT or ROLLBACK is newer than the current state and than a pending commit. */
static bool is_newer_state(const struct member *member, const struct entry *entry) {
    const struct entry *pending = &member->commit.entry;
    bool is_rollback = entry->kind == ENTRY_ROLLBACK;
    bool is_valid =
        is_rollback || (entry->result_count == member->slice_count && has_quorum(entry));
    bool is_newer = member->commit.is_pending ? entry->round > pending->round ||
                                                    (entry->round == pending->round &&
                                                     is_rollback && pending->kind == ENTRY_COMMIT)
                                              : entry->round > member->outer.round || is_rollback;
    bool is_of_open_round = round_number(&member->round) == entry->round;
    return is_valid && is_newer && entry->round >= member->outer.round &&
           !hash_equal(&entry->root, &member->outer.root) &&
           (!is_of_open_round || is_rollback || hash_equal(&entry->prev, &member->round.open.hash));
}

/* Handles a ROLLBACK to the current state, which ends a pending commit and the open round. */
static void handle_rollback_to_current(struct member *member, const struct entry *entry) {
    ASSERT(entry->kind == ENTRY_ROLLBACK && entry->round >= member->outer.round);
    if (member->commit.is_pending && member->commit.entry.round <= entry->round) {
        commit_clear(&member->commit);
        job_abandon(&member->job);
    }
    member_end_round(member);
    repetitions_on_state(&member->repeats, entry);
    member->outer.round = entry->round;
}

static void handle_state_entry(struct member *member, const struct message *message) {
    const struct entry *entry = message->entry;
    struct member_commit *commit = &member->commit;
    if (entry->kind == ENTRY_ROLLBACK && entry->round >= member->outer.round &&
        hash_equal(&entry->root, &member->outer.root)) {
        handle_rollback_to_current(member, entry);
    }
    if (!is_newer_state(member, entry)) {
        return;
    }
    ASSERT(entry->round >= member->outer.round);
    ASSERT(!commit->is_pending || entry->round >= commit->entry.round);
    bool is_of_open_round = round_number(&member->round) == entry->round;
    job_abandon(&member->job);
    commit->is_pending = true;
    /* Results can be requested only of a commit whose rows are known. */
    const bool has_results = entry->kind == ENTRY_COMMIT && entry->slice_count > 0;
    commit->has_diverged = !has_results || !hash_equal(&message->root, &member->outer.root);
    entry_copy(&commit->entry, entry);
    if (has_results) {
        drop_unlisted_results(member, &commit->entry, is_of_open_round);
    }
}

void member_handle_entry(struct member *member, const struct message *message,
                         struct actions *actions) {
    const struct entry *entry = message->entry;
    ASSERT(message->kind == MESSAGE_ENTRY && member->job.kind != JOB_APPLY);
    if (entry->kind == ENTRY_OPEN) {
        handle_open(member, entry, actions);
    } else if (entry->kind == ENTRY_COMMIT || entry->kind == ENTRY_ROLLBACK) {
        handle_state_entry(member, message);
    } else if (entry->kind == ENTRY_ABORT && entry->round == round_number(&member->round) &&
               hash_equal(&entry->prev, &member->round.open.hash)) {
        member_lease_end_round(&member->lease, entry);
        member_end_round(member);
    }
}

/* Whether the proposal has the weights of the table, which this member has verified. */
static bool has_weights_of_table(const struct member *member, const struct entry *entry) {
    const struct round_table *table = &member->table;
    bool is_equal = entry->seat_count == member->round.open.seat_count &&
                    entry->reference_norm == table->reference_norm;
    ASSERT(table->version > 0);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX && is_equal; seat++) {
        const struct entry_member *proposed = &entry->members[seat];
        const struct entry_member *declared = &table->members[seat];
        is_equal = proposed->tokens == declared->tokens && proposed->weight == declared->weight &&
                   proposed->samples == declared->samples && proposed->norm == declared->norm;
    }
    return is_equal;
}

void member_handle_proposal(struct member *member, const struct message *message,
                            struct actions *actions) {
    const struct entry *entry = message->entry;
    struct member_proposal *proposal = &member->proposal;
    bool is_of_open_round = message->round == round_number(&member->round);
    if (proposal->is_current && message->number == proposal->id && is_of_open_round) {
        /* seats may have received results since the previous PROPOSE */
        member_requests_set_holders(member, message->ballot.holders);
        return;
    }
    if (!is_of_open_round || member->table.version == 0 || member->commit.is_pending ||
        message->number <= proposal->id || entry->slice_count != member->slice_count ||
        !hash_equal(&entry->prev, &member->round.open.hash) ||
        !has_weights_of_table(member, entry)) {
        return;
    }
    ASSERT(member->round.is_open && message->number > proposal->id);
    job_abandon(&member->job);
    proposal_withdraw(proposal);
    proposal->is_current = true;
    proposal->id = message->number;
    proposal->start = (struct tracker_start){message->incarnation, message->ballot.start};
    member_lease_record_start(&member->lease, message->incarnation, message->ballot.start);
    entry_copy(&proposal->entry, entry);
    drop_unlisted_results(member, &proposal->entry, true);
    member_requests_clear_holders(member);
    member_requests_set_holders(member, message->ballot.holders);
    member_check_begin(member, message, actions);
}

void member_send_vote(const struct member *member, struct actions *actions) {
    const struct member_vote *vote = &member->proposal.vote;
    const struct member_round *round = &member->round;
    if (!vote->is_ready || round->seat == NO_SEAT || round->open.seats[round->seat].is_guest == 1) {
        return;
    }
    ASSERT(member->proposal.is_current);
    ASSERT(hash_is_zero(&vote->hash) == hash_is_zero(&vote->root));
    ASSERT((vote->refusal.reason == REFUSAL_NONE) == !hash_is_zero(&vote->root));
    struct message message = {.kind = MESSAGE_VOTE,
                              .round = round_number(&member->round),
                              .number = member->proposal.id,
                              .ballot.start = member->proposal.start.number,
                              .ballot.refusal = vote->refusal,
                              .root = vote->root,
                              .hash = vote->hash,
                              .signature = vote->signature};
    if (refusal_is_accusation(vote->refusal.reason)) {
        const struct entry_slice *slice = &member->proposal.entry.slices[member->audit.slice];
        message.slice = member->audit.slice;
        message.epoch = slice->epoch;
        message.contributors = slice->contributors;
        message.hash = slice->hash;
        message.ballot.seed = member->check.seed;
        message.owner = member->proposal.entry.seats[vote->refusal.suspect].id;
    }
    member_send(member, NULL, message, actions);
}

void member_end_check(struct member *member, const struct message_refusal *refusal,
                      struct actions *actions) {
    struct member_vote *vote = &member->proposal.vote;
    ASSERT(member->proposal.is_current && vote->is_stored && !vote->is_ready);
    if (refusal->reason != REFUSAL_NONE) {
        *vote = (struct member_vote){.is_stored = true};
    }
    vote->refusal = *refusal;
    vote->is_ready = true;
    member_send_vote(member, actions);
}

/* Handles the end of a ROOT job, which has computed the root after a proposal or a commit. */
void member_handle_root(struct member *member, const struct event *event, struct actions *actions) {
    const struct entry *target = member_target_entry(member);
    ASSERT(member->commit.is_pending || member->proposal.is_current);
    if (!member->commit.is_pending && hash_is_zero(&event->root)) {
        member->proposal.vote =
            (struct member_vote){.is_ready = true, .refusal = {.reason = REFUSAL_STATE}};
        member_send_vote(member, actions);
    } else if (!member->commit.is_pending && !member_give_lease(member, &event->hash)) {
        member->proposal.vote =
            (struct member_vote){.is_ready = true, .refusal = {.reason = REFUSAL_PROMISED}};
        member_send_vote(member, actions);
    } else if (!member->commit.is_pending) {
        ASSERT(!member->proposal.vote.is_ready);
        member->proposal.vote = (struct member_vote){
            .root = event->root, .hash = event->hash, .signature = event->signature};
        struct action *store = job_start(&member->job, JOB_STORE, actions);
        store->entry = target;
        store->lease = member->round.open.leases.start != 0 ? &member->lease.held : NULL;
    } else if (hash_equal(&event->root, &target->root)) {
        const struct member_training *training = &member->round.training;
        struct action *apply = job_start(&member->job, JOB_APPLY, actions);
        apply->entry = target;
        apply->seat = training->round == target->round ? training->seat : NO_SEAT;
    } else {
        commit_mark_diverged(&member->commit);
    }
}

/* Handles the end of a STORE job, which has made the results of the proposal durable. */
void member_handle_stored(struct member *member, struct actions *actions) {
    ASSERT(member->proposal.is_current && !member->commit.is_pending);
    ASSERT(member_has_all_results(member));
    member->proposal.vote.is_stored = true;
    member_check_on_results_stored(member, actions);
}

/* Records that `root` is the current root and that the round that produced it has ended. */
void member_handle_applied(struct member *member, const struct hash *root,
                           struct actions *actions) {
    ASSERT(member->commit.is_pending && !hash_is_zero(root));
    ASSERT(member->commit.entry.round >= member->outer.round);
    member->outer = (struct member_outer){
        .root = *root, .durable_root = *root, .round = member->commit.entry.round};
    member_lease_on_current_state(&member->lease, &member->commit.entry);
    repetitions_on_state(&member->repeats, &member->commit.entry);
    commit_clear(&member->commit);
    member_end_round(member);
    member_send_report(member, actions);
}

/* Starts a state fetch. The member has no current state until the fetch ends. */
void member_start_state_fetch(struct member *member, struct actions *actions) {
    ASSERT(member->commit.is_pending && member->commit.has_diverged);
    member_end_round(member);
    memset(&member->outer.root, 0, sizeof member->outer.root);
    job_start(&member->job, JOB_ADOPT, actions)->entry = &member->commit.entry;
}
