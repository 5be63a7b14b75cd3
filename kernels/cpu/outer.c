
#include "kernels/cpu/cpu.h"
#include "kernels/items.h"

static const int64_t TOTAL_MAX = (int64_t)1 << 53; /* smaller integers are exact in fp64 */

float outer_token_share(int64_t tokens, int64_t total) {
    ASSERT(tokens >= 0 && tokens <= total && total < TOTAL_MAX);
    return total == 0 ? 0 : (float)((double)tokens / (double)total);
}

/* ---- the pseudo-gradient ---- */

struct gradient_call {
    const struct outer_kernels *kernels;
    int64_t count;              /* number of elements */
    const float *outer, *inner; /* parameters before and after the inner steps */
    float *gradient;            /* [count] outer gradient: the difference of the two */
};

static void run_gradient_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct gradient_call *call = context;
    int64_t first = item * ITEM_ELEMENTS;
    call->kernels->gradient(call->outer + first, call->inner + first,
                            item_length(call->count, ITEM_ELEMENTS, item), call->gradient + first);
}

void outer_gradient_run(const struct compute *compute, int64_t count, const float *outer,
                        const float *inner, float *gradient) {
    ASSERT(count >= 0);
    struct gradient_call call = {.kernels = &compute->table->outer,
                                 .count = count,
                                 .outer = outer,
                                 .inner = inner,
                                 .gradient = gradient};
    pool_run(compute->pool, run_gradient_item, &call, items_count(count, ITEM_ELEMENTS));
}

/* ---- the outer step ---- */

struct step_call {
    const struct outer_kernels *kernels;
    const struct outer_step_args *args;
};

static void run_step_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct step_call *call = context;
    call->kernels->step(call->args, item * ITEM_ELEMENTS,
                        item_length(call->args->count, ITEM_ELEMENTS, item));
}

void outer_step_run(const struct compute *compute, const struct outer_step_args *args) {
    ASSERT(args->count >= 0);
    struct step_call call = {.kernels = &compute->table->outer, .args = args};
    pool_run(compute->pool, run_step_item, &call, items_count(args->count, ITEM_ELEMENTS));
}
