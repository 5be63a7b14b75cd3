/* graph: the operations and tensors of one microbatch, in the order in which they execute. The
 * families build the forward pass; backward_build adds the backward pass, and recompute_apply and
 * offload_apply rewrite it. Tensors have shapes, but no addresses. */
#ifndef SKEP_MODEL_GRAPH_H
#define SKEP_MODEL_GRAPH_H

#include "runtime/model/model.h"
#include "runtime/model/op_list.h"

/* The kind of a tensor, which determines where its data is stored. */
enum tensor_kind {
    TENSOR_PARAM,               /* part of the parameters of a unit */
    TENSOR_PARAM_GRADIENT,      /* the f32 gradient of a TENSOR_PARAM */
    TENSOR_ACTIVATION,          /* an output of an op of the forward pass */
    TENSOR_ACTIVATION_GRADIENT, /* the gradient of a TENSOR_ACTIVATION */
    TENSOR_SAVED,               /* copy of an activation in host memory until the backward pass */
    TENSOR_INPUT, /* input that the CPU writes: ids, positions, labels, rotary table, scalars */
    TENSOR_CACHE, /* keys or values of earlier tokens in text generation */
    TENSOR_OUTPUT /* output that the CPU reads after execution: logits */
};

enum { TENSOR_NONE = -1 }; /* tensor id of an absent operand */

/* A row-major matrix: `rows` rows of `columns` elements, with row starts `stride`
 * elements apart. A view shares the memory of `base` and begins `offset` elements into it. */
struct tensor {
    const char *name;
    enum tensor_kind kind;
    enum dtype dtype;
    int64_t rows, columns, stride; /* stride: elements from one row to the next */
    int base;       /* id of the tensor whose memory a view shares; TENSOR_NONE if not a view */
    int64_t offset; /* offset in elements from the beginning of the base (or of the parameter) */
    int param;      /* index in blueprint->params for parameters and their gradients, else -1 */
    int layer;      /* layer index, or PARAM_NO_LAYER outside the blocks */
};

#define OP(kind, name, operands) OP_##kind,
enum op_kind { OP_LIST(OP) OP_KIND_COUNT };
#undef OP

/* For each op, an enum of its operand indexes, for example enum rmsnorm_operand { RMSNORM_X,
 * RMSNORM_WEIGHT, ..., RMSNORM_OPERANDS }. Graphs and instructions use the same indexes. */
#define READ(operand)       operand,
#define WRITE(operand)      operand,
#define UPDATE(operand)     operand,
#define MAY_READ(operand)   operand,
#define MAY_WRITE(operand)  operand,
#define MAY_UPDATE(operand) operand,
#define OP(kind, name, operands)                                                                   \
    enum name##_operand{operands kind##_OPERANDS};                                                 \
    _Static_assert((int)kind##_OPERANDS <= (int)OPERANDS_MAX,                                      \
                   "an op must have at most OPERANDS_MAX operands");
OP_LIST(OP)
#undef OP
#undef READ
#undef WRITE
#undef UPDATE
#undef MAY_READ
#undef MAY_WRITE
#undef MAY_UPDATE

/* How an op accesses an operand. */
enum access { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_UPDATE = 3 };

struct operand_row {
    enum access access; /* whether the op reads, writes or updates the operand */
    bool optional;      /* the op accepts TENSOR_NONE for this operand */
};

/* One row of the op table: the properties of one op kind, from op_list.h. */
struct op_row {
    const char *name;
    int operand_count;
    struct operand_row operands[OPERANDS_MAX];
};
const struct op_row *op_row(enum op_kind kind);

struct op {
    enum op_kind kind;
    int layer;
    int operands[OPERANDS_MAX]; /* tensor id of each operand; TENSOR_NONE when absent */
    bool accumulate;            /* OP_LINEAR_DX: add to DX instead of overwriting it */
    bool transposed;            /* linear ops: the weight is stored as [in, out] */
    bool inverse;               /* OP_ROPE: rotate in the opposite direction */
    int64_t heads;              /* attention, rope, norms: number of heads in one row */
    int64_t window;             /* attention: window in tokens, 0 without one */
};

/* op_access: return how `op` accesses operand `index`; 0 for an absent operand. */
enum access op_access(const struct op *op, int index);

enum graph_mode {
    GRAPH_TRAIN,    /* compute the loss and its gradients */
    GRAPH_EVALUATE, /* compute the loss only */
    GRAPH_LOGITS,   /* compute the logits of all tokens and the loss */
    GRAPH_GENERATE  /* compute the last token's logits from new tokens and a key-value cache */
};

struct graph_shape {
    enum graph_mode mode;
    /* number of sequences, and of tokens per sequence; GRAPH_GENERATE: 1, and number of new
     * tokens */
    int64_t rows, time;
    int64_t context;  /* GRAPH_GENERATE: capacity of the key-value cache in tokens */
    enum dtype dtype; /* element type of parameters and activations */
    /* [blueprint->param_count] true for parameters without gradient; NULL if all are trained. The
     * array must outlive the graph. Every mode needs the array, because parameters with different
     * flags are in different units and cannot share one product. */
    const bool *frozen;
};

struct graph {
    const struct blueprint *blueprint;
    struct graph_shape shape; /* mode and size of the graph */
    struct region *region;
    struct tensor *tensors;            /* [tensor_count]; a tensor id is an index */
    int tensor_count, tensor_capacity; /* used and allocated length of `tensors` */
    struct op *ops;
    int op_count, op_capacity; /* used and allocated length of `ops` */
    int forward_count;         /* number of forward ops; 0 before backward_build */
    /* Tensor ids; TENSOR_NONE where the mode or family does not use the tensor. */
    int ids, positions, labels, scalars, rope_table, logits;
    int final_hidden; /* id of the final norm's output, [tokens, hidden] */
    int *caches;      /* [2 * layers] key and value cache ids of each layer; NULL without caches */
};

/* graph_begin: start a forward graph with its inputs, and with key-value caches for generation.
 * graph_end: append the head, which reads the final hidden state from a family's builder.
 * graph_build in runtime/model/families calls graph_begin, the builder and graph_end.
 * memory  all of the graph is in `region`, which must outlive it */
void graph_begin(const struct blueprint *blueprint, const struct graph_shape *shape,
                 struct region *region, struct graph *graph);
void graph_end(struct graph *graph, int final_hidden);

/* Functions that append tensors and ops, for graph builders and for passes that rewrite graphs.
 * Each returns the id of the new tensor. */
int graph_add_tensor(struct graph *graph, struct tensor tensor);
int graph_add_activation(struct graph *graph, const char *name, int layer, int64_t rows,
                         int64_t columns);
int graph_add_statistic(struct graph *graph, const char *name, int layer, int64_t rows,
                        int64_t columns); /* same as graph_add_activation, but always f32 */
int graph_add_view(struct graph *graph, int base, const char *name, int64_t column,
                   int64_t columns);
/* graph_param_tensor: return the tensor of a parameter, in its stored shape. The first call creates
 * it. */
int graph_param_tensor(struct graph *graph, enum param_kind kind, int layer);
/* graph_param_span_tensor: return one matrix of `rows` rows that covers the parameter of `kind` and
 * those after it in its unit. The caller ensures that there are no gaps between them. */
int graph_param_span_tensor(struct graph *graph, enum param_kind kind, int layer, int64_t rows);
/* graph_tensor_is_frozen: return true if parameter tensor `tensor` is frozen, so it has no
 * gradient. */
bool graph_tensor_is_frozen(const struct graph *graph, int tensor);
/* graph_param_gradient: return the f32 gradient tensor of parameter tensor `tensor`. */
int graph_param_gradient(struct graph *graph, int tensor);
/* graph_add_op: append an op and return it. The pointer is valid until the next append.
 * operands       tensor ids, indexed by the kind's operand enum; TENSOR_NONE if absent
 * operand_count  number of operands of the kind */
struct op *graph_add_op(struct graph *graph, enum op_kind kind, int layer, const int *operands,
                        int operand_count);

/* graph_add_linear: append the product of x and the weight of `weight_kind`, plus the bias of
 * `bias_kind` if the layer has one, and return the output. */
int graph_add_linear(struct graph *graph, int layer, int x, enum param_kind weight_kind,
                     enum param_kind bias_kind, const char *name);
/* graph_base_tensor: return the tensor that owns the memory of `tensor`: its base, or itself. */
int graph_base_tensor(const struct graph *graph, int tensor);
int64_t graph_token_count(const struct graph *graph);

/* Functions that append ops used by several families, and return the output tensor. */
int graph_add_sum(struct graph *graph, int layer, int a, int b, const char *name);
/* graph_add_attention: append attention over the q, k and v of the new tokens. In generation, k and
 * v are first appended to the layer's cache. */
struct qkv {
    int q, k, v; /* tensor ids of queries, keys and values */
};
int graph_add_attention(struct graph *graph, int layer, const struct qkv *qkv);

/* ---- the backward pass ---- */

/* backward_build: append the ops that compute every gradient, from the loss back to the embedding,
 * with one rule per op kind. The ops add to parameter gradients, which already contain the sums of
 * earlier microbatches. They create activation gradients. A frozen parameter
 * (graph->shape.frozen) has no gradient tensor and no op that computes one. The same
 * is true of an activation that depends on no trainable parameter.
 * limits  graph->shape.mode is GRAPH_TRAIN; at most one call per graph; at least one parameter is
 *         trainable
 * result  graph->forward_count is the number of ops before the call */
void backward_build(struct graph *graph);

/* ---- recomputation ---- */

enum recompute {
    RECOMPUTE_NONE,      /* store all activations */
    RECOMPUTE_SELECTIVE, /* recompute outputs of norms and of the MLP's activation */
    RECOMPUTE_BLOCK,     /* recompute all activations of a block except its input */
    RECOMPUTE_COUNT
};

const char *recompute_name(enum recompute kind);

/* recompute_apply: rewrite the backward pass of `graph`. Clones of forward ops
 * recompute each activation that is not stored, just before its first use in the backward pass.
 * This trades time for memory.
 * policy  [layers] which activations of each layer are recomputed
 * limits  backward_build has been called; at most once per graph
 * result  gradients are bit-identical, because clones execute the same kernels on the same
 *         values */
void recompute_apply(struct graph *graph, const enum recompute *policy);

/* ---- offload of activations ---- */

/* Smaller activations are not offloaded: starting a copy of less than one page takes longer than
 * the transfer. */
enum { OFFLOAD_BYTES_MIN = 4096 };

/* offload_apply: rewrite a training graph, so that activations are in host memory between their
 * last forward use and their first backward use. This trades transfer time for device memory. Each
 * activation of at least OFFLOAD_BYTES_MIN is copied out after its last use in the forward pass,
 * and its device memory is released one layer later. One layer before its first use in the backward
 * pass, it is copied into a new device tensor, which the backward pass reads. Each copy can
 * therefore overlap the computation of a whole layer.
 *
 *   layer         1         2              3    head   3        2              1
 *   compute   x = f()  ...  release x  ...                 ...             ... g(x')
 *   copies              out x                                    in x'
 *
 * Tensors of the last layer remain on the device, because they are needed again immediately.
 * Tensors that recompute_apply recomputes are not offloaded either.
 * limits  call after backward_build and recompute_apply, at most once per graph
 * result  gradients are bit-identical
 * memory  new tensors and ops are in the graph's region */
void offload_apply(struct graph *graph);

#endif
