/* schedule: everything that a program does as one explicit list of instructions, with the extents
 * that they work in. The room builds the list from a blueprint, its units and a target, adds the
 * waits between lanes, finds the life of every extent and proves the order. A schedule is constant
 * once it is built and belongs to its caller. The planner places its extents; runtime/program
 * executes it without deciding anything.
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

/* The straight-line parts of a program. The training loop repeats and orders them. At the beginning
 * and the end of a segment, all lanes are joined. */
enum segment_kind {
    SEGMENT_LOAD,       /* once: the CPU writes weights and constants */
    SEGMENT_BEGIN,      /* per step: zero the gradients */
    SEGMENT_MICROBATCH, /* per microbatch: forward and backward */
    SEGMENT_FINISH,     /* per step: norm, clip, optimizer */
    SEGMENT_EVALUATE,   /* per batch of held-out text: forward to the loss */
    SEGMENT_PREFILL,    /* per part of a prompt */
    SEGMENT_DECODE,     /* per generated token */
    SEGMENT_SNAPSHOT,   /* the CPU reads the state and writes it to files */
    SEGMENT_COUNT
};

const char *segment_name(enum segment_kind kind);

struct segment {
    uint32_t first, end; /* instructions [first, end); equal when the program lacks the segment */
    int64_t repeat;      /* how often a step runs it (accumulation); 1 elsewhere */
};

enum lane { LANE_COMPUTE, LANE_COLLECTIVE, LANE_COPY, LANE_COUNT };
_Static_assert((int)LANE_COUNT <= (int)LANES_MAX, "vector clocks have room for every lane");

/* What is in host memory between its uses: bits of schedule_options.offload. On a target with
 * unified memory, these bytes are in SPACE_HOST and are still copied. */
enum offload {
    /* Activations from the forward to the backward pass, in SPACE_PINNED (offload_apply). */
    OFFLOAD_ACTIVATIONS = 1,
    /* Masters and moments, in SPACE_HOST. AdamW executes there, on gradients that are copied out,
     * and the params that it rounds are copied in. Both copies go through SPACE_PINNED. */
    OFFLOAD_OPTIMIZER = 2,
    /* This rank's shards of split params, in SPACE_PINNED, where the optimizer writes them. Each
     * gather begins with a copy. Only with OFFLOAD_OPTIMIZER; whole params stay on the device. */
    OFFLOAD_PARAMS = 4
};

/* A buffer that is in an arena throughout and that no instruction touches: what a swarm member
 * stores beside the program. In a site of several ranks, only rank 0 uses it. The arenas of the
 * other ranks have the same layout, but these pages are never touched. */
struct resident_extent {
    const char *name;
    enum extent_role role; /* ROLE_OUTER or ROLE_EXCHANGE */
    enum space space;      /* SPACE_DEVICE on a target with unified memory */
    uint64_t bytes;        /* 0: absent */
};

struct schedule_options {
    int64_t sequence;     /* tokens in a row */
    int64_t microbatch;   /* rows at a time */
    int64_t accumulation; /* microbatches in a step */
    int64_t context;      /* capacity of the key-value cache; 0: no generation */
    int64_t prefill;      /* tokens of a prompt at a time */
    bool train;           /* false: neither gradients nor optimizer */
    bool evaluate;
    bool logits; /* evaluation stores the logits of every token: for comparing implementations */
    enum dtype compute, moments;
    enum rounding rounding;          /* of bf16 moments */
    const enum recompute *recompute; /* [layers] */
    unsigned offload;                /* enum offload; of programs that train */
    float clip_norm, beta1, beta2, epsilon, weight_decay;
    uint64_t staging_bytes;         /* in host memory: parts of files that are read or written */
    struct sharding sharding;       /* over the ranks of a site; all zero: one rank */
    const struct unit_table *units; /* for the world of `sharding`; NULL: by block */
    const struct resident_extent *resident; /* [resident_count] */
    int resident_count;
};

/* Extents that the CPU writes or reads; EXTENT_NONE where the program has none. */
struct host_extents {
    int ids, labels, positions, scalars; /* where the CPU writes them */
    int device_scalars;                  /* where kernels use them */
    int rope_table;
    int raw_tokens;  /* parts of a token file */
    int logits;      /* [rows * sequence, vocab] f32 of an evaluation, when options.logits */
    int next_logits; /* [vocab] f32: after the last token of a prefill or decode */
    int staging;
    /* Pinned: bytes on their way to and from a device whose memory the CPU cannot access;
     * EXTENT_NONE where it can. */
    int device_staging;
};

/* The extents of one unit; EXTENT_NONE where the program has none. An extent of a split view holds
 * this rank's shard, any other the whole unit. */
struct unit_extents {
    /* In the compute dtype. EXTENT_NONE when split, because every gather has its own extent;
     * with an offloaded optimizer, the shard that gathers read. */
    int params;
    /* What the optimizer updates, and gathers read when there are no params. Equal to params
     * where those are f32, whole and not offloaded. Split params of a program that does not
     * train are here, in the compute dtype. */
    int master;
    int gradients; /* summed over microbatches, f32 */
    int moment1, moment2;
    int local; /* a microbatch's whole gradients before they are reduced, f32 */
    int wire;  /* the same in the dtype of the transfer, when that is not f32 */
    /* Staging for an offloaded optimizer; host_params equals params when those are offloaded. */
    int host_gradients, host_params;
};

/* The views of a unit's values. */
enum param_view { VIEW_PARAMS, VIEW_MASTER, VIEW_GRADIENT, VIEW_MOMENT1, VIEW_MOMENT2 };

/* The location of a unit's elements in one view. This rank, with index i along AXIS_SHARD, holds
 * elements [i, i + 1) * shard_elements of the unit. Element e is e * dtype_bytes(dtype) after the
 * beginning of the extent, or (e - i * shard_elements) * dtype_bytes(dtype) when the extent is
 * split and holds this rank's elements only. */
struct unit_view {
    int extent;       /* EXTENT_NONE: the program does not have this view of the unit */
    enum space space; /* of the extent; SPACE_HOST when offloaded */
    enum dtype dtype;
    bool split;
    int64_t shard_elements; /* elements per shard; the whole unit when nothing is split */
};

struct schedule {
    const struct blueprint *blueprint;
    const struct unit_table *units;
    const struct target
        *target; /* what the program is compiled for: alignment, spaces, threads, kernels */
    struct schedule_options options; /* with one rank, shard and replicate are 1 */
    struct region *region;
    struct segment segments[SEGMENT_COUNT];
    struct instruction *instructions;
    int instruction_count, instruction_capacity;
    struct extent *extents;
    int extent_count, extent_capacity;
    const bool *frozen; /* [blueprint->param_count], from the units; NULL: all train */
    struct unit_extents *unit_extents; /* [units->unit_count] */
    int tallies;                       /* [world] struct rank_tally; EXTENT_NONE on one rank */
    /* Where shards of other GPUs arrive to be summed in order; EXTENT_NONE without such a sum. */
    int sum_staging;
    struct step_volumes volumes; /* the bytes that a rank receives in a step, by formula */
    struct host_extents host;
    int *resident; /* [options.resident_count]: their extents; EXTENT_NONE for one of no bytes */
    uint32_t event_count;
};

/* schedule_build: list the instructions of every segment, and every extent with its life.
 * memory  everything in `region`; `blueprint`, `units` and `target` must outlive the schedule
 * errors  none: options have been checked against the blueprint */
void schedule_build(const struct blueprint *blueprint, const struct unit_table *units,
                    const struct target *target, const struct schedule_options *options,
                    struct region *region, struct schedule *schedule);

/* schedule_unit_view: the location of unit `unit` in view `view`. Gradients are whole sums between
 * the last microbatch and finish; with REDUCE_AT_STEP they are then this rank's own part. */
struct unit_view schedule_unit_view(const struct schedule *schedule, int unit,
                                    enum param_view view);

/* schedule_device: the GPU that computes, or NULL when the CPU computes. */
const struct target *schedule_device(const struct schedule *schedule);

/* schedule_ranks: the number of ranks along `axis`. */
int schedule_ranks(const struct schedule *schedule, enum rank_axis axis);

/* schedule_wire_sum: how gradients that are transferred as `wire` are summed. Between GPUs, a ring
 * would round bf16 at every hop, so rings sum f32 only. */
enum wire_sum schedule_wire_sum(const struct schedule *schedule, enum dtype wire);

/* schedule_zero: which views of a unit are split; none when the shard group is one rank. */
struct zero_row schedule_zero(const struct schedule *schedule, int unit);

/* schedule_trains: whether the program computes gradients of the unit and updates it. */
bool schedule_trains(const struct schedule *schedule, int unit);

/* schedule_offloads: whether the program offloads `what` of the unit. */
bool schedule_offloads(const struct schedule *schedule, int unit, enum offload what);

/* schedule_reduces_microbatches: whether several ranks reduce the gradients of a microbatch before
 * they add them to those of the step. */
bool schedule_reduces_microbatches(const struct schedule *schedule);

/* schedule_splits_gradients: whether a rank sums only its own shard of the unit's gradients.
 * Gradients that are reduced at the end of the step are whole until then. */
bool schedule_splits_gradients(const struct schedule *schedule, int unit);

/* schedule_shard_elements: elements of a unit that each rank of the shard group holds. */
int64_t schedule_shard_elements(const struct schedule *schedule, int unit);

/* schedule_on_host: whether no operand is on the device. The CPU then executes the instruction, in
 * the order of its lane. Also true of instructions without operands. */
bool schedule_on_host(const struct schedule *schedule, const struct instruction *instruction);

/* schedule_verify: prove, with vector clocks and planned offsets, that two instructions of a
 * segment execute in the listed order whenever they touch the same bytes of a space on any rank and
 * one of them writes, and that every wait is for an event that is raised before it in the list.
 *   offsets  [schedule->extent_count] of the plan
 * errors  STATUS_FAILED naming both instructions and an extent of each, or the event */
MUST_CHECK enum status schedule_verify(const struct schedule *schedule, const uint64_t *offsets,
                                       struct region *region, struct fault *fault);

#endif
