/* instruction: one entry of a program's instruction list: the operation, its operands as ranges
 * of extents, the arguments of its kernel, and the events that it waits for. */
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

enum {
    EXTENT_NONE = -1, /* index of no extent */
    EVENT_NONE = 0,   /* number of no lane event */
    WAITS_MAX = 2,    /* maximum number of lane events that an instruction waits for */
};

/* A group of ranks: a rank's index in it determines the position of operands. The values also
 * index the communicator's groups. */
enum rank_axis {
    AXIS_SHARD,     /* the ranks that split the units of one replica */
    AXIS_REPLICATE, /* the ranks that hold the same shard in different replicas */
    AXIS_WORLD,     /* all ranks of the site; the shard index varies fastest */
    AXIS_COUNT      /* number of axes */
};

/* "shard", "replicate", "world" */
const char *rank_axis_name(enum rank_axis axis);

/* Bytes [offset, offset + bytes) of an extent. If `stride` is not 0, each rank has its own slot:
 * `stride` times its index along `axis` is added to the offset when the program is bound. All
 * ranks have the same plan. */
struct operand {
    int extent;          /* EXTENT_NONE: absent */
    enum access access;  /* whether the instruction reads, writes or updates the operand */
    enum rank_axis axis; /* group of ranks in which this rank's index selects the bytes */
    uint64_t offset, bytes, stride; /* begin = offset + rank index * stride */
};

/* A collective (transport/collectives/collectives.h) between the ranks of `axis`. Each operand
 * covers the slots of the whole group, and its start on this rank is the start of slot 0. In a
 * reduce-scatter with f32 on the wire, both operands are the same bytes, and the slots of other
 * ranks are undefined after the call. */
struct collective_args {
    enum rank_axis axis;
    enum dtype wire;     /* sums: type of the operand that is read; all-gather: element type */
    uint64_t slot_bytes; /* bytes of one rank's slot */
    /* method of a sum between GPUs; WIRE_SUM_EXACT uses the workspace as its staging buffer */
    enum wire_sum sum;
};

/* Arguments of AdamW over a whole unit, or over a rank's shard of it. */
struct adamw_of_rank {
    struct adamw_args first_rank;  /* arguments of the group's first rank */
    int64_t unit_decayed_elements; /* number of elements of the whole unit with weight decay */
    bool split; /* rank i of AXIS_SHARD updates elements [i, i + 1) * first_rank.count */
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
    int64_t count;   /* gradient norm: number of elements; zero, copy: number of bytes */
    float clip_norm; /* clip */
    struct collective_args collective;
};

struct instruction {
    enum op_kind op; /* operation to execute */
    uint8_t lane;    /* enum lane on which the instruction executes */
    /* kind of the segment that contains the instruction (enum segment_kind) */
    uint8_t segment;
    bool transposed;           /* linear ops: the weight is stored as [in, out] */
    int layer;                 /* layer of the op in the model, for listings */
    uint32_t signal;           /* event to signal on completion, or EVENT_NONE */
    uint32_t waits[WAITS_MAX]; /* events that the instruction waits for; EVENT_NONE: none */
    struct operand operands[OPERANDS_MAX]; /* operands, indexed by the op's operand enum */
    struct operand workspace;              /* scratch memory of the kernel */
    union kernel_args args;                /* arguments of the op's kernel */
};

#endif
