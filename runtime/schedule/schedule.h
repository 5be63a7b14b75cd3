/* schedule: the one explicit list of instructions of everything a program does, with the extents it
 * works in. The executor walks it and decides nothing; the planner lays out what it names. */
#ifndef SKEP_SCHEDULE_SCHEDULE_H
#define SKEP_SCHEDULE_SCHEDULE_H

#include "arena/extent.h"
#include "runtime/model/offload.h"
#include "runtime/model/recompute.h"
#include "runtime/ops/ops.h"
#include "runtime/shard/strategy.h"
#include "runtime/shard/unit.h"
#include "runtime/shard/volumes.h"
#include "targets/targets.h"

/* Straight-line pieces; the loop repeats and orders them. Every segment begins and ends with all
 * lanes joined. */
enum segment_kind {
    SEGMENT_LOAD,       /* once: weights, constants */
    SEGMENT_BEGIN,      /* per step: zero the gradients */
    SEGMENT_MICROBATCH, /* per microbatch: forward and backward */
    SEGMENT_FINISH,     /* per step: norm, clip, optimizer */
    SEGMENT_EVALUATE,   /* per batch of held-out text: forward to the loss */
    SEGMENT_PREFILL,    /* per piece of a prompt */
    SEGMENT_DECODE,     /* per generated token */
    SEGMENT_SNAPSHOT,   /* the host writes the state out */
    SEGMENT_COUNT
};

const char *segment_name(enum segment_kind kind);

struct segment {
    uint32_t first, end; /* instructions [first, end); equal when the program lacks the segment */
    int64_t repeat;      /* how often a step runs it (accumulation); 1 elsewhere */
};

enum lane { LANE_COMPUTE, LANE_COLLECTIVE, LANE_COPY, LANE_COUNT };
_Static_assert((int)LANE_COUNT <= (int)LANES_MAX, "vector clocks have room for every lane");

/* What lies in host memory between its uses; bits of schedule_options.offload. Where the device's
 * memory is the host's own, such bytes are in SPACE_HOST and are copied all the same. */
enum offload {
    /* What the forward pass saves for the backward pass, in SPACE_PINNED (model/offload.h). */
    OFFLOAD_ACTIVATIONS = 1,
    /* Masters and moments, in SPACE_HOST; AdamW runs there, on gradients copied out, and the params
     * it rounds are copied in, both by way of SPACE_PINNED. */
    OFFLOAD_OPTIMIZER = 2,
    /* Own slots of split params, in SPACE_PINNED, where the optimizer leaves them; each gather
     * begins with a copy. Only with OFFLOAD_OPTIMIZER; whole params stay. */
    OFFLOAD_PARAMS = 4
};

/* A buffer that lies in the arenas all along, and that no instruction touches: what a swarm's
 * member keeps beside the program. Of several ranks the first one has it; in the arenas of the
 * others, which are laid out alike, its pages stay absent. */
struct resident_extent {
    const char *name;
    enum extent_role role; /* ROLE_OUTER or ROLE_EXCHANGE */
    enum space space;      /* SPACE_DEVICE where the device's memory is the host's own */
    uint64_t bytes;        /* 0: not there */
};

struct schedule_options {
    int64_t sequence;     /* tokens in a row */
    int64_t microbatch;   /* rows at a time */
    int64_t accumulation; /* microbatches in a step */
    int64_t context;      /* capacity of the key-value cache; 0: no generation */
    int64_t prefill;      /* tokens of a prompt at a time */
    bool train;           /* false: neither gradients nor optimizer */
    bool evaluate;
    bool logits; /* evaluation keeps whole logits: for comparing implementations */
    enum dtype compute, moments;
    enum rounding rounding;          /* of bf16 moments */
    const enum recompute *recompute; /* [layers] */
    unsigned offload;                /* enum offload; of programs that train */
    float clip_norm, beta1, beta2, epsilon, weight_decay;
    uint64_t staging_bytes;             /* host: pieces of files on their way in or out */
    struct sharding sharding;           /* over the ranks of a site; zeros: one rank */
    const struct unit_table *units;     /* made for that world; NULL: by block (program_compile) */
    const struct resident_extent *kept; /* [kept_count] */
    int kept_count;
};

/* Extents that the host fills or reads; EXTENT_NONE where the program has none. */
struct host_extents {
    int ids, labels, positions, scalars; /* where the host writes them */
    int device_scalars;                  /* where kernels read and write them */
    int rope_table;
    int raw_tokens;  /* pieces of a token file */
    int logits;      /* [rows * sequence, vocab] f32 of an evaluation, when options.logits */
    int next_logits; /* [vocab] f32: what follows the last token of a prefill or decode */
    int staging;
    int device_staging; /* pinned: bytes between segments from and to a device whose memory the
                           host cannot touch; none where it can */
};

/* The extents of one unit; EXTENT_NONE where the program has none. What is split holds the slot
 * that this rank owns, else the whole unit. */
struct unit_extents {
    int params;    /* compute dtype; none when split: every gather has an extent of its own; but the
                   own slot, which is gathered from, when the optimizer is offloaded */
    int master;    /* what is optimized, and gathered from when there are no params: params itself
                   where that is f32 and whole, and not offloaded; split params of a program that
                   does not train: in compute dtype */
    int gradients; /* summed over microbatches, f32 */
    int moment1, moment2;
    int local; /* a microbatch's gradients on their way to the sum, whole, f32 */
    int wire;  /* those in the type on the wire, when that is not f32 */
    /* On their way from and to an offloaded optimizer; params itself where that is offloaded. */
    int host_gradients, host_params;
};

/* The flavours of a parameter's values. */
enum param_view { VIEW_PARAMS, VIEW_MASTER, VIEW_GRADIENT, VIEW_MOMENT1, VIEW_MOMENT2 };

/* Where the elements of a unit lie in one flavour. This rank, with index i along AXIS_SHARD, owns
 * elements [i, i + 1) * slot of the unit. Element e lies e * dtype_bytes(dtype) from the extent's
 * beginning, or, when the extent is split, (e - i * slot) * dtype_bytes(dtype), own ones only. */
struct unit_view {
    int extent;       /* EXTENT_NONE: the program has no such flavour of this unit */
    enum space space; /* of the extent: SPACE_HOST for what is offloaded */
    enum dtype dtype;
    bool split;
    int64_t slot; /* the whole unit when nothing of it is split */
};

struct schedule {
    const struct blueprint *blueprint;
    const struct unit_table *units;
    const struct target *target; /* what the program is for: alignment, spaces, threads, kernels */
    struct schedule_options options; /* a world of one rank has shard and replicate 1 */
    struct region *region;
    struct segment segments[SEGMENT_COUNT];
    struct instruction *instructions;
    int instruction_count, instruction_capacity;
    struct extent *extents;
    int extent_count, extent_capacity;
    const bool *frozen; /* [blueprint->param_count], from the units; NULL: all train */
    struct unit_extents *unit_extents; /* [units->unit_count] */
    int tallies;                       /* [world] struct rank_tally; EXTENT_NONE on one rank */
    int sum_staging;                   /* what comes of other GPUs' slots, to be summed in order;
                                          EXTENT_NONE where no sum is */
    struct step_volumes volumes;       /* what a rank receives in a step, by the formulas */
    struct host_extents host;
    int *kept; /* [options.kept_count]: their extents; EXTENT_NONE for one of no bytes */
    uint32_t event_count;
};

/* schedule_build: every segment's instructions, every extent with its life.
 * memory  everything in `region`; `blueprint`, `units` and `target` must outlive the schedule
 * errors  none: options have been checked against the blueprint */
void schedule_build(const struct blueprint *blueprint, const struct unit_table *units,
                    const struct target *target, const struct schedule_options *options,
                    struct region *region, struct schedule *schedule);

/* schedule_unit_view: where unit `unit` lies in flavour `view`. Gradients are whole sums between
 * the last microbatch and finish; with REDUCE_AT_STEP they are then this rank's own part. */
struct unit_view schedule_unit_view(const struct schedule *schedule, int unit,
                                    enum param_view view);

/* schedule_device: the GPU that computes; NULL: a CPU does. */
const struct target *schedule_device(const struct schedule *schedule);

/* schedule_ranks: how many ranks have an index along `axis`. */
int schedule_ranks(const struct schedule *schedule, enum rank_axis axis);

/* schedule_wire_sum: how gradients in that type on the wire are summed: between GPUs a ring would
 * round bf16 at every hop, so it sums f32 only. */
enum wire_sum schedule_wire_sum(const struct schedule *schedule, enum dtype wire);

/* schedule_zero: what of a unit is split: nothing, whatever its strategy says, where the shard
 * group is one rank. */
struct zero_row schedule_zero(const struct schedule *schedule, int unit);

/* schedule_trains: the program makes gradients of the unit and updates it. */
bool schedule_trains(const struct schedule *schedule, int unit);

/* schedule_offloads: the program offloads `what` of the unit. */
bool schedule_offloads(const struct schedule *schedule, int unit, enum offload what);

/* schedule_reduces_microbatches: several ranks reduce a microbatch's gradients before they add them
 * to the step's. */
bool schedule_reduces_microbatches(const struct schedule *schedule);

/* schedule_splits_gradients: a rank sums up its own slot of the unit's gradients only. Gradients
 * that are reduced at the step's end are whole until then. */
bool schedule_splits_gradients(const struct schedule *schedule, int unit);

/* schedule_shard_elements: elements of a unit that each rank of the shard group owns. */
int64_t schedule_shard_elements(const struct schedule *schedule, int unit);

/* schedule_on_host: no operand lies on the device: the host's threads run the instruction, in the
 * place that its lane gives it. Also true of instructions without operands. */
bool schedule_on_host(const struct schedule *schedule, const struct instruction *instruction);

#endif
