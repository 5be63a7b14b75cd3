#include "tests/support/pattern_scan.h"

#include <string.h>

static unsigned char *arena(const struct bound_program *bound, int space) {
    return (unsigned char *)bound->base[space];
}

static uint64_t arena_bytes(const struct bound_program *bound, int space) {
    return bound->program->plan.peak_bytes[space];
}

void pattern_scan_init(struct pattern_scan *scan, const struct bound_program *bound,
                       scanned_run *run, struct region *region) {
    *scan = (struct pattern_scan){.bound = bound, .run = run};
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (arena_bytes(bound, space) > 0) {
            scan->before[space] = region_alloc(region, arena_bytes(bound, space), 1);
        }
    }
}

static bool alive(const struct extent *extent, uint32_t step) {
    return extent->first <= step && step < extent->last;
}

/* Read as fp32 or bf16 the pattern is a large number, so that whoever computes with dead bytes
 * spoils the result; it differs from step to step, so that no copy of it passes for it. */
static unsigned char pattern_at(uint32_t step) {
    return (unsigned char)(0x60 | (step & 0x0f));
}

/* The arena's bytes are first taken as all dead; then the living ones are put back. */
static void fill_dead_bytes(struct pattern_scan *scan, uint32_t step) {
    const struct bound_program *bound = scan->bound;
    const struct schedule *schedule = &bound->program->schedule;
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (scan->before[space] != NULL) {
            memset(scan->before[space], pattern_at(step), arena_bytes(bound, space));
        }
    }
    for (int i = 0; i < schedule->extent_count; i++) {
        const struct extent *extent = &schedule->extents[i];
        if (alive(extent, step)) {
            uint64_t offset = bound->program->plan.offsets[i];
            memcpy(scan->before[extent->space] + offset, arena(bound, extent->space) + offset,
                   extent->bytes);
        }
    }
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (scan->before[space] != NULL) {
            memcpy(arena(bound, space), scan->before[space], arena_bytes(bound, space));
        }
    }
}

/* What the instruction may write counts as unchanged. */
static void accept_operand(struct pattern_scan *scan, const struct operand *operand) {
    if (operand->extent == EXTENT_NONE || (operand->access & ACCESS_WRITE) == 0) {
        return;
    }
    const struct extent *extent = &scan->bound->program->schedule.extents[operand->extent];
    uint64_t offset = scan->bound->program->plan.offsets[operand->extent] + operand->offset;
    memcpy(scan->before[extent->space] + offset, arena(scan->bound, extent->space) + offset,
           operand->bytes);
}

static const char *owner_of(const struct pattern_scan *scan, uint32_t step, int space,
                            uint64_t offset) {
    const struct plan *plan = &scan->bound->program->plan;
    for (int i = 0; i < plan->problem.extent_count; i++) {
        const struct extent *extent = &plan->problem.extents[i];
        if ((int)extent->space == space && alive(extent, step) && plan->offsets[i] <= offset &&
            offset < plan_extent_end(plan, i)) {
            return extent->name;
        }
    }
    return NULL;
}

static void compare(struct pattern_scan *scan, uint32_t step) {
    for (int space = 0; space < SPACE_COUNT && !scan->stray.found; space++) {
        const unsigned char *now = arena(scan->bound, space);
        uint64_t bytes = arena_bytes(scan->bound, space);
        if (bytes == 0 || memcmp(now, scan->before[space], bytes) == 0) {
            continue;
        }
        uint64_t offset = 0;
        while (now[offset] == scan->before[space][offset]) {
            offset++;
        }
        scan->stray = (struct stray_write){.found = true,
                                           .instruction = step,
                                           .space = (enum space)space,
                                           .offset = offset,
                                           .extent = owner_of(scan, step, space, offset)};
    }
}

void pattern_scan_step(void *context, struct bound_program *bound, uint32_t index) {
    struct pattern_scan *scan = context;
    if (scan->stray.found) {
        scan->run(bound, index);
        return;
    }
    const struct instruction *instruction = &bound->program->schedule.instructions[index];
    fill_dead_bytes(scan, index);
    scan->run(bound, index);
    for (int k = 0; k < OPERANDS_MAX; k++) {
        accept_operand(scan, &instruction->operands[k]);
    }
    accept_operand(scan, &instruction->workspace);
    compare(scan, index);
}
