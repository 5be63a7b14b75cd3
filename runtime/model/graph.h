/* graph: the operations and tensors of one microbatch, in the order in which they run. Built by the
 * families forward only; backward.h, recompute.h and offload.h rewrite it. Shapes are known,
 * addresses are not. */
#ifndef SKEP_MODEL_GRAPH_H
#define SKEP_MODEL_GRAPH_H

#include "runtime/model/blueprint.h"

/* What a tensor is, which decides who owns its bytes. */
enum tensor_kind {
    TENSOR_PARAM,          /* a range of a unit's params */
    TENSOR_PARAM_GRADIENT, /* the same range of the unit's gradients, f32 */
    TENSOR_ACTIVATION,
    TENSOR_ACTIVATION_GRADIENT,
    TENSOR_SAVED, /* an activation's copy in host memory, from forward to backward */
    TENSOR_INPUT, /* filled by the host: ids, positions, labels, rotary table, scalars */
    TENSOR_CACHE, /* keys and values of a generation */
    TENSOR_OUTPUT /* read by the host after the segment: logits */
};

enum { TENSOR_NONE = -1 };

/* A row-major matrix: `rows` rows of `columns` elements, `stride` elements apart. A view shares the
 * bytes of `base`, beginning `offset` elements into it. */
struct tensor {
    const char *name;
    enum tensor_kind kind;
    enum dtype dtype;
    int64_t rows, columns, stride;
    int base;       /* TENSOR_NONE unless a view */
    int64_t offset; /* elements from the base's (or the param's) beginning */
    int param;      /* blueprint index for params and their gradients, else -1 */
    int layer;      /* PARAM_NO_LAYER outside blocks */
};

/* One row per kind in op_table: operands in the order given here. "+" is read and written. */
enum op_kind {
    OP_EMBEDDING,          /* ids, [positions], table, [position table] -> out */
    OP_EMBEDDING_BACKWARD, /* ids, [positions], dout, [dtable+], [dposition table+] */
    OP_RMSNORM,            /* x, weight -> out, rms_inv */
    OP_RMSNORM_BACKWARD,   /* dout, x, weight, rms_inv, [dadd] -> [dx], [dweight+] */
    OP_LAYERNORM,          /* x, weight, bias -> out, mean, std_inv */
    /* dout, x, weight, mean, std_inv, [dadd] -> [dx], [dweight+], [dbias+] */
    OP_LAYERNORM_BACKWARD,
    OP_LINEAR,             /* x, weight, [bias] -> out */
    OP_LINEAR_DX,          /* dout, weight -> dx (dx+ when op.accumulate) */
    OP_LINEAR_DW,          /* dout, x, dweight+ */
    OP_COLUMN_SUM,         /* dout, dbias+ */
    OP_ROPE,               /* table, positions, x+ (op.inverse: turn back) */
    OP_ATTENTION,          /* q, k, v, positions -> out, lse */
    OP_ATTENTION_BACKWARD, /* q, k, v, out, lse, dout, positions -> dq, dk, dv */
    OP_CACHE_APPEND,       /* new, scalars, cache+ */
    OP_ATTENTION_CACHED,   /* q, key cache, value cache, scalars -> out */
    OP_SWIGLU,             /* gate, up -> out */
    OP_SWIGLU_BACKWARD,    /* dout, gate, up -> dgate, dup */
    OP_GELU,               /* x -> out */
    OP_GELU_BACKWARD,      /* dout, x -> dx */
    OP_ADD,                /* a, b -> out */
    OP_SELECT_LAST,        /* x, scalars -> out: the row of the last valid token */
    OP_HEAD_LOSS,          /* hidden, weight, labels, scalars+ */
    OP_HEAD_LOSS_GRADIENT, /* hidden, weight, labels, scalars+ -> [dhidden], [dweight+] */
    /* Outside the graph, but for copies and releases: instructions of the step around it. */
    OP_ZERO,          /* -> bytes */
    OP_GRADIENT_NORM, /* gradients, scalars+ */
    OP_CLIP,          /* scalars+ */
    OP_ADAMW,         /* scalars, gradients, master+, m+, v+ [-> params] */
    OP_CAST,          /* in -> out */
    OP_COPY,          /* in -> out, between spaces; offload.h */
    OP_HOST,          /* the host works here with the extents named: a load, a snapshot */
    /* Between the ranks of a site: on the collective lane. Own slots by rank_stride. */
    OP_ALL_GATHER,     /* slots+: own slot in, all slots out */
    OP_REDUCE_SCATTER, /* slots, own slot+ (of another extent when the wire is bf16) */
    OP_ACCUMULATE,     /* sums, accumulated+ (compute lane, f32) */
    OP_TALLY_OUT,      /* scalars -> own slot of the tallies (compute lane) */
    OP_TALLY_IN,       /* tallies, scalars+: counts, losses and norms of all ranks (compute lane) */
    OP_RELEASE,        /* bytes+: nothing runs; earlier uses on other lanes end before it */
    OP_KIND_COUNT
};

/* How an op touches an operand. */
enum access { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_UPDATE = 3 };

struct op_row {
    const char *name;
    int operand_count;
    enum access access[OPERANDS_MAX];
};
const struct op_row *op_row(enum op_kind kind);

struct op {
    enum op_kind kind;
    int layer;
    int operands[OPERANDS_MAX]; /* tensor ids; TENSOR_NONE where an optional one is absent */
    bool accumulate;            /* OP_LINEAR_DX */
    bool transposed;            /* linear family: weight stored [in, out] */
    bool inverse;               /* OP_ROPE */
    int64_t heads;              /* rope, norm over heads: heads in a row */
    int64_t window;             /* attention */
};

/* op_access: how `op` touches operand `index`; an absent operand is not touched (0). */
enum access op_access(const struct op *op, int index);

enum graph_mode {
    GRAPH_TRAIN, /* forward to the loss, and its gradient with respect to the last hidden state */
    GRAPH_EVALUATE, /* forward to the loss */
    GRAPH_LOGITS,   /* forward to whole logits, and the loss: for comparing implementations */
    GRAPH_GENERATE  /* forward over new tokens with a key-value cache, to the last token's logits */
};

struct graph_shape {
    enum graph_mode mode;
    int64_t rows, time; /* tokens = rows * time; GRAPH_GENERATE: rows = 1, time = new tokens */
    int64_t context;    /* GRAPH_GENERATE: capacity of the cache in tokens */
    enum dtype dtype;   /* of params and activations */
    /* [blueprint->param_count]: which parameters have no gradient; NULL: none. It must outlive the
     * graph. Every mode takes it, because parameters with unlike flags lie in different units and
     * are not multiplied as one. */
    const bool *frozen;
};

struct graph {
    const struct blueprint *blueprint;
    struct graph_shape shape;
    struct region *region;
    struct tensor *tensors;
    int tensor_count, tensor_capacity;
    struct op *ops;
    int op_count, op_capacity;
    int forward_count; /* ops of the forward pass; set by backward_build */
    /* well-known tensors; TENSOR_NONE where the mode or family has none */
    int ids, positions, labels, scalars, rope_table, logits;
    int final_hidden; /* [tokens, hidden], after the final norm */
    int *caches; /* [2 * layers]: key and value cache of each layer, shared by generation graphs */
};

/* graph_build: the forward graph of `blueprint`, by its family's builder.
 * memory  everything in `region`, which must outlive the graph
 * errors  none: the blueprint has been checked */
void graph_build(const struct blueprint *blueprint, const struct graph_shape *shape,
                 struct region *region, struct graph *graph);

/* For builders and rewrites. */
int graph_tensor(struct graph *graph, struct tensor tensor);
int graph_activation(struct graph *graph, const char *name, int layer, int64_t rows,
                     int64_t columns);
int graph_statistic(struct graph *graph, const char *name, int layer, int64_t rows,
                    int64_t columns); /* as graph_activation, in f32 */
int graph_view(struct graph *graph, int base, const char *name, int64_t column, int64_t columns);
/* graph_param: the tensor of a parameter, made once; `shape` as the file stores it. */
int graph_param(struct graph *graph, enum param_kind kind, int layer);
/* graph_param_span: one matrix over `kind` and the parameters that follow it in its unit, `rows` in
 * all; the caller knows that no gap lies between them. */
int graph_param_span(struct graph *graph, enum param_kind kind, int layer, int64_t rows);
/* graph_frozen: whether param tensor `tensor` has no gradient. */
bool graph_frozen(const struct graph *graph, int tensor);
/* graph_param_gradient: the f32 gradient of the range that param tensor `tensor` covers. */
int graph_param_gradient(struct graph *graph, int tensor);
struct op *graph_op(struct graph *graph, enum op_kind kind, int layer, const int *operands,
                    int operand_count);
/* graph_base: the tensor whose bytes `tensor` uses. */
int graph_base(const struct graph *graph, int tensor);
int64_t graph_tokens(const struct graph *graph);

/* Pieces that the families' builders share. */
int graph_add(struct graph *graph, int layer, int a, int b, const char *name);
/* graph_attention: over q, k, v of the new tokens; in generation through the layer's cache. */
int graph_attention(struct graph *graph, int layer, int q, int k, int v);

/* The families' builders: embedding to final hidden state. Each gives the id of the final hidden
 * state, [tokens, hidden]. */
int graph_decoder(struct graph *graph); /* llama, mistral, qwen2, qwen3 */
int graph_gpt2(struct graph *graph);

#endif
