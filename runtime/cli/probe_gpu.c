#include "runtime/cli/probe_gpu.h"

#include "base/text.h"
#include "build_config.h"

#include <stdio.h>

#if !SKEP_CUDA

enum status probe_gpu_run(const char *name, struct region *region, struct probed *probed,
                          struct fault *fault) {
    (void)name, (void)region;
    char place[sizeof fault->place];
    snprintf(place, sizeof place, "target %.200s", probed->target->name);
    return fault_set(fault, STATUS_INPUT, place, "probe a cpu target",
                     "is a CUDA device, which this build cannot measure");
}

#else

#include "kernels/cuda/table.h"
#include "runtime/cli/probe_products.h"

/* What loading takes is what is free before less what is free behind. */
static enum status load_kernels(const struct cuda_device *device, struct cuda_kernel_table *table,
                                struct probe_gpu *result, struct fault *fault) {
    uint64_t before;
    uint64_t behind;
    enum status status = cuda_device_free(device, &before, fault);
    if (status == OK) {
        status = cuda_kernel_table_init(&device->driver, table, fault);
    }
    if (status == OK) {
        status = cuda_device_free(device, &behind, fault);
    }
    if (status == OK) {
        result->kernels_bytes = before > behind ? before - behind : 0;
    }
    return status;
}

static enum status measure(const struct cuda_device *device, struct probe_gpu *result,
                           struct fault *fault) {
    struct cuda_kernel_table table;
    enum status status = probe_gpu_begin(device, result, fault);
    if (status == OK) {
        status = load_kernels(device, &table, result, fault);
    }
    if (status == OK) {
        status = probe_gpu_copies(device, result, fault);
    }
    if (status == OK) {
        status = probe_products(device, &table, result, fault);
    }
    if (status == OK) {
        probe_gpu_end(device, result);
    }
    return status;
}

static void name_holders(const struct cuda_device *device, struct probed *probed) {
    struct nvml nvml;
    struct text text = text_over(probed->holders, sizeof probed->holders);
    if (nvml_open(&nvml)) {
        nvml_largest_processes(&nvml, device->bus, PROBE_HOLDERS, &text);
    }
}

static void describe_products(const struct probe_gpu *gpu, struct probed *probed,
                              struct text *json) {
    struct text text = text_over(probed->products, sizeof probed->products);
    text_add(&text, "%s; our own kernels %.3g TFLOP/s in f32, %.3g TFLOP/s in bf16", gpu->products,
             gpu->own_f32_flops * 1e-12, gpu->own_bf16_flops * 1e-12);
    text_add(json, ", \"products\": ");
    text_add_json(json, gpu->products);
    text_add(json, ", \"products_bytes\": %llu, \"own_f32_flops\": %.6g, \"own_bf16_flops\": %.6g",
             (unsigned long long)gpu->products_bytes, gpu->own_f32_flops, gpu->own_bf16_flops);
}

static void describe(const struct probe_gpu *gpu, struct probed *probed) {
    struct text text = text_over(probed->machine, sizeof probed->machine);
    struct text json = text_over(probed->json, sizeof probed->json);
    text_add(&text, "%s, compute capability %d.%d, driver %s", gpu->name, gpu->compute_major,
             gpu->compute_minor, gpu->driver);
    text_add(&json, "\"gpu\": ");
    text_add_json(&json, gpu->name);
    text_add(&json, ", \"compute_capability\": \"%d.%d\", \"driver\": ", gpu->compute_major,
             gpu->compute_minor);
    text_add_json(&json, gpu->driver);
    text_add(&json, ", \"context_bytes\": %llu, \"kernels_bytes\": %llu",
             (unsigned long long)gpu->context_bytes, (unsigned long long)gpu->kernels_bytes);
    describe_products(gpu, probed, &json);
    if (gpu->healthy && gpu->health.temperature_c >= 0) {
        text_add(&text, ", %d C", gpu->health.temperature_c);
        text_add(&json, ", \"temperature_c\": %d", gpu->health.temperature_c);
    }
    if (gpu->healthy && gpu->health.slowed) {
        text_add(&text, ", slowed by %s", gpu->health.slowed_by);
        text_add(&json, ", \"slowed_by\": \"%s\"", gpu->health.slowed_by);
    }
    if (gpu->healthy && gpu->health.ecc_errors > 0) {
        text_add(&text, ", %lld ECC errors", (long long)gpu->health.ecc_errors);
        text_add(&json, ", \"ecc_errors\": %lld", (long long)gpu->health.ecc_errors);
    }
    text_add(&json, "}");
}

enum status probe_gpu_run(const char *name, struct region *region, struct probed *probed,
                          struct fault *fault) {
    struct cuda_device *device;
    struct probe_gpu result;
    struct probe_line *lines = region_alloc(region, PROBE_GPU_LINES, sizeof *lines);
    enum status status = cuda_device_acquire(&device, fault);
    if (status != OK) {
        return status;
    }
    status = measure(device, &result, fault);
    name_holders(device, probed);
    cuda_device_release(device);
    if (status == OK) {
        probed->lines = lines;
        probed->count = probe_gpu_compare(probed->target, &result, lines, &probed->lower);
        probed->measured = probe_gpu_target(&result, name, region);
        describe(&result, probed);
    }
    return status;
}

#endif
