/* train: a training run, or the next part of one. */
#include "runtime/train/train.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/ranks.h"
#include "runtime/swarm_setup/member_session.h"

#include <string.h>

struct request {
    bool fresh;
    const char *ranks;
};

static void say_where(const struct session *session, const struct launch_info *place) {
    char bytes[24];
    char mesh[2 * NAME_BYTES] = "1 rank";
    uint64_t peak = 0;
    for (int space = 0; space < SPACE_COUNT; space++) {
        peak += session->program.plan.peak_bytes[space];
    }
    if (place->world > 1) {
        const struct sharding *sharding = &session->spread.sharding;
        struct text text = text_over(mesh, sizeof mesh);
        text_add(&text, "mesh replicate %d x shard %d, ZeRO %lld%s", sharding->replicate,
                 sharding->shard, (long long)session->run.zero,
                 session->run.overrides != NULL ? " with overrides" : "");
    }
    log_line(LOG_INFO, "%s, %d thread%s%s, target %s, arena %s%s", mesh, session->target->threads,
             session->target->threads == 1 ? "" : "s", place->world > 1 ? " each" : "",
             session->target->name, text_bytes(peak, bytes), place->world > 1 ? " each" : "");
}

static enum status read_run(struct session *session, const struct arguments *arguments,
                            struct fault *fault) {
    enum status status =
        member_session_or_run_read(session, arguments->positionals[0], arguments->overrides,
                                   arguments->override_count, NULL, fault);
    if (status == OK && session->shared_settings_fixed) {
        status = fault_set(fault, STATUS_USAGE, arguments->positionals[0],
                           "`skep join` trains as a member of it", "is a swarm's manifest");
    }
    return session_agree(session, status, fault);
}

int command_train(int argc, char **argv) {
    static struct training training = {.trainer = {.metrics = {.fd = -1}}};
    static struct ranks ranks;
    struct request request = {.fresh = false};
    struct arguments arguments;
    struct fault fault;
    struct session *session = &training.trainer.session;
    const struct flag flags[] = {{"--fresh", NULL, &request.fresh},
                                 {"--ranks", &request.ranks, NULL}};
    ranks.session = session;
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, &fault);
    if (status == OK) {
        const struct ranks_request wanted = {
            .flag = request.ranks, .environment = true, .saves = true, .argc = argc, .argv = argv};
        status = ranks_begin(&wanted, session, &ranks, &fault);
    }
    if (status == OK && !ranks.parent) {
        status = read_run(session, &arguments, &fault);
    }
    if (status == OK && !ranks.parent) {
        status = training_prepare(&training, request.fresh, &fault);
    }
    if (status == OK && !ranks.parent) {
        say_where(session, &ranks.place);
        status = training_run(&training, &fault);
    }
    int code = ranks_end(&ranks, status, &fault);
    training_finish(&training);
    return code;
}
