#include "tests/kernels/attention_problem.h"

#include "base/random.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/attention.h"
#include "kernels/cuda/launch/workspace.h"
#include "tests/kernels/device.h"
#endif

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void fill_positions(struct tensor *positions, const struct shape *shape) {
    int32_t *values = positions->data;
    for (int64_t i = 0; i < shape->rows * shape->time; i++) {
        int64_t t = i % shape->time;
        values[i] = t == 0 ? 0 : values[i - 1] + 1;
        if (shape->documents == DOCUMENTS_SINGLE) {
            values[i] = 0;
        } else if (shape->documents == DOCUMENTS_PACKED && t == 0) {
            values[i] = i == 0 ? 5 : 0;
        } else if (shape->documents == DOCUMENTS_PACKED &&
                   random_uniform(harness_seed(), (uint64_t)i) < 0.04f) {
            values[i] = 0;
        }
        positions->exact[i] = values[i];
    }
}

static struct attention_args args_of(const struct shape *shape, enum dtype dtype) {
    int64_t stride = (shape->heads + 2 * shape->kv_heads) * shape->head_dim + shape->gap;
    double logit = shape->logit == 0 ? 1 : shape->logit;
    return (struct attention_args){
        .rows = shape->rows,
        .time = shape->time,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_dim = shape->head_dim,
        .q_stride = stride,
        .kv_stride = stride,
        .out_stride = shape->heads * shape->head_dim + shape->gap,
        .window = shape->window,
        .scale = (float)(logit / sqrt((double)shape->head_dim)),
        .dtype = dtype,
    };
}

static uint64_t workspace_bytes(const struct attention_args *args, int threads) {
    uint64_t forward = attention_forward_workspace_bytes(args, threads);
    uint64_t backward = attention_backward_workspace_bytes(args, threads);
    return forward > backward ? forward : backward;
}

void problem_init(struct problem *problem, const struct shape *shape, enum dtype dtype) {
    enum { THREADS = 3 };
    memset(problem, 0, sizeof *problem);
    problem->args = args_of(shape, dtype);
    const struct attention_args *args = &problem->args;
    int64_t tokens = shape->rows * shape->time;
    problem->qkv = tensor_random(dtype, tokens * args->q_stride, shape->pattern, harness_seed());
    problem->dout =
        tensor_random(dtype, tokens * args->out_stride, PATTERN_NORMAL, harness_seed() + 1);
    problem->out = tensor_zeros(dtype, tokens * args->out_stride);
    problem->lse = tensor_unset(DTYPE_F32, tokens * args->heads);
    problem->dqkv = tensor_zeros(dtype, tokens * args->q_stride);
    problem->positions = tensor_zeros(DTYPE_I32, tokens);
    fill_positions(&problem->positions, shape);
    uint64_t bytes = 0;
    for (int threads = 1; threads <= THREADS; threads++) {
        uint64_t need = workspace_bytes(args, threads);
        bytes = need > bytes ? need : bytes;
    }
    problem->workspace = workspace_of(bytes);
}

void problem_expect(struct problem *problem) {
    const struct attention_args *args = &problem->args;
    problem->expected_out = calloc((size_t)problem->out.count, sizeof(double));
    problem->expected_lse = calloc((size_t)problem->lse.count, sizeof(double));
    problem->expected_dqkv = calloc((size_t)problem->dqkv.count, sizeof(double));
    attention_reference_forward(args, problem->qkv.exact, problem->positions.exact,
                                problem->expected_out, problem->expected_lse);
    attention_reference_backward(args, problem->qkv.exact, problem->positions.exact,
                                 problem->dout.exact, problem->expected_dqkv);
}

void problem_finish(struct problem *problem) {
    tensor_free(&problem->qkv);
    tensor_free(&problem->positions);
    tensor_free(&problem->dout);
    tensor_free(&problem->out);
    tensor_free(&problem->lse);
    tensor_free(&problem->dqkv);
    tensor_free(&problem->workspace);
    free(problem->expected_out);
    free(problem->expected_lse);
    free(problem->expected_dqkv);
}

char *problem_element(const struct tensor *tensor, int64_t index) {
    return (char *)tensor->data + index * dtype_bytes(tensor->dtype);
}

void problem_forward(const struct compute *compute, void *context) {
    struct problem *problem = context;
    const struct attention_args *args = &problem->args;
    attention_forward(
        compute, args, problem->qkv.data, problem_element(&problem->qkv, attention_k_offset(args)),
        problem_element(&problem->qkv, attention_v_offset(args)), problem->positions.data,
        problem->out.data, problem->lse.data, problem->workspace.data);
}

void problem_backward(const struct compute *compute, void *context) {
    struct problem *problem = context;
    const struct attention_args *args = &problem->args;
    attention_backward(
        compute, args, problem->qkv.data, problem_element(&problem->qkv, attention_k_offset(args)),
        problem_element(&problem->qkv, attention_v_offset(args)), problem->out.data,
        problem->lse.data, problem->dout.data, problem->positions.data, problem->dqkv.data,
        problem_element(&problem->dqkv, attention_k_offset(args)),
        problem_element(&problem->dqkv, attention_v_offset(args)), problem->workspace.data);
}

void problem_both(const struct compute *compute, void *context) {
    problem_forward(compute, context);
    problem_backward(compute, context);
}

const char *problem_operation_name(void) {
#if SKEP_CUDA
    if (device_is_wanted()) {
        return "attention_cuda";
    }
#endif
    return "attention";
}

#if SKEP_CUDA
static char *element_on(struct device_run *device, const struct tensor *tensor, int64_t index) {
    return (char *)device_of(device, tensor) + index * dtype_bytes(tensor->dtype);
}

void problem_forward_cuda(const struct cuda_compute *compute, struct device_run *device,
                          void *context) {
    struct problem *problem = context;
    const struct attention_args *args = &problem->args;
    cuda_attention_forward(compute, args, device_of(device, &problem->qkv),
                           element_on(device, &problem->qkv, attention_k_offset(args)),
                           element_on(device, &problem->qkv, attention_v_offset(args)),
                           device_of(device, &problem->positions), device_of(device, &problem->out),
                           device_of(device, &problem->lse));
}

void problem_backward_cuda(const struct cuda_compute *compute, struct device_run *device,
                           void *context) {
    struct problem *problem = context;
    const struct attention_args *args = &problem->args;
    int64_t k = attention_k_offset(args);
    int64_t v = attention_v_offset(args);
    cuda_attention_backward(
        compute, args, device_of(device, &problem->qkv), element_on(device, &problem->qkv, k),
        element_on(device, &problem->qkv, v), device_of(device, &problem->out),
        device_of(device, &problem->lse), device_of(device, &problem->dout),
        device_of(device, &problem->positions), device_of(device, &problem->dqkv),
        element_on(device, &problem->dqkv, k), element_on(device, &problem->dqkv, v),
        device_workspace(device, cuda_attention_backward_workspace_bytes(args, NULL)));
}

void problem_both_cuda(const struct cuda_compute *compute, struct device_run *device,
                       void *context) {
    problem_forward_cuda(compute, device, context);
    problem_backward_cuda(compute, device, context);
}
#endif

void problem_describe(struct operation *operation, const struct shape *shape, enum dtype dtype) {
    operation_describe(operation,
                       "%s rows %d time %d heads %d/%d dim %d window %d documents %d %s logit %g "
                       "gap %d seed %llu",
                       dtype_name(dtype), (int)shape->rows, (int)shape->time, (int)shape->heads,
                       (int)shape->kv_heads, (int)shape->head_dim, (int)shape->window,
                       (int)shape->documents, pattern_name(shape->pattern), shape->logit,
                       (int)shape->gap, (unsigned long long)harness_seed());
}

bool problem_is_left_out(size_t i) {
    const char *device = getenv("SKEP_CUDA");
    bool is_slow = device != NULL && strcmp(device, "emulated") == 0;
    return is_slow && getenv("SKEP_LONG") == NULL && i % 3 != 0;
}
