#include "runtime/inner_training/join.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "build_config.h"
#include "runtime/data/data_roots.h"
#include "runtime/inner_training/join_order.h"
#include "runtime/inner_training/join_parts.h"
#include "runtime/session/hello.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 200 }; /* between two looks for a wish to stop */

static const char LISTEN_ANYWHERE[] = "tcp://*:*";

/* ---- prepare ---- */

static bool leads(const struct member_run *joining) {
    return session_is_rank0(&joining->session);
}

static enum status check_data(struct member_run *joining, struct fault *fault) {
    return leads(joining) ? data_match_check(&joining->session.run, &joining->manifest, fault) : OK;
}

static enum status open_data(struct member_run *joining, struct fault *fault) {
    struct session *session = &joining->session;
    const struct run *run = &session->run;
    int64_t vocab = session->blueprint.vocab;
    enum status status =
        data_open_run(run, &run->train, vocab, &session->region, &joining->train, fault);
    if (status == OK && run->validation.count > 0) {
        status = data_open_run(run, &run->validation, vocab, &session->region, &joining->validation,
                               fault);
    }
    return status;
}

/* The manifest stands for the data, which rank 0 has held against it. */
static enum status compare(struct member_run *joining, struct fault *fault) {
    struct session *session = &joining->session;
    enum status status = ranks_check_equal(session, &joining->manifest.hash, fault);
    if (status == OK && session_ranks(session) > 1) {
        log_line(LOG_INFO, "%d ranks (%s)", session_ranks(session),
                 site_launch_info(session->site)->source);
    }
    return status;
}

static enum status bind(struct member_run *joining, struct fault *fault) {
    return session_bind(&joining->session, fault);
}

static enum status connect_ranks(struct member_run *joining, struct fault *fault) {
    return session_connect(&joining->session, fault);
}

/* The outer state, and how what is trained comes to it. */
static enum status bind_state(struct member_run *joining, struct fault *fault) {
    struct session *session = &joining->session;
    enum status status =
        leads(joining) ? swarm_replica_bind(session, &joining->replica, fault) : OK;
    if (status != OK) {
        return status;
    }
    if (session_ranks(session) > 1) {
        float *flat = leads(joining) ? swarm_extent_at(session, SWARM_LINE_INNER) : NULL;
        inner_weights_plan(session, flat, &joining->inner);
    } else {
        compute_copies_of(session, &joining->copies);
    }
    outer_state_plan(joining);
    return OK;
}

static enum status make_scratch(struct member_run *joining, struct fault *fault) {
    struct region *region = &joining->session.region;
    const struct run *run = &joining->session.run;
    uint32_t slices = joining->session.swarm.shape.slices.count;
    (void)fault;
    joining->hashes = region_alloc(region, slices, sizeof *joining->hashes);
    joining->reports = region_alloc(region, slices, sizeof *joining->reports);
    joining->entry = region_alloc(region, 1, sizeof *joining->entry);
    joining->entry->slices = region_alloc(region, slices, sizeof *joining->entry->slices);
    sample_order_init(&joining->train, (uint64_t)run->seed, region, &joining->order);
    joining->windows =
        region_alloc(region, (size_t)(run->batch_tokens / run->sequence), sizeof *joining->windows);
    return OK;
}

static enum status open_store(struct member_run *joining, struct fault *fault) {
    struct session *session = &joining->session;
    char path[2 * PATH_BYTES];
    if (!leads(joining)) {
        return OK;
    }
    enum status status = member_store_open(session->run.stem, &session->swarm.shape.slices,
                                           &session->region, &joining->store, fault);
    if (status != OK) {
        return status;
    }
    joining->store_is_open = true;
    file_join(session->run.stem, "ledger.jsonl", path, sizeof path);
    status =
        ledger_copy_open(region_text(&session->region, path), session->swarm.shape.slices.count,
                         &session->region, &joining->ledger, fault);
    return status == OK ? member_store_claim_folder(&joining->store, &joining->manifest.hash,
                                                    ledger_copy_first(&joining->ledger), fault)
                        : status;
}

static enum status describe(struct member_run *joining, struct fault *fault) {
    return outputs_describe(&joining->session, &joining->outputs, fault);
}

static enum status plan_export(struct member_run *joining, struct fault *fault) {
    return outputs_plan_export(&joining->session, &joining->groups[0].set, &joining->outputs,
                               fault);
}

static enum status make_writer(struct member_run *joining, struct fault *fault) {
    return outputs_make_writer(&joining->session, joining->groups, joining->group_count,
                               &joining->outputs, fault);
}

static enum status begin_state(struct member_run *joining, struct fault *fault) {
    return lockstep_run(joining, outer_state_load, fault);
}

static enum status open_metrics(struct member_run *joining, struct fault *fault) {
    struct session *session = &joining->session;
    if (!leads(joining)) {
        return OK;
    }
    round_record_plan(session, &joining->replica, &joining->record);
    enum status status = metrics_check(session->run.metrics, "metrics", fault);
    return status == OK ? metrics_open(session, &joining->metrics, fault) : status;
}

static bool kept_result(void *context, uint32_t round, uint32_t slice, const struct hash *hash,
                        uint8_t *bytes) {
    const struct member_store *store = context;
    return member_store_result(store, round, slice, hash, bytes);
}

static enum status start_loop(struct member_run *joining, struct fault *fault) {
    struct session *session = &joining->session;
    const struct run *run = &session->run;
    const char *listen = joining->request.listen;
    if (!leads(joining)) {
        return OK;
    }
    struct member_loop_options options = swarm_loop_options(&session->swarm, &joining->replica);
    options.keys = &joining->keys;
    options.tracker = joining->manifest.tracker.keys;
    options.tracker_address = joining->manifest.tracker.address;
    options.listen = listen != NULL ? listen : LISTEN_ANYWHERE;
    options.public_address = joining->request.public_address;
    options.name = joining->request.name;
    options.manifest = joining->manifest.hash;
    options.limit_up = run->limit_up;
    options.limit_down = run->limit_down;
    options.start = (struct member_start){.root = joining->replica.root,
                                          .stored_round = joining->stored_round,
                                          .stored = joining->reports};
    options.kept_context = &joining->store;
    options.kept_result = kept_result;
    options.state_round = joining->at.round;
    options.ledger_context = &joining->ledger;
    options.ledger_past = ledger_copy_read;
    options.ledger_entry = ledger_copy_add;
    return member_loop_start(&options, swarm_extent_at(session, SWARM_LINE_TABLES),
                             &session->region, &joining->loop, fault);
}

static enum status unless_stopped(enum status status, struct fault *fault) {
    return status == OK && stop_requested()
               ? fault_set(fault, STATUS_STOPPED, "join", NULL, "asked to stop")
               : status;
}

/* Each stage ends in one outcome for all ranks. Those in which ranks meet are stages of their own,
 * so that all of them get there. */
enum status member_run_prepare(struct member_run *joining, struct fault *fault) {
    static enum status (*const STAGES[])(struct member_run *, struct fault *) = {
        check_data, open_data, compare,     bind,        connect_ranks, bind_state,   make_scratch,
        open_store, describe,  plan_export, make_writer, begin_state,   open_metrics, start_loop};
    enum status status = OK;
    for (size_t i = 0; i < ARRAY_COUNT(STAGES) && status == OK; i++) {
        status = unless_stopped(STAGES[i](joining, fault), fault);
        status = session_agree(&joining->session, status, fault);
    }
    return status;
}

/* ---- run ---- */

/* A member that wants to go waits for its round to end, but not for a swarm that does nothing. */
static bool has_waited(const struct member_run *joining) {
    struct member_loop_view view;
    member_loop_read_view(joining->loop, &view);
    if (!view.tracker_is_there && view.round == 0) {
        return true; /* it never had a part in anything */
    }
    bool is_idle = !view.tracker_is_there || view.round == 0;
    double patience =
        joining->session.run.stop_within_s + (is_idle ? 0 : (double)view.timing.round_ms * 1e-3);
    return (double)(clock_monotonic_ns() - stop_requested_ns()) * 1e-9 > patience;
}

static void note_stop(struct member_run *joining) {
    if (stop_requested() && !joining->is_leaving) {
        log_line(LOG_INFO, "leaving the swarm; once more to end at once");
        member_loop_request_leave(joining->loop);
        joining->is_leaving = true;
    }
}

/* Two processes of one identity would take each other's connections without end. */
static enum status check_place(const struct member_run *joining, struct fault *fault) {
    struct member_loop_view view;
    member_loop_read_view(joining->loop, &view);
    return view.is_replaced ? fault_set(fault, STATUS_FAILED, joining->manifest.name,
                                        "give each process an identity of its own: --identity FILE",
                                        "another process has joined with this identity")
                            : OK;
}

static enum status work_on(struct member_run *joining, struct fault *fault) {
    struct member_job work;
    enum status status = OK;
    while (status == OK && !joining->has_left && !(joining->is_leaving && has_waited(joining))) {
        note_stop(joining);
        bool is_new = member_loop_wait_job(joining->loop, LOOK_MS, &work);
        member_log_swarm(joining);
        status = check_place(joining, fault);
        if (status == OK && is_new) {
            status = member_job_execute(joining, &work, fault);
        }
        if (status == OK) {
            status = lockstep_idle(joining, fault);
        }
    }
    return status;
}

static enum status export_model(struct member_run *joining, struct fault *fault) {
    enum status status = lockstep_do_plain(joining, COMMAND_EXPORT, fault);
    if (status == OK) {
        progress_line(&joining->progress, "model written to %s", joining->outputs.export.folder);
    }
    return status;
}

/* A state that came in part is none: the snapshot before stays. The talking thread ends before, or
 * leaves of a newer state could come into what is saved, evaluated and exported. */
static enum status save(struct member_run *joining, struct fault *fault) {
    struct member_loop_view last;
    member_loop_stop(joining->loop, &last);
    joining->loop = NULL;
    return last.is_adopting ? OK : outer_state_save(joining, fault);
}

static enum status conclude(struct member_run *joining, bool finished, struct fault *fault) {
    enum status status = save(joining, fault);
    if (status == OK && finished) {
        status = member_evaluate(joining, true, fault);
    }
    if (status == OK && finished) {
        status = export_model(joining, fault);
    }
    return status;
}

/* What a failed device holds is worth nothing; each round that was applied is on the disk. */
static enum status tell_lost(const struct member_run *joining, enum status status,
                             struct fault *fault) {
    struct fault lost;
    if (program_failure(&joining->session.bound, &lost) != OK) {
        snprintf(fault->remedy, sizeof fault->remedy, "start again: it goes on from round %u",
                 joining->at.round);
    }
    return status;
}

static enum status work_to_end(struct member_run *joining, struct fault *fault) {
    enum status status = work_on(joining, fault);
    if (status != OK) {
        return tell_lost(joining, status, fault);
    }
    bool finished = joining->at.commits >= joining->session.swarm.commits_max;
    if (joining->has_left && !finished && !stop_requested()) {
        log_line(LOG_WARNING,
                 "the run has ended, and this member stands at round %u only: take "
                 "the model from another member",
                 joining->at.round);
    }
    status = conclude(joining, finished, fault);
    if (status == OK) {
        status = member_log_memory(joining, fault);
    }
    if (status != OK) {
        return status;
    }
    metrics_end(&joining->metrics, finished);
    return finished ? OK : fault_set(fault, STATUS_STOPPED, "join", NULL, "asked to stop");
}

/* Data that were good when it joined and are not any more: no matter of bad input, which changes
 * nothing, but a failure. */
static enum status work(struct member_run *joining, struct fault *fault) {
    enum status status = work_to_end(joining, fault);
    if (status == STATUS_INPUT) {
        fault->status = STATUS_FAILED;
        status = STATUS_FAILED;
    }
    return status;
}

enum status member_run_execute(struct member_run *joining, struct fault *fault) {
    struct session *session = &joining->session;
    progress_init(&joining->progress, session);
    if (leads(joining)) {
        metrics_start(&joining->metrics, session, SKEP_VERSION);
    }
    program_seal(&session->bound);
    return lockstep_run(joining, work, fault);
}

void member_run_finish(struct member_run *joining) {
    if (joining->loop != NULL) {
        member_loop_stop(joining->loop, NULL);
    }
    metrics_close(&joining->metrics);
    ledger_copy_close(&joining->ledger);
    data_close(&joining->train);
    data_close(&joining->validation);
    if (joining->store_is_open) {
        member_store_close(&joining->store);
    }
    keys_wipe(&joining->keys);
    swarm_replica_release(&joining->replica);
    session_finish(&joining->session);
}
