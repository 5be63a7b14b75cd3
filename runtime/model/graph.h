/* graph: the operations and tensors of one microbatch, in the order in which they execute. The
 * families build the forward pass; backward_build adds the backward pass, and recompute_apply and
 * offload_apply rewrite it. Tensors have shapes, but no addresses. */
#ifndef SKEP_MODEL_GRAPH_H
#define SKEP_MODEL_GRAPH_H

#include "runtime/model/model.h"
#include "runtime/model/op_list.h"

/* The kind of a tensor, which determines where its bytes are stored. */
enum tensor_kind {
    TENSOR_PARAM,          /* a range of a unit's params */
    TENSOR_PARAM_GRADIENT, /* the same range of the unit's gradients, f32 */
    TENSOR_ACTIVATION,
    TENSOR_ACTIVATION_GRADIENT,
    TENSOR_SAVED, /* a copy of an activation in host memory, from forward to backward pass */
    TENSOR_INPUT, /* written by the CPU: ids, positions, labels, rotary table, scalars */
    TENSOR_CACHE, /* keys and values of a generation */
    TENSOR_OUTPUT /* read by the CPU after the segment: logits */
};

enum { TENSOR_NONE = -1 };

/* A row-major matrix: `rows` rows of `columns` elements, `stride` elements apart. A view shares the
 * bytes of `base`, beginning `offset` elements into it. */
struct tensor {
    const char *name;
    enum tensor_kind kind;
    enum dtype dtype;
    int64_t rows, columns, stride;
    int base;       /* tensor that a view shares bytes with; TENSOR_NONE if not a view */
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

/* How an op uses an operand. */
enum access { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_UPDATE = 3 };

struct operand_row {
    enum access access;
    bool optional; /* the operand may be absent */
};

/* The properties of one op kind, from op_list.h. */
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

/* op_access: how `op` uses operand `index`; 0 for an absent operand. */
enum access op_access(const struct op *op, int index);

enum graph_mode {
    GRAPH_TRAIN, /* forward to the loss, and its gradient with respect to the last hidden state */
    GRAPH_EVALUATE, /* forward to the loss */
    GRAPH_LOGITS,   /* forward to the logits of all tokens, and the loss */
    GRAPH_GENERATE  /* forward over new tokens with a key-value cache, to the last token's logits */
};

struct graph_shape {
    enum graph_mode mode;
    int64_t rows, time; /* tokens = rows * time; GRAPH_GENERATE: rows = 1, time = new tokens */
    int64_t context;    /* GRAPH_GENERATE: capacity of the cache in tokens */
    enum dtype dtype;   /* element type of params and activations */
    /* [blueprint->param_count]: which parameters have no gradient; NULL: none. The array must
     * outlive the graph. Every mode needs it, because parameters with different flags are in
     * different units and cannot share one product. */
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
    int forward_count; /* number of ops of the forward pass; set by backward_build */
    /* tensors by purpose; TENSOR_NONE where the mode or family has none */
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

/* Functions for graph builders and for the passes that rewrite graphs. */
int graph_tensor(struct graph *graph, struct tensor tensor);
int graph_activation(struct graph *graph, const char *name, int layer, int64_t rows,
                     int64_t columns);
int graph_statistic(struct graph *graph, const char *name, int layer, int64_t rows,
                    int64_t columns); /* like graph_activation, but in f32 */
int graph_view(struct graph *graph, int base, const char *name, int64_t column, int64_t columns);
/* graph_param: the tensor of a parameter, made once; `shape` as the file stores it. */
int graph_param(struct graph *graph, enum param_kind kind, int layer);
/* graph_param_span: one matrix over `kind` and the parameters that follow it in its unit, `rows` in
 * all. The caller ensures that there is no gap between them. */
int graph_param_span(struct graph *graph, enum param_kind kind, int layer, int64_t rows);
/* graph_tensor_is_frozen: return true if param tensor `tensor` is frozen and has no gradient. */
bool graph_tensor_is_frozen(const struct graph *graph, int tensor);
/* graph_param_gradient: the f32 gradient of the range that param tensor `tensor` covers. */
int graph_param_gradient(struct graph *graph, int tensor);
/* graph_op: append an op.
 * operands       tensor ids, indexed by the kind's operand enum; TENSOR_NONE where one is absent
 * operand_count  the kind's operand count */
struct op *graph_op(struct graph *graph, enum op_kind kind, int layer, const int *operands,
                    int operand_count);

/* graph_linear: a product of x with the weight of `weight_kind`, and the bias of `bias_kind` if the
 * layer has one; returns the output. */
int graph_linear(struct graph *graph, int layer, int x, enum param_kind weight_kind,
                 enum param_kind bias_kind, const char *name);
/* graph_base: return the tensor that owns the bytes of `tensor`. */
int graph_base(const struct graph *graph, int tensor);
int64_t graph_tokens(const struct graph *graph);

/* Parts that the builders of several families share. */
int graph_add(struct graph *graph, int layer, int a, int b, const char *name);
/* graph_attention: over q, k, v of the new tokens; in generation through the layer's cache. */
struct qkv {
    int q, k, v; /* tensors of queries, keys and values */
};
int graph_attention(struct graph *graph, int layer, const struct qkv *qkv);

/* ---- the backward pass ---- */

/* backward_build: append the ops that compute every gradient, from the loss back to the embedding,
 * by one rule per op kind. Parameter gradients are added to, because they hold those of earlier
 * microbatches; activation gradients are created and used up here. A frozen parameter
 * (graph->shape.frozen) has no gradient tensor and no op that computes one, and neither has an
 * activation that depends on no trainable parameter.
 * limits  graph->shape.mode is GRAPH_TRAIN and backward has not been built yet; not all parameters
 *         are frozen
 * result  graph->forward_count: the number of ops before the call */
void backward_build(struct graph *graph);

/* ---- recomputation ---- */

enum recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_SELECTIVE, /* recompute outputs of norms and of the MLP's activation */
    RECOMPUTE_BLOCK,     /* recompute everything of a block but its input */
    RECOMPUTE_COUNT
};

const char *recompute_name(enum recompute kind);

/* recompute_apply: rewrite the backward pass of `graph`. A tensor that is not stored for it is
 * computed again, by clones of the ops that computed it, just before its first use there. This
 * trades time for memory.
 * policy  one entry per layer
 * limits  backward_build has been called; at most once per graph
 * result  the same gradients to the bit: clones run the same kernels on the same values */
void recompute_apply(struct graph *graph, const enum recompute *policy);

/* ---- offload of activations ---- */

/* One page: starting a copy of fewer bytes takes longer than the copy. */
enum { OFFLOAD_BYTES_MIN = 4096 };

/* offload_apply: rewrite a training graph, so that tensors which the backward pass reads are in
 * host memory until then. This trades time on the host link for device memory. Each activation of
 * at least OFFLOAD_BYTES_MIN is copied out after its last use in the forward pass, and its bytes
 * are released one layer later. A new tensor is copied in one layer before the first use in the
 * backward pass, which reads the new tensor. Each copy therefore has the time of a whole layer.
 *
 *   layer         1         2              3    head   3        2              1
 *   compute   x = f()  ...  release x  ...                 ...             ... g(x')
 *   copies              out x                                    in x'
 *
 * Tensors of the last layer stay on the device, because they are needed again at once. So do
 * tensors that recompute_apply computes again.
 * limits  backward_build has been called; recompute_apply comes before it; at most once
 * result  the same gradients to the bit
 * memory  in the graph's region */
void offload_apply(struct graph *graph);

#endif
