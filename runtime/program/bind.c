/* bind: prepares a compiled program for execution on this machine, as one rank of a site. */
#include "base/text.h"
#include "build_config.h"
#include "runtime/program/execute.h"
#if SKEP_CUDA
#include "runtime/program/cuda_program.h"
#endif

#include <string.h>

static uint64_t operand_offset_in_extent(const struct bound_program *bound,
                                         const struct operand *operand) {
    uint64_t index = (uint64_t)bound->ranks.index[operand->axis];
    return operand->offset + operand->stride * index;
}

static void resolve_operands(struct bound_program *bound, struct region *region) {
    const struct schedule *schedule = &bound->program->schedule;
    size_t count = (size_t)schedule->instruction_count;
    bound->args = region_alloc(region, count, sizeof *bound->args);
    bound->addresses = region_alloc(region, count, sizeof *bound->addresses);
    for (size_t i = 0; i < count; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        bound->args[i] = op_args_of_rank(instruction, bound->ranks.index);
        for (int k = 0; k < CALL_OPERANDS; k++) {
            const struct operand *operand = call_operand(instruction, k);
            if (operand->extent != EXTENT_NONE) {
                bound->addresses[i][k] = (char *)program_extent_address(bound, operand->extent) +
                                         operand_offset_in_extent(bound, operand);
            }
        }
    }
}

static uint64_t operand_offset_in_space(const struct bound_program *bound,
                                        const struct operand *operand) {
    return bound->program->plan.offsets[operand->extent] + operand_offset_in_extent(bound, operand);
}

static struct collective_call make_collective_call(const struct bound_program *bound,
                                                   const struct instruction *instruction) {
    const struct collective_args *args = &instruction->args.collective;
    bool sums = instruction->op == OP_REDUCE_SCATTER;
    const struct operand *from = op_collective_from(instruction);
    const struct operand *to = op_collective_to(instruction);
    const struct extent *extents = bound->program->schedule.extents;
    ASSERT(extents[from->extent].space == extents[to->extent].space);
    return (struct collective_call){.kind =
                                        sums ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_GATHER,
                                    .group = (int)args->axis,
                                    .space = extents[to->extent].space,
                                    .wire = args->wire,
                                    .from = operand_offset_in_space(bound, from),
                                    .to = operand_offset_in_space(bound, to),
                                    .slot_bytes = args->slot_bytes};
}

static void resolve_collective_calls(struct bound_program *bound, struct region *region) {
    size_t count = (size_t)bound->program->schedule.instruction_count;
    for (size_t i = 0; i < count; i++) {
        if (!call_is_collective(&bound->program->schedule.instructions[i])) {
            continue;
        }
        if (bound->calls == NULL) {
            bound->calls = region_alloc(region, count, sizeof *bound->calls);
        }
        bound->calls[i] = make_collective_call(bound, &bound->program->schedule.instructions[i]);
    }
}

/* Sort the instructions by segment and lane, in listed order. */
static void list_lane_instructions(struct bound_program *bound, struct region *region) {
    const struct schedule *schedule = &bound->program->schedule;
    bound->order = region_alloc(region, (size_t)schedule->instruction_count, sizeof *bound->order);
    uint32_t next = 0;
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        const struct segment *segment = &schedule->segments[kind];
        for (int lane = 0; lane < LANE_COUNT; lane++) {
            uint32_t first = next;
            for (uint32_t i = segment->first; i < segment->end; i++) {
                if (bound->program->schedule.instructions[i].lane == lane) {
                    bound->order[next++] = i;
                }
            }
            bound->lists[kind][lane] = (struct lane_list){first, next - first};
        }
    }
    ASSERT(next == (uint32_t)schedule->instruction_count);
}

static void find_shared_spaces(struct bound_program *bound) {
    const struct schedule *schedule = &bound->program->schedule;
    for (int i = 0; i < schedule->instruction_count; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        if (call_is_collective(instruction)) {
            int extent = op_collective_from(instruction)->extent;
            bound->shared[schedule->extents[extent].space] = true;
        }
    }
}

/* Marks the ranges of resident extents as unused on all ranks but rank 0, so that these ranks need
 * no pages for them. */
static void exclude_resident_extents(struct bound_program *bound, struct region *region) {
    const struct schedule *schedule = &bound->program->schedule;
    const struct plan *plan = &bound->program->plan;
    size_t most = (size_t)schedule->options.resident_count;
    for (int space = 0; space < SPACE_COUNT && bound->ranks.index[AXIS_WORLD] > 0; space++) {
        struct unused_range *unused = region_alloc(region, most, sizeof *unused);
        int count = 0;
        for (size_t i = 0; i < most; i++) {
            int kept = schedule->resident[i];
            if (kept != EXTENT_NONE && schedule->extents[kept].space == (enum space)space) {
                unused[count++] =
                    (struct unused_range){plan->offsets[kept], plan_extent_end(plan, kept)};
            }
        }
        if (count > 0) {
            port_set_unused_ranges(&bound->port, (enum space)space, unused, count);
        }
    }
}

static enum status reserve_arenas(struct bound_program *bound, struct fault *fault) {
    find_shared_spaces(bound);
    for (int i = 0; i < SPACE_COUNT; i++) {
        enum space space = (enum space)i;
        uint64_t bytes = bound->program->plan.peak_bytes[space];
        if (bytes == 0) {
            continue;
        }
        void *address;
        TRY(bound->shared[space] ? port_reserve_shared(&bound->port, space, bytes, &address,
                                                       &bound->fd[space], fault)
                                 : port_reserve(&bound->port, space, bytes, &address, fault));
        bound->base[space] = address;
    }
    return OK;
}

static enum status start_threads(struct bound_program *bound, struct region *region,
                                 struct fault *fault) {
    struct lanes_args args = {.work = execute_lane,
                              .context = bound,
                              .event_count = bound->program->schedule.event_count};
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        for (int kind = 0; lane != LANE_COMPUTE && kind < SEGMENT_COUNT; kind++) {
            args.mask |= bound->lists[kind][lane].count > 0 ? 1u << lane : 0;
        }
    }
    TRY(pool_init(&bound->pool, bound->program->schedule.target->threads, fault));
    enum status status = lanes_init(&bound->lanes, &args, region, fault);
    if (status != OK) {
        pool_finish(&bound->pool);
    }
    return status;
}

/* Binds the program to the GPU, if the target has one. In a build without CUDA, port_init has
 * rejected a GPU target before. */
static enum status bind_device(struct bound_program *bound, struct region *region,
                               struct fault *fault) {
#if SKEP_CUDA
    if (bound->program->schedule.target->kind == TARGET_CUDA) {
        return cuda_program_bind(bound, region, fault);
    }
#endif
    (void)bound;
    (void)region;
    (void)fault;
    return OK;
}

static struct rank_indices single_rank_indices(void) {
    struct rank_indices ranks;
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        ranks.index[axis] = 0;
        ranks.size[axis] = 1;
    }
    return ranks;
}

/* Rejects a GPU without separate memory: it needs arenas that both GPU and CPU can access, and no
 * port reserves such memory. */
static enum status reject_unified_memory(const struct target *target, struct fault *fault) {
    if (target->kind != TARGET_CUDA || !target->unified) {
        return OK;
    }
    char subject[NAME_BYTES];
    struct text name = text_over(subject, sizeof subject);
    text_add(&name, "target %s", target->name);
    return fault_set(fault, STATUS_INPUT, subject, "set target to cpu",
                     "the GPU shares its memory with the CPU; skep can plan for such a machine, "
                     "but not train on it");
}

enum status program_bind(const struct program *program, const struct rank_indices *ranks,
                         struct region *region, struct bound_program *bound, struct fault *fault) {
    memset(bound, 0, sizeof *bound);
    bound->program = program;
    bound->ranks = ranks != NULL ? *ranks : single_rank_indices();
    enum status status = reject_unified_memory(program->schedule.target, fault);
    if (status == OK) {
        status = port_init(&bound->port, program->schedule.target, fault);
    }
    if (status != OK) {
        memset(bound, 0, sizeof *bound);
        return status;
    }
    exclude_resident_extents(bound, region);
    status = reserve_arenas(bound, fault);
    if (status == OK) {
        list_lane_instructions(bound, region);
        status = start_threads(bound, region, fault);
    }
    if (status != OK) {
        port_finish(&bound->port);
        memset(bound, 0, sizeof *bound);
        return status;
    }
    kernel_table_init(&bound->kernels, cpu_level_detect());
    bound->compute = (struct compute){.table = &bound->kernels, .pool = &bound->pool};
    resolve_operands(bound, region);
    resolve_collective_calls(bound, region);
    status = bind_device(bound, region, fault);
    if (status != OK) {
        program_release(bound);
        memset(bound, 0, sizeof *bound);
    }
    return status;
}

enum status program_connect(struct bound_program *bound, struct communicator *communicator,
                            struct fault *fault) {
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        ASSERT(communicator->groups[axis].size == bound->ranks.size[axis]);
        ASSERT(communicator->groups[axis].index == bound->ranks.index[axis]);
    }
    for (int space = 0; space < SPACE_COUNT; space++) {
        uint64_t bytes = bound->shared[space] ? bound->program->plan.peak_bytes[space] : 0;
        ASSERT(communicator->space_bytes[space] >= bytes);
    }
    bound->communicator = communicator;
    return program_needs_rehearsal(bound) ? bound->device->methods->connect(bound->device, fault)
                                          : OK;
}

bool program_needs_rehearsal(const struct bound_program *bound) {
    return bound->device != NULL && bound->calls != NULL;
}

enum status program_rehearse(struct bound_program *bound, struct fault *fault) {
    return program_needs_rehearsal(bound) ? bound->device->methods->rehearse(bound->device, fault)
                                          : OK;
}

void program_disconnect(struct bound_program *bound) {
    if (program_needs_rehearsal(bound)) {
        bound->device->methods->disconnect(bound->device);
    }
    bound->communicator = NULL;
}

void program_forbid_allocation(const struct bound_program *bound) {
    ASSERT(bound->addresses != NULL);
    ASSERT(bound->calls == NULL || bound->communicator != NULL);
    process_seal();
}

void program_release(struct bound_program *bound) {
    if (bound->device != NULL) {
        bound->device->methods->release(bound->device);
    }
    lanes_finish(&bound->lanes);
    pool_finish(&bound->pool);
    port_finish(&bound->port);
}
