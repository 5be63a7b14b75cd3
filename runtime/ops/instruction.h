/* instruction: one record of a program's list: the operation, its operands as ranges of extents,
 * the arguments of its kernel, and what it waits for. */
#ifndef SKEP_OPS_INSTRUCTION_H
#define SKEP_OPS_INSTRUCTION_H

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/generation.h"
#include "kernels/head_loss.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/tally.h"
#include "runtime/model/graph.h"
#include "runtime/shard/strategy.h"

enum { EXTENT_NONE = -1, EVENT_NONE = 0, WAITS_MAX = 2 };

/* The rank index that an operand's position depends on; also the communicator's groups, in this
 * order. */
enum rank_axis {
    AXIS_SHARD,     /* ranks that split one replica's units */
    AXIS_REPLICATE, /* ranks that hold the same shard */
    AXIS_WORLD,     /* all ranks of the site: replicate-major */
    AXIS_COUNT
};

/* "shard", "replicate", "world" */
const char *rank_axis_name(enum rank_axis axis);

/* Bytes [offset, offset + bytes) of an extent; with a stride the bytes begin `stride` times this
 * rank's index along `axis` later: a rank's own slot. All ranks have one plan; only bind knows the
 * rank. */
struct operand {
    int extent; /* EXTENT_NONE: absent */
    enum access access;
    enum rank_axis axis;
    uint64_t offset, bytes, stride;
};

/* A call of contract A (transport/collectives/collectives.h) between the ranks of `axis`. Each
 * operand covers the slots of the whole group: where it begins on this rank is where the call's
 * slot 0 begins. Reduce-scatter: with f32 on the wire both operands are the same bytes. Slots of
 * the result that belong to other ranks are undefined afterwards. */
struct collective_args {
    enum rank_axis axis;
    enum dtype wire;     /* sums: of the operand that is read; all-gather: of the bytes */
    uint64_t slot_bytes; /* as collective_call has it */
    enum wire_sum sum;   /* of sums between GPUs; an exact one has the staging as its workspace */
};

/* AdamW over a unit, or over the slot of it that a rank owns. */
struct adamw_of_rank {
    struct adamw_args run; /* as the group's first rank runs it */
    int64_t decayed_of_unit;
    bool split; /* rank i of AXIS_SHARD runs elements [i, i + 1) * run.count of the unit */
};

union kernel_args {
    struct matmul_args matmul;
    struct attention_args attention;
    struct norm_args norm;
    struct elementwise_args elementwise;
    struct column_sum_args column_sum;
    struct rope_args rope;
    struct embedding_args embedding;
    struct head_loss_args head_loss;
    struct adamw_of_rank adamw;
    struct tally_args tally; /* tally in */
    struct generation_args generation;
    struct {
        int64_t count;
        enum dtype from, to;
    } cast;
    int64_t count;   /* gradient norm: elements; zero, copy: bytes */
    float clip_norm; /* clip */
    struct collective_args collective;
};

struct instruction {
    enum op_kind op;
    uint8_t lane;    /* enum lane */
    uint8_t segment; /* enum segment_kind */
    bool transposed; /* linear family: the weight is stored [in, out] */
    int layer;
    uint32_t signal;                       /* event raised when done, or EVENT_NONE */
    uint32_t waits[WAITS_MAX];             /* events to wait for */
    struct operand operands[OPERANDS_MAX]; /* by the op's operand enum */
    struct operand workspace;
    union kernel_args args;
};

#endif
