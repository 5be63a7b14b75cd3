/* embedding: looks up rows of a table by token id, and computes their gradient. */
#include "runtime/ops/operation.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/embedding.h"
#endif

static union kernel_args make_embedding_args(const struct op_source *source) {
    const struct blueprint *blueprint = source->graph->blueprint;
    return (union kernel_args){.embedding = {.tokens = source->shape->rows,
                                             .dim = source->shape->columns,
                                             .vocab = blueprint->vocab,
                                             .padding = blueprint->tokens.padding,
                                             .dtype = source->shape->dtype}};
}

/* Returns the memory traffic in bytes. Only the table rows of the batch's tokens are read and
 * written, not the whole table. */
static double embedding_traffic_bytes(const struct instruction *instruction, double operand_bytes) {
    const struct embedding_args *args = &instruction->args.embedding;
    (void)operand_bytes;
    return 3.0 * (double)args->tokens * (double)args->dim * sizeof(float);
}

/* Writes "[tokens,dim] of VOCAB padding ID DTYPE". ID is the id of the padding token; -1: none. */
static void append_embedding_text(const union kernel_args *args, struct text *line) {
    const struct embedding_args *of = &args->embedding;
    text_add(line, " [%lld,%lld] of %lld padding %lld %s", (long long)of->tokens,
             (long long)of->dim, (long long)of->vocab, (long long)of->padding,
             dtype_name(of->dtype));
}

KERNEL_CALLS(embedding, embedding_forward, &call->args->embedding, call->addresses[EMBEDDING_IDS],
             call->addresses[EMBEDDING_POSITIONS], call->addresses[EMBEDDING_TABLE],
             call->addresses[EMBEDDING_POSITION_TABLE], call->addresses[EMBEDDING_OUT])

KERNEL_CALLS(embedding_backward, embedding_backward, &call->args->embedding,
             call->addresses[EMBEDDING_BACKWARD_IDS], call->addresses[EMBEDDING_BACKWARD_POSITIONS],
             call->addresses[EMBEDDING_BACKWARD_DOUT], call->addresses[EMBEDDING_BACKWARD_DTABLE],
             call->addresses[EMBEDDING_BACKWARD_DPOSITION_TABLE])

OPERATION(embedding, .shape_operand = EMBEDDING_OUT, .args = make_embedding_args,
          .bytes = embedding_traffic_bytes, .text = append_embedding_text);

OPERATION(embedding_backward, .shape_operand = EMBEDDING_BACKWARD_DOUT, .args = make_embedding_args,
          .bytes = embedding_traffic_bytes, .text = append_embedding_text);
