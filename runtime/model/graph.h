/* graph: the operations and tensors of one microbatch, in the order in which they run. Built by the
 * families forward only; backward.h, recompute.h and offload.h rewrite it. Shapes are known,
 * addresses are not. */
#ifndef SKEP_MODEL_GRAPH_H
#define SKEP_MODEL_GRAPH_H

#include "runtime/model/blueprint.h"
#include "runtime/model/op_list.h"

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

#define OP(kind, name, operands) OP_##kind,
enum op_kind { OP_LIST(OP) OP_KIND_COUNT };
#undef OP

/* enum rmsnorm_operand { RMSNORM_X, RMSNORM_WEIGHT, ..., RMSNORM_OPERANDS } and so on: an op's
 * operands by name, in the graph and in the instructions made from it. */
#define READ(operand)       operand,
#define WRITE(operand)      operand,
#define UPDATE(operand)     operand,
#define MAY_READ(operand)   operand,
#define MAY_WRITE(operand)  operand,
#define MAY_UPDATE(operand) operand,
#define OP(kind, name, operands)                                                                   \
    enum name##_operand{operands kind##_OPERANDS};                                                 \
    _Static_assert((int)kind##_OPERANDS <= (int)OPERANDS_MAX, "an op has at most OPERANDS_MAX");
OP_LIST(OP)
#undef OP
#undef READ
#undef WRITE
#undef UPDATE
#undef MAY_READ
#undef MAY_WRITE
#undef MAY_UPDATE

/* How an op touches an operand. */
enum access { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_UPDATE = 3 };

struct operand_row {
    enum access access;
    bool optional; /* the operand may be absent */
};

/* What op_list.h says of one kind. */
struct op_row {
    const char *name;
    int operand_count;
    struct operand_row operands[OPERANDS_MAX];
};
const struct op_row *op_row(enum op_kind kind);

struct op {
    enum op_kind kind;
    int layer;
    int operands[OPERANDS_MAX]; /* tensor ids by operand; TENSOR_NONE: absent */
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

/* graph_begin: the inputs of a forward graph, and the caches that generation needs. graph_end: its
 * head, over the final hidden state that a family's builder has made. runtime/model/families has
 * graph_build, which calls all three.
 * memory  everything in `region`, which must outlive the graph */
void graph_begin(const struct blueprint *blueprint, const struct graph_shape *shape,
                 struct region *region, struct graph *graph);
void graph_end(struct graph *graph, int final_hidden);

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
/* graph_op: append an op.
 * operands       tensor ids, indexed by the kind's operand enum; TENSOR_NONE where one is absent
 * operand_count  the kind's operand count */
struct op *graph_op(struct graph *graph, enum op_kind kind, int layer, const int *operands,
                    int operand_count);
/* graph_base: the tensor whose bytes `tensor` uses. */
int graph_base(const struct graph *graph, int tensor);
int64_t graph_tokens(const struct graph *graph);

/* Pieces that the families' builders share. */
int graph_add(struct graph *graph, int layer, int a, int b, const char *name);
/* graph_attention: over q, k, v of the new tokens; in generation through the layer's cache. */
struct qkv {
    int q, k, v; /* tensors of queries, keys and values */
};
int graph_attention(struct graph *graph, int layer, const struct qkv *qkv);

#endif
