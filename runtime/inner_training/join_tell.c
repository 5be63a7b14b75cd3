/* join_tell: what a member tells the metrics and a person. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/inner_training/join_order.h"
#include "runtime/inner_training/join_parts.h"
#include "transport/site/stop.h"

#include <math.h>
#include <string.h>

static const int64_t PLAIN_NS = 10000000000; /* cli.md: a plain line at most every 10 s */
static const int64_t ABSENT_NS = 5000000000;

static bool is_due(struct member_run *joining) {
    struct progress *progress = &joining->progress;
    int64_t now = clock_monotonic_ns();
    if (!progress->terminal && progress->shown_ns != 0 && now - progress->shown_ns < PLAIN_NS) {
        return false;
    }
    progress->shown_ns = now;
    return true;
}

static void tell_round(struct member_run *joining, const struct metrics_round *line) {
    char up[24];
    char down[24];
    char root[HASH_HEX_BYTES];
    char words[32];
    struct text loss = text_over(words, sizeof words);
    if (!isnan(line->loss)) { /* it had a part in the round */
        text_add(&loss, "  loss %.4f", line->loss);
    }
    progress_line(&joining->progress,
                  "round %u  step %lld/%lld%s  %u of %u members  %s up, %s down, "
                  "exchange %.2f s  root %.12s",
                  line->round, (long long)line->step, (long long)joining->session.run.steps, words,
                  line->contributors, line->members, text_bytes(line->sent_bytes, up),
                  text_bytes(line->received_bytes, down), line->exchange_ms * 1e-3,
                  hash_hex(&line->root, root));
}

void member_log_round(struct member_run *joining, const struct applied_round *round) {
    struct member_loop_view view;
    struct last_logged *told = &joining->told;
    member_loop_read_view(joining->loop, &view);
    struct metrics_round line = {.round = round->round,
                                 .members = round->members,
                                 .contributors = round->contributors,
                                 .step = (int64_t)joining->at.commits *
                                         joining->session.run.swarm_inner_steps,
                                 .sent_bytes = view.sent_bytes - told->sent_bytes,
                                 .received_bytes = view.received_bytes - told->received_bytes,
                                 .exchange_ms = view.exchange_ms,
                                 .root = round->root,
                                 .loss = round->loss};
    told->sent_bytes = view.sent_bytes;
    told->received_bytes = view.received_bytes;
    metrics_round(&joining->metrics, &line);
    if (is_due(joining)) {
        tell_round(joining, &line);
    }
}

enum status member_log_memory(struct member_run *joining, struct fault *fault) {
    enum status status = lockstep_do_plain(joining, COMMAND_MEMORY, fault);
    if (status == OK) {
        metrics_memory(&joining->metrics, &joining->session, joining->memories);
    }
    return status;
}

void member_log_disk(struct member_run *joining, const struct fault *fault) {
    struct last_logged *told = &joining->told;
    if (fault != NULL && !told->disk_was_full) {
        log_line(LOG_ERROR, "%s: %s%s%s; trying again", fault->place, fault->reason,
                 fault->remedy[0] == '\0' ? "" : "; ", fault->remedy);
    } else if (fault == NULL && told->disk_was_full) {
        log_line(LOG_INFO, "%s: can be written again", joining->store.folder);
    }
    told->disk_was_full = fault != NULL;
}

/* ---- the swarm ---- */

static void tell_admission(struct member_run *joining, const struct member_loop_view *view) {
    struct last_logged *told = &joining->told;
    if (view->is_admitted && !told->was_admitted) {
        log_line(LOG_INFO, "a member of %s", joining->manifest.name);
    }
    if (view->reason[0] != '\0' && strcmp(view->reason, told->reason) != 0) {
        log_line(LOG_WARNING, "%s", view->reason);
    }
    memcpy(told->reason, view->reason, sizeof told->reason);
    told->was_admitted = view->is_admitted;
}

/* A tracker that was not there from the start on: a member with its manifest waits for it. */
static void tell_absence(struct member_run *joining) {
    struct last_logged *told = &joining->told;
    int64_t now_ns = clock_monotonic_ns();
    told->begun_ns = told->begun_ns == 0 ? now_ns : told->begun_ns;
    if (!told->tracker_was_missed && now_ns - told->begun_ns >= ABSENT_NS) {
        log_line(LOG_WARNING,
                 "%s: no answer within %d s; is the tracker running, and its port open? Trying "
                 "again until it answers",
                 joining->manifest.tracker.address, (int)(ABSENT_NS / 1000000000));
        told->tracker_was_missed = true;
    }
}

static void tell_tracker(struct member_run *joining, const struct member_loop_view *view) {
    struct last_logged *told = &joining->told;
    if (!view->tracker_is_there && !told->tracker_was_there && !told->was_admitted) {
        tell_absence(joining);
    } else if (told->tracker_was_there && !view->tracker_is_there) {
        log_line(LOG_WARNING,
                 "the tracker at %s is gone; what is under way goes on, and it is "
                 "tried again",
                 joining->manifest.tracker.address);
    } else if (!told->tracker_was_there && view->tracker_is_there && told->was_admitted) {
        log_line(LOG_INFO, "the tracker is there again");
    }
    told->tracker_was_there = view->tracker_is_there;
}

static void tell_adoption(struct member_run *joining, const struct member_loop_view *view) {
    struct last_logged *told = &joining->told;
    int64_t now_ns = clock_monotonic_ns();
    char bytes[24];
    if (view->is_adopting && told->adopts_ns == 0) {
        log_line(LOG_INFO, "taking the state from other members");
        told->adopts_ns = now_ns;
        told->adopts_told_ns = now_ns;
    } else if (view->is_adopting && now_ns - told->adopts_told_ns >= PLAIN_NS) {
        log_line(LOG_INFO, "%s of the state are here, %u leaves to come",
                 text_bytes(view->adopted_bytes, bytes), view->behind);
        told->adopts_told_ns = now_ns;
    } else if (!view->is_adopting && told->adopts_ns != 0) {
        log_line(LOG_INFO, "the state is here: %s in %.1f s",
                 text_bytes(view->adopted_bytes, bytes), (double)(now_ns - told->adopts_ns) * 1e-9);
        told->adopts_ns = 0;
    }
}

void member_log_swarm(struct member_run *joining) {
    struct member_loop_view view;
    member_loop_read_view(joining->loop, &view);
    tell_tracker(joining, &view);
    tell_admission(joining, &view);
    tell_adoption(joining, &view);
}

/* ---- evaluation ---- */

/* Until when an evaluation may take: the others wait for this member's part of the next round. */
static bool has_time(void *context) {
    const int64_t *until_ns = context;
    return !stop_requested() && clock_monotonic_ns() < *until_ns;
}

static int64_t evaluation_end_ns(struct member_run *joining, bool is_last) {
    struct member_loop_view view;
    if (is_last) {
        return INT64_MAX;
    }
    member_loop_read_view(joining->loop, &view);
    return clock_monotonic_ns() + (int64_t)view.timing.train_ms * 1000000 / 2;
}

enum status member_evaluate(struct member_run *joining, bool is_last, struct fault *fault) {
    struct last_logged *told = &joining->told;
    const struct run *run = &joining->session.run;
    if (joining->validation.file_count == 0 || told->evaluated_round == joining->at.round ||
        (told->evaluates_last && !is_last)) {
        return OK;
    }
    int64_t until_ns = evaluation_end_ns(joining, is_last);
    const struct lockstep_command order = {.kind = COMMAND_EVALUATE};
    enum status status = lockstep_do_while(joining, &order, has_time, &until_ns, fault);
    if (status == STATUS_STOPPED && !stop_requested()) {
        told->evaluates_last = true;
        log_line(LOG_WARNING, "evaluating takes longer than half of a round's training, which the "
                              "others wait for: it is left to the run's end; lower eval.tokens");
    }
    if (status != OK) {
        return status == STATUS_STOPPED ? OK : status;
    }
    int64_t step = (int64_t)joining->at.commits * run->swarm_inner_steps;
    told->evaluated_round = joining->at.round;
    double loss = joining->evaluated.loss;
    metrics_eval(&joining->metrics, step, loss);
    progress_line(&joining->progress, "step %lld  validation loss %.4f  perplexity %.2f",
                  (long long)step, plain_nan(loss), plain_nan(exp(loss)));
    return member_log_memory(joining, fault);
}
