/* cuda_trial: executes each instruction alone, because a graph that fails does not show which
 * kernel failed. / */
#include "base/log.h"
#include "runtime/program/cuda_program_state.h"
#include "runtime/program/execute.h"
#include "runtime/program/print.h"

/* Ids, labels and positions of 0 are valid; decoding needs at least one token. */
void warm_up_scalars(const struct cuda_program *program) {
    *program_scalars(program->bound) =
        (struct step_scalars){.bias_correction_1 = 1, .bias_correction_2 = 1, .token_count = 1};
}

static void tell_line(void *context, const char *line, size_t length) {
    (void)context;
    log_line(LOG_ERROR, "the device failed in instruction %.*s", (int)length - 1, line);
}

static void try_one(struct cuda_program *program, uint32_t index) {
    const struct program *compiled = program->bound->program;
    program->device.methods->run_one(&program->device, index);
    if (program->failure.result != CUDA_SUCCESS) {
        program_print_instruction(compiled, index, tell_line, NULL);
    }
}

void warm_up_run(struct cuda_program *program) {
    const struct schedule *schedule = &program->bound->program->schedule;
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        const struct segment *segment = &schedule->segments[kind];
        warm_up_scalars(program);
        for (uint32_t i = segment->first; i < segment->end; i++) {
            if (program->failure.result == CUDA_SUCCESS &&
                !call_is_collective(&schedule->instructions[i])) {
                try_one(program, i);
            }
        }
    }
}
