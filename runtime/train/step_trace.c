#include "runtime/train/step_trace.h"

#include "base/file.h"
#include "base/log.h"
#include "runtime/program/trace_file.h"
#include "runtime/train/metrics.h"

#include <stdio.h>

enum {
    NUMBER_BYTES = 24, /* size of the text of a step number, with its NUL */
    STEPS_MAX = 1000,  /* maximum number of steps in one trace */
};

/* Parses a range of steps such as "3:5". Returns false if the text is invalid. */
static bool parse_steps(const char *text, int64_t *first, int64_t *last) {
    char number[NUMBER_BYTES];
    const char *colon = strchr(text, ':');
    size_t width = colon == NULL ? 0 : (size_t)(colon - text);
    if (colon == NULL || width >= sizeof number) {
        return false;
    }
    snprintf(number, sizeof number, "%.*s", (int)width, text);
    return text_parse_i64(number, first) && text_parse_i64(colon + 1, last) && *first >= 1 &&
           *first <= *last && *last - *first < STEPS_MAX;
}

static enum status begin_trace_file(const char *path, struct fault *fault) {
    char folder[PATH_BYTES];
    file_parent_folder(path, folder, sizeof folder);
    TRY(file_make_folders(folder, fault));
    return trace_file_begin(path, fault);
}

enum status step_trace_plan(struct session *session, struct step_trace *trace,
                            struct fault *fault) {
    const struct settings *settings = &session->settings;
    *trace = (struct step_trace){.last = 0};
    if (settings->trace_path == NULL) {
        return OK;
    }
    if (session->bound.device != NULL) {
        return fault_set(fault, STATUS_INPUT, settings_location(settings, "trace"),
                         "remove the key trace, or use a CPU target",
                         "a device executes each segment as a whole; only instructions on a CPU "
                         "can be traced one by one");
    }
    int64_t first;
    int64_t last;
    if (!parse_steps(settings->trace_steps, &first, &last)) {
        return fault_set(fault, STATUS_INPUT, settings_location(settings, "trace_steps"),
                         "set trace_steps to the first and the last step, for example 3:5",
                         "trace_steps is \"%.80s\", not FIRST:LAST of at most %d steps",
                         settings->trace_steps, STEPS_MAX);
    }
    if (session_is_rank0(session)) {
        TRY(metrics_check_path(settings->trace_path, "trace", fault));
    }
    trace_init(&trace->trace, &session->program.schedule, last - first + 1, &session->region);
    size_t ranks = (size_t)session_rank_count(session);
    trace->overlaps = region_alloc(&session->region, ranks, sizeof *trace->overlaps);
    trace->first = first;
    trace->last = last;
    return OK;
}

void step_trace_begin_step(struct session *session, struct step_trace *trace, int64_t step) {
    bool wanted = trace->last > 0 && step >= trace->first && step <= trace->last;
    session->bound.trace = wanted ? &trace->trace : NULL;
    trace->has_begun = trace->has_begun || wanted;
}

/* Writes the trace. All ranks append to one file, in the order of their rank numbers. */
static enum status write_in_turn(struct session *session, const struct step_trace *trace,
                                 struct fault *fault) {
    const char *path = session->settings.trace_path;
    int own = session->bound.ranks.index[AXIS_WORLD];
    enum status status =
        session_agree(session, own == 0 ? begin_trace_file(path, fault) : OK, fault);
    for (int rank = 0; rank < session_rank_count(session) && status == OK; rank++) {
        status = rank == own ? trace_file_append(path, &session->program.schedule, &trace->trace,
                                                 rank, fault)
                             : OK;
        status = session_agree(session, status, fault);
    }
    if (status == OK && own == 0) {
        status = trace_file_end(path, fault);
    }
    return session_agree(session, status, fault);
}

static double milliseconds(int64_t ns) {
    return (double)ns * 1e-6;
}

static void log_overlaps(const struct session *session, const struct step_trace *trace) {
    for (int rank = 0; rank < session_rank_count(session); rank++) {
        const struct trace_overlap *of = &trace->overlaps[rank];
        double hidden =
            of->collective_ns > 0 ? 100 * (double)of->hidden_ns / (double)of->collective_ns : 100;
        log_line(LOG_INFO,
                 "trace: rank %d: compute %.1f ms, communication %.1f ms, %.0f %% of it overlapped "
                 "by compute, "
                 "waiting %.1f ms",
                 rank, milliseconds(of->compute_ns), milliseconds(of->collective_ns), hidden,
                 milliseconds(of->waiting_ns));
    }
}

void step_trace_end_step(struct session *session, struct step_trace *trace, int64_t step,
                         bool ends) {
    struct fault fault;
    session->bound.trace = NULL;
    if (!trace->has_begun || (step < trace->last && !ends)) {
        return;
    }
    trace->has_begun = false;
    trace->last = 0;
    const struct trace_overlap mine = trace_compute_overlap(&trace->trace);
    enum status status = write_in_turn(session, trace, &fault);
    trace->overlaps[0] = mine;
    if (status == OK && session->site != NULL) {
        status = site_exchange(session->site, &mine, sizeof mine, trace->overlaps, &fault);
    }
    if (status != OK && session_is_rank0(session)) {
        log_line(LOG_WARNING, "%s: %s; training continues without a trace", fault.subject,
                 fault.reason);
    }
    if (status == OK && session_is_rank0(session)) {
        log_overlaps(session, trace);
        log_line(LOG_INFO, "trace: steps %lld to %lld in %s", (long long)trace->first,
                 (long long)step, session->settings.trace_path);
    }
}
