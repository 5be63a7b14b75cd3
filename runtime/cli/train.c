/* train: `skep train RUN.yaml` starts a training run, or resumes it from its newest good
 * snapshot. */
#include "runtime/train/train.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/cli.h"

#include <stdio.h>

struct request { /* options of `skep train`, and the training run */
    struct training training;
    int64_t rank_count; /* --ranks; 0: not set */
    bool fresh;         /* --fresh: move the snapshots of an earlier run aside */
    bool resume;        /* --resume: has no effect, because training always resumes */
};

static void log_ranks_and_arena(const struct session *session, int world) {
    char bytes[24];
    char mesh[2 * NAME_BYTES] = "1 rank";
    uint64_t peak = 0;
    const char *each = world > 1 ? " each" : "";
    for (int space = 0; space < SPACE_COUNT; space++) {
        peak += session->program.plan.peak_bytes[space];
    }
    if (world > 1) {
        const struct sharding *sharding = &session->sharding_settings.sharding;
        struct text text = text_over(mesh, sizeof mesh);
        text_add(&text, "mesh replicate %d x shard %d, ZeRO %lld%s", sharding->replicate,
                 sharding->shard, (long long)session->settings.zero_stage,
                 session->settings.unit_overrides != NULL ? " with overrides" : "");
    }
    log_line(LOG_INFO, "%s, %d thread%s%s, target %s, arena %s%s", mesh, session->target->threads,
             session->target->threads == 1 ? "" : "s", each, session->target->name,
             text_format_bytes(peak, bytes), each);
}

static enum status read_run_file(struct invocation *invocation, struct session *session) {
    TRY(invocation_read_session(invocation, session));
    if (session->settings.run_file[0] == '\0' && session->settings.train_files.count == 0) {
        const char *model = invocation->positionals[0];
        char remedy[PATH_BYTES];
        snprintf(remedy, sizeof remedy,
                 "write a run file with `model: %.160s` and data.train (`skep help train`)", model);
        return fault_set(&invocation->fault, STATUS_INPUT, model, remedy,
                         "is a model, not a run file");
    }
    return session->shared_settings_fixed
               ? fault_set(&invocation->fault, STATUS_USAGE, invocation->positionals[0],
                           "`skep join` trains as a member of the swarm",
                           "this is the manifest of a swarm, not a run file")
               : OK;
}

/* Logs that --resume has no effect, because train always resumes, and rejects it with --fresh.
 * Other trainers need such an option. */
static enum status check_options(const struct request *request, struct fault *fault) {
    if (request->resume && request->fresh) {
        return fault_set(fault, STATUS_USAGE, "train", "pass only one of them",
                         "--resume and --fresh contradict each other");
    }
    if (request->resume) {
        log_line(LOG_INFO, "--resume is not needed: train resumes by itself from the newest "
                           "snapshot; only --fresh starts again");
    }
    return OK;
}

static enum status run_train(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct training *training = &request->training;
    struct session *session = &training->trainer.session;
    struct fault *fault = &invocation->fault;
    const struct ranks_request ranks = {
        .count = request->rank_count, .reads_environment = true, .saves_snapshots = true};
    training->trainer.metrics.fd = -1;
    TRY(check_options(request, fault));
    TRY(ranks_begin(&ranks, session, invocation));
    if (invocation->ranks.is_parent) {
        return OK;
    }
    TRY(session_agree(session, read_run_file(invocation, session), fault));
    TRY(training_prepare(training, request->fresh, fault));
    log_ranks_and_arena(session, invocation->ranks.launch.world);
    return training_run(training, fault);
}

static void finish_train(void *context) {
    struct request *request = context;
    training_finish(&request->training);
}

static const struct option OPTIONS[] = {
    {OPTION("--fresh", FLAG, fresh),
     .help =
         "start over: rename the snapshot folder to snapshots.before-TIME; metrics are appended, "
         "the exported model is replaced",
     .example = "run.yaml --fresh"},
    {OPTION("--ranks", INTEGER, rank_count), .minimum = 1, .maximum = RANKS_MAX, .value_name = "N",
     .help = "number of ranks to start on this machine; default: 1, or the launcher's",
     .example = "run.yaml --ranks 4"},
    {OPTION("--resume", FLAG, resume),
     .help = "no effect: a run resumes from its newest snapshot in any case",
     .example = "run.yaml --resume"},
};

const struct command COMMAND_TRAIN = {
    .name = "train",
    .arguments = "RUN.yaml",
    .summary = "train a model, resuming from the newest good snapshot",
    .details = "A run resumes by itself from its newest valid snapshot. Ctrl-C saves the last "
               "completed step and exits with code 0.",
    .example = "run.yaml batch.microbatch=4",
    .positional_count = 1,
    .takes_overrides = true,
    .runs_long = true,
    REQUEST_OPTIONS,
    .run = run_train,
    .finish = finish_train,
};
