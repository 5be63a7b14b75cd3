/* program: compiles a model and its settings to a program, a constant list of instructions with a
 * plan of all memory, and executes it. A program can be compiled on any machine. Binding reserves
 * the arenas, resolves all addresses and starts threads; after the seal nothing is allocated.
 * runtime/session calls this module. runtime/cli and runtime/inner_training use it through the
 * headers below.
 *
 * public   cuda_program.h cuda_ranks.h print.h trace.h trace_file.h */
#ifndef SKEP_PROGRAM_PROGRAM_H
#define SKEP_PROGRAM_PROGRAM_H

#include "arena/arena.h"
#include "base/device_memory.h"
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
    /* list of instructions; refers to the blueprint, units and target that it was built from */
    struct schedule schedule;
    struct plan plan; /* memory layout of the extents */
    struct hash hash; /* hash of the layout and the instructions, which identifies the plan */
};

/* program_compile: compute units, graphs, rewrites, instructions, extents and offsets, then prove
 * the plan (no overlap, correct order across lanes). program_check_fit checks whether the plan fits
 * the target.
 * memory   everything in `region`, which must outlive the program, as must `blueprint` and `target`
 * errors   STATUS_FAILED when a proof fails, which is a bug in this program */
MUST_CHECK enum status program_compile(const struct blueprint *blueprint,
                                       const struct target *target,
                                       const struct schedule_options *options,
                                       struct region *region, struct program *program,
                                       struct fault *fault);

/* program_check_fit: check that the peak of every space is within the memory that the target has
 * available.
 * errors  STATUS_FIT with target, space, required and available bytes */
MUST_CHECK enum status program_check_fit(const struct program *program, struct fault *fault);

/* number of operands of a kernel call: those of the op, and the workspace */
enum { CALL_OPERANDS = OPERANDS_MAX + 1 };

/* The position of one rank in its site: its index along each axis, and the size of each axis. */
struct rank_indices {
    int index[AXIS_COUNT], size[AXIS_COUNT]; /* [axis] this rank's index, and number of ranks */
};

/* The instructions of one lane in one segment: order[first] to order[first + count - 1]. */
struct lane_list {
    uint32_t first, count; /* first index in `order`, and number of instructions */
};

/* A hook is called before each instruction, on the thread of its lane. Tests use it to delay
 * lanes. */
typedef void program_hook(void *context, uint32_t index);

/* A program bound to this machine. Addresses never change after bind. */
struct bound_program {
    const struct program *program;
    struct rank_indices ranks; /* position of this rank in its site */
    /* communicator for the collectives; NULL before program_connect */
    struct communicator *communicator;
    struct port port;         /* memory port that reserves the arenas */
    char *base[SPACE_COUNT];  /* address of each arena; NULL: the plan uses no bytes of the space */
    bool shared[SPACE_COUNT]; /* collectives access the arena: other ranks map it by fd[] */
    int fd[SPACE_COUNT];      /* file descriptor of a shared arena */
    union kernel_args *args;  /* [instruction]: kernel arguments for this rank */
    /* [instruction]: addresses of the operands, then of the workspace */
    void *(*addresses)[CALL_OPERANDS];
    /* [instruction_count]: calls of the collectives, unused for other ops; NULL: no collectives */
    struct collective_call *calls;
    uint32_t *order; /* instruction indices, sorted by segment, lane and listed order */
    struct lane_list lists[SEGMENT_COUNT][LANE_COUNT]; /* ranges of `order` */
    struct lanes lanes;                                /* threads and events of the lanes */
    struct device *device;     /* GPU that executes the segments; NULL: the CPU executes them */
    enum segment_kind segment; /* the segment being executed */
    /* [space]: highest end of any operand executed so far, as an offset */
    uint64_t high_water[SPACE_COUNT];
    /* [lane][space]: highest end of any operand that the lane has executed so far, as an offset */
    uint64_t lane_high_water[LANE_COUNT][SPACE_COUNT];
    /* records the execution times; NULL: none; changed only between segments */
    struct trace *trace;
    program_hook *hook;          /* called before each instruction; NULL: none */
    void *hook_context;          /* first argument of `hook` */
    struct kernel_table kernels; /* CPU kernels for this machine's instruction set */
    struct pool pool;            /* CPU threads that execute kernels */
    struct compute compute;      /* kernels and threads that CPU ops use */
};

/* program_bind: reserve the arenas, resolve every address for this rank, choose kernels, start the
 * pool and a thread for each lane that has instructions. An arena that collectives access is memory
 * that other ranks can map (port_reserve_shared). ranks   NULL for a single rank
 * memory  tables in `region`; *bound must not move until program_release
 * errors  STATUS_FIT when the machine has less free memory than the plan needs, naming the largest
 *         processes; STATUS_INPUT for a GPU that shares memory with the CPU; STATUS_FAILED when a
 *         thread cannot be started. *bound is then zero */
MUST_CHECK enum status program_bind(const struct program *program, const struct rank_indices *ranks,
                                    struct region *region, struct bound_program *bound,
                                    struct fault *fault);

/* program_connect: set the communicator for the collectives. The communicator has the groups of
 * enum rank_axis, in that order, and has registered every space with shared[space]: plan.peak_bytes
 * from base[space] (fd[space] for other processes). The caller owns the communicator and keeps it
 * open until the last execution. A program without collectives needs no communicator. On a device,
 * cuda_ranks_open creates the communicator, and program_connect captures the segments.
 * errors   failures of the device; none if the CPU executes the program */
MUST_CHECK enum status program_connect(struct bound_program *bound,
                                       struct communicator *communicator, struct fault *fault);

/* program_needs_rehearsal: whether the program has collectives on a device, so that it may execute
 * only after program_connect and program_rehearse. */
bool program_needs_rehearsal(const struct bound_program *bound);

/* program_rehearse: execute every segment once on zeroed arenas, on all ranks together after all
 * have connected, then zero the arenas again. Does nothing unless program_needs_rehearsal.
 * errors  as program_failure */
MUST_CHECK enum status program_rehearse(struct bound_program *bound, struct fault *fault);

/* program_disconnect: stop using the communicator, so that it can be closed. Nothing can execute
 * afterwards. */
void program_disconnect(struct bound_program *bound);

/* program_forbid_allocation: forbid further allocation of memory by this process. */
void program_forbid_allocation(const struct bound_program *bound);

/* program_execute_segment: execute one segment, each lane in order and lanes concurrently; return
 * when all are done. If the communicator was aborted, the lanes still finish, but their results are
 * undefined. */
void program_execute_segment(struct bound_program *bound, enum segment_kind segment);

/* program_failure: the first failure of the device since the program was bound; OK if the CPU
 * executes the program. After a failure nothing is executed, and the contents of the arenas are
 * undefined. */
MUST_CHECK enum status program_failure(const struct bound_program *bound, struct fault *fault);

/* program_execute_instruction: execute one instruction on the caller's thread, without its waits.
 * For tests and measurements. */
void program_execute_instruction(struct bound_program *bound, uint32_t index);

/* program_cast_params: convert `count` elements in the device space, rounded once to nearest even,
 * between segments; return when it is done. */
struct program_cast {
    const void *from; /* values to convert */
    void *to;         /* converted values */
    int64_t count;    /* number of elements to convert */
    enum dtype from_dtype, to_dtype;
};
void program_cast_params(const struct bound_program *bound, const struct program_cast *cast);

/* program_device_memory: returns the functions through which the CPU reads and writes a space
 * between segments; NULL: the CPU can dereference addresses of the space. */
const struct device_memory *program_device_memory(const struct bound_program *bound,
                                                  enum space space);

/* program_extent_address: the address of an extent. The CPU may dereference it if
 * program_device_memory returns NULL for its space, as for all extents in schedule.host. */
void *program_extent_address(const struct bound_program *bound, int extent);

/* The part of a parameter that this rank stores permanently: elements [first, first + count),
 * row-major, at `address`. A shard is contiguous, so there is at most one part. */
struct param_part {
    int64_t first, count; /* count 0: nothing */
    enum dtype dtype;     /* type of the stored elements */
    void *address;        /* address of the first element; NULL if count is 0 */
    const struct device_memory
        *device_memory; /* access to the memory at `address`; NULL: the CPU can dereference it */
};
struct param_part program_param_part(const struct bound_program *bound, int index,
                                     enum param_view view);

struct step_scalars *program_scalars(const struct bound_program *bound);

/* program_release: stop the lanes and the pool, and release the arenas. The communicator, which
 * uses the arenas, must have been closed before. */
void program_release(struct bound_program *bound);

#endif
