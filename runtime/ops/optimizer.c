/* optimizer: the gradient norm, clipping and AdamW. The step's builder sets their arguments. */
#include "runtime/ops/operation.h"

#include "kernels/cuda/launch/workspace.h"
#if SKEP_CUDA
#include "kernels/cuda/launch/optimizer.h"
#endif

WORKSPACE_FUNCTION(gradient_norm_workspace, gradient_norm, instruction->args.count)

KERNEL_CALLS(gradient_norm, gradient_norm_run, call->args->count, call->at[GRADIENT_NORM_GRADIENTS],
             call->at[GRADIENT_NORM_SCALARS], call->at[OP_WORKSPACE])

OPERATION(gradient_norm, .workspace_bytes = gradient_norm_workspace);

static void clip_text(const union kernel_args *args, struct text *line) {
    text_add(line, " %.9g", (double)args->clip_norm);
}

SERIAL_KERNEL_CALLS(clip, clip_run, call->args->clip_norm, call->at[CLIP_SCALARS])

OPERATION(clip, .text = clip_text);

/* The elements with weight decay come first in a unit, so a rank's shard contains all, some or none
 * of them. */
static void adamw_args_of_rank(union kernel_args *args, const int index[static AXIS_COUNT]) {
    struct adamw_of_rank *adamw = &args->adamw;
    if (!adamw->split) {
        return;
    }
    int64_t count = adamw->run.count;
    int64_t before = index[AXIS_SHARD] * count;
    int64_t decayed = adamw->decayed_of_unit - before;
    adamw->run.decayed = decayed < 0 ? 0 : decayed > count ? count : decayed;
    adamw->run.position = before;
}

static void adamw_text(const union kernel_args *args, struct text *line) {
    const struct adamw_args *run = &args->adamw.run;
    text_add(line, " %lld beta %.9g,%.9g eps %.9g decay %.9g moments %s params %s",
             (long long)run->count, (double)run->beta1, (double)run->beta2, (double)run->epsilon,
             (double)run->weight_decay, dtype_name(run->dtype_moments),
             dtype_name(run->dtype_params));
    if (run->rounding == ROUNDING_STOCHASTIC) {
        text_add(line, " by noise of stream %u", run->stream);
    }
    text_add(line, " of first %lld%s", (long long)args->adamw.decayed_of_unit,
             args->adamw.split ? " in unit, split" : "");
}

KERNEL_CALLS(adamw, adamw_run, &call->args->adamw.run, call->at[ADAMW_SCALARS],
             call->at[ADAMW_GRADIENTS], call->at[ADAMW_MASTER], call->at[ADAMW_MOMENT1],
             call->at[ADAMW_MOMENT2], call->at[ADAMW_PARAMS])

OPERATION(adamw, .args_of_rank = adamw_args_of_rank, .text = adamw_text);
