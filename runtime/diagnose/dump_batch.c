#include "runtime/diagnose/dump_batch.h"

#include "base/bytes.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/data.h"

#include <string.h>

static const char FORM_REMEDY[] = "write the batch in the form that docs/FORMATS.md describes";

static enum status read_i32(const struct safetensors *file, const char *name, int64_t count,
                            int32_t *out, struct fault *fault) {
    const struct safetensors_entry *entry = safetensors_find(file, name);
    if (entry->dtype != ST_I32 || entry->elements != count) {
        return fault_set(fault, STATUS_INPUT, file->path, FORM_REMEDY,
                         "%s: expected I32 of %lld elements, found %s of %lld", name,
                         (long long)count, safetensors_dtype_name(entry->dtype),
                         (long long)entry->elements);
    }
    return safetensors_read(file, entry, 0, out, (size_t)count * sizeof(int32_t), fault);
}

/* Reads the ends of the documents. Document d consists of the tokens [ends[d], ends[d + 1]) of the
 * single row. */
static enum status read_document_ends(const struct safetensors *file, struct region *region,
                                      int64_t *count, int32_t **ends, struct fault *fault) {
    const struct safetensors_entry *entry = safetensors_find(file, "cu_seqlens");
    *count = entry == NULL ? 0 : entry->elements;
    if (entry == NULL) {
        return OK;
    }
    *ends = region_alloc(region, (size_t)*count + 1, sizeof **ends);
    return read_i32(file, "cu_seqlens", *count, *ends, fault);
}

/* Finds the length of the longest document. Positions restart in every document, so the longest
 * document, not the row, must fit the model's positions. */
static enum status find_longest_document(struct dump_batch *batch, const struct safetensors *file,
                                         struct region *region, struct fault *fault) {
    int64_t count;
    int32_t *ends = NULL;
    TRY(read_document_ends(file, region, &count, &ends, fault));
    for (int64_t d = 0; d + 1 < count; d++) {
        int64_t length = (int64_t)ends[d + 1] - ends[d];
        batch->longest_document = max_i64(length, batch->longest_document);
    }
    return OK;
}

static enum status read_input_shape(const struct safetensors *file, struct region *region,
                                    struct dump_batch *batch, struct fault *fault) {
    const struct safetensors_entry *ids = safetensors_find(file, "input_ids");
    if (ids == NULL || ids->rank != 2 || ids->elements == 0) {
        return fault_set(fault, STATUS_INPUT, file->path, FORM_REMEDY,
                         "input_ids: expected I32 [rows, tokens], %s",
                         ids == NULL ? "found none" : "found a different shape");
    }
    *batch = (struct dump_batch){.path = file->path, .rows = ids->shape[0], .time = ids->shape[1]};
    return find_longest_document(batch, file, region, fault);
}

enum status dump_batch_shape(const char *path, struct region *region, struct dump_batch *batch,
                             struct fault *fault) {
    struct safetensors file;
    TRY(safetensors_open(path, region, &file, fault));
    enum status status = read_input_shape(&file, region, batch, fault);
    safetensors_close(&file);
    return status;
}

static enum status read_documents(struct dump_batch *batch, const struct safetensors *file,
                                  struct region *region, struct fault *fault) {
    int64_t count;
    int32_t *ends = NULL;
    TRY(read_document_ends(file, region, &count, &ends, fault));
    if (ends == NULL) {
        return OK;
    }
    bool good = batch->rows == 1 && count >= 2 && ends[0] == 0 && ends[count - 1] == batch->time;
    for (int64_t d = 0; d + 1 < count && good; d++) {
        good = ends[d] < ends[d + 1] && ends[d + 1] <= batch->time;
        for (int64_t t = ends[d]; good && t < ends[d + 1]; t++) {
            batch->positions[t] = (int32_t)(t - ends[d]);
        }
    }
    return good ? OK
                : fault_set(fault, STATUS_INPUT, batch->path, FORM_REMEDY,
                            "cu_seqlens: expected ascending offsets from 0 to %lld, the tokens of "
                            "a single row",
                            (long long)batch->time);
}

static enum status check_ids_and_labels(const struct dump_batch *batch, int64_t vocab,
                                        struct fault *fault) {
    for (int64_t i = 0; i < batch->rows * batch->time; i++) {
        int32_t id = batch->ids[i];
        int32_t label = batch->labels[i];
        if (id < 0 || id >= vocab || (label != LABEL_IGNORED && (label < 0 || label >= vocab))) {
            return fault_set(fault, STATUS_INPUT, batch->path, FORM_REMEDY,
                             "token %lld: id %d or label %d is outside the vocabulary of %lld",
                             (long long)i, id, label, (long long)vocab);
        }
    }
    return OK;
}

/* Shifts the labels by one token. In the file, label t belongs to token t. The kernels need label t
 * + 1 at token t, which predicts it. */
static void shift_labels(struct dump_batch *batch) {
    for (int64_t row = 0; row < batch->rows; row++) {
        int32_t *labels = batch->labels + row * batch->time;
        memmove(labels, labels + 1, (size_t)(batch->time - 1) * sizeof *labels);
        labels[batch->time - 1] = LABEL_IGNORED;
    }
    for (int64_t i = 0; i < batch->rows * batch->time; i++) {
        batch->valid += batch->labels[i] != LABEL_IGNORED;
    }
}

static enum status read_tensors(struct dump_batch *batch, const struct safetensors *file,
                                struct region *region, struct fault *fault) {
    int64_t tokens = batch->rows * batch->time;
    bool labelled = safetensors_find(file, "labels") != NULL;
    batch->ids = region_alloc(region, (size_t)tokens, sizeof(int32_t));
    batch->labels = region_alloc(region, (size_t)tokens, sizeof(int32_t));
    batch->positions = region_alloc(region, (size_t)tokens, sizeof(int32_t));
    for (int64_t i = 0; i < tokens; i++) {
        batch->positions[i] = (int32_t)(i % batch->time);
    }
    TRY(read_i32(file, "input_ids", tokens, batch->ids, fault));
    TRY(read_i32(file, labelled ? "labels" : "input_ids", tokens, batch->labels, fault));
    return read_documents(batch, file, region, fault);
}

enum status dump_batch_read(struct dump_batch *batch, int64_t vocab, struct region *region,
                            struct fault *fault) {
    struct safetensors file;
    TRY(safetensors_open(batch->path, region, &file, fault));
    enum status status = read_tensors(batch, &file, region, fault);
    safetensors_close(&file);
    TRY(status);
    TRY(check_ids_and_labels(batch, vocab, fault));
    shift_labels(batch);
    if (batch->valid == 0) {
        return fault_set(fault, STATUS_INPUT, batch->path, FORM_REMEDY,
                         "labels: all labels are masked, so the batch has no loss");
    }
    return OK;
}
