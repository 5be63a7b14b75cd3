/* member_log: writes a member's metrics, log messages and progress lines. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "runtime/inner_training/lockstep.h"
#include "runtime/inner_training/member_run_state.h"
#include "transport/site/stop.h"

#include <math.h>

enum { LINE_BYTES = 512 }; /* longest line of the log */

static const int64_t ABSENT_NS = 5000000000;
/* time after which the same idle reason is logged again */
static const int64_t REASON_NS = 60 * NS_PER_SECOND;
/* a wait shorter than this is not logged, because every round has such waits */
static const int64_t WAIT_NS = 10 * NS_PER_SECOND;
/* A wait for missing members is not logged if it is shorter than this. The tracker counts the
 * members each second, so that just after a round its last count may be outdated. */
static const int64_t MISSING_WAIT_NS = 2 * NS_PER_SECOND;

/* ---- rounds ---- */

static int64_t total_inner_steps(const struct member_run *member) {
    return (int64_t)member->position.commits * member->trainer.session.settings.swarm_inner_steps;
}

/* Returns the expected seconds until the run's last commit, from the rounds that this start has
 * trained in one after the other; 0 until two of them were measured. */
static double seconds_left(const struct member_run *member) {
    const struct contribution_totals *contributed = &member->contributed;
    const uint32_t commits_max = member->swarm.terms.commits_max;
    const uint32_t commits = member->position.commits;
    return contributed->measured < 2 || commits >= commits_max
               ? 0
               : contributed->measured_s / contributed->measured * (commits_max - commits);
}

static void add_contribution_totals(struct text *line, const struct member_run *member,
                                    const struct member_loop_view *view) {
    const struct contribution_totals *contributed = &member->contributed;
    char tokens[24];
    char up[24];
    char down[24];
    if (contributed->rounds > 0) {
        text_add(line, "was assigned %s tokens in %u round%s, ",
                 text_format_count((double)contributed->tokens, tokens), contributed->rounds,
                 contributed->rounds == 1 ? "" : "s");
    }
    text_add(line, "%s up, %s down", text_format_bytes(view->sent_bytes, up),
             text_format_bytes(view->received_bytes, down));
}

static void add_time_left(struct text *line, const struct member_run *member) {
    const double left_s = seconds_left(member);
    if (left_s > 0) {
        text_add(line, "  left ");
        activity_add_time(line, left_s);
    }
}

static void show_round_progress(const struct member_run *member,
                                const struct member_loop_view *view,
                                const struct metrics_round *round) {
    char root[HASH_HEX_BYTES];
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    text_add(&line, "round %u  step %lld/%lld", round->round, (long long)round->step,
             (long long)member->trainer.session.settings.steps);
    if (!isnan(round->loss)) { /* the loss is NaN if this member did not train in the round */
        text_add(&line, "  loss %.4f", round->loss);
    }
    text_add(&line, "  %u of %u members", round->contributors, round->members);
    add_time_left(&line, member);
    text_add(&line, "  ");
    add_contribution_totals(&line, member, view);
    text_add(&line, ", exchange %.2f s  root %.12s", round->exchange_ms * 1e-3,
             hash_hex(&round->root, root));
    activity_line_show(buffer);
}

void member_log_step(const struct member_run *member, uint32_t round,
                     const struct step_result *result, double seconds) {
    struct member_loop_view view;
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    if (!activity_line_is_due()) {
        return;
    }
    mailbox_read_view(member_loop_mailbox(member->loop), &view);
    text_add(&line, "round %u  step %lld/%lld of the round  loss %.4f  %.0f tokens/s", round,
             (long long)member->position.inner_steps,
             (long long)member->trainer.session.settings.swarm_inner_steps,
             nan_without_sign(result->loss), (double)result->tokens / seconds);
    add_time_left(&line, member);
    text_add(&line, "  ");
    add_contribution_totals(&line, member, &view);
    activity_line_show(buffer);
}

void member_log_contributions(const struct member_run *member) {
    struct member_loop_view view;
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    mailbox_read_view(member_loop_mailbox(member->loop), &view);
    add_contribution_totals(&line, member, &view);
    log_line(LOG_INFO, "%s since this start", buffer);
}

/* Measures the time between the ends of two consecutive rounds in which the member trained. Rounds
 * that it only applies, to catch up, take less time and do not count. */
static void measure_round_duration(struct contribution_totals *contributed, bool has_trained) {
    const int64_t now_ns = clock_monotonic_ns();
    if (has_trained && contributed->round_end_ns != 0) {
        contributed->measured_s += ns_to_seconds(now_ns - contributed->round_end_ns);
        contributed->measured++;
    }
    contributed->round_end_ns = has_trained ? now_ns : 0;
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
    measure_round_duration(&member->contributed, !isnan(round->loss));
    if (activity_line_is_due()) {
        show_round_progress(member, &view, &line);
    }
}

/* Returns why a commit does not contain the contribution of this member, which had a seat. */
static const char *explain_missed_round(const struct member_run *member, uint32_t round,
                                        const struct entry_member *row) {
    return member->position.encoded_round != round || row->tokens == 0
               ? "this member's training did not end in time to contribute"
           : row->weight == 0 ? "this member's contribution has no weight: its norm is out of "
                                "bounds, or it repeats an earlier contribution"
                              : "this member's contribution arrived too late";
}

void member_log_missed_round(struct member_run *member, uint32_t round,
                             const struct entry_member *row) {
    struct last_logged *logged = &member->logged;
    const int64_t now_ns = clock_monotonic_ns();
    char others[64] = "";
    struct text text = text_over(others, sizeof others);
    logged->missed_rounds++;
    if (logged->missed_logged_ns != 0 && now_ns - logged->missed_logged_ns < WAIT_NS) {
        return;
    }
    if (logged->missed_rounds > 1) {
        text_add(&text, "; %u rounds in all since the last such message", logged->missed_rounds);
    }
    log_line(LOG_WARNING, "round %u: %s; its samples return to the swarm%s", round,
             explain_missed_round(member, round, row), others);
    logged->missed_rounds = 0;
    logged->missed_logged_ns = now_ns;
}

enum status member_collect_memory_use(struct member_run *member, struct fault *fault) {
    return lockstep_execute_kind(member, COMMAND_MEMORY, fault);
}

void member_log_disk_state(struct member_run *member, const struct fault *fault) {
    struct last_logged *logged = &member->logged;
    if (fault != NULL && !logged->disk_was_full) {
        log_line(LOG_ERROR, "%s: %s%s%s; retrying", fault->subject, fault->reason,
                 fault->remedy[0] == '\0' ? "" : "; ", fault->remedy);
    } else if (fault == NULL && logged->disk_was_full) {
        log_line(LOG_INFO, "%s: the disk can be written again", member->outer.store.folder);
    }
    logged->disk_was_full = fault != NULL;
}

void member_log_recording_state(struct member_run *member, uint32_t round,
                                const struct fault *fault) {
    struct last_logged *logged = &member->logged;
    if (fault != NULL && logged->unrecorded_round == 0) {
        log_line(LOG_ERROR, "%s: %s; training continues, but round %u is not recorded",
                 fault->subject, fault->reason, round);
    }
    if (fault != NULL) {
        logged->unrecorded_round = round;
    } else if (logged->unrecorded_round != 0 && round > logged->unrecorded_round) {
        log_line(LOG_INFO, "rounds are recorded again from round %u on", round);
        logged->unrecorded_round = 0;
    }
}

/* ---- the swarm ---- */

/* Logs why the member is idle when the reason changes, and then at intervals. */
static void log_idle_reason(struct member_run *member, const struct member_loop_view *view) {
    struct last_logged *logged = &member->logged;
    const int64_t now_ns = clock_monotonic_ns();
    const bool is_new = strcmp(view->reason, logged->rejection_reason) != 0;
    const bool is_due = is_new || now_ns - logged->reason_logged_ns >= REASON_NS;
    char key[KEYS_TEXT_BYTES];
    memcpy(logged->rejection_reason, view->reason, sizeof logged->rejection_reason);
    if (view->reason[0] == '\0' || !is_due) {
        return;
    }
    logged->reason_logged_ns = now_ns;
    if (view->is_admitted) {
        log_line(LOG_WARNING, "%s", view->reason);
    } else if (strcmp(view->reason, WIRE_NOT_LISTED) == 0) {
        log_line(
            LOG_WARNING,
            "this member is not yet admitted to %s; send the operator this key: %s; Ctrl-C stops "
            "waiting",
            member->swarm.manifest.name, public_keys_write(&member->swarm.keys.public_keys, key));
    } else {
        log_line(LOG_WARNING, "this member is not yet admitted to %s: %s; retrying; Ctrl-C stops",
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

/* Warns once that no other process can connect to the address that this member advertises. */
static void log_unreachable(struct member_run *member, const struct member_loop_view *view) {
    static const char HOSTLESS[] = "tcp://:";
    struct last_logged *logged = &member->logged;
    const bool is_hostless = strncmp(view->unreachable, HOSTLESS, sizeof HOSTLESS - 1) == 0;
    if (view->unreachable[0] == '\0' || logged->unreachability_logged) {
        return;
    }
    logged->unreachability_logged = true;
    if (is_hostless) {
        log_line(
            LOG_WARNING,
            "other members cannot connect to port %s of this machine; open it, or pass an open "
            "one with --listen and --public; training continues over the connections that this "
            "member opens itself",
            view->unreachable + sizeof HOSTLESS - 1);
    } else {
        log_line(
            LOG_WARNING,
            "other members cannot connect to %s; open this port, or correct --public; training "
            "continues over the connections that this member opens itself",
            view->unreachable);
    }
}

/* ---- waiting ---- */

/* Returns how many members are present and needed, if too few are: as the tracker reports it, else
 * from the address book. `needed` is 0 if there are enough. */
static struct attendance find_missing_members(const struct member_run *member,
                                              const struct member_loop_view *view) {
    const uint32_t needed = (uint32_t)member->trainer.session.settings.swarm_members_min;
    return view->attendance.needed > 0 || view->members >= needed
               ? view->attendance
               : (struct attendance){.present = view->members, .needed = needed};
}

/* Writes what an idle member waits for, without times; "" if another line reports it. */
static void describe_wait(const struct member_run *member, const struct member_loop_view *view,
                          const struct attendance *lack, struct text *wait) {
    if (!view->is_tracker_connected) {
        text_add(wait, "waiting for the tracker at %s", member->swarm.tracker.address);
    } else if (!view->is_admitted) {
        text_add(wait, "waiting to be admitted to %s", member->swarm.manifest.name);
    } else if (lack->needed > 0) {
        text_add(wait, "waiting for ");
        attendance_describe_need(lack, wait);
    } else if (member->position.encoded_round > member->position.round) {
        text_add(wait, "waiting for the results of round %u", member->position.encoded_round);
    } else {
        text_add(wait, "waiting for the next round");
    }
}

/* Returns whether a wait is logged now. Other lines report a tracker that does not answer and a
 * member that is not admitted. */
static bool is_wait_due(const struct last_logged *logged, const struct member_loop_view *view,
                        bool lacks_members, int64_t now_ns) {
    const int64_t last_ns = logged->wait_logged_ns;
    const int64_t lasted_ns = now_ns - logged->wait_begun_ns;
    if (!view->is_tracker_connected || !view->is_admitted) {
        return false;
    }
    return last_ns != 0 ? now_ns - last_ns >= min_i64(max_i64(lasted_ns / 2, WAIT_NS), REASON_NS)
                        : lasted_ns >= (lacks_members ? MISSING_WAIT_NS : WAIT_NS);
}

/* Reports what this member waits for and since when: on a terminal at once, elsewhere after 10 s (2
 * s if members are missing), and then at intervals that grow from 10 s to a minute. */
static void log_wait(struct member_run *member, const struct member_loop_view *view) {
    struct last_logged *logged = &member->logged;
    const int64_t now_ns = clock_monotonic_ns();
    const struct attendance lack = find_missing_members(member, view);
    const bool lacks_members = lack.needed > 0;
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    describe_wait(member, view, &lack, &line);
    const struct hash wait = hash_of(buffer, line.length);
    if (!hash_equal(&wait, &logged->wait_text_hash)) {
        logged->wait_text_hash = wait;
        logged->wait_begun_ns = now_ns;
        logged->wait_logged_ns = 0;
    }
    const bool is_due = is_wait_due(logged, view, lacks_members, now_ns);
    const double seconds = ns_to_seconds(now_ns - logged->wait_begun_ns);
    if (lacks_members && lack.name[0] != '\0') {
        attendance_describe_absence(&lack, (now_ns - view->attendance_ns) / NS_PER_MS, &line);
    } else if (seconds >= 1) {
        text_add(&line, " for ");
        activity_add_time(&line, seconds);
    }
    if (is_due) {
        log_line(LOG_INFO, "%s", buffer);
        logged->wait_logged_ns = now_ns;
    } else if (log_is_terminal() && activity_line_is_due()) {
        activity_line_show(buffer);
    }
}

/* ---- the connection and the state ---- */

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

static void log_tracker_connection(struct member_run *member, const struct member_loop_view *view) {
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

static void show_state_fetch(const struct member_loop_view *view, double elapsed_s) {
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    char received[24];
    char total[24];
    /* An upper bound, because the last leaf may be shorter. */
    const uint64_t missing = (uint64_t)view->outdated_leaves * LEAF_BYTES;
    text_add(&line, "receiving the state: %s of about %s",
             text_format_bytes(view->fetched_bytes, received),
             text_format_bytes(view->fetched_bytes + missing, total));
    if (view->fetched_bytes > 0) {
        text_add(&line, ", left ");
        activity_add_time(&line, elapsed_s * (double)missing / (double)view->fetched_bytes);
    }
    activity_line_show(buffer);
}

static void log_state_fetch(struct member_run *member, const struct member_loop_view *view) {
    struct last_logged *logged = &member->logged;
    int64_t now_ns = clock_monotonic_ns();
    char bytes[24];
    text_format_bytes(view->fetched_bytes, bytes);
    if (view->is_fetching_state && logged->fetch_begun_ns == 0) {
        log_line(LOG_INFO, "receiving the state from other members");
        logged->fetch_begun_ns = now_ns;
    } else if (view->is_fetching_state && activity_line_is_due()) {
        show_state_fetch(view, clock_seconds_since(logged->fetch_begun_ns));
    } else if (!view->is_fetching_state && logged->fetch_begun_ns != 0) {
        log_line(LOG_INFO, "state received: %s in %.1f s", bytes,
                 ns_to_seconds(now_ns - logged->fetch_begun_ns));
        logged->fetch_begun_ns = 0;
    }
}

void member_log_swarm_changes(struct member_run *member, bool is_idle) {
    static const struct hash NO_WAIT;
    struct member_loop_view view;
    mailbox_read_view(member_loop_mailbox(member->loop), &view);
    log_tracker_connection(member, &view);
    log_admission(member, &view);
    log_unreachable(member, &view);
    log_state_fetch(member, &view);
    if (is_idle && !view.is_fetching_state) {
        log_wait(member, &view);
    } else {
        member->logged.wait_text_hash = NO_WAIT;
    }
}

/* ---- evaluation ---- */

/* Returns the limits of an evaluation. The other members wait for this member's contribution to the
 * next round. Therefore an evaluation between rounds may take at most half of the training time of
 * a round. */
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
    TRY(member_collect_memory_use(member, fault));
    metrics_write_memory(&trainer->metrics, &trainer->session, trainer->memories);
    return OK;
}
