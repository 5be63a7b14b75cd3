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
#include "runtime/shard/shard.h"

enum { EXTENT_NONE = -1, EVENT_NONE = 0, WAITS_MAX = 2 };

/* The group of ranks in which an index determines an operand's position; also the order of the
 * communicator's groups. */
enum rank_axis {
    AXIS_SHARD,     /* the ranks that split the units of one replica */
    AXIS_REPLICATE, /* the ranks that hold the same shard in different replicas */
    AXIS_WORLD,     /* all ranks of the site; the shard index varies fastest */
    AXIS_COUNT
};

/* "shard", "replicate", "world" */
const char *rank_axis_name(enum rank_axis axis);

/* Bytes [offset, offset + bytes) of an extent; with a stride, they start `stride` times this rank's
 * index along `axis` later, at the rank's own slot. All ranks have the same plan, and bind adds the
 * stride. */
struct operand {
    int extent; /* EXTENT_NONE: absent */
    enum access access;
    enum rank_axis axis;
    uint64_t offset, bytes, stride;
};

/* A collective (transport/collectives/collectives.h) between the ranks of `axis`. Each operand
 * covers the slots of the whole group, and its start on this rank is the start of slot 0. In a
 * reduce-scatter with f32 on the wire, both operands are the same bytes. Afterwards the slots of
 * other ranks in the result are undefined. */
struct collective_args {
    enum rank_axis axis;
    enum dtype wire;     /* sums: type of the operand that is read; all-gather: type of the bytes */
    uint64_t slot_bytes; /* as in struct collective_call */
    /* the method of a sum between GPUs; an exact one has its staging as workspace */
    enum wire_sum sum;
};

/* AdamW over a unit, or over the shard of it that a rank holds. */
struct adamw_of_rank {
    struct adamw_args run; /* the arguments of the group's first rank */
    int64_t decayed_of_unit;
    bool split; /* rank i of AXIS_SHARD updates elements [i, i + 1) * run.count of the unit */
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
