/* member_log: writes a member's metrics, log messages and progress lines. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/inner_training/lockstep.h"
#include "runtime/inner_training/member_run_state.h"
#include "transport/site/stop.h"

#include <math.h>

/* minimum time between progress lines outside a terminal */
static const int64_t PLAIN_NS = 10 * NS_PER_SECOND;
static const int64_t ABSENT_NS = 5000000000;
static const int64_t REASON_NS = 60 * NS_PER_SECOND; /* time between two logs of one reason */

/* ---- rounds ---- */

static bool is_progress_due(struct progress *progress) {
    int64_t now_ns = clock_monotonic_ns();
    if (!progress->terminal && progress->shown_ns != 0 && now_ns - progress->shown_ns < PLAIN_NS) {
        return false;
    }
    progress->shown_ns = now_ns;
    return true;
}

static void show_round(struct trainer *trainer, const struct metrics_round *round) {
    char up[24];
    char down[24];
    char root[HASH_HEX_BYTES];
    char words[32];
    struct text loss = text_over(words, sizeof words);
    if (!isnan(round->loss)) { /* the loss is NaN if this member did not train in the round */
        text_add(&loss, "  loss %.4f", round->loss);
    }
    progress_show_line(&trainer->progress,
                       "round %u  step %lld/%lld%s  %u of %u members  %s up, %s down, "
                       "exchange %.2f s  root %.12s",
                       round->round, (long long)round->step,
                       (long long)trainer->session.settings.steps, words, round->contributors,
                       round->members, text_format_bytes(round->sent_bytes, up),
                       text_format_bytes(round->received_bytes, down), round->exchange_ms * 1e-3,
                       hash_hex(&round->root, root));
}

static int64_t total_inner_steps(const struct member_run *member) {
    return (int64_t)member->position.commits * member->trainer.session.settings.swarm_inner_steps;
}

void member_log_round(struct member_run *member, const struct applied_round *round) {
    struct member_loop_view view;
    struct last_logged *logged = &member->logged;
    mailbox_read_view(member_loop_mailbox(member->loop), &view);
    const struct metrics_round line = {.round = round->round,
                                       .members = round->members,
                                       .contributors = round->contributors,
                                       .step = total_inner_steps(member),
                                       .sent_bytes = view.sent_bytes - logged->sent_bytes,
                                       .received_bytes =
                                           view.received_bytes - logged->received_bytes,
                                       .exchange_ms = view.exchange_ms,
                                       .root = round->root,
                                       .loss = round->loss};
    logged->sent_bytes = view.sent_bytes;
    logged->received_bytes = view.received_bytes;
    metrics_write_round(&member->trainer.metrics, &line);
    if (is_progress_due(&member->trainer.progress)) {
        show_round(&member->trainer, &line);
    }
}

enum status member_exchange_memory(struct member_run *member, struct fault *fault) {
    return lockstep_execute_kind(member, COMMAND_MEMORY, fault);
}

void member_log_disk(struct member_run *member, const struct fault *fault) {
    struct last_logged *logged = &member->logged;
    if (fault != NULL && !logged->disk_was_full) {
        log_line(LOG_ERROR, "%s: %s%s%s; retrying", fault->subject, fault->reason,
                 fault->remedy[0] == '\0' ? "" : "; ", fault->remedy);
    } else if (fault == NULL && logged->disk_was_full) {
        log_line(LOG_INFO, "%s: writing works again", member->outer.store.folder);
    }
    logged->disk_was_full = fault != NULL;
}

/* ---- the swarm ---- */

/* Logs why the member is idle when the reason changes, and then at intervals. */
static void log_idle_reason(struct member_run *member, const struct member_loop_view *view) {
    struct last_logged *logged = &member->logged;
    const int64_t now_ns = clock_monotonic_ns();
    const bool is_new = strcmp(view->reason, logged->reason) != 0;
    const bool is_due = is_new || now_ns - logged->reason_logged_ns >= REASON_NS;
    char key[KEYS_TEXT_BYTES];
    memcpy(logged->reason, view->reason, sizeof logged->reason);
    if (view->reason[0] == '\0' || !is_due) {
        return;
    }
    logged->reason_logged_ns = now_ns;
    if (view->is_admitted) {
        log_line(LOG_WARNING, "%s", view->reason);
    } else if (strcmp(view->reason, WIRE_NOT_LISTED) == 0) {
        log_line(LOG_WARNING,
                 "not admitted to %s yet; Ctrl-C stops waiting; send the operator this key: %s",
                 member->swarm.manifest.name,
                 public_keys_write(&member->swarm.keys.public_keys, key));
    } else {
        log_line(LOG_WARNING, "not admitted to %s yet; retrying, Ctrl-C stops: %s",
                 member->swarm.manifest.name, view->reason);
    }
}

static void log_admission(struct member_run *member, const struct member_loop_view *view) {
    struct last_logged *logged = &member->logged;
    if (view->is_admitted && !logged->was_admitted) {
        log_line(LOG_INFO, "joined %s, which has %u member%s", member->swarm.manifest.name,
                 view->members, view->members == 1 ? "" : "s");
    }
    log_idle_reason(member, view);
    logged->was_admitted = view->is_admitted;
}

/* Logs that too few members have joined for a round, when their number changes and at intervals. */
static void log_missing_members(struct member_run *member, const struct member_loop_view *view) {
    struct last_logged *logged = &member->logged;
    const uint32_t needed = (uint32_t)member->trainer.session.settings.swarm_members_min;
    const int64_t now_ns = clock_monotonic_ns();
    const bool is_due =
        view->members != logged->members || now_ns - logged->members_logged_ns >= REASON_NS;
    if (!view->is_admitted || view->members >= needed || !is_due) {
        return;
    }
    log_line(LOG_INFO, "waiting for %u more member%s: %u of at least %u have joined",
             needed - view->members, needed - view->members == 1 ? "" : "s", view->members, needed);
    logged->members = view->members;
    logged->members_logged_ns = now_ns;
}

/* Logs that the tracker does not answer. A member that has the manifest as a file may start before
 * the tracker. */
static void log_unreachable_tracker(struct member_run *member) {
    struct last_logged *logged = &member->logged;
    int64_t now_ns = clock_monotonic_ns();
    logged->connect_begun_ns = logged->connect_begun_ns == 0 ? now_ns : logged->connect_begun_ns;
    if (!logged->tracker_absence_logged && now_ns - logged->connect_begun_ns >= ABSENT_NS) {
        log_line(LOG_WARNING,
                 "%s: busy or unreachable: no answer within %d s; check that the tracker is "
                 "running, that "
                 "its port is open, and that the join string is current; retrying until it answers",
                 member->swarm.tracker.address, (int)(ABSENT_NS / NS_PER_SECOND));
        logged->tracker_absence_logged = true;
    }
}

static void log_tracker(struct member_run *member, const struct member_loop_view *view) {
    struct last_logged *logged = &member->logged;
    bool is_connected = view->is_tracker_connected;
    if (!is_connected && !logged->tracker_was_connected && !logged->was_admitted) {
        log_unreachable_tracker(member);
    } else if (logged->tracker_was_connected && !is_connected) {
        log_line(LOG_WARNING,
                 "lost the connection to the tracker at %s; the round continues, and the member "
                 "reconnects",
                 member->swarm.tracker.address);
    } else if (!logged->tracker_was_connected && is_connected && logged->was_admitted) {
        log_line(LOG_INFO, "reconnected to the tracker");
    }
    logged->tracker_was_connected = is_connected;
}

static void log_state_fetch(struct member_run *member, const struct member_loop_view *view) {
    struct last_logged *logged = &member->logged;
    int64_t now_ns = clock_monotonic_ns();
    char bytes[24];
    text_format_bytes(view->fetched_bytes, bytes);
    if (view->is_fetching_state && logged->fetch_begun_ns == 0) {
        log_line(LOG_INFO, "receiving the state from other members");
        logged->fetch_begun_ns = now_ns;
        logged->fetch_logged_ns = now_ns;
    } else if (view->is_fetching_state && now_ns - logged->fetch_logged_ns >= PLAIN_NS) {
        log_line(LOG_INFO, "received %s of state, %u leaves remaining", bytes, view->behind);
        logged->fetch_logged_ns = now_ns;
    } else if (!view->is_fetching_state && logged->fetch_begun_ns != 0) {
        log_line(LOG_INFO, "state received: %s in %.1f s", bytes,
                 ns_to_seconds(now_ns - logged->fetch_begun_ns));
        logged->fetch_begun_ns = 0;
    }
}

void member_log_swarm(struct member_run *member) {
    struct member_loop_view view;
    mailbox_read_view(member_loop_mailbox(member->loop), &view);
    log_tracker(member, &view);
    log_admission(member, &view);
    log_missing_members(member, &view);
    log_state_fetch(member, &view);
}

/* ---- evaluation ---- */

/* The other members wait for this member's contribution to the next round. Therefore an evaluation
 * between rounds may take at most half of the training time of a round. */
static struct step_limits evaluation_limits(struct member_run *member, bool is_last) {
    struct member_loop_view view;
    if (is_last) {
        return (struct step_limits){0};
    }
    mailbox_read_view(member_loop_mailbox(member->loop), &view);
    return (struct step_limits){.deadline_ns =
                                    clock_monotonic_ns() + view.timing.train_ms * NS_PER_MS / 2};
}

enum status member_evaluate(struct member_run *member, bool is_last, struct fault *fault) {
    struct trainer *trainer = &member->trainer;
    struct last_logged *logged = &member->logged;
    if (trainer->validation.file_count == 0 || logged->evaluated_round == member->position.round ||
        (logged->evaluates_at_end && !is_last)) {
        return OK;
    }
    const struct lockstep_command command = {.kind = COMMAND_EVALUATE};
    struct step_limits limits = evaluation_limits(member, is_last);
    enum status status = lockstep_execute_within(member, &command, &limits, fault);
    if (status == STATUS_STOPPED && !stop_requested()) {
        logged->evaluates_at_end = true;
        log_line(LOG_WARNING, "an evaluation takes longer than half of a round's training, so this "
                              "member will evaluate only at the end of the run; to evaluate more "
                              "often, lower eval.tokens");
    }
    if (status != OK) {
        return status == STATUS_STOPPED ? OK : status;
    }
    logged->evaluated_round = member->position.round;
    trainer_log_evaluation(trainer, total_inner_steps(member), member->lockstep.evaluation.loss);
    TRY(member_exchange_memory(member, fault));
    metrics_write_memory(&trainer->metrics, &trainer->session, trainer->memories);
    return OK;
}
