/* schedule: describes everything that a program does as one explicit list of instructions, with the
 * extents that they use. This module builds the list from a blueprint, its units and a target, adds
 * the waits between lanes, finds the life of every extent and proves the order. A schedule is
 * constant once it is built and belongs to its caller. The planner assigns offsets to its extents.
 * runtime/program executes it as listed.
 *
 * public   estimate.h */
#ifndef SKEP_SCHEDULE_SCHEDULE_H
#define SKEP_SCHEDULE_SCHEDULE_H

#include "arena/extent.h"
#include "runtime/model/graph.h"
#include "runtime/ops/ops.h"
#include "runtime/shard/shard.h"
#include "runtime/shard/volumes.h"
#include "targets/targets.h"

/* The straight-line parts of a program. The training loop determines the order in which segments
 * execute, and how often. At the beginning and the end of a segment, all lanes are joined. */
enum segment_kind {
    SEGMENT_LOAD,       /* executed once: the CPU writes weights and constants */
    SEGMENT_BEGIN,      /* executed per step: zero the gradients */
    SEGMENT_MICROBATCH, /* executed per microbatch: forward and backward pass */
    SEGMENT_FINISH,     /* executed per step: norm, clip, optimizer */
    SEGMENT_EVALUATE,   /* executed per batch of held-out text: forward pass and loss */
    SEGMENT_PREFILL,    /* executed per part of a prompt */
    SEGMENT_DECODE,     /* executed per generated token */
    SEGMENT_SNAPSHOT,   /* executed per snapshot: the CPU writes the state to files */
    SEGMENT_COUNT
};

const char *segment_name(enum segment_kind kind);

struct segment {
    /* instructions [first, end); first == end when the program lacks the segment */
    uint32_t first, end;
    int64_t repeat; /* executions per step: accumulation for a microbatch, otherwise 1 */
};

enum lane { LANE_COMPUTE, LANE_COLLECTIVE, LANE_COPY, LANE_COUNT };
_Static_assert((int)LANE_COUNT <= (int)LANES_MAX, "LANES_MAX is smaller than LANE_COUNT");

/* The tensors that are stored in host memory between their uses: bits of schedule_options.offload.
 * On a target with unified memory, these tensors are in SPACE_HOST and are still copied. */
enum offload {
    /* Activations from the forward to the backward pass, in SPACE_PINNED (offload_apply). */
    OFFLOAD_ACTIVATIONS = 1,
    /* Masters and moments, in SPACE_HOST. AdamW executes on the CPU: gradients are copied to host
     * memory, and the rounded params are copied to the device. Both copies go through
     * SPACE_PINNED. */
    OFFLOAD_OPTIMIZER = 2,
    /* This rank's shards of split params, in SPACE_PINNED, where the optimizer writes them. Each
     * gather begins with a copy. Requires OFFLOAD_OPTIMIZER. Params that are not split remain on
     * the device. */
    OFFLOAD_PARAMS = 4
};

/* A buffer that is in an arena throughout and that no instruction accesses, such as the outer state
 * of a swarm member. In a site of several ranks, only rank 0 uses it. The arenas of the other ranks
 * have the same layout, but their pages are never accessed. */
struct resident_extent {
    const char *name;      /* name of the buffer in listings */
    enum extent_role role; /* ROLE_OUTER or ROLE_EXCHANGE */
    enum space space;      /* SPACE_DEVICE on a target with unified memory */
    uint64_t bytes;        /* size; 0: the member does not need the buffer */
};

struct schedule_options {
    int64_t sequence;     /* tokens per row */
    int64_t microbatch;   /* number of rows of one microbatch on one rank */
    int64_t accumulation; /* microbatches per step */
    /* capacity of the key-value cache in tokens; 0: the program does not generate text */
    int64_t context;
    int64_t prefill;             /* number of prompt tokens that one prefill processes */
    bool train;                  /* false: the program has neither gradients nor optimizer */
    bool evaluate;               /* whether the program has the evaluation segment */
    bool stores_logits;          /* evaluation stores the logits of each token, for comparisons */
    enum dtype compute, moments; /* types of kernel operands and of the optimizer's moments */
    enum rounding rounding;      /* rounding of bf16 moments */
    const enum recompute *recompute; /* [layers] */
    unsigned offload;                /* bits of enum offload; 0 in programs that do not train */
    float clip_norm, epsilon;
    uint64_t staging_bytes; /* size of the host buffer through which files are read and written */
    /* sharding over the ranks of a site; all fields are zero for one rank */
    struct sharding sharding;
    /* units, made for the world size of `sharding`; NULL: one unit per block */
    const struct unit_table *units;
    const struct resident_extent *resident; /* [resident_count] */
    int resident_count;
};

/* Extents that the CPU writes or reads; EXTENT_NONE where the program has none. */
struct cpu_extents {
    int ids, labels, positions, scalars; /* extents that the CPU writes */
    int device_scalars;                  /* extent from which kernels read the scalars */
    int rope_table;                      /* extent of the table of rotary embeddings */
    int raw_tokens;                      /* extent for raw data of a token file */
    /* [rows * sequence, vocab] f32: logits of an evaluation with options.stores_logits */
    int logits;
    int next_logits; /* [vocab] f32: logits that follow the last token of a prefill or decode */
    int staging;     /* extent of the host buffer through which files are read and written */
    /* Pinned staging for copies between CPU and a device whose memory the CPU cannot access;
     * EXTENT_NONE where it can. */
    int device_staging;
};

/* The extents of one unit; EXTENT_NONE where the program has none. The extent of a split view
 * contains this rank's shard; the extent of any other view contains the whole unit. */
struct unit_extents {
    /* Params in the compute dtype. When they are split: with an offloaded optimizer, this rank's
     * shard, from which all-gathers read; else EXTENT_NONE, because every all-gather has its own
     * extent. */
    int params;
    /* Masters, which the optimizer updates. All-gathers read from them when `params` is
     * EXTENT_NONE. Equal to `params` where the params are f32, whole and not offloaded. In a
     * program that does not train, split params are stored here in the compute dtype. */
    int master;
    int gradients;        /* f32 gradients, summed over microbatches */
    int moment1, moment2; /* the optimizer's first and second moments */
    /* f32 gradients of one microbatch for the whole unit, before the reduction */
    int microbatch_gradients;
    int transfer_gradients; /* microbatch gradients in the transfer dtype, if that is not f32 */
    /* Staging in host memory for the gradients and params of an offloaded optimizer. host_params is
     * equal to params when params are offloaded. */
    int host_gradients, host_params;
};

/* The arrays that a program stores for a unit. */
enum param_view { VIEW_PARAMS, VIEW_MASTER, VIEW_GRADIENT, VIEW_MOMENT1, VIEW_MOMENT2 };

/* The location of a unit's elements in one view. This rank, with index i along AXIS_SHARD, holds
 * elements [i, i + 1) * shard_elements of the unit. Element e is e * dtype_bytes(dtype) after the
 * beginning of the extent, or (e - i * shard_elements) * dtype_bytes(dtype) when the extent is
 * split and contains only this rank's elements. */
struct unit_view {
    int extent;             /* EXTENT_NONE: the program does not have this view of the unit */
    enum space space;       /* space of the extent; SPACE_HOST when offloaded */
    enum dtype dtype;       /* type of the elements */
    bool split;             /* the extent contains only this rank's shard */
    int64_t shard_elements; /* elements per shard, or of the whole unit if not split */
};

struct schedule {
    const struct blueprint *blueprint;
    const struct unit_table *units;
    const struct target
        /* target of compilation, which determines alignment, spaces, threads and kernels */
        *target;
    /* the caller's options; for one rank, shard and replicate are 1 */
    struct schedule_options options;
    struct region *region; /* region that contains the arrays of the schedule */
    struct segment segments[SEGMENT_COUNT];
    struct instruction *instructions;
    int instruction_count, instruction_capacity; /* used and allocated length of `instructions` */
    struct extent *extents;
    int extent_count, extent_capacity; /* used and allocated length of `extents` */
    const bool *frozen; /* [blueprint->param_count]: whether a param is frozen; NULL: all train */
    struct unit_extents *unit_extents; /* [units->unit_count] */
    int tallies; /* extent of struct rank_tally [world]; EXTENT_NONE on one rank */
    /* Extent that receives the shards of other GPUs, which are summed in rank order; EXTENT_NONE
     * without such a sum. */
    int sum_staging;
    struct step_volumes volumes; /* bytes that a rank receives in one step, computed by formula */
    struct cpu_extents host;     /* extents that the CPU accesses */
    /* [options.resident_count]: extents of the resident buffers; EXTENT_NONE if the size is 0 */
    int *resident;
    uint32_t event_count; /* number of events that instructions signal */
};

/* schedule_build: list the instructions of every segment, and every extent with its life.
 * memory  all allocations are in `region`; `blueprint`, `units` and `target` must outlive the
 *         schedule
 * errors  none: options have been checked against the blueprint */
void schedule_build(const struct blueprint *blueprint, const struct unit_table *units,
                    const struct target *target, const struct schedule_options *options,
                    struct region *region, struct schedule *schedule);

/* schedule_unit_view: the location of unit `unit` in view `view`. Gradients are whole sums between
 * the last microbatch and finish; with REDUCE_AT_STEP they are the sums of this rank only. */
struct unit_view schedule_unit_view(const struct schedule *schedule, int unit,
                                    enum param_view view);

/* schedule_device: returns the GPU that computes, or NULL when the CPU computes. */
const struct target *schedule_device(const struct schedule *schedule);

/* schedule_rank_count: returns the number of ranks along `axis`. */
int schedule_rank_count(const struct schedule *schedule, enum rank_axis axis);

/* schedule_wire_sum: returns how gradients that are transferred in dtype `wire` are summed. Between
 * GPUs, a ring would round bf16 at every hop, so rings sum f32 only. */
enum wire_sum schedule_wire_sum(const struct schedule *schedule, enum dtype wire);

/* schedule_zero_stage_row: returns which views of a unit are split. None is split when the shard
 * group is one rank. */
struct zero_stage_row schedule_zero_stage_row(const struct schedule *schedule, int unit);

/* schedule_trains_unit: whether the program computes gradients of the unit and updates it. */
bool schedule_trains_unit(const struct schedule *schedule, int unit);

/* schedule_offloads_unit: whether the program offloads the tensors of one kind of the unit. */
bool schedule_offloads_unit(const struct schedule *schedule, int unit, enum offload kind);

/* schedule_reduces_microbatches: whether several ranks reduce the gradients of a microbatch before
 * they add them to the gradients of the step. */
bool schedule_reduces_microbatches(const struct schedule *schedule);

/* schedule_splits_gradients: whether a rank sums only its own shard of the unit's gradients.
 * Gradients that are reduced at the end of the step are whole until then. */
bool schedule_splits_gradients(const struct schedule *schedule, int unit);

/* schedule_shard_elements: returns the number of elements of a unit that each rank of the shard
 * group stores. */
int64_t schedule_shard_elements(const struct schedule *schedule, int unit);

/* schedule_executes_on_cpu: whether the CPU executes the instruction, in the order of its lane,
 * because no operand is on the device. Also true for instructions without operands. */
bool schedule_executes_on_cpu(const struct schedule *schedule,
                              const struct instruction *instruction);

/* schedule_verify: prove, with vector clocks and planned offsets, that two instructions of a
 * segment execute in the listed order whenever they touch the same bytes of a space on any rank and
 * one of them writes, and that every wait is for an event that is signalled before it in the list.
 *   offsets  [schedule->extent_count]: the offsets of the plan
 * errors  STATUS_FAILED naming both instructions and an extent of each, or the event */
MUST_CHECK enum status schedule_verify(const struct schedule *schedule, const uint64_t *offsets,
                                       struct region *region, struct fault *fault);

#endif
