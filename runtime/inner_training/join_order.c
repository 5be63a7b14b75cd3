#include "runtime/inner_training/join_order.h"

#include "base/clock.h"
#include "runtime/checkpoint/snapshot_path.h"
#include "runtime/inner_training/join_parts.h"
#include "runtime/session/step_windows.h"
#include "transport/site/stop.h"

#include <string.h>

enum { PIECE_BYTES = 4096 }; /* of what is longer than an order, a rank's part of an exchange */

static const int64_t REST_NS = 200000000;

_Static_assert(sizeof(struct lockstep_command) <= PIECE_BYTES,
               "room for a piece is room for an order");
_Static_assert((int)PIECE_BYTES <= (int)SITE_BLOB_BYTES_MAX, "a piece is one exchange");

static bool is_alone(const struct member_run *joining) {
    return joining->session.site == NULL;
}

void lockstep_plan(struct member_run *joining) {
    struct session *session = &joining->session;
    size_t ranks = (size_t)session_ranks(session);
    joining->memories = region_alloc(&session->region, ranks, sizeof *joining->memories);
    joining->heard = region_alloc(&session->region, ranks, PIECE_BYTES);
}

/* Rank 0's bytes to all. */
static enum status spread(struct member_run *joining, void *bytes, size_t count,
                          struct fault *fault) {
    enum status status = OK;
    for (size_t done = 0; done < count && status == OK && !is_alone(joining);) {
        char *piece = (char *)bytes + done;
        size_t some = count - done < PIECE_BYTES ? count - done : PIECE_BYTES;
        status = site_exchange(joining->session.site, piece, some, joining->heard, fault);
        if (status == OK) {
            memcpy(piece, joining->heard, some);
        }
        done += some;
    }
    return status;
}

/* ---- carried out by all ranks ---- */

static enum status rest(struct member_run *joining, const struct lockstep_command *order,
                        struct fault *fault) {
    (void)joining;
    (void)order;
    (void)fault;
    return OK;
}

static enum status take_manifest(struct member_run *joining, const struct lockstep_command *order,
                                 struct fault *fault) {
    if (!session_is_rank0(&joining->session)) {
        joining->manifest_text = region_alloc(&joining->session.region, order->bytes + 1, 1);
        joining->manifest_bytes = order->bytes;
    }
    return spread(joining, joining->manifest_text, order->bytes, fault);
}

static enum status load(struct member_run *joining, const struct lockstep_command *order,
                        struct fault *fault) {
    struct session *session = &joining->session;
    struct snapshot snapshot;
    char path[PATH_BYTES];
    snapshot_path(session->run.snapshot_folder, SNAPSHOT_DONE, order->step, path);
    enum status status = snapshot_read(path, &session->region, &snapshot, fault);
    if (status == OK) {
        status = snapshot_load(&snapshot, joining->held, joining->group_count, fault);
    }
    return session_agree(session, status, fault);
}

static enum status first_weights(struct member_run *joining, const struct lockstep_command *order,
                                 struct fault *fault) {
    struct session *session = &joining->session;
    (void)order;
    return session_agree(session, session_weights(session, fault), fault);
}

static enum status gather(struct member_run *joining, const struct lockstep_command *order,
                          struct fault *fault) {
    (void)order;
    (void)fault;
    if (!is_alone(joining)) {
        inner_weights_gather(&joining->session, &joining->inner);
    }
    return OK;
}

static enum status scatter(struct member_run *joining, const struct lockstep_command *order,
                           struct fault *fault) {
    (void)order;
    (void)fault;
    if (is_alone(joining)) {
        compute_copies_refresh(&joining->session, &joining->copies);
    } else {
        inner_weights_scatter(&joining->session, &joining->inner);
    }
    return OK;
}

static enum status step(struct member_run *joining, const struct lockstep_command *order,
                        struct fault *fault) {
    struct step_windows windows = {.data = &joining->train,
                                   .windows = joining->windows,
                                   .count = order->windows,
                                   .pace = order->pace,
                                   .keep_on = joining->keep_on,
                                   .context = joining->keep_on_context};
    size_t bytes = (size_t)order->windows * sizeof *joining->windows;
    enum status status = spread(joining, joining->windows, bytes, fault);
    return status == OK ? step_on_windows(&joining->session, &windows, &joining->stepped, fault)
                        : status;
}

/* What a device refuses it says before the next step. */
static enum status forget(struct member_run *joining, const struct lockstep_command *order,
                          struct fault *fault) {
    const struct staging staging = session_staging(&joining->session);
    (void)order;
    for (int g = 0; g < joining->group_count; g++) {
        const struct snapshot_group *group = &joining->held[g];
        if (strcmp(group->file, "optimizer.safetensors") != 0) {
            continue;
        }
        for (int i = 0; i < group->set.piece_count; i++) {
            enum status cleared = piece_clear(&group->set.pieces[i], &staging, fault);
            (void)cleared;
        }
    }
    return OK;
}

static enum status evaluate(struct member_run *joining, const struct lockstep_command *order,
                            struct fault *fault) {
    struct step_source source = {.data = &joining->validation,
                                 .keep_on = joining->keep_on,
                                 .context = joining->keep_on_context};
    (void)order;
    return evaluate_data(&joining->session, &source, settings_eval_rows(&joining->session.run),
                         &joining->evaluated, fault);
}

static enum status save(struct member_run *joining, const struct lockstep_command *order,
                        struct fault *fault) {
    return outer_state_write(joining, &order->at, fault);
}

static enum status export(struct member_run *joining, const struct lockstep_command *order,
                          struct fault *fault) {
    struct staging staging = session_staging(&joining->session); (void)order;
    return weights_save_run(&joining->outputs.export, &staging, fault);
}

static enum status tell_memory(struct member_run *joining, const struct lockstep_command *order,
                               struct fault *fault) {
    const struct rank_memory own = metrics_own_memory(&joining->session);
    (void)order;
    joining->memories[0] = own;
    return is_alone(joining)
               ? OK
               : site_exchange(joining->session.site, &own, sizeof own, joining->memories, fault);
}

static enum status carry_out(struct member_run *joining, const struct lockstep_command *order,
                             struct fault *fault) {
    static enum status (*const HOW[COMMAND_KINDS])(
        struct member_run *, const struct lockstep_command *,
        struct fault *) = {[COMMAND_IDLE] = rest,         [COMMAND_MANIFEST] = take_manifest,
                           [COMMAND_LOAD] = load,         [COMMAND_WEIGHTS] = first_weights,
                           [COMMAND_GATHER] = gather,     [COMMAND_SCATTER] = scatter,
                           [COMMAND_STEP] = step,         [COMMAND_RESET_MOMENTS] = forget,
                           [COMMAND_EVALUATE] = evaluate, [COMMAND_SAVE] = save,
                           [COMMAND_EXPORT] = export,     [COMMAND_MEMORY] = tell_memory,
                           [COMMAND_QUIT] = rest};
    ASSERT(order->kind < COMMAND_KINDS);
    return HOW[order->kind](joining, order, fault);
}

/* ---- rank 0 ---- */

static enum status give(struct member_run *joining, const struct lockstep_command *order,
                        struct fault *fault) {
    const struct lockstep_command *heard = joining->heard;
    enum status status =
        site_exchange(joining->session.site, order, sizeof *order, joining->heard, fault);
    for (int rank = 1; rank < session_ranks(&joining->session) && status == OK; rank++) {
        if (heard[rank].stop_requested) {
            stop_request();
        }
    }
    joining->ordered_ns = clock_monotonic_ns();
    return status;
}

enum status lockstep_do_while(struct member_run *joining, const struct lockstep_command *order,
                              step_keep_on *keep_on, void *context, struct fault *fault) {
    enum status status = is_alone(joining) ? OK : give(joining, order, fault);
    if (status != OK) {
        return status;
    }
    joining->keep_on = keep_on;
    joining->keep_on_context = context;
    status = carry_out(joining, order, fault);
    joining->keep_on = NULL;
    joining->keep_on_context = NULL;
    if (status == STATUS_STOPPED && !is_alone(joining)) { /* by whom, before it is judged */
        const struct lockstep_command resting = {.kind = COMMAND_IDLE};
        enum status told = give(joining, &resting, fault);
        return told == OK ? status : told;
    }
    return status;
}

enum status lockstep_do(struct member_run *joining, const struct lockstep_command *order,
                        struct fault *fault) {
    return lockstep_do_while(joining, order, NULL, NULL, fault);
}

enum status lockstep_do_plain(struct member_run *joining, enum lockstep_command_kind kind,
                              struct fault *fault) {
    const struct lockstep_command order = {.kind = kind};
    return lockstep_do(joining, &order, fault);
}

enum status lockstep_idle(struct member_run *joining, struct fault *fault) {
    bool is_due = clock_monotonic_ns() - joining->ordered_ns >= REST_NS;
    return is_due ? lockstep_do_plain(joining, COMMAND_IDLE, fault) : OK;
}

/* ---- the others ---- */

/* Heard within a step or an evaluation too, which may take long. */
static bool nobody_asked(void *context) {
    (void)context;
    return !stop_requested();
}

static enum status obey(struct member_run *joining, struct fault *fault) {
    const struct lockstep_command *heard = joining->heard;
    struct lockstep_command order = {.kind = COMMAND_IDLE};
    struct fault known; /* to rank 0, which decides what comes of it */
    enum status status = OK;
    joining->keep_on = nobody_asked;
    while (status == OK && order.kind != COMMAND_QUIT) {
        const struct lockstep_command own = {.stop_requested = stop_requested()};
        status = site_exchange(joining->session.site, &own, sizeof own, joining->heard, fault);
        if (status == OK) {
            order = heard[0];
            enum status outcome = carry_out(joining, &order, &known);
            (void)outcome;
        }
    }
    return status;
}

/* Those who listen are dismissed also when rank 0 has failed: its fault is told afterwards. */
enum status lockstep_run(struct member_run *joining,
                         enum status (*lead)(struct member_run *, struct fault *),
                         struct fault *fault) {
    struct session *session = &joining->session;
    if (!session_is_rank0(session)) {
        return session_agree(session, obey(joining, fault), fault);
    }
    struct fault parting;
    enum status status = lead(joining, fault);
    enum status parted = lockstep_do_plain(joining, COMMAND_QUIT, &parting);
    if (status == OK && parted != OK) {
        *fault = parting;
        status = parted;
    }
    return session_agree(session, status, fault);
}
