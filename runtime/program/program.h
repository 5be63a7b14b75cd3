/* program: the immutable list of instructions with its plan, and its life on a machine:
 * compile (on any laptop), bind, seal, run. */
#ifndef SKEP_PROGRAM_PROGRAM_H
#define SKEP_PROGRAM_PROGRAM_H

#include "arena/plan.h"
#include "base/far.h"
#include "base/hash.h"
#include "kernels/cpu/cpu.h"
#include "runtime/program/device.h"
#include "runtime/program/lanes.h"
#include "runtime/program/trace.h"
#include "runtime/schedule/schedule.h"
#include "targets/ports/ports.h"
#include "targets/targets.h"
#include "transport/collectives/collectives.h"

struct program {
    struct schedule
        schedule; /* with the blueprint, the units and the target that it is made from */
    struct plan plan;
    struct hash hash; /* names the plan: same hash, same layout and same instructions */
};

/* program_compile: units, graphs, rewrites, instructions, extents, offsets; then proves the plan
 * (no overlap, order over the lanes). Whether it fits is program_fits' question.
 * memory   everything in `region`, which must outlive the program, as must `blueprint` and `target`
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

/* Which rank of a site a program is bound for: its index along each axis, and the axis's size. */
struct rank_indices {
    int of[AXIS_COUNT], size[AXIS_COUNT];
};

/* The instructions of one lane in one segment: order[first] to order[first + count - 1]. */
struct lane_list {
    uint32_t first, count;
};

/* Called before an instruction runs, on its lane's thread: for tests that disturb the lanes. */
typedef void program_hook(void *context, uint32_t index);

/* A program on a machine. Addresses never change after bind. */
struct bound_program {
    const struct program *program;
    struct rank_indices ranks;
    struct communicator *communicator; /* NULL until program_connect */
    struct port port;
    char *base[SPACE_COUNT];           /* of each arena; NULL where the plan needs none */
    bool shared[SPACE_COUNT];          /* collectives touch it: peers map it by fd[] */
    int fd[SPACE_COUNT];               /* of a shared arena */
    union kernel_args *args;           /* per instruction, as this rank runs it */
    void *(*addresses)[CALL_OPERANDS]; /* per instruction: operands, then workspace */
    struct collective_call *calls;     /* per instruction, of collectives; NULL without any */
    uint32_t *order;                   /* instructions by segment, lane, then as listed */
    struct lane_list lists[SEGMENT_COUNT][LANE_COUNT];
    struct lanes lanes;
    struct device *device; /* runs the segments where memory is not the host's; NULL: the host */
    enum segment_kind segment;        /* under way */
    uint64_t high_water[SPACE_COUNT]; /* highest end that a run instruction was handed */
    uint64_t lane_high_water[LANE_COUNT][SPACE_COUNT];
    struct trace *trace; /* NULL: nothing is recorded; to be set between runs */
    program_hook *hook;  /* NULL: none */
    void *hook_context;
    struct kernel_table kernels;
    struct pool pool;
    struct compute compute;
};

/* program_bind: reserve the arenas, resolve every address for this rank, choose kernels, start the
 * pool and a thread for each lane that has instructions. An arena that collectives touch is memory
 * that peers can map (port_reserve_shared).
 * ranks   NULL: alone
 * memory  tables in `region`; *bound must stay where it is until program_release
 * errors  STATUS_FIT when the machine has less free than the plan needs, naming who holds it;
 *         STATUS_INPUT for a GPU that computes in the host's memory; STATUS_FAILED when a thread
 *         cannot be started; *bound is then zeros */
MUST_CHECK enum status program_bind(const struct program *program, const struct rank_indices *ranks,
                                    struct region *region, struct bound_program *bound,
                                    struct fault *fault);

/* program_connect: the ranks that the collectives run between. The communicator has the groups of
 * enum rank_axis, in that order, and knows every space with shared[space]: plan.peak_bytes from
 * base[space] (fd[space] for other processes). It stays the caller's, and outlives the last run.
 * Not needed by a program without collectives. On a device, whose segments are captured now, it is
 * that of cuda_ranks_open.
 * errors  what the device refuses; never where the host runs the program */
MUST_CHECK enum status program_connect(struct bound_program *bound,
                                       struct communicator *communicator, struct fault *fault);

/* program_waits: bound, but not to run before program_connect and program_rehearse: a program with
 * collectives on a device. */
bool program_waits(const struct bound_program *bound);

/* program_rehearse: every segment once, by all ranks at a time, on arenas that are all zeros and
 * are so again afterwards; after all of them have connected. Nothing to do for a program that does
 * not wait.
 * errors  as program_failure */
MUST_CHECK enum status program_rehearse(struct bound_program *bound, struct fault *fault);

/* program_disconnect: nothing holds the communicator any more, and nothing runs; before it is
 * closed. */
void program_disconnect(struct bound_program *bound);

/* program_seal: from here on nothing of ours allocates. */
void program_seal(const struct bound_program *bound);

/* program_run: the instructions of one segment, each lane's in order, lanes side by side; comes
 * back when all are done. With a communicator that was aborted the lanes run through, and what they
 * leave is undefined. */
void program_run(struct bound_program *bound, enum segment_kind segment);

/* program_failure: what went wrong on the device since the program was bound; OK where the host
 * runs it. After a failure nothing runs any more, and what the arenas hold is undefined. */
MUST_CHECK enum status program_failure(const struct bound_program *bound, struct fault *fault);

/* program_run_one: a single instruction, on the caller's thread, without its waits; for tests and
 * measurements that look between them. */
void program_run_one(struct bound_program *bound, uint32_t index);

/* program_cast: `count` elements of the device space, rounded once to nearest even, between
 * segments; comes back when it is done. */
struct program_cast {
    const void *from;
    void *to;
    int64_t count;
    enum dtype from_dtype, to_dtype;
};
void program_cast(const struct bound_program *bound, const struct program_cast *cast);

/* program_device_memory: how the host reaches a space between segments; NULL: by its addresses. */
const struct device_memory *program_device_memory(const struct bound_program *bound,
                                                  enum space space);

/* program_extent: the address of an extent, to be followed where program_device_memory is NULL for
 * its space, as it is for all that schedule.host names. */
void *program_extent(const struct bound_program *bound, int extent);

/* What this rank persistently holds of a parameter: elements [first, first + count), row-major, at
 * `address`. A shard is contiguous, so there is at most one part. */
struct param_part {
    int64_t first, count; /* count 0: nothing */
    enum dtype dtype;
    void *address;                   /* NULL when nothing */
    const struct device_memory *far; /* what `address` is in; NULL: memory that the host reaches */
};
struct param_part program_part(const struct bound_program *bound, int index, enum param_view view);

/* program_param: where parameter `index` lies, whole; a parameter that does not is a caller's bug.
 */
void *program_param(const struct bound_program *bound, int index, enum param_view view);

struct step_scalars *program_scalars(const struct bound_program *bound);

/* program_release: stop the lanes and the pool, give the arenas back. The communicator must have
 * been closed: it looks into the arenas. */
void program_release(struct bound_program *bound);

#endif
