/* program: the immutable list of instructions with its plan, and its life on a machine:
 * compile (on any laptop), bind, seal, run. */
#ifndef SKEP_PROGRAM_PROGRAM_H
#define SKEP_PROGRAM_PROGRAM_H

#include "arena/plan.h"
#include "base/hash.h"
#include "kernels/table.h"
#include "runtime/schedule/schedule.h"
#include "targets/port.h"
#include "targets/target.h"

struct program {
    const struct blueprint *blueprint;
    const struct target *target;
    struct unit_table units;
    struct schedule schedule;
    struct plan plan;
    struct hash hash; /* names the plan: same hash, same layout and same instructions */
};

/* program_compile: units, graphs, rewrites, instructions, extents, offsets; then proves the plan
 * (no overlap, order over the lanes). Whether it fits is program_fits' question.
 * options  `unified`, `align` and `threads` come from `target` and are overwritten
 * memory   everything in `region`, which must outlive the program
 * errors   STATUS_FAILED when a proof fails: a bug of ours, but never run */
MUST_CHECK enum status program_compile(const struct blueprint *blueprint,
                                       const struct target *target,
                                       const struct schedule_options *options,
                                       struct region *region, struct program *program,
                                       struct fault *fault);

/* program_fits: every space's peak within the room that the target's profile leaves.
 * errors  STATUS_FIT naming target, space, need and have */
MUST_CHECK enum status program_fits(const struct program *program, struct fault *fault);

enum { CALL_OPERANDS = OPERANDS_MAX + 1 };

/* A program on a machine. Addresses never change after bind. */
struct bound_program {
    const struct program *program;
    struct port port;
    char *base[SPACE_COUNT];           /* of each arena; NULL where the plan needs none */
    void *(*addresses)[CALL_OPERANDS]; /* per instruction: operands, then workspace */
    uint64_t high_water[SPACE_COUNT];  /* highest end that a run instruction was handed */
    struct kernel_table kernels;
    struct pool pool;
    struct compute compute;
};

/* program_bind: reserve the arenas, resolve every address, choose kernels, start the pool.
 * memory  address table in `region`
 * errors  STATUS_FIT when the machine has less free than the plan needs, naming who holds it;
 *         STATUS_FAILED when a thread cannot be started */
MUST_CHECK enum status program_bind(const struct program *program, struct region *region,
                                    struct bound_program *bound, struct fault *fault);

/* program_seal: from here on nothing of ours allocates. */
void program_seal(const struct bound_program *bound);

/* program_run: the instructions of one segment, in order. */
void program_run(struct bound_program *bound, enum segment_kind segment);

/* program_run_one: a single instruction; for tests that look between them. */
void program_run_one(struct bound_program *bound, uint32_t index);

/* program_extent: the address of an extent. */
void *program_extent(const struct bound_program *bound, int extent);

/* program_param: where parameter `index` lies in the given extents' flavour: the compute copy, the
 * master, the gradient or a moment. */
void *program_param(const struct bound_program *bound, int index, enum param_view view);

enum dtype program_view_dtype(const struct bound_program *bound, enum param_view view);

struct step_scalars *program_scalars(const struct bound_program *bound);

/* program_release: stop the pool, give the arenas back. */
void program_release(struct bound_program *bound);

#endif
