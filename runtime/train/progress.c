#include "runtime/train/progress.h"

#include "base/log.h"
#include "runtime/schedule/estimate.h"
#include "targets/os/process.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_BYTES = 512 }; /* longest progress line */

static const double SMOOTHING = 0.1;

void progress_init(struct progress *progress, const struct session *session) {
    const struct plan *plan = &session->program.plan;
    bool bf16 = session->settings.compute_dtype == DTYPE_BF16;
    *progress = (struct progress){
        .quiet = !log_is_enabled(LOG_INFO) || !session_is_rank0(session),
        .flops = estimate_step(&session->program.schedule, session->target).flops,
        .peak_flops = (bf16 ? session->target->bf16_flops : session->target->f32_flops).value};
    progress->colour = log_is_terminal() && getenv("NO_COLOR") == NULL;
    for (int space = 0; space < SPACE_COUNT; space++) {
        progress->plan_bytes += plan->peak_bytes[space];
    }
}

static void add_memory_use(struct text *line, const struct progress *progress) {
    char held[24];
    char planned[24];
    struct process_memory memory = {0};
    if (process_memory_read(&memory)) {
        text_add(line, "  %s held, %s planned",
                 text_format_bytes(memory.anonymous_bytes + memory.shared_bytes, held),
                 text_format_bytes(progress->plan_bytes, planned));
    }
}

void progress_show_step(struct progress *progress, const struct progress_position *at,
                        const struct step_result *result, double seconds) {
    double weight = progress->smooth_s == 0 ? 1 : SMOOTHING;
    progress->smooth_s += weight * (seconds - progress->smooth_s);
    if (progress->quiet || (!activity_line_is_due() && at->step != at->until)) {
        return;
    }
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    const char *bold = progress->colour ? "\033[1m" : "";
    const char *plain = progress->colour ? "\033[0m" : "";
    text_add(&line, "step %lld/%lld  loss %s%.4f%s  %.0f tokens/s  %.0f %% of peak  left ",
             (long long)at->step, (long long)at->steps, bold, nan_without_sign(result->loss), plain,
             (double)result->tokens / progress->smooth_s,
             100 * progress->flops / progress->smooth_s / progress->peak_flops);
    activity_add_time(&line, (double)(at->until - at->step) * progress->smooth_s + at->other_s);
    add_memory_use(&line, progress);
    activity_line_show(buffer);
}

void progress_show_line(struct progress *progress, const char *format, ...) {
    if (progress->quiet) {
        return;
    }
    char words[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    log_line(LOG_INFO, "%s", words);
}
