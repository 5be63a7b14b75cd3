/* cuda_trial: executes instructions before segments are captured: each distinct product once, and
 * with -v each instruction alone, because a graph that fails does not show which kernel failed. */
#include "base/log.h"
#include "runtime/program/cuda_program_state.h"
#include "runtime/program/execute.h"
#include "runtime/program/print.h"

void choose_product_algorithms(struct cuda_program *program, struct region *region) {
    const struct bound_program *bound = program->bound;
    struct fault absent;
    if (cuda_products_open(bound->program->schedule.target, region, &program->products, &absent) !=
        OK) {
        log_line(LOG_WARNING, "%s: %s%s%s", absent.subject, absent.reason,
                 absent.remedy[0] != '\0' ? "; " : "", absent.remedy);
        return;
    }
    program->has_products = true;
    program->compute.products = &program->products;
    for (int i = 0; i < bound->program->schedule.instruction_count; i++) {
        struct op_call call = call_at(bound, (uint32_t)i);
        const struct cuda_product *newest = program->products.newest;
        op_choose_algorithms(&program->products, &call);
        if (program->products.newest != newest) {
            program->device.methods->run_instruction(&program->device, (uint32_t)i);
        }
    }
}

/* Sets the scalars for an execution on zeroed arenas. Ids, labels and positions of 0 are valid, but
 * a decode needs at least one token. */
void warm_up_scalars(const struct cuda_program *program) {
    *program_scalars(program->bound) =
        (struct step_scalars){.bias_correction_1 = 1, .bias_correction_2 = 1, .token_count = 1};
}

static void log_failed_instruction(void *context, const char *line, size_t length) {
    (void)context;
    log_line(LOG_ERROR, "the device failed while it executed instruction %.*s", (int)length - 1,
             line);
}

static void try_instruction(struct cuda_program *program, uint32_t index) {
    const struct program *compiled = program->bound->program;
    program->device.methods->run_instruction(&program->device, index);
    if (program->failure.result != CUDA_SUCCESS) {
        program_print_instruction(compiled, index, log_failed_instruction, NULL);
    }
}

void warm_up_instructions(struct cuda_program *program) {
    const struct schedule *schedule = &program->bound->program->schedule;
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        const struct segment *segment = &schedule->segments[kind];
        warm_up_scalars(program);
        for (uint32_t i = segment->first; i < segment->end; i++) {
            if (program->failure.result == CUDA_SUCCESS &&
                !call_is_collective(&schedule->instructions[i])) {
                try_instruction(program, i);
            }
        }
    }
}
