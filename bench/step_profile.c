/* step_profile: measure the time of a training step by kind of instruction.
 *
 *   step_profile MODEL [key=value...]
 *
 * The model has random weights and trains on random tokens. Each instruction is timed separately,
 * and its fastest time of STEPS steps counts. Prints times, shares and rates, and compares the rate
 * of the whole step with that of its matrix products. */
#include "base/clock.h"
#include "base/random.h"
#include "runtime/schedule/estimate.h"
#include "runtime/session/batch.h"
#include "runtime/session/step.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 6 };

struct row {
    double seconds;
    int count;
};

static void fill_batch(struct session *session) {
    uint64_t vocab = (uint64_t)session->blueprint.vocab;
    for (int64_t r = 0; r < session->settings.microbatch; r++) {
        struct token_row row = batch_row(session, r);
        for (int64_t t = 0; t < session->settings.sequence_tokens; t++) {
            uint64_t at = (uint64_t)(r * session->settings.sequence_tokens + t);
            uint32_t words[4];
            random_block(1, at, words);
            row.ids[t] = (int32_t)(words[0] % vocab);
            row.labels[t] = (int32_t)(words[1] % vocab);
            row.positions[t] = (int32_t)t;
        }
    }
}

static double run_timed(struct session *session, uint32_t index) {
    int64_t begin = clock_monotonic_ns();
    program_execute_instruction(&session->bound, index);
    return (double)(clock_monotonic_ns() - begin) * 1e-9;
}

/* Set the fastest time of each instruction over all steps. */
static void measure(struct session *session, double *best) {
    const struct schedule *schedule = &session->program.schedule;
    for (int step = 0; step < STEPS; step++) {
        fill_batch(session);
        const struct step_schedule pace = step_schedule_at(session, step);
        step_begin(session, &pace, session->settings.batch_tokens);
        for (int kind = SEGMENT_BEGIN; kind <= SEGMENT_FINISH; kind++) {
            for (uint32_t i = schedule->segments[kind].first; i < schedule->segments[kind].end;
                 i++) {
                double seconds = run_timed(session, i);
                best[i] = step == 0 || seconds < best[i] ? seconds : best[i];
            }
        }
    }
}

static bool is_product(enum op_kind op) {
    return op == OP_LINEAR || op == OP_LINEAR_DX || op == OP_LINEAR_DW;
}

static void print_kinds(const struct session *session, const double *best) {
    const struct schedule *schedule = &session->program.schedule;
    struct row rows[OP_KIND_COUNT] = {{0}};
    double total = 0;
    double products = 0;
    double product_flops = 0;
    for (uint32_t i = schedule->segments[SEGMENT_BEGIN].first;
         i < schedule->segments[SEGMENT_FINISH].end; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        const struct matmul_args *args = &instruction->args.matmul;
        rows[instruction->op].seconds += best[i];
        rows[instruction->op].count++;
        total += best[i];
        if (is_product(instruction->op)) {
            products += best[i];
            product_flops += 2.0 * (double)args->m * (double)args->n * (double)args->k;
        }
    }
    printf("%-22s %6s %10s %7s\n", "instruction", "count", "ms", "share");
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        if (rows[kind].count > 0) {
            printf("%-22s %6d %10.3f %6.1f%%\n", op_row((enum op_kind)kind)->name, rows[kind].count,
                   rows[kind].seconds * 1e3, 100 * rows[kind].seconds / total);
        }
    }
    struct segment_estimate step = estimate_step(schedule, session->target);
    double rate = product_flops / products;
    printf("step %.1f ms, %.0f tokens/s; block products at %.0f GFLOP/s; the whole step's %.1f "
           "GFLOP at %.0f GFLOP/s, %.0f %% of the products' rate\n",
           total * 1e3, (double)session->settings.batch_tokens / total, rate * 1e-9,
           step.flops * 1e-9, step.flops / total * 1e-9, 100 * step.flops / total / rate);
}

static void print_shapes(const struct session *session, const double *best) {
    const struct schedule *schedule = &session->program.schedule;
    printf("\n%-10s %22s %10s %9s\n", "product", "m n k", "ms", "GFLOP/s");
    for (uint32_t i = schedule->segments[SEGMENT_MICROBATCH].first;
         i < schedule->segments[SEGMENT_MICROBATCH].end; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        const struct matmul_args *args = &instruction->args.matmul;
        if (is_product(instruction->op) && instruction->layer == 0) {
            printf("%-10s %8lld %6lld %6lld %10.3f %9.1f\n", op_row(instruction->op)->name,
                   (long long)args->m, (long long)args->n, (long long)args->k, best[i] * 1e3,
                   2e-9 * (double)args->m * (double)args->n * (double)args->k / best[i]);
        }
    }
}

int main(int argc, char **argv) {
    static struct session session;
    struct fault fault;
    if (argc < 2) {
        fprintf(stderr, "usage: step_profile MODEL [key=value...]\n");
        return 2;
    }
    const char *overrides[64] = {"init=random"};
    int count = 1;
    for (int i = 2; i < argc && count < 64; i++) {
        overrides[count++] = argv[i];
    }
    enum status status = session_read(&session, argv[1], overrides, count, &fault);
    if (status == OK) {
        status = session_compile(&session, PURPOSE_TRAIN, &fault);
    }
    if (status == OK) {
        status = session_bind(&session, &fault);
    }
    if (status == OK) {
        status = session_init_weights(&session, &fault);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
        return fault_exit_code(status);
    }
    size_t instructions = (size_t)session.program.schedule.instruction_count;
    double *best = region_alloc(&session.region, instructions, sizeof *best);
    measure(&session, best);
    print_kinds(&session, best);
    print_shapes(&session, best);
    session_finish(&session);
    return 0;
}
