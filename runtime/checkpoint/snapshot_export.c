/* Exports a snapshot's weights as a Hugging Face model folder. The weights pass through the staging
 * buffer from file to file: the snapshot's file is addressed like device memory, and the address of
 * a tensor is its offset. */
#include "base/file.h"
#include "base/json.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/snapshot_files.h"
#include "runtime/checkpoint/weights.h"

#include <string.h>

enum { EXPORT_STAGING_BYTES = 1 << 22 }; /* size of the buffer through which tensors are copied */

static enum status read_config(const struct snapshot *snapshot, struct region *region,
                               char path[static PATH_BYTES], char **text, size_t *length,
                               struct fault *fault) {
    path_join(snapshot->path, SNAPSHOT_CONFIG_NAME, path, PATH_BYTES);
    return file_read_into_region(path, CONFIG_BYTES_MAX, region, text, length, fault);
}

static enum status find_dtype(const struct json_node *root, enum dtype *dtype,
                              struct fault *fault) {
    static const char *const KEYS[] = {"dtype", "torch_dtype"};
    for (size_t i = 0; i < ARRAY_COUNT(KEYS); i++) {
        const char *name = NULL;
        bool present = false;
        TRY(json_get_text(root, KEYS[i], &name, &present, fault));
        if (present) {
            return dtype_parse(name, dtype) && *dtype != DTYPE_I32
                       ? OK
                       : json_fault_member(root, KEYS[i], fault,
                                           "is not a type that Skep can write");
        }
    }
    *dtype = DTYPE_F32;
    return OK;
}

static enum status read_dtype(const struct snapshot *snapshot, struct region *region,
                              enum dtype *dtype, struct fault *fault) {
    char path[PATH_BYTES];
    char *text;
    size_t length;
    struct json_document document;
    TRY(read_config(snapshot, region, path, &text, &length, fault));
    TRY(json_parse(text, length, CONFIG_BYTES_MAX, path, &document, fault));
    enum status status = find_dtype(&document.root, dtype, fault);
    json_finish(&document);
    return status;
}

enum status snapshot_model_dtype(const struct snapshot *snapshot, enum dtype *dtype,
                                 struct fault *fault) {
    struct region region = {0};
    enum status status = read_dtype(snapshot, &region, dtype, fault);
    region_finish(&region);
    return status;
}

static enum status read_weights(void *context, const void *address, void *host, size_t bytes,
                                struct fault *fault) {
    const struct safetensors *file = context;
    return file_read_at(file->fd, file->path, host, bytes, (int64_t)(intptr_t)address, fault);
}

static enum status describe_tensor(const struct safetensors *file,
                                   const struct safetensors_entry *entry,
                                   struct tensor_spec *tensor, struct fault *fault) {
    bool loads = safetensors_dtype_is_loadable(entry->dtype, &tensor->dtype);
    if (!loads || tensor->dtype == DTYPE_I32 || entry->rank > TENSOR_RANK_MAX ||
        entry->elements == 0) {
        return fault_set(fault, STATUS_INPUT, file->path, NULL,
                         "tensor '%s' has a type that Skep cannot load", entry->name);
    }
    tensor->name = entry->name;
    tensor->rank = entry->rank;
    memcpy(tensor->shape, entry->shape, (size_t)entry->rank * sizeof *entry->shape);
    return OK;
}

static enum status plan_tensor_set(const struct safetensors *file,
                                   const struct device_memory *memory, struct region *region,
                                   struct tensor_set *set, struct fault *fault) {
    int count = file->header.count;
    struct tensor_spec *tensors = region_alloc(region, (size_t)count, sizeof *tensors);
    struct tensor_piece *pieces = region_alloc(region, (size_t)count, sizeof *pieces);
    for (int i = 0; i < count; i++) {
        const struct safetensors_entry *entry = &file->header.entries[i];
        TRY(describe_tensor(file, entry, &tensors[i], fault));
        pieces[i] = piece_of_spec(&tensors[i], (void *)(intptr_t)(file->data_at + entry->begin));
        pieces[i].device_memory = memory;
    }
    *set = (struct tensor_set){tensors, count, pieces, count};
    return OK;
}

static enum status export_tensors(const struct snapshot *snapshot, struct safetensors *file,
                                  struct weights_save_args *args, struct region *region,
                                  struct fault *fault) {
    char path[PATH_BYTES];
    char *config;
    const struct device_memory memory = {.read = read_weights, .context = file};
    const struct staging staging = {region_alloc(region, EXPORT_STAGING_BYTES, 1),
                                    EXPORT_STAGING_BYTES};
    struct weights_save *save = region_alloc(region, 1, sizeof *save);
    TRY(read_config(snapshot, region, path, &config, &args->config_length, fault));
    TRY(plan_tensor_set(file, &memory, region, &args->set, fault));
    args->config_text = config;
    TRY(weights_save_plan(args, region, save, fault));
    return weights_save_run(save, &staging, fault);
}

enum status snapshot_export(const struct snapshot *snapshot, const char *folder, enum dtype dtype,
                            struct fault *fault) {
    char path[PATH_BYTES];
    struct region region = {0};
    struct safetensors file;
    bool has_model = snapshot->model_folder[0] != '\0' && file_is_folder(snapshot->model_folder);
    struct weights_save_args args = {
        .folder = folder, .model_folder = has_model ? snapshot->model_folder : "", .dtype = dtype};
    path_join(snapshot->path, SNAPSHOT_WEIGHTS_NAME, path, sizeof path);
    enum status status = safetensors_open(path, &region, &file, fault);
    if (status == OK) {
        status = export_tensors(snapshot, &file, &args, &region, fault);
        safetensors_close(&file);
    }
    region_finish(&region);
    return status;
}
