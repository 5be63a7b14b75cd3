
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/data/data_match.h"
#include "runtime/data/text_tokens.h"
#include "runtime/inner_training/lockstep.h"
#include "runtime/inner_training/member_run_state.h"
#include "transport/site/stop.h"

#include <stdio.h>

enum { JOB_WAIT_MS = 200 }; /* longest wait for a job before the next test for a request to stop */

static const char LISTEN_ANYWHERE[] = "tcp://*:*";

static bool is_rank0(const struct member_run *member) {
    return session_is_rank0(&member->trainer.session);
}

/* ---- prepare ---- */

/* Checks that the data are those of the manifest. Only rank 0 compares the data with the manifest.
 * The ranks then compare the hash of the manifest instead of a hash of the data. */
static enum status check_data(struct member_run *member, struct fault *fault) {
    return is_rank0(member)
               ? data_match_check(&member->trainer.session.settings, &member->swarm.manifest, fault)
               : OK;
}

enum status member_run_find_data(struct member_run *member, struct fault *fault) {
    struct session *session = &member->trainer.session;
    TRY(data_tokenise_text(&session->settings, &session->region, fault));
    return data_match_check_sizes(&member->trainer.session.settings, &member->swarm.manifest,
                                  fault);
}

/* Binds the outer state to its extents, and prepares the transfer between the replica and the
 * trained weights. */
static enum status bind_state(struct member_run *member, struct fault *fault) {
    struct session *session = &member->trainer.session;
    if (is_rank0(member)) {
        TRY(swarm_replica_bind(session, &member->swarm.terms.shape, &member->outer.replica, fault));
    }
    if (session_rank_count(session) > 1) {
        float *flat =
            is_rank0(member) ? swarm_extent_address(session, SWARM_EXTENT_INNER_WEIGHTS) : NULL;
        inner_weights_plan(session, flat, &member->inner.weights);
    } else {
        compute_copies_plan(session, &member->inner.compute_copies);
    }
    outer_state_plan_snapshots(member);
    return OK;
}

static void allocate_buffers(struct member_run *member) {
    struct region *region = &member->trainer.session.region;
    const struct settings *settings = &member->trainer.session.settings;
    struct outer_state *outer = &member->outer;
    struct inner_state *inner = &member->inner;
    uint32_t slices = member->swarm.terms.shape.slices.count;
    size_t rows = (size_t)(settings->batch_tokens / settings->sequence_tokens);
    outer->reports = region_alloc(region, slices, sizeof *outer->reports);
    outer->entry = region_alloc(region, 1, sizeof *outer->entry);
    outer->entry->slices = region_alloc(region, slices, sizeof *outer->entry->slices);
    sample_order_init(&member->trainer.train, (uint64_t)settings->seed, region, &inner->order);
    inner->windows = region_alloc(region, rows, sizeof *inner->windows);
}

static enum status open_store(struct member_run *member, struct fault *fault) {
    struct region *region = &member->trainer.session.region;
    const struct settings *settings = &member->trainer.session.settings;
    const struct slices *slices = &member->swarm.terms.shape.slices;
    struct outer_state *outer = &member->outer;
    char path[2 * PATH_BYTES];
    if (!is_rank0(member)) {
        return OK;
    }
    TRY(member_store_open(settings->stem, slices, region, &outer->store, fault));
    outer->store_is_open = true;
    TRY(state_store_open(settings->stem, slices, &outer->states, fault));
    path_join(settings->stem, "ledger.jsonl", path, sizeof path);
    TRY(ledger_copy_open(region_copy_text(region, path), slices->count, region, &outer->ledger,
                         fault));
    TRY(member_store_claim_folder(&outer->store, &member->swarm.manifest.hash,
                                  ledger_copy_swarm(&outer->ledger), fault));
    return member_store_read_lease(&outer->store, &member->swarm.manifest.hash, &outer->lease,
                                   fault);
}

static enum status open_metrics(struct member_run *member, struct fault *fault) {
    struct session *session = &member->trainer.session;
    if (!is_rank0(member)) {
        return OK;
    }
    round_record_plan(session, &member->outer.replica, &member->outer.record);
    TRY(metrics_check_path(session->settings.metrics_path, "metrics", fault));
    return metrics_open(session, &member->trainer.metrics, fault);
}

const char *member_listen_address(const struct member_run_args *args) {
    if (args->listen == NULL) {
        return LISTEN_ANYWHERE;
    }
    return strcmp(args->listen, "none") == 0 ? NULL : args->listen;
}

static bool read_stored_result(void *context, uint32_t round, uint32_t slice,
                               const struct hash *hash, uint8_t *bytes) {
    const struct member_store *store = context;
    return member_store_read_result(store, round, slice, hash, bytes);
}

static enum status start_member_loop(struct member_run *member, struct fault *fault) {
    struct session *session = &member->trainer.session;
    const struct member_swarm *swarm = &member->swarm;
    struct outer_state *outer = &member->outer;
    if (!is_rank0(member)) {
        return OK;
    }
    struct member_loop_options options = swarm_loop_options(&swarm->terms, &outer->replica);
    options.keys = &swarm->keys;
    options.tracker = swarm->tracker.keys;
    options.delegation = &swarm->tracker.delegation;
    options.delegation_path = swarm->delegation_path[0] == '\0' ? NULL : swarm->delegation_path;
    memcpy(options.operator_key, swarm->manifest.join.operator_keys.sign, KEY_BYTES);
    options.tracker_address = swarm->tracker.address;
    options.listen = member_listen_address(&swarm->args);
    options.public_address = swarm->args.public_address;
    options.name = swarm->args.name;
    options.manifest = swarm->manifest.hash;
    options.limit_up = session->settings.limit_up;
    options.limit_down = session->settings.limit_down;
    options.start =
        (struct member_initial_state){.sample_tokens = member->swarm.terms.sample_tokens,
                                      .root = outer->replica.root,
                                      .stored_round = outer->stored_round,
                                      .stored = outer->reports,
                                      .lease = outer->lease};
    options.stored_result_context = &outer->store;
    options.read_stored_result = read_stored_result;
    options.states = &outer->states;
    options.state_round = member->position.round;
    options.checkpoint = outer->ledger.checkpoint;
    options.ledger_context = &outer->ledger;
    options.read_ledger_entry = ledger_copy_read;
    options.append_ledger_entry = ledger_copy_add;
    return member_loop_start(&options, swarm_extent_address(session, SWARM_EXTENT_NETWORK_TABLES),
                             &session->region, &member->loop, fault);
}

enum status member_run_prepare(struct member_run *member, struct fault *fault) {
    struct trainer *trainer = &member->trainer;
    struct session *session = &trainer->session;
    const struct hash *manifest = &member->swarm.manifest.hash;
    trainer->stop_subject = "join";
    TRY(trainer_tokenise_text(trainer, fault));
    TRY(trainer_agree_on_stage(trainer, check_data(member, fault), fault));
    TRY(trainer_agree_on_stage(trainer, trainer_open_data(trainer, fault), fault));
    TRY(trainer_agree_on_stage(trainer, trainer_compare_ranks(trainer, manifest, fault), fault));
    TRY(trainer_agree_on_stage(trainer, session_bind(session, fault), fault));
    TRY(trainer_agree_on_stage(trainer, session_connect(session, fault), fault));
    TRY(trainer_agree_on_stage(trainer, bind_state(member, fault), fault));
    allocate_buffers(member);
    TRY(trainer_agree_on_stage(trainer, open_store(member, fault), fault));
    TRY(trainer_agree_on_stage(trainer, trainer_prepare_output_texts(trainer, fault), fault));
    TRY(trainer_agree_on_stage(trainer, trainer_plan_export(trainer, fault), fault));
    TRY(trainer_agree_on_stage(trainer, trainer_make_snapshot_writer(trainer, fault), fault));
    TRY(trainer_agree_on_stage(trainer, lockstep_run(member, outer_state_load, fault), fault));
    TRY(trainer_agree_on_stage(trainer, open_metrics(member, fault), fault));
    return trainer_agree_on_stage(trainer, start_member_loop(member, fault), fault);
}

/* ---- run ---- */

/* Whether a member that was asked to stop has waited long enough to leave in order: for
 * `stop_within`, and in a round for the usual time of a round in addition. */
static bool has_waited_long_enough(const struct member_run *member) {
    struct member_loop_view view;
    mailbox_read_view(member_loop_mailbox(member->loop), &view);
    if (view.round == 0 && !(view.is_tracker_connected && view.is_admitted)) {
        return true; /* the member takes part in no round, and cannot join one */
    }
    bool is_idle = !view.is_tracker_connected || view.round == 0;
    double limit_s = member->trainer.session.settings.stop_within_s +
                     (is_idle ? 0 : (double)view.timing.round_ms * 1e-3);
    return clock_seconds_since(stop_requested_ns()) > limit_s;
}

static void leave_if_requested(struct member_run *member) {
    struct member_loop_view view;
    if (stop_requested() && !member->is_leaving) {
        mailbox_read_view(member_loop_mailbox(member->loop), &view);
        log_line(LOG_INFO,
                 view.is_admitted || view.round > 0
                     ? "leaving the swarm after this round; press Ctrl-C again to quit now"
                     : "stopped waiting");
        mailbox_request_leave(member_loop_mailbox(member->loop));
        member->is_leaving = true;
    }
}

/* Fails if another process has joined with the same identity, because the two would replace each
 * other's connections repeatedly. */
static enum status check_not_replaced(const struct member_run *member, struct fault *fault) {
    struct member_loop_view view;
    mailbox_read_view(member_loop_mailbox(member->loop), &view);
    return view.is_replaced
               ? fault_set(fault, STATUS_FAILED, member->swarm.manifest.name,
                           "give each process a separate identity with --identity FILE",
                           "another process has joined with this identity")
               : OK;
}

static enum status execute_jobs(struct member_run *member, struct fault *fault) {
    struct member_job job;
    stored_states_publish(member);
    while (!member->has_left && !(member->is_leaving && has_waited_long_enough(member))) {
        leave_if_requested(member);
        bool is_new = mailbox_wait_job(member_loop_mailbox(member->loop), JOB_WAIT_MS, &job);
        member_log_swarm_changes(member, !is_new);
        TRY(check_not_replaced(member, fault));
        if (is_new) {
            TRY(member_job_execute(member, &job, fault));
            member->job_ended_ns = clock_monotonic_ns();
            stored_states_write_if_due(member, job.kind);
        }
        TRY(lockstep_send_idle(member, fault));
    }
    return OK;
}

/* Ends the network thread, then saves a snapshot. Otherwise the network thread could write leaves
 * of a newer state into the state that is being saved, evaluated and exported. An incomplete state
 * is not saved, and the earlier snapshot is kept. */
static enum status save_state(void *owner, struct fault *fault) {
    struct member_run *member = owner;
    struct member_loop_view last;
    member_loop_stop(member->loop, &last);
    member->loop = NULL;
    return last.is_fetching_state ? OK : outer_state_save(member, fault);
}

static enum status evaluate_at_end(void *owner, struct fault *fault) {
    return member_evaluate(owner, true, fault);
}

static enum status export_model(void *owner, struct fault *fault) {
    return lockstep_execute_kind(owner, COMMAND_EXPORT, fault);
}

/* Sets the remedy after a failure of the device. The state in device memory is lost, but every
 * applied round is on disk. */
static enum status set_resume_remedy(const struct member_run *member, enum status status,
                                     struct fault *fault) {
    struct fault failure;
    if (program_failure(&member->trainer.session.bound, &failure) != OK) {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "start it again: the member resumes from round %u", member->position.round);
    }
    return status;
}

static enum status run_jobs_to_end(struct member_run *member, struct fault *fault) {
    static const struct trainer_callbacks ACTS = {
        .save = save_state, .evaluate = evaluate_at_end, .export_model = export_model};
    enum status status = execute_jobs(member, fault);
    if (status != OK) {
        return set_resume_remedy(member, status, fault);
    }
    bool finished = member->position.commits >= member->swarm.terms.commits_max;
    member_log_contributions(member);
    if (member->has_left && !finished && !stop_requested()) {
        log_line(LOG_WARNING,
                 "the run of %s is over: all %u rounds are committed; this member has the model of "
                 "round %u; the final model is in `model` in the state folder of any member that "
                 "trained to the end",
                 member->swarm.manifest.name, member->swarm.terms.commits_max,
                 member->position.round);
    }
    TRY(trainer_conclude(&member->trainer, &ACTS, member, finished, finished, fault));
    TRY(member_collect_memory_use(member, fault));
    trainer_end_metrics(&member->trainer, finished);
    return finished ? OK : fault_set(fault, STATUS_STOPPED, "join", NULL, "asked to stop");
}

/* Executes the jobs until the member stops. Returns STATUS_FAILED instead of STATUS_INPUT for data
 * that became unreadable after this start began, because after invalid input nothing may have
 * changed. */
static enum status run_member_jobs(struct member_run *member, struct fault *fault) {
    enum status status = run_jobs_to_end(member, fault);
    if (status == STATUS_INPUT) {
        fault->status = STATUS_FAILED;
        status = STATUS_FAILED;
    }
    return status;
}

enum status member_run_execute(struct member_run *member, struct fault *fault) {
    trainer_seal(&member->trainer);
    return lockstep_run(member, run_member_jobs, fault);
}

void member_run_finish(struct member_run *member) {
    if (member->loop != NULL) {
        member_loop_stop(member->loop, NULL);
    }
    trainer_close_files(&member->trainer);
    ledger_copy_close(&member->outer.ledger);
    if (member->outer.store_is_open) {
        member_store_close(&member->outer.store);
    }
    keys_wipe(&member->swarm.keys);
    replica_release_device(&member->outer.replica);
    session_finish(&member->trainer.session);
}
