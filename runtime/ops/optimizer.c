/* optimizer: the gradient norm, clipping and AdamW. runtime/schedule sets their arguments. */
#include "runtime/ops/operation.h"

#include "kernels/cuda/launch/workspace.h"
#if SKEP_CUDA
#include "kernels/cuda/launch/optimizer.h"
#endif

WORKSPACE_FUNCTION(gradient_norm_workspace, gradient_norm, instruction->args.count)

KERNEL_CALLS(gradient_norm, gradient_norm_run, call->args->count,
             call->addresses[GRADIENT_NORM_GRADIENTS], call->addresses[GRADIENT_NORM_SCALARS],
             call->addresses[OP_WORKSPACE])

OPERATION(gradient_norm, .workspace_bytes = gradient_norm_workspace);

static void append_clip_text(const union kernel_args *args, struct text *line) {
    text_add(line, " %.9g", (double)args->clip_norm);
}

SERIAL_KERNEL_CALLS(clip, clip_run, call->args->clip_norm, call->addresses[CLIP_SCALARS])

OPERATION(clip, .text = append_clip_text);

/* Changes the arguments to those of one rank's shard. The elements with weight decay come first in
 * a unit, so a shard may contain all, some or none of them. */
static void adamw_args_of_rank(union kernel_args *args, const int index[static AXIS_COUNT]) {
    struct adamw_of_rank *adamw = &args->adamw;
    if (!adamw->split) {
        return;
    }
    int64_t count = adamw->first_rank.count;
    int64_t before = index[AXIS_SHARD] * count;
    int64_t decayed = adamw->unit_decayed_elements - before;
    adamw->first_rank.decayed = decayed < 0 ? 0 : decayed > count ? count : decayed;
    adamw->first_rank.position = before;
}

static void append_adamw_text(const union kernel_args *args, struct text *line) {
    const struct adamw_args *run = &args->adamw.first_rank;
    text_add(line, " %lld eps %.9g moments %s params %s", (long long)run->count,
             (double)run->epsilon, dtype_name(run->dtype_moments), dtype_name(run->dtype_params));
    if (run->rounding == ROUNDING_STOCHASTIC) {
        text_add(line, " by noise of stream %u", run->stream);
    }
    text_add(line, " of first %lld%s", (long long)args->adamw.unit_decayed_elements,
             args->adamw.split ? " in unit, split" : "");
}

KERNEL_CALLS(adamw, adamw_run, &call->args->adamw.first_rank, call->addresses[ADAMW_SCALARS],
             call->addresses[ADAMW_GRADIENTS], call->addresses[ADAMW_MASTER],
             call->addresses[ADAMW_MOMENT1], call->addresses[ADAMW_MOMENT2],
             call->addresses[ADAMW_PARAMS])

OPERATION(adamw, .args_of_rank = adamw_args_of_rank, .text = append_adamw_text);
