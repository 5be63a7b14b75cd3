#include "runtime/train/progress.h"

#include "base/clock.h"
#include "base/log.h"
#include "runtime/schedule/estimate.h"
#include "targets/os/process.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LINE_BYTES = 512 };

static const int64_t TERMINAL_NS = 100 * NS_PER_MS; /* minimum time between updates on a terminal */
/* minimum time between progress lines outside a terminal */
static const int64_t PLAIN_NS = 10 * NS_PER_SECOND;
static const double SMOOTHING = 0.1;

void progress_init(struct progress *progress, const struct session *session) {
    const struct plan *plan = &session->program.plan;
    bool bf16 = session->settings.compute_dtype == DTYPE_BF16;
    *progress = (struct progress){
        .terminal = isatty(STDERR_FILENO) != 0,
        .quiet = !log_is_enabled(LOG_INFO) || !session_is_rank0(session),
        .flops = estimate_step(&session->program.schedule, session->target).flops,
        .peak_flops = (bf16 ? session->target->bf16_flops : session->target->f32_flops).value};
    progress->colour = progress->terminal && getenv("NO_COLOR") == NULL;
    for (int space = 0; space < SPACE_COUNT; space++) {
        progress->plan_bytes += plan->peak_bytes[space];
    }
}

/* Returns the text that starts a line. On a terminal, it clears the current line, which the new
 * text replaces. */
static const char *line_start(const struct progress *progress) {
    return progress->terminal ? "\r\033[K" : log_priority_prefix(LOG_INFO);
}

static void write_line(const struct text *line) {
    ssize_t ignored = write(STDERR_FILENO, line->bytes, line->length);
    (void)ignored;
}

static void add_remaining_time(struct text *line, double seconds) {
    long long left = (long long)(seconds + 0.5);
    if (left >= 3600) {
        text_add(line, "%lld:%02lld:%02lld", left / 3600, left / 60 % 60, left % 60);
    } else {
        text_add(line, "%lld:%02lld", left / 60, left % 60);
    }
}

static void add_memory(struct text *line, const struct progress *progress) {
    char held[24];
    char planned[24];
    struct process_memory memory = {0};
    if (process_memory_read(&memory)) {
        text_add(line, "  %s held, %s planned",
                 text_format_bytes(memory.anonymous_bytes + memory.shared_bytes, held),
                 text_format_bytes(progress->plan_bytes, planned));
    }
}

void progress_show_step(struct progress *progress, const struct progress_at *at,
                        const struct step_result *result, double seconds) {
    double weight = progress->smooth_s == 0 ? 1 : SMOOTHING;
    progress->smooth_s += weight * (seconds - progress->smooth_s);
    int64_t now = clock_monotonic_ns();
    bool is_due = now - progress->shown_ns >= (progress->terminal ? TERMINAL_NS : PLAIN_NS);
    if (progress->quiet || (!is_due && at->step != at->until)) {
        return;
    }
    progress->shown_ns = now;
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    const char *bold = progress->colour ? "\033[1m" : "";
    const char *plain = progress->colour ? "\033[0m" : "";
    text_add(&line, "%sstep %lld/%lld  loss %s%.4f%s  %.0f tokens/s  %.0f %% of peak  left ",
             line_start(progress), (long long)at->step, (long long)at->steps, bold,
             nan_without_sign(result->loss), plain, (double)result->tokens / progress->smooth_s,
             100 * progress->flops / progress->smooth_s / progress->peak_flops);
    add_remaining_time(&line, (double)(at->until - at->step) * progress->smooth_s);
    add_memory(&line, progress);
    text_add(&line, "%s", progress->terminal ? "" : "\n");
    write_line(&line);
}

void progress_show_line(struct progress *progress, const char *format, ...) {
    if (progress->quiet) {
        return;
    }
    char buffer[LINE_BYTES];
    char words[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    text_add(&line, "%s%s\n", line_start(progress), words);
    write_line(&line);
}
