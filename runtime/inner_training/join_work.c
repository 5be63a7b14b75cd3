/* member_job_execute: what the swarm asks of a member's computing thread, one piece at a time. */
#include "base/log.h"
#include "runtime/inner_training/join_parts.h"

#include <math.h>

/* What results are stored: those of the same slices and sums have the same name. */
static struct hash name_of_results(const struct entry *entry) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, &entry->round, sizeof entry->round);
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        const struct entry_slice *line = &entry->slices[s];
        hash_add(&state, &line->epoch, sizeof line->epoch);
        hash_add(&state, &line->contributors, sizeof line->contributors);
        hash_add(&state, line->hash.bytes, HASH_BYTES);
    }
    return hash_end(&state);
}

static enum status store(struct member_run *joining, const struct entry *entry,
                         struct fault *fault) {
    struct hash name = name_of_results(entry);
    if (hash_equal(&name, &joining->stored)) {
        return OK;
    }
    enum status status = member_store_add_results(&joining->store, entry, &joining->replica, fault);
    if (status == OK) {
        joining->stored = name;
    }
    return status;
}

/* ---- apply ---- */

static uint32_t contributors_of(const struct entry *entry) {
    uint64_t seats = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        seats |= entry->slices[s].contributors;
    }
    return (uint32_t)__builtin_popcountll(seats);
}

/* The seat whose feedback can advance: with the contribution and the weights at hand that it
 * declared. Without them what it owes is not known any more, also when an earlier start declared
 * and so no seat is this one's. */
static int seat_at_hand(struct member_run *joining, const struct member_job *work) {
    if (work->seat < 0 || joining->at.encoded_round != work->entry->round) {
        inner_forget_sent(joining, work->entry);
        return -1;
    }
    return work->seat;
}

static enum status take_in(struct member_run *joining, const struct member_job *work,
                           struct applied_round *taken, struct fault *fault) {
    const struct entry *entry = work->entry;
    struct training_position *at = &joining->at;
    struct applied_round round = {
        .round = entry->round,
        .members = entry->seat_count,
        .contributors = contributors_of(entry),
        .loss = at->loss_tokens == 0 ? (double)NAN : at->loss_sum / (double)at->loss_tokens};
    round.root = replica_apply(&joining->replica, entry, seat_at_hand(joining, work));
    at->round = entry->round;
    at->commits = entry->commits;
    *taken = round;
    return inner_reset_done(joining, fault);
}

/* What follows a round, once the swarm knows that it is applied here. */
static enum status after_round(struct member_run *joining, const struct applied_round *round,
                               struct fault *fault) {
    const struct run *run = &joining->session.run;
    struct staging staging = session_staging(&joining->session);
    const struct training_position *at = &joining->at;
    struct fault refused;
    if (round_record_outer(&joining->record, round->round, &staging, &refused) != OK) {
        member_log_disk(joining, &refused);
    }
    member_log_round(joining, round);
    int64_t step = (int64_t)at->commits * run->swarm_inner_steps;
    bool evaluates = run->eval_every > 0 &&
                     step / run->eval_every > (step - run->swarm_inner_steps) / run->eval_every;
    enum status status = evaluates ? member_evaluate(joining, false, fault) : OK;
    if (status == OK && at->commits - at->saved_commits >= swarm_snapshot_rounds(run) &&
        outer_state_save(joining, &refused) != OK) {
        member_log_disk(joining, &refused);
    }
    return status;
}

/* What the disk refuses is told, and wanted again later. */
static void refuse(struct member_run *joining, const struct member_job *work, enum event_kind kind,
                   const struct fault *refused) {
    struct event event = {
        .kind = kind, .job = work->job, .written = WRITE_FAILED, .root = joining->replica.root};
    member_log_disk(joining, refused);
    member_loop_answer(joining->loop, &event);
}

static enum status apply(struct member_run *joining, const struct member_job *work,
                         struct fault *fault) {
    const struct bound_program *bound = &joining->session.bound;
    struct fault refused;
    enum status status = store(joining, work->entry, &refused);
    if (status == OK) {
        status = ledger_copy_sync(&joining->ledger, &refused);
    }
    if (status == OK) {
        status = member_store_applied(&joining->store, work->entry, &refused);
    }
    if (status != OK) {
        refuse(joining, work, EVENT_APPLIED, &refused);
        return OK;
    }
    member_log_disk(joining, NULL);
    struct applied_round round;
    status = take_in(joining, work, &round, fault);
    if (status == OK) {
        status = program_failure(bound, fault);
    }
    if (status != OK) {
        return status;
    }
    struct event event = {.kind = EVENT_APPLIED, .job = work->job, .root = round.root};
    member_loop_answer(joining->loop, &event);
    return after_round(joining, &round, fault);
}

/* A state from other members: durable at once, as nothing here leads up to it. */
static enum status adopt(struct member_run *joining, const struct member_job *work,
                         struct fault *fault) {
    struct replica *replica = &joining->replica;
    struct training_position *at = &joining->at;
    struct fault refused;
    replica_refresh(replica);
    replica_clear_feedback(replica);
    at->round = work->entry->round;
    at->commits = work->entry->commits;
    at->saved_round = 0;
    at->saved_commits = at->commits;
    enum status status = inner_reset(joining, fault);
    if (status == OK) {
        status = program_failure(&joining->session.bound, fault);
    }
    if (status != OK) {
        return status;
    }
    status = ledger_copy_sync(&joining->ledger, &refused);
    if (status == OK) {
        status = outer_state_save(joining, &refused);
    }
    if (member_loop_is_stale(joining->loop, work)) {
        return OK;
    }
    if (status != OK) {
        refuse(joining, work, EVENT_APPLIED, &refused);
        return OK;
    }
    member_log_disk(joining, NULL);
    struct event event = {.kind = EVENT_APPLIED, .job = work->job, .root = replica->root};
    member_loop_answer(joining->loop, &event);
    return OK;
}

/* ---- the rest ---- */

static void sum(struct member_run *joining, const struct member_job *work) {
    struct event event = {.kind = EVENT_SUMMED,
                          .job = work->job,
                          .hash = replica_sum(&joining->replica, work->round, work->slice,
                                              work->addends, work->addend_count, work->own_weight)};
    member_loop_answer(joining->loop, &event);
}

/* A commit is rooted as the proposal was that it came from: of the same results nothing is hashed
 * twice. A root that a failed device made is told to nobody. */
static enum status root(struct member_run *joining, const struct member_job *work,
                        struct fault *fault) {
    struct replica *replica = &joining->replica;
    struct hash name = name_of_results(work->entry);
    bool is_known =
        replica->voted_round == work->entry->round && hash_equal(&name, &joining->rooted);
    joining->rooted = name;
    struct hash root = is_known ? replica->voted_root
                                : replica_root_after(replica, work->entry->round);
    enum status status = program_failure(&joining->session.bound, fault);
    if (status == OK) {
        member_loop_vote(joining->loop, work, &root);
    }
    return status;
}

static void keep(struct member_run *joining, const struct member_job *work) {
    struct fault refused;
    struct event event = {.kind = EVENT_STORED, .job = work->job};
    if (store(joining, work->entry, &refused) != OK) {
        refuse(joining, work, EVENT_STORED, &refused);
        return;
    }
    member_log_disk(joining, NULL);
    member_loop_answer(joining->loop, &event);
}

enum status member_job_execute(struct member_run *joining, const struct member_job *work,
                               struct fault *fault) {
    switch (work->kind) {
    case ACTION_TRAIN:
        return inner_train(joining, work, fault);
    case ACTION_SUM:
        sum(joining, work);
        return OK;
    case ACTION_ROOT:
        return root(joining, work, fault);
    case ACTION_STORE:
        keep(joining, work);
        return OK;
    case ACTION_APPLY:
        return apply(joining, work, fault);
    case ACTION_ADOPT:
        return adopt(joining, work, fault);
    default:
        ASSERT(work->kind == ACTION_LEFT);
        joining->has_left = true;
        return OK;
    }
}
