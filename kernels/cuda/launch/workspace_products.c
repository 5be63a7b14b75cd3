/* The workspaces of matrix products and of operations that contain them. */
#include "kernels/cuda/device/optimizer_params.h"
#include "kernels/cuda/launch/workspace.h"
#include "kernels/head_loss_chunk.h"
#include "kernels/items.h"

enum { MIB = 1 << 20, PART_ALIGNMENT = 256 }; /* bytes */

/* The workspace sizes that NVIDIA recommends for cuBLAS on each GPU generation. */
uint64_t cuda_matmul_workspace_bytes(const struct matmul_args *args, const struct target *target) {
    (void)args;
    switch (target->compute_major) {
    case 9:
    case 10:
        return 32 * MIB;
    case 12:
        return 12 * MIB;
    default:
        return 4 * MIB;
    }
}

/* ---- the head's loss ---- */

/* Each chunk reads the head's weight twice and its gradient once, so chunks are large enough to
 * hide that behind computation. The size does not depend on available memory, because a memory
 * limit must not change the program. */
enum {
    LOGITS_BYTES_PER_MULTIPROCESSOR = 2 * MIB,
    LOGITS_BYTES_MIN = 32 * MIB,
    LOGITS_BYTES_MAX = 512 * MIB
};

int64_t cuda_head_loss_chunk(int64_t tokens, int64_t vocab, const struct target *target) {
    int64_t bytes = (int64_t)target->multiprocessor_count * LOGITS_BYTES_PER_MULTIPROCESSOR;
    bytes = bytes < LOGITS_BYTES_MIN ? LOGITS_BYTES_MIN : bytes;
    bytes = bytes > LOGITS_BYTES_MAX ? LOGITS_BYTES_MAX : bytes;
    return head_loss_chunk_within(tokens, vocab, bytes);
}

static uint64_t align_part(uint64_t bytes) {
    return (bytes + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
}

/* The workspace holds the logits of a chunk, its losses, and the workspace of its products. */
uint64_t cuda_head_loss_losses_offset(const struct head_loss_args *args) {
    return align_part(head_loss_logits_bytes(args));
}

uint64_t cuda_head_loss_scratch_offset(const struct head_loss_args *args) {
    return cuda_head_loss_losses_offset(args) + align_part((uint64_t)args->chunk * sizeof(double));
}

uint64_t cuda_head_loss_workspace_bytes(const struct head_loss_args *args,
                                        const struct target *target) {
    struct matmul_args logits = head_loss_logits_product(args, args->chunk);
    return cuda_head_loss_scratch_offset(args) + cuda_matmul_workspace_bytes(&logits, target);
}

/* ---- the gradient norm ---- */

int64_t cuda_gradient_norm_blocks(int64_t count) {
    int64_t rounds = items_count(count / GRANULE_ELEMENTS, NORM_GRANULES_PER_PASS);
    return rounds < NORM_BLOCKS_MAX ? rounds : NORM_BLOCKS_MAX;
}

uint64_t cuda_gradient_norm_workspace_bytes(int64_t count, const struct target *target) {
    (void)target;
    return (uint64_t)cuda_gradient_norm_blocks(count) * sizeof(struct norm_accumulator);
}
