/* A snapshot's weights as a Hugging Face model folder, one tensor in memory at a time. */
#include "base/file.h"
#include "base/json.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/snapshot_files.h"
#include "runtime/checkpoint/weights.h"

#include <string.h>

enum { EXPORT_STAGING_BYTES = 1 << 22 };

static enum status read_config(const struct snapshot *snapshot, struct region *region,
                               const char **path, char **text, size_t *length,
                               struct fault *fault) {
    char joined[PATH_BYTES];
    char *buffer = region_alloc(region, CONFIG_BYTES_MAX + 1, 1);
    file_join(snapshot->path, SNAPSHOT_CONFIG_NAME, joined, sizeof joined);
    *path = region_copy_text(region, joined);
    *text = buffer;
    return file_read_text(joined, buffer, CONFIG_BYTES_MAX + 1, length, fault);
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
                       : json_fault_member(root, KEYS[i], fault, "is no type that Skep writes");
        }
    }
    *dtype = DTYPE_F32;
    return OK;
}

enum status snapshot_model_dtype(const struct snapshot *snapshot, enum dtype *dtype,
                                 struct fault *fault) {
    struct region region = {0};
    struct json_document document;
    const char *path = NULL;
    char *text = NULL;
    size_t length = 0;
    enum dtype found = DTYPE_F32;
    enum status status = read_config(snapshot, &region, &path, &text, &length, fault);
    if (status == OK) {
        status = json_parse(text, length, CONFIG_BYTES_MAX, path, &document, fault);
    }
    if (status == OK) {
        status = find_dtype(&document.root, &found, fault);
        json_finish(&document);
    }
    region_finish(&region);
    if (status == OK) {
        *dtype = found;
    }
    return status;
}

/* Every piece has the same memory; it is filled just before it is written. */
static enum status fill(void *context, const struct tensor_piece *piece, struct fault *fault) {
    const struct safetensors *file = context;
    const struct safetensors_entry *entry = safetensors_find(file, piece->name);
    return safetensors_read(file, entry, 0, piece->memory, (size_t)(entry->end - entry->begin),
                            fault);
}

static enum status describe(const struct safetensors *file, const struct safetensors_entry *entry,
                            struct tensor_spec *tensor, struct fault *fault) {
    bool loads = safetensors_dtype_loads(entry->dtype, &tensor->dtype);
    if (!loads || tensor->dtype == DTYPE_I32 || entry->rank > TENSOR_RANK_MAX ||
        entry->elements == 0) {
        return fault_set(fault, STATUS_INPUT, file->path, NULL, "tensor '%s' is no weight",
                         entry->name);
    }
    tensor->name = entry->name;
    tensor->rank = entry->rank;
    memcpy(tensor->shape, entry->shape, (size_t)entry->rank * sizeof *entry->shape);
    return OK;
}

static enum status plan_set(const struct safetensors *file, struct region *region,
                            struct tensor_set *set, struct fault *fault) {
    int count = file->header.count;
    int64_t largest = 0;
    struct tensor_spec *tensors = region_alloc(region, (size_t)count, sizeof *tensors);
    struct tensor_piece *pieces = region_alloc(region, (size_t)count, sizeof *pieces);
    for (int i = 0; i < count; i++) {
        const struct safetensors_entry *entry = &file->header.entries[i];
        TRY(describe(file, entry, &tensors[i], fault));
        largest = entry->end - entry->begin > largest ? entry->end - entry->begin : largest;
    }
    void *memory = region_alloc(region, (size_t)largest, 1);
    for (int i = 0; i < count; i++) {
        pieces[i] = piece_of_spec(&tensors[i], memory);
    }
    *set = (struct tensor_set){tensors, count, pieces, count};
    return OK;
}

static enum status export_from(const struct snapshot *snapshot, struct safetensors *file,
                               struct weights_save_args *args, struct region *region,
                               struct fault *fault) {
    const char *path = NULL;
    char *config = NULL;
    TRY(read_config(snapshot, region, &path, &config, &args->config_length, fault));
    TRY(plan_set(file, region, &args->set, fault));
    args->config_text = config;
    struct weights_save *save = region_alloc(region, 1, sizeof *save);
    const struct piece_feed feed = {fill, file};
    const struct staging staging = {region_alloc(region, EXPORT_STAGING_BYTES, 1),
                                    EXPORT_STAGING_BYTES};
    TRY(weights_save_plan(args, region, save, fault));
    for (int i = 0; i < save->file_count; i++) {
        save->files[i].feed = &feed;
    }
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
    file_join(snapshot->path, SNAPSHOT_WEIGHTS_NAME, path, sizeof path);
    enum status status = safetensors_open(path, &region, &file, fault);
    if (status == OK) {
        status = export_from(snapshot, &file, &args, &region, fault);
        safetensors_close(&file);
    }
    region_finish(&region);
    return status;
}
