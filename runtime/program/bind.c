/* bind: a compiled program takes its place on a machine, and runs there. */
#include "runtime/program/opcodes.h"
#include "runtime/program/program.h"

#include <string.h>

static const struct operand *operand_at(const struct instruction *instruction, int index) {
    return index < OPERANDS_MAX ? &instruction->operands[index] : &instruction->workspace;
}

static void resolve(struct bound_program *bound, struct region *region) {
    const struct schedule *schedule = &bound->program->schedule;
    size_t count = (size_t)schedule->instruction_count;
    bound->addresses = region_alloc(region, count, sizeof *bound->addresses);
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < CALL_OPERANDS; k++) {
            const struct operand *operand = operand_at(&schedule->instructions[i], k);
            if (operand->extent != EXTENT_NONE) {
                bound->addresses[i][k] =
                    (char *)program_extent(bound, operand->extent) + operand->offset;
            }
        }
    }
}

static enum status reserve(struct bound_program *bound, struct fault *fault) {
    for (int space = 0; space < SPACE_COUNT; space++) {
        uint64_t bytes = bound->program->plan.peak_bytes[space];
        if (bytes == 0) {
            continue;
        }
        void *address;
        enum status status = port_reserve(&bound->port, (enum space)space, bytes, &address, fault);
        if (status != OK) {
            return status;
        }
        bound->base[space] = address;
    }
    return OK;
}

enum status program_bind(const struct program *program, struct region *region,
                         struct bound_program *bound, struct fault *fault) {
    memset(bound, 0, sizeof *bound);
    bound->program = program;
    enum status status = port_init(&bound->port, program->target, fault);
    if (status != OK) {
        return status;
    }
    status = reserve(bound, fault);
    if (status == OK) {
        status = pool_init(&bound->pool, program->target->threads, fault);
    }
    if (status != OK) {
        port_finish(&bound->port);
        memset(bound, 0, sizeof *bound);
        return status;
    }
    kernel_table_init(&bound->kernels, cpu_level_detect());
    bound->compute = (struct compute){.table = &bound->kernels, .pool = &bound->pool};
    resolve(bound, region);
    return OK;
}

void program_seal(const struct bound_program *bound) {
    ASSERT(bound->addresses != NULL);
    process_seal();
}

/* What was really handed out, kept so that a test can hold it against the plan. */
static void note_high_water(struct bound_program *bound, const struct instruction *instruction) {
    const struct extent *extents = bound->program->schedule.extents;
    for (int k = 0; k < CALL_OPERANDS; k++) {
        const struct operand *operand = operand_at(instruction, k);
        if (operand->extent != EXTENT_NONE) {
            const struct extent *extent = &extents[operand->extent];
            uint64_t end = extent->offset + operand->offset + operand->bytes;
            if (end > bound->high_water[extent->space]) {
                bound->high_water[extent->space] = end;
            }
        }
    }
}

void program_run_one(struct bound_program *bound, uint32_t index) {
    const struct instruction *instruction = &bound->program->schedule.instructions[index];
    opcode_run(&bound->compute, instruction, &instruction->args, bound->addresses[index]);
    note_high_water(bound, instruction);
}

void program_run(struct bound_program *bound, enum segment_kind kind) {
    const struct segment *segment = &bound->program->schedule.segments[kind];
    ASSERT(segment->first < segment->end);
    for (uint32_t i = segment->first; i < segment->end; i++) {
        program_run_one(bound, i);
    }
}

void *program_extent(const struct bound_program *bound, int extent) {
    ASSERT(extent >= 0 && extent < bound->program->schedule.extent_count);
    const struct extent *of = &bound->program->schedule.extents[extent];
    return bound->base[of->space] + of->offset;
}

static int extent_of_view(const struct unit_extents *extents, enum param_view view) {
    switch (view) {
    case VIEW_PARAMS:
        return extents->params;
    case VIEW_MASTER:
        return extents->master;
    case VIEW_GRADIENT:
        return extents->gradients;
    case VIEW_MOMENT1:
        return extents->moment1;
    case VIEW_MOMENT2:
        return extents->moment2;
    }
    ASSERT(false && "an unknown view");
    return EXTENT_NONE;
}

enum dtype program_view_dtype(const struct bound_program *bound, enum param_view view) {
    const struct schedule_options *options = &bound->program->schedule.options;
    if (view == VIEW_PARAMS) {
        return options->compute;
    }
    if (view == VIEW_MASTER) {
        return options->train ? DTYPE_F32 : options->compute;
    }
    return view == VIEW_GRADIENT ? DTYPE_F32 : options->moments;
}

void *program_param(const struct bound_program *bound, int index, enum param_view view) {
    const struct schedule *schedule = &bound->program->schedule;
    const struct unit_slot *slot = &schedule->units->slots[schedule->units->slot_of_param[index]];
    int extent = extent_of_view(&schedule->unit_extents[slot->unit], view);
    int64_t bytes = slot->offset * dtype_bytes(program_view_dtype(bound, view));
    return (char *)program_extent(bound, extent) + bytes;
}

struct step_scalars *program_scalars(const struct bound_program *bound) {
    return program_extent(bound, bound->program->schedule.host.scalars);
}

void program_release(struct bound_program *bound) {
    pool_finish(&bound->pool);
    port_finish(&bound->port);
}
