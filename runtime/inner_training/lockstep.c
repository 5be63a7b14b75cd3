#include "runtime/inner_training/lockstep.h"

#include "base/clock.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/inner_training/member_run_state.h"
#include "transport/site/stop.h"

enum { PIECE_BYTES = 4096 }; /* size of the data of one rank in an exchange */

static const int64_t IDLE_NS = 200000000;

_Static_assert(sizeof(struct lockstep_command) <= PIECE_BYTES, "a command must fit in PIECE_BYTES");
_Static_assert((int)PIECE_BYTES <= (int)SITE_BLOB_BYTES_MAX,
               "a piece must fit in one exchange of the site");

static bool has_one_rank(const struct member_run *member) {
    return member->trainer.session.site == NULL;
}

void lockstep_plan(struct member_run *member) {
    struct session *session = &member->trainer.session;
    size_t ranks = (size_t)session_rank_count(session);
    trainer_allocate_memory_reports(&member->trainer);
    member->lockstep.data_of_ranks = region_alloc(&session->region, ranks, PIECE_BYTES);
}

/* Copies `count` bytes of rank 0 to all ranks. */
static enum status broadcast_bytes(struct member_run *member, void *bytes, size_t count,
                                   struct fault *fault) {
    for (size_t done = 0; done < count && !has_one_rank(member);) {
        char *piece = (char *)bytes + done;
        size_t length = count - done < PIECE_BYTES ? count - done : PIECE_BYTES;
        TRY(site_exchange(member->trainer.session.site, piece, length,
                          member->lockstep.data_of_ranks, fault));
        memcpy(piece, member->lockstep.data_of_ranks, length);
        done += length;
    }
    return OK;
}

/* ---- executed by all ranks ---- */

static enum status receive_manifest(struct member_run *member,
                                    const struct lockstep_command *command, struct fault *fault) {
    struct session *session = &member->trainer.session;
    if (!session_is_rank0(session)) {
        member->swarm.text = region_alloc(&session->region, command->bytes + 1, 1);
        member->swarm.text_bytes = command->bytes;
    }
    return broadcast_bytes(member, member->swarm.text, command->bytes, fault);
}

static enum status load_snapshot(struct member_run *member, const struct lockstep_command *command,
                                 struct fault *fault) {
    struct trainer *trainer = &member->trainer;
    struct session *session = &trainer->session;
    struct snapshot snapshot;
    char path[PATH_BYTES];
    snapshot_path(session->settings.snapshot_folder, SNAPSHOT_COMPLETE, command->step, path);
    enum status status = snapshot_read(path, &session->region, &snapshot, fault);
    if (status == OK) {
        status = snapshot_load(&snapshot, trainer->groups_to_load, trainer->group_count, fault);
    }
    return session_agree(session, status, fault);
}

static enum status execute_step(struct member_run *member, const struct lockstep_command *command,
                                struct fault *fault) {
    int64_t *list = member->inner.windows;
    const struct step_windows windows = {.data = &member->trainer.train,
                                         .windows = list,
                                         .count = command->windows,
                                         .schedule = command->schedule,
                                         .limits = member->lockstep.limits};
    TRY(broadcast_bytes(member, list, (size_t)command->windows * sizeof *list, fault));
    return step_execute_on_windows(&member->trainer.session, &windows,
                                   &member->lockstep.step_result, fault);
}

static void reset_moments(struct trainer *trainer) {
    struct staging staging = session_staging(&trainer->session);
    for (int g = 0; g < trainer->group_count; g++) {
        struct snapshot_group *group = &trainer->groups_to_load[g];
        bool has_moments = strcmp(group->file, "optimizer.safetensors") == 0;
        for (int i = 0; i < (has_moments ? group->set.piece_count : 0); i++) {
            struct fault ignored; /* a failed device is reported by the next command */
            enum status cleared = piece_zero(&group->set.pieces[i], &staging, &ignored);
            (void)cleared;
        }
    }
}

static void move_weights(struct member_run *member, bool into_flat) {
    struct session *session = &member->trainer.session;
    if (has_one_rank(member) && !into_flat) {
        compute_copies_refresh(session, &member->inner.compute_copies);
    } else if (!has_one_rank(member) && into_flat) {
        inner_weights_gather(session, &member->inner.weights);
    } else if (!has_one_rank(member)) {
        inner_weights_scatter(session, &member->inner.weights);
    }
}

static enum status execute_command(struct member_run *member,
                                   const struct lockstep_command *command, struct fault *fault) {
    struct trainer *trainer = &member->trainer;
    switch (command->kind) {
    case COMMAND_MANIFEST:
        return receive_manifest(member, command, fault);
    case COMMAND_LOAD:
        return load_snapshot(member, command, fault);
    case COMMAND_WEIGHTS:
        return session_agree(&trainer->session, session_init_weights(&trainer->session, fault),
                             fault);
    case COMMAND_GATHER:
    case COMMAND_SCATTER:
        move_weights(member, command->kind == COMMAND_GATHER);
        return OK;
    case COMMAND_STEP:
        return execute_step(member, command, fault);
    case COMMAND_RESET_MOMENTS:
        reset_moments(trainer);
        return OK;
    case COMMAND_EVALUATE:
        return trainer_evaluate(trainer, member->lockstep.limits, &member->lockstep.evaluation,
                                fault);
    case COMMAND_SAVE:
        return outer_state_save_rank_part(member, &command->position, fault);
    case COMMAND_EXPORT:
        return trainer_export(trainer, fault);
    case COMMAND_MEMORY:
        return trainer_collect_memory_use(trainer, fault);
    default:
        ASSERT(command->kind == COMMAND_IDLE || command->kind == COMMAND_QUIT);
        return OK;
    }
}

/* ---- rank 0 ---- */

static enum status send_command(struct member_run *member, const struct lockstep_command *command,
                                struct fault *fault) {
    struct session *session = &member->trainer.session;
    const struct lockstep_command *received = member->lockstep.data_of_ranks;
    enum status status = site_exchange(session->site, command, sizeof *command,
                                       member->lockstep.data_of_ranks, fault);
    for (int rank = 1; rank < session_rank_count(session) && status == OK; rank++) {
        if (received[rank].stop_requested) {
            stop_request();
        }
    }
    member->lockstep.commanded_ns = clock_monotonic_ns();
    return status;
}

enum status lockstep_execute_within(struct member_run *member,
                                    const struct lockstep_command *command,
                                    struct step_limits *limits, struct fault *fault) {
    if (!has_one_rank(member)) {
        TRY(send_command(member, command, fault));
    }
    ASSERT(member->lockstep.limits == NULL);
    member->lockstep.limits = limits;
    enum status status = execute_command(member, command, fault);
    member->lockstep.limits = NULL;
    if (status == STATUS_STOPPED && !has_one_rank(member)) {
        /* Another rank may have been asked to stop. With this exchange rank 0 learns of the request
         * before the caller decides how to continue. */
        const struct lockstep_command idle = {.kind = COMMAND_IDLE};
        TRY(send_command(member, &idle, fault));
    }
    return status;
}

enum status lockstep_execute(struct member_run *member, const struct lockstep_command *command,
                             struct fault *fault) {
    return lockstep_execute_within(member, command, NULL, fault);
}

enum status lockstep_execute_kind(struct member_run *member, enum lockstep_command_kind kind,
                                  struct fault *fault) {
    const struct lockstep_command command = {.kind = kind};
    return lockstep_execute(member, &command, fault);
}

enum status lockstep_send_idle(struct member_run *member, struct fault *fault) {
    bool is_due = clock_monotonic_ns() - member->lockstep.commanded_ns >= IDLE_NS;
    return is_due ? lockstep_execute_kind(member, COMMAND_IDLE, fault) : OK;
}

/* ---- the other ranks ---- */

static enum status follow_rank0(struct member_run *member, struct fault *fault) {
    const struct lockstep_command *received = member->lockstep.data_of_ranks;
    struct lockstep_command command = {.kind = COMMAND_IDLE};
    struct fault local; /* rank 0 gets the same fault and decides how to handle it */
    /* ends a step or an evaluation, which may take long, when the process is asked to stop */
    struct step_limits until_stop = {0};
    enum status status = OK;
    member->lockstep.limits = &until_stop;
    while (status == OK && command.kind != COMMAND_QUIT) {
        const struct lockstep_command own = {.stop_requested = stop_requested()};
        status = site_exchange(member->trainer.session.site, &own, sizeof own,
                               member->lockstep.data_of_ranks, fault);
        if (status == OK) {
            command = received[0];
            enum status outcome = execute_command(member, &command, &local);
            (void)outcome;
        }
    }
    member->lockstep.limits = NULL;
    return status;
}

/* Rank 0 releases the other ranks even if it has failed. They receive its fault afterwards. */
enum status lockstep_run(struct member_run *member,
                         enum status (*lead)(struct member_run *, struct fault *),
                         struct fault *fault) {
    struct session *session = &member->trainer.session;
    if (!session_is_rank0(session)) {
        return session_agree(session, follow_rank0(member, fault), fault);
    }
    struct fault on_exit;
    enum status status = lead(member, fault);
    enum status released = lockstep_execute_kind(member, COMMAND_QUIT, &on_exit);
    if (status == OK && released != OK) {
        *fault = on_exit;
        status = released;
    }
    return session_agree(session, status, fault);
}
