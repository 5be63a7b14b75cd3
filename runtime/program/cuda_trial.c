/* cuda_trial: executes each instruction alone, because a graph that fails does not show which
 * kernel failed. */
#include "base/log.h"
#include "runtime/program/cuda_program_state.h"
#include "runtime/program/execute.h"
#include "runtime/program/print.h"

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
