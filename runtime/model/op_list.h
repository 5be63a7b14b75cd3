/* op_list: the list of all operations of a program: kind, printed name, and operands. graph.h
 * generates the enums from it, graph.c the table of rows, and runtime/ops the table of
 * implementations, so a new operation needs no change in them.
 *
 *   OP(KIND, name, operands)   defines OP_KIND in enum op_kind, and enum name_operand with the
 *                              operands and KIND_OPERANDS, the number of operands
 *   READ, WRITE, UPDATE        how the op accesses the operand; UPDATE reads and writes it
 *   MAY_READ, MAY_WRITE, ...   the operand may be absent (TENSOR_NONE, EXTENT_NONE, NULL)
 *
 * The order of an op's operands is part of the hash of a plan, so it must not change. */
#ifndef SKEP_MODEL_OP_LIST_H
#define SKEP_MODEL_OP_LIST_H

/* clang-format off */
#define OP_LIST(OP)                                                                                \
    OP(EMBEDDING, embedding,                                                                       \
       READ(EMBEDDING_IDS) MAY_READ(EMBEDDING_POSITIONS) READ(EMBEDDING_TABLE)                     \
       MAY_READ(EMBEDDING_POSITION_TABLE) WRITE(EMBEDDING_OUT))                                    \
    OP(EMBEDDING_BACKWARD, embedding_backward,                                                     \
       READ(EMBEDDING_BACKWARD_IDS) MAY_READ(EMBEDDING_BACKWARD_POSITIONS)                         \
       READ(EMBEDDING_BACKWARD_DOUT) MAY_UPDATE(EMBEDDING_BACKWARD_DTABLE)                         \
       MAY_UPDATE(EMBEDDING_BACKWARD_DPOSITION_TABLE))                                             \
    OP(RMSNORM, rmsnorm,                                                                           \
       READ(RMSNORM_X) READ(RMSNORM_WEIGHT) WRITE(RMSNORM_OUT) WRITE(RMSNORM_RMS_INV))             \
    OP(RMSNORM_BACKWARD, rmsnorm_backward,                                                         \
       READ(RMSNORM_BACKWARD_DOUT) READ(RMSNORM_BACKWARD_X) READ(RMSNORM_BACKWARD_WEIGHT)          \
       READ(RMSNORM_BACKWARD_RMS_INV) MAY_READ(RMSNORM_BACKWARD_DADD)                              \
       MAY_WRITE(RMSNORM_BACKWARD_DX) MAY_UPDATE(RMSNORM_BACKWARD_DWEIGHT))                        \
    OP(LAYERNORM, layernorm,                                                                       \
       READ(LAYERNORM_X) READ(LAYERNORM_WEIGHT) READ(LAYERNORM_BIAS) WRITE(LAYERNORM_OUT)          \
       WRITE(LAYERNORM_MEAN) WRITE(LAYERNORM_STD_INV))                                             \
    OP(LAYERNORM_BACKWARD, layernorm_backward,                                                     \
       READ(LAYERNORM_BACKWARD_DOUT) READ(LAYERNORM_BACKWARD_X) READ(LAYERNORM_BACKWARD_WEIGHT)    \
       READ(LAYERNORM_BACKWARD_MEAN) READ(LAYERNORM_BACKWARD_STD_INV)                              \
       MAY_READ(LAYERNORM_BACKWARD_DADD) MAY_WRITE(LAYERNORM_BACKWARD_DX)                          \
       MAY_UPDATE(LAYERNORM_BACKWARD_DWEIGHT) MAY_UPDATE(LAYERNORM_BACKWARD_DBIAS))                \
    OP(LINEAR, linear, READ(LINEAR_X) READ(LINEAR_WEIGHT) MAY_READ(LINEAR_BIAS) WRITE(LINEAR_OUT)) \
    /* if op.accumulate is true, DX is updated instead of written */                               \
    OP(LINEAR_DX, linear_dx, READ(LINEAR_DX_DOUT) READ(LINEAR_DX_WEIGHT) WRITE(LINEAR_DX_DX))      \
    OP(LINEAR_DW, linear_dw, READ(LINEAR_DW_DOUT) READ(LINEAR_DW_X) UPDATE(LINEAR_DW_DWEIGHT))     \
    OP(COLUMN_SUM, column_sum, READ(COLUMN_SUM_DOUT) UPDATE(COLUMN_SUM_DBIAS))                     \
    /* rotates X in place, in the opposite direction if op.inverse is true */                      \
    OP(ROPE, rope, READ(ROPE_TABLE) READ(ROPE_POSITIONS) UPDATE(ROPE_X))                           \
    OP(ATTENTION, attention,                                                                       \
       READ(ATTENTION_Q) READ(ATTENTION_K) READ(ATTENTION_V) READ(ATTENTION_POSITIONS)             \
       WRITE(ATTENTION_OUT) WRITE(ATTENTION_LSE))                                                  \
    OP(ATTENTION_BACKWARD, attention_backward,                                                     \
       READ(ATTENTION_BACKWARD_Q) READ(ATTENTION_BACKWARD_K) READ(ATTENTION_BACKWARD_V)            \
       READ(ATTENTION_BACKWARD_OUT) READ(ATTENTION_BACKWARD_LSE) READ(ATTENTION_BACKWARD_DOUT)     \
       READ(ATTENTION_BACKWARD_POSITIONS) WRITE(ATTENTION_BACKWARD_DQ)                             \
       WRITE(ATTENTION_BACKWARD_DK) WRITE(ATTENTION_BACKWARD_DV))                                  \
    OP(CACHE_APPEND, cache_append,                                                                 \
       READ(CACHE_APPEND_ROWS) READ(CACHE_APPEND_SCALARS) UPDATE(CACHE_APPEND_CACHE))              \
    OP(ATTENTION_CACHED, attention_cached,                                                         \
       READ(ATTENTION_CACHED_Q) READ(ATTENTION_CACHED_KEY_CACHE)                                   \
       READ(ATTENTION_CACHED_VALUE_CACHE) READ(ATTENTION_CACHED_SCALARS)                           \
       WRITE(ATTENTION_CACHED_OUT))                                                                \
    OP(SWIGLU, swiglu, READ(SWIGLU_GATE) READ(SWIGLU_UP) WRITE(SWIGLU_OUT))                        \
    OP(SWIGLU_BACKWARD, swiglu_backward,                                                           \
       READ(SWIGLU_BACKWARD_DOUT) READ(SWIGLU_BACKWARD_GATE) READ(SWIGLU_BACKWARD_UP)              \
       WRITE(SWIGLU_BACKWARD_DGATE) WRITE(SWIGLU_BACKWARD_DUP))                                    \
    OP(GELU, gelu, READ(GELU_X) WRITE(GELU_OUT))                                                   \
    OP(GELU_BACKWARD, gelu_backward,                                                               \
       READ(GELU_BACKWARD_DOUT) READ(GELU_BACKWARD_X) WRITE(GELU_BACKWARD_DX))                     \
    OP(ADD, add, READ(ADD_A) READ(ADD_B) WRITE(ADD_OUT))                                           \
    /* selects the row of the last valid token */                                                  \
    OP(SELECT_LAST, select_last,                                                                   \
       READ(SELECT_LAST_X) READ(SELECT_LAST_SCALARS) WRITE(SELECT_LAST_OUT))                       \
    OP(HEAD_LOSS, head_loss,                                                                       \
       READ(HEAD_LOSS_HIDDEN) READ(HEAD_LOSS_WEIGHT) READ(HEAD_LOSS_LABELS)                        \
       UPDATE(HEAD_LOSS_SCALARS))                                                                  \
    OP(HEAD_LOSS_GRADIENT, head_loss_gradient,                                                     \
       READ(HEAD_LOSS_GRADIENT_HIDDEN) READ(HEAD_LOSS_GRADIENT_WEIGHT)                             \
       READ(HEAD_LOSS_GRADIENT_LABELS) UPDATE(HEAD_LOSS_GRADIENT_SCALARS)                          \
       MAY_WRITE(HEAD_LOSS_GRADIENT_DHIDDEN) MAY_UPDATE(HEAD_LOSS_GRADIENT_DWEIGHT))               \
    /* Instructions outside graphs; of these, a graph can contain only copies and releases. */     \
    OP(ZERO, zero, WRITE(ZERO_EXTENT))                                                             \
    OP(GRADIENT_NORM, gradient_norm, READ(GRADIENT_NORM_GRADIENTS) UPDATE(GRADIENT_NORM_SCALARS))  \
    OP(CLIP, clip, UPDATE(CLIP_SCALARS))                                                           \
    OP(ADAMW, adamw,                                                                               \
       READ(ADAMW_SCALARS) READ(ADAMW_GRADIENTS) UPDATE(ADAMW_MASTER) UPDATE(ADAMW_MOMENT1)        \
       UPDATE(ADAMW_MOMENT2) MAY_WRITE(ADAMW_PARAMS))                                              \
    OP(CAST, cast, READ(CAST_FROM) WRITE(CAST_TO))                                                 \
    /* copies between memory spaces */                                                             \
    OP(COPY, copy, READ(COPY_FROM) WRITE(COPY_TO))                                                 \
    /* work of the CPU that reads and writes an extent, for example to load weights */             \
    OP(HOST, host, UPDATE(HOST_EXTENT))                                                            \
    /* Operations between the ranks of a site. */                                                  \
    /* sends this rank's slot and receives the slots of all other ranks */                         \
    OP(ALL_GATHER, all_gather, UPDATE(ALL_GATHER_SLOTS))                                           \
    /* TO is this rank's slot; it is not part of FROM when transfers are bf16 */                   \
    OP(REDUCE_SCATTER, reduce_scatter, READ(REDUCE_SCATTER_FROM) UPDATE(REDUCE_SCATTER_TO))        \
    OP(ACCUMULATE, accumulate, READ(ACCUMULATE_ADDEND) UPDATE(ACCUMULATE_SUM))                     \
    /* writes the scalars to this rank's slot of the tallies */                                    \
    OP(TALLY_OUT, tally_out, READ(TALLY_OUT_SCALARS) WRITE(TALLY_OUT_TALLY))                       \
    /* combines the token counts, losses and norms of all ranks */                                 \
    OP(TALLY_IN, tally_in, READ(TALLY_IN_TALLIES) UPDATE(TALLY_IN_SCALARS))                        \
    /* computes nothing; waits until earlier uses on other lanes end */                            \
    OP(RELEASE, release, UPDATE(RELEASE_EXTENT))
/* clang-format on */

#endif
