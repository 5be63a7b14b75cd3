/* member: the memory of a member's state machine, and the function that handles one event and then
 * starts what the new state allows. */
#include "runtime/swarm/member_machine/member_state.h"

size_t member_memory_bytes(uint32_t slice_count) {
    size_t slices = slice_count;
    return carve_padded_bytes(sizeof(struct member)) +
           carve_padded_bytes(slices * sizeof(struct slice_plan)) +
           3 * carve_padded_bytes(slices * sizeof(uint64_t)) + 2 * carve_padded_bytes(slices) +
           carve_padded_bytes(slices * sizeof(struct slice_report)) +
           3 * carve_padded_bytes(slices * sizeof(struct entry_slice)) +
           repetitions_memory_bytes(slices);
}

static void bind_memory(struct member *member, char *memory, size_t slices) {
    member->table.slices = carve(&memory, slices * sizeof(struct slice_plan));
    results_bind(&member->results, &memory, slices);
    member_requests_bind(&member->requests, &memory, slices);
    member->round.open.slices = carve(&memory, slices * sizeof(struct entry_slice));
    member->proposal.entry.slices = carve(&memory, slices * sizeof(struct entry_slice));
    member->commit.entry.slices = carve(&memory, slices * sizeof(struct entry_slice));
    repetitions_bind(&member->repeats, &memory, slices);
}

struct member *member_init(void *memory, const struct member_initial_state *start) {
    ASSERT(start->slice_count > 0 && start->slice_count <= SWARM_SLICES_MAX);
    memset(memory, 0, member_memory_bytes(start->slice_count));
    struct member *member = memory;
    bind_memory(member, (char *)memory + carve_padded_bytes(sizeof *member), start->slice_count);
    member->id = start->id;
    member->slice_count = start->slice_count;
    member->sample_tokens = start->sample_tokens;
    member->sent_values = start->sent_values;
    member_check_init(&member->check, start->has_sketches);
    member_audit_init(&member->audit, &start->audit_secret);
    member_session_init(&member->session, start->start_id);
    member_entry_init(member, &start->root);
    member_lease_init(&member->lease, &start->lease);
    member_end_round(member);
    member_requests_clear(member);
    results_load(&member->results, start);
    return member;
}

const struct hash *member_current_root(const struct member *member) {
    return &member->outer.root;
}

bool member_is_self(const struct member *member, const struct identity *id) {
    return memcmp(id, &member->id, sizeof *id) == 0;
}

static void handle_message(struct member *member, const struct message *message,
                           struct actions *actions) {
    switch (message->kind) {
    case MESSAGE_CONTRIBUTION:
        member_handle_contribution(member, message, actions);
        break;
    case MESSAGE_RESULT:
        member_handle_result(member, message, actions);
        break;
    case MESSAGE_FETCH_CONTRIBUTION:
    case MESSAGE_FETCH_RESULT:
        member_handle_data_request(member, message, actions);
        break;
    case MESSAGE_SKETCHES:
        member_handle_sketches(member, message, actions);
        break;
    case MESSAGE_FETCH_SKETCHES:
        member_handle_sketch_request(member, message, actions);
        break;
    default:
        member_handle_tracker_message(member, message, actions);
        break;
    }
}

static void handle_job_end(struct member *member, const struct event *event,
                           struct actions *actions) {
    struct member_job *job = &member->job;
    ASSERT(event->job <= job->id);
    if (job->kind == JOB_NONE || event->job != job->id) {
        return; /* the event is the outcome of an abandoned state fetch */
    }
    bool is_abandoned = job->is_abandoned;
    job_end(job, event->kind, event->write_outcome != WRITE_OK);
    if (is_abandoned) {
        if (event->kind == EVENT_SUMMED) {
            member_handle_abandoned_sum(member);
        }
        return;
    }
    if (job->is_backing_off) {
        return; /* the disk is full; the job is retried after the next tick */
    }
    switch (event->kind) {
    case EVENT_SUMMED:
        member_handle_sum(member, &event->hash, actions);
        break;
    case EVENT_ROOT_COMPUTED:
        member_handle_root(member, event, actions);
        break;
    case EVENT_STORED:
        member_handle_stored(member, actions);
        break;
    case EVENT_SKETCHED:
        member_handle_sketched(member, actions);
        break;
    case EVENT_CHECKED:
        member_handle_checked(member, event->slice, event->opposed, actions);
        break;
    case EVENT_RECHECKED:
        member_handle_rechecked(member, &event->refusal, actions);
        break;
    case EVENT_RESIGNED:
        member_handle_resigned(member, actions);
        break;
    default:
        ASSERT(event->kind == EVENT_APPLIED);
        member_handle_applied(member, &event->root, actions);
        break;
    }
}

/* Start the next job, if the state allows one. */
static void start_next_job(struct member *member, struct actions *actions) {
    const struct entry *target = member_target_entry(member);
    if (member->job.kind != JOB_NONE || member->job.is_backing_off) {
        return;
    }
    if (member->commit.is_pending && member->commit.has_diverged) {
        member_start_state_fetch(member, actions);
    } else if (target != NULL) {
        const struct member_vote *vote = &member->proposal.vote;
        bool has_root = !member->commit.is_pending && (vote->is_ready || vote->is_stored);
        bool is_checking = !member->commit.is_pending && member_check_start_job(member, actions);
        if (!is_checking && !has_root && member_has_all_results(member)) {
            job_start(&member->job, JOB_ROOT, actions)->entry = target;
        }
    } else if (member->table.version > 0 && member->round.seat != NO_SEAT) {
        member_start_next_sum(member, actions);
    }
}

static void assert_round_state(const struct member *member) {
    const struct member_round *round = &member->round;
    ASSERT(round->is_open ? round->open.round > 0 : round->seat == NO_SEAT);
    ASSERT(round->seat == NO_SEAT || member_is_self(member, &round->open.seats[round->seat].id));
    ASSERT(round->seat < (int)round->open.seat_count || round->seat == NO_SEAT);
    ASSERT(member->table.version == 0 || member->table.round == round_number(round));
    ASSERT(!member->proposal.is_current || member->table.version > 0);
    ASSERT(!member->proposal.vote.is_ready || member->proposal.is_current);
    ASSERT(!round->is_open || member->commit.is_pending ||
           member->results.round == round->open.round);
    ASSERT(!member->commit.has_diverged || member->commit.is_pending);
}

/* Asserts that a job that is not abandoned matches the state of the member. */
static void assert_job_state(const struct member *member) {
    const struct member_job *job = &member->job;
    const struct member_commit *commit = &member->commit;
    if (job->kind == JOB_NONE || job->is_abandoned) {
        ASSERT(job->kind != JOB_ADOPT && job->kind != JOB_APPLY);
        return;
    }
    ASSERT(!job->is_backing_off);
    ASSERT(job->kind != JOB_ADOPT ||
           (commit->has_diverged && !member->round.is_open && hash_is_zero(&member->outer.root)));
    ASSERT(job->kind != JOB_APPLY || (commit->is_pending && !commit->has_diverged));
    ASSERT(job->kind != JOB_STORE || (member->proposal.is_current && !commit->is_pending));
    ASSERT((job->kind != JOB_SKETCH && job->kind != JOB_CHECK && job->kind != JOB_RECHECK) ||
           (member->proposal.is_current && !commit->is_pending));
    ASSERT(job->kind != JOB_ROOT || (member_target_entry(member) != NULL && !commit->has_diverged));
    ASSERT(job->kind != JOB_SUM ||
           (member->table.version > 0 && member->results.reports[job->slice].has_result == 0 &&
            (int)member->table.slices[job->slice].owner == member->round.seat));
}

void member_step(struct member *member, const struct event *event, int64_t now_ms,
                 struct actions *actions) {
    member_requests_add_waited_time(member, now_ms);
    switch (event->kind) {
    case EVENT_TICK:
        member_session_tick(member, actions);
        break;
    case EVENT_MESSAGE:
        member_mark_message_received(member);
        handle_message(member, event->message, actions);
        break;
    case EVENT_TRAINED:
        member_handle_training(member, event, actions);
        break;
    case EVENT_LEAVE:
        member_session_begin_leave(&member->session);
        break;
    case EVENT_CLOSED:
        member_withdraw_requests_to_peer(member, &event->peer);
        break;
    default:
        handle_job_end(member, event, actions);
        break;
    }
    start_next_job(member, actions);
    member_send_requests(member, actions);
    member_requests_update_awaited_seats(member);
    assert_round_state(member);
    assert_job_state(member);
}
