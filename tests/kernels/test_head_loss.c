/* Cross-entropy through the output projection, by chunks, against fp64. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/head_loss.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/head_loss.h"
#include "kernels/cuda/launch/workspace.h"
#include "tests/kernels/device_scalars.h"
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { IGNORED = -100 };
static const float LOSS_SCALE = 0.0625f;

struct head_case {
    int64_t tokens, dim, vocab, chunk;
    bool gradient, accumulate;
};

struct head_context {
    struct head_loss_args args;
    struct tensor hidden, weight, labels;
    struct tensor dhidden, dweight, loss;
    bool dhidden_absent, dweight_absent; /* the kernel is given NULL for it */
};

/* ---- fp64 ---- */

static double logit_of(const struct head_context *head, int64_t token, int64_t word) {
    double sum = 0;
    for (int64_t i = 0; i < head->args.dim; i++) {
        sum += head->hidden.exact[token * head->args.dim + i] *
               head->weight.exact[word * head->args.dim + i];
    }
    return sum;
}

/* probabilities[vocab]; the loss of `token`. */
static double exponentiate_row(const struct head_context *head, int64_t token,
                               double *probabilities) {
    double largest = -INFINITY;
    for (int64_t word = 0; word < head->args.vocab; word++) {
        probabilities[word] = logit_of(head, token, word);
        largest = fmax(largest, probabilities[word]);
    }
    int64_t label = (int64_t)head->labels.exact[token];
    double loss = largest - (label == IGNORED ? 0 : probabilities[label]);
    double sum = 0;
    for (int64_t word = 0; word < head->args.vocab; word++) {
        probabilities[word] = exp(probabilities[word] - largest);
        sum += probabilities[word];
    }
    for (int64_t word = 0; word < head->args.vocab; word++) {
        probabilities[word] /= sum;
    }
    return loss + log(sum);
}

static void reference_token(struct head_context *head, int64_t token, double *probabilities) {
    int64_t dim = head->args.dim;
    int64_t label = (int64_t)head->labels.exact[token];
    double loss = exponentiate_row(head, token, probabilities);
    if (label == IGNORED) {
        return;
    }
    head->loss.exact[0] += loss;
    for (int64_t word = 0; word < head->args.vocab; word++) {
        double slope = (probabilities[word] - (word == label)) * (double)LOSS_SCALE;
        for (int64_t i = 0; i < dim; i++) {
            head->dhidden.exact[token * dim + i] += slope * head->weight.exact[word * dim + i];
            head->dweight.exact[word * dim + i] += slope * head->hidden.exact[token * dim + i];
        }
    }
}

static void reference(struct head_context *head) {
    double *probabilities = malloc((size_t)head->args.vocab * sizeof *probabilities);
    assert_non_null(probabilities);
    for (int64_t token = 0; token < head->args.tokens; token++) {
        reference_token(head, token, probabilities);
    }
    free(probabilities);
}

/* ---- the kernel ---- */

static void run_head(const struct compute *compute, void *context) {
    struct head_context *head = context;
    struct step_scalars scalars = {.loss_scale = LOSS_SCALE};
    struct tensor workspace =
        workspace_of(head_loss_workspace_bytes(&head->args, compute->pool->thread_count));
    bool gradient = head->args.gradient;
    head_loss_run(compute, &head->args, head->hidden.data, head->weight.data, head->labels.data,
                  &scalars, gradient && !head->dhidden_absent ? head->dhidden.data : NULL,
                  gradient && !head->dweight_absent ? head->dweight.data : NULL, workspace.data);
    *(float *)head->loss.data = (float)scalars.loss_sum;
    tensor_free(&workspace);
}

#if SKEP_CUDA
static void run_head_cuda(const struct cuda_compute *compute, struct device_run *device,
                          void *context) {
    struct head_context *head = context;
    static const struct target TARGET = {.kind = TARGET_CUDA, .compute_major = 8};
    struct step_scalars scalars = {.loss_scale = LOSS_SCALE};
    void *on_device = device_put(compute, device, &scalars, sizeof scalars);
    bool gradient = head->args.gradient;
    bool dhidden = gradient && !head->dhidden_absent;
    bool dweight = gradient && !head->dweight_absent;
    cuda_head_loss_run(
        compute, &head->args, device_of(device, &head->hidden), device_of(device, &head->weight),
        device_of(device, &head->labels), on_device,
        dhidden ? device_of(device, &head->dhidden) : NULL,
        dweight ? device_of(device, &head->dweight) : NULL,
        device_workspace(device, cuda_head_loss_workspace_bytes(&head->args, &TARGET)));
    device_copy(compute, &scalars, on_device, sizeof scalars);
    *(float *)head->loss.data = (float)scalars.loss_sum;
}
#endif

static struct head_context context_of(struct head_case c, enum dtype dtype) {
    uint64_t seed = harness_seed();
    struct head_context head = {
        .args = {c.tokens, c.dim, c.vocab, c.chunk, dtype, c.gradient, c.accumulate},
        .hidden = tensor_random(dtype, c.tokens * c.dim, PATTERN_NORMAL, seed),
        .weight = tensor_random(dtype, c.vocab * c.dim, PATTERN_NORMAL, seed + 1),
        .labels = tensor_integers(c.tokens, (int32_t)c.vocab, seed + 2),
        .dhidden = tensor_unset(dtype, c.tokens * c.dim),
        .dweight = c.accumulate ? tensor_random(DTYPE_F32, c.vocab * c.dim, PATTERN_NORMAL, seed)
                                : tensor_unset(DTYPE_F32, c.vocab * c.dim),
        .loss = tensor_unset(DTYPE_F32, 1),
    };
    return head;
}

static void ignore_labels(struct head_context *head, int64_t first, int64_t end, int64_t step) {
    for (int64_t token = first; token < end; token += step) {
        ((int32_t *)head->labels.data)[token] = IGNORED;
        head->labels.exact[token] = IGNORED;
    }
}

static void context_finish(struct head_context *head) {
    tensor_free(&head->hidden);
    tensor_free(&head->weight);
    tensor_free(&head->labels);
    tensor_free(&head->dhidden);
    tensor_free(&head->dweight);
    tensor_free(&head->loss);
}

static struct operation operation_of(struct head_context *head) {
    struct operation operation = {
        .name =
            head->args.dtype == DTYPE_BF16 && head->args.gradient ? "head_loss_bf16" : "head_loss",
        .run = run_head,
        .run_cuda = ON_CUDA(run_head_cuda),
        .context = head,
        .output_count = head->args.gradient ? 3 : 1,
        .outputs = {{"loss", &head->loss, head->loss.exact},
                    {"dhidden", &head->dhidden, head->dhidden.exact},
                    {"dweight", &head->dweight, head->dweight.exact}},
    };
    operation_describe(&operation, "%s %lld x %lld x %lld chunk %lld seed %llu",
                       dtype_name(head->args.dtype), (long long)head->args.tokens,
                       (long long)head->args.dim, (long long)head->args.vocab,
                       (long long)head->args.chunk, (unsigned long long)harness_seed());
    return operation;
}

static void check(struct head_context *head) {
    reference(head);
    struct operation operation = operation_of(head);
    operation_check(&operation);
    context_finish(head);
}

static const struct head_case CASES[] = {
    {1, 1, 2, 1, true, false},      {3, 5, 7, 2, true, true},      {16, 8, 63, 16, true, false},
    {33, 16, 64, 16, true, true},   {40, 24, 65, 16, true, false}, {48, 32, 257, 48, true, true},
    {50, 17, 1000, 16, true, true}, {64, 8, 5003, 32, true, true}, {37, 16, 300, 16, false, false},
};

static void head_loss_equals_its_formula(void **state) {
    (void)state;
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
            struct head_context head = context_of(CASES[i], (enum dtype)dtype);
            ignore_labels(&head, 1, head.args.tokens, 3);
            check(&head);
        }
    }
}

static void head_loss_makes_one_gradient_when_the_other_is_frozen(void **state) {
    (void)state;
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        for (int absent = 0; absent < 2; absent++) {
            struct head_case c = {50, 17, 257, 16, true, true};
            struct head_context head = context_of(c, (enum dtype)dtype);
            head.dhidden_absent = absent == 0;
            head.dweight_absent = absent == 1;
            reference(&head);
            struct operation operation = operation_of(&head);
            operation.outputs[1] = operation.outputs[head.dhidden_absent ? 2 : 1];
            operation.output_count = 2;
            operation_check(&operation);
            context_finish(&head);
        }
    }
}

static void head_loss_is_zero_where_every_label_is_ignored(void **state) {
    (void)state;
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        struct head_case c = {48, 8, 65, 16, true, accumulate == 1};
        struct head_context head = context_of(c, DTYPE_F32);
        ignore_labels(&head, 0, 16, 1);
        ignore_labels(&head, 32, 48, 1);
        check(&head);
        head = context_of(c, DTYPE_BF16);
        ignore_labels(&head, 0, 48, 1);
        check(&head);
    }
}

static void set_weight(struct head_context *head, int64_t index, float value) {
    ((float *)head->weight.data)[index] = value;
}

static void head_loss_is_not_finite_when_a_logit_is_not(void **state) {
    (void)state;
    const float broken[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < ARRAY_COUNT(broken); i++) {
        for (int gradient = 0; gradient < 2; gradient++) {
            struct head_case c = {4, 1, 131, 4, gradient == 1, false};
            struct head_context head = context_of(c, DTYPE_F32);
            set_weight(&head, 67, broken[i]);
            head.loss.exact[0] = NAN;
            struct operation operation = operation_of(&head);
            operation.outputs[1].expected = NULL; /* whatever it is: the step will be skipped */
            operation.outputs[2].expected = NULL;
            operation_check(&operation);
            context_finish(&head);
        }
    }
}

static double loss_of_hidden(const double *x, void *context) {
    struct head_context head = *(struct head_context *)context;
    double *probabilities = malloc((size_t)head.args.vocab * sizeof *probabilities);
    assert_non_null(probabilities);
    memcpy(head.hidden.exact, x, (size_t)head.hidden.count * sizeof *x);
    double loss = 0;
    for (int64_t token = 0; token < head.args.tokens; token++) {
        double one = exponentiate_row(&head, token, probabilities);
        loss += head.labels.exact[token] == IGNORED ? 0 : one;
    }
    free(probabilities);
    return loss * (double)LOSS_SCALE;
}

static void reference_gradient_equals_differences(void **state) {
    (void)state;
    struct head_case c = {4, 6, 11, 4, true, false};
    struct head_context head = context_of(c, DTYPE_F32);
    ignore_labels(&head, 2, 3, 1);
    reference(&head);
    double x[24];
    memcpy(x, head.hidden.exact, sizeof x);
    gradient_check("head_loss dhidden", loss_of_hidden, &head, x, head.dhidden.exact, 24);
    context_finish(&head);
}

static void head_loss_chunk_is_even_and_bounded(void **state) {
    (void)state;
    assert_int_equal(head_loss_chunk(1024, 50257), 128);
    assert_int_equal(head_loss_chunk(7, 50257), 7);
    assert_int_equal(head_loss_chunk(4096, 1000), 4096);
    assert_int_equal(head_loss_chunk(8192, 1024), 8192);
    assert_int_equal(head_loss_chunk(8193, 1024), 4112);
    assert_int_equal(head_loss_chunk(1000, 1 << 28), 16);
    for (int64_t tokens = 1; tokens < 3000; tokens += 37) {
        for (int64_t vocab = 100; vocab < 300000; vocab *= 3) {
            int64_t chunk = head_loss_chunk(tokens, vocab);
            assert_true(chunk >= 1 && chunk <= tokens);
            assert_true(chunk == tokens || chunk % 16 == 0);
            assert_true(chunk <= 16 || chunk * vocab * 4 <= 32 << 20);
        }
    }
}

static void bench(struct head_case c, enum dtype dtype) {
    struct head_context head = context_of(c, dtype);
    struct operation operation = operation_of(&head);
    double products = c.gradient ? 6 : 2;
    operation_bench(&operation, 0, products * (double)(c.tokens * c.dim * c.vocab));
    context_finish(&head);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
            bench((struct head_case){256, 768, 50257, 128, true, true}, (enum dtype)dtype);
            /* A dim of 1 leaves little but the softmax. */
            bench((struct head_case){256, 1, 50257, 128, true, true}, (enum dtype)dtype);
            bench((struct head_case){256, 1, 50257, 128, false, false}, (enum dtype)dtype);
        }
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_loss_equals_its_formula),
        cmocka_unit_test(head_loss_makes_one_gradient_when_the_other_is_frozen),
        cmocka_unit_test(head_loss_is_zero_where_every_label_is_ignored),
        cmocka_unit_test(head_loss_is_not_finite_when_a_logit_is_not),
        cmocka_unit_test(reference_gradient_equals_differences),
        cmocka_unit_test(head_loss_chunk_is_even_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
