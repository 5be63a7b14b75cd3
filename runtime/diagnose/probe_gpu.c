#include "runtime/diagnose/probe_gpu.h"

#include "base/text.h"
#include "build_config.h"

#include <stdio.h>

#if !SKEP_CUDA

int probe_gpu_count(void) {
    return 0;
}

enum status probe_gpu_run(const char *name, struct site *site, struct region *region,
                          struct probed *probed, struct fault *fault) {
    (void)name, (void)site, (void)region;
    char subject[sizeof fault->subject];
    snprintf(subject, sizeof subject, "target %.200s", probed->target->name);
    return fault_set(fault, STATUS_INPUT, subject, "choose a cpu target",
                     "is a CUDA device, which this build cannot measure");
}

#else

#include "kernels/cuda/launch/table.h"
#include "runtime/diagnose/probe_nccl.h"
#include "runtime/diagnose/probe_products.h"
#include "targets/ports/cuda_device.h"

/* Loads the kernels, and measures their device memory as the decrease of free memory. */
static enum status load_kernels(const struct cuda_device *device, struct cuda_kernel_table *table,
                                struct probe_gpu *result, struct fault *fault) {
    uint64_t before;
    uint64_t behind;
    TRY(cuda_device_free_bytes(device, &before, fault));
    TRY(cuda_kernel_table_init(&device->driver, table, fault));
    TRY(cuda_device_free_bytes(device, &behind, fault));
    result->kernels_bytes = before > behind ? before - behind : 0;
    return OK;
}

static enum status measure_device(const struct cuda_device *device, struct probe_gpu *result,
                                  struct fault *fault) {
    struct cuda_kernel_table table;
    TRY(probe_gpu_read_device(device, result, fault));
    TRY(load_kernels(device, &table, result, fault));
    TRY(probe_gpu_measure_copies(device, result, fault));
    TRY(probe_products(device, &table, result, fault));
    probe_gpu_read_health(device, result);
    return OK;
}

static void list_memory_users(const struct cuda_device *device, struct probed *probed) {
    struct nvml nvml;
    struct text text = text_over(probed->memory_users, sizeof probed->memory_users);
    if (nvml_open(&nvml)) {
        nvml_list_largest_processes(&nvml, device->bus, PROBE_MEMORY_USERS, &text);
    }
}

static void describe_machine(struct probed *probed) {
    const struct probe_gpu *gpu = &probed->gpu;
    struct text machine = text_over(probed->machine, sizeof probed->machine);
    struct text products = text_over(probed->products, sizeof probed->products);
    text_add(&machine, "%s, compute capability %d.%d, driver %s", gpu->name, gpu->compute_major,
             gpu->compute_minor, gpu->driver);
    if (gpu->has_health && gpu->health.temperature_c >= 0) {
        text_add(&machine, ", %d C", gpu->health.temperature_c);
    }
    if (gpu->has_health && gpu->health.is_throttled) {
        text_add(&machine, ", slowed by %s", gpu->health.throttle_reasons);
    }
    if (gpu->has_health && gpu->health.ecc_errors > 0) {
        text_add(&machine, ", %lld ECC errors", (long long)gpu->health.ecc_errors);
    }
    text_add(&products, "%s; our own kernels %.3g TFLOP/s in f32, %.3g TFLOP/s in bf16",
             gpu->products, gpu->own_f32_flops * 1e-12, gpu->own_bf16_flops * 1e-12);
}

int probe_gpu_count(void) {
    struct cuda_device device;
    struct fault unseen;
    return cuda_device_query(&device, &unseen) == OK ? device.visible_count : 0;
}

static enum status measure_on_rank0(struct probed *probed, struct probe_gpu *result,
                                    struct fault *fault) {
    struct cuda_device *device;
    TRY(cuda_device_acquire(&device, fault));
    enum status status = measure_device(device, result, fault);
    list_memory_users(device, probed);
    cuda_device_release(device);
    return status;
}

static enum status measure_nccl_memory(struct site *site, struct region *region,
                                       struct probe_gpu *result, struct fault *fault) {
    struct cuda_device *device;
    enum status status = cuda_device_acquire(&device, fault);
    bool acquired = status == OK;
    status = site_agree(site, status, fault);
    if (status == OK) {
        status = probe_nccl(device, site, region, &result->nccl, fault);
    }
    if (acquired) {
        cuda_device_release(device);
    }
    return status;
}

/* Rank 0 measures everything except NCCL while the other ranks wait. */
static enum status measure_all(struct site *site, struct region *region, struct probed *probed,
                               struct probe_gpu *result, struct fault *fault) {
    bool leads = site == NULL || site_launch_info(site)->rank == 0;
    enum status status = leads ? measure_on_rank0(probed, result, fault) : OK;
    if (site == NULL) {
        snprintf(result->nccl.description, sizeof result->nccl.description,
                 "with one rank NCCL uses no memory; measure it with --ranks 2, which one GPU can "
                 "also run");
        return status;
    }
    status = site_agree(site, status, fault);
    return status == OK ? measure_nccl_memory(site, region, result, fault) : status;
}

enum status probe_gpu_run(const char *name, struct site *site, struct region *region,
                          struct probed *probed, struct fault *fault) {
    struct probe_gpu *result = &probed->gpu;
    struct probe_comparison *lines = region_alloc(region, PROBE_GPU_COMPARISONS_MAX, sizeof *lines);
    *result = (struct probe_gpu){.nccl = {.ranks = 0}};
    TRY(measure_all(site, region, probed, result, fault));
    if (site == NULL || site_launch_info(site)->rank == 0) {
        probed->lines = lines;
        probed->count = probe_gpu_compare(probed->target, result, lines, &probed->lower);
        probed->measured = probe_gpu_target(result, name, region);
        describe_machine(probed);
    }
    return OK;
}

#endif
