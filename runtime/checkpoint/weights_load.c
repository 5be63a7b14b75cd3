/* Loads parameters from a model folder: first checks every name, type and shape, then reads the
 * bytes in the order of the files. */
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/checkpoint/weight_files.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/model/model.h"

#include <string.h>
#include <unistd.h>

static const char HEAD_NAME[] = "lm_head.weight";

/* Where the tensor of a parameter is in the files. */
struct weight_location {
    int file;                              /* index of the file in `files` */
    const struct safetensors_entry *entry; /* entry of the tensor; NULL: not found */
};

struct weights_loading {
    const struct weights_load_args *args;
    struct region region;
    struct fault *fault;
    struct weight_files files;
    struct weight_location *found; /* [param_count] location of each parameter's tensor */
    struct weight_location
        head; /* the tied head, if the files contain it although it is redundant */
    struct tensor_source *sources; /* [param_count]: each parameter's pieces */
};

static enum status check_dtype(struct weights_loading *loading, const struct safetensors *file,
                               const struct safetensors_entry *entry) {
    enum dtype dtype = DTYPE_I32;
    if (safetensors_dtype_is_loadable(entry->dtype, &dtype) && dtype != DTYPE_I32) {
        return OK;
    }
    return fault_set(loading->fault, STATUS_INPUT, file->path,
                     "save the model in one of these types",
                     "tensor '%s' is %s; weights must be F32, BF16 or F16", entry->name,
                     safetensors_dtype_name(entry->dtype));
}

static void add_shape(struct text *text, const int64_t *shape, int rank) {
    text_add(text, "[");
    for (int axis = 0; axis < rank; axis++) {
        text_add(text, "%s%lld", axis == 0 ? "" : ", ", (long long)shape[axis]);
    }
    text_add(text, "]");
}

static enum status check_shape(struct weights_loading *loading, const struct safetensors *file,
                               const struct safetensors_entry *entry, const struct param *param) {
    if (entry->rank == param->rank &&
        memcmp(entry->shape, param->shape, (size_t)param->rank * sizeof *param->shape) == 0) {
        return OK;
    }
    char buffer[2][192];
    struct text found = text_over(buffer[0], sizeof buffer[0]);
    struct text wanted = text_over(buffer[1], sizeof buffer[1]);
    add_shape(&found, entry->shape, entry->rank);
    add_shape(&wanted, param->shape, param->rank);
    return fault_set(loading->fault, STATUS_INPUT, file->path,
                     "config.json and the weights belong to different models",
                     "tensor '%s' has the shape %s, but config.json requires %s", entry->name,
                     found.bytes, wanted.bytes);
}

static enum status record_tensor(struct weights_loading *loading, int file,
                                 const struct safetensors_entry *entry, const struct param *param,
                                 struct weight_location *found) {
    const struct safetensors *table = &loading->files.tables[file];
    if (found->entry != NULL) {
        return fault_set(loading->fault, STATUS_INPUT, table->path, "keep one of them, in one file",
                         "tensor '%s' is also in %s, as '%s'", entry->name,
                         loading->files.tables[found->file].path, found->entry->name);
    }
    TRY(check_dtype(loading, table, entry));
    TRY(check_shape(loading, table, entry, param));
    *found = (struct weight_location){file, entry};
    return OK;
}

static enum status match_entry(struct weights_loading *loading, int file,
                               const struct safetensors_entry *entry) {
    const struct blueprint *blueprint = loading->args->blueprint;
    int param = weight_name_match(blueprint, entry->name);
    if (param >= 0) {
        return record_tensor(loading, file, entry, &blueprint->params[param],
                             &loading->found[param]);
    }
    if (param == WEIGHT_UNKNOWN) {
        return fault_set(loading->fault, STATUS_INPUT, loading->files.tables[file].path,
                         "config.json and the weights belong to different models",
                         "tensor '%s' is not a parameter of this %s model", entry->name,
                         blueprint->model_type);
    }
    if (strcmp(entry->name, HEAD_NAME) != 0) {
        return OK;
    }
    const struct param *embedding = blueprint_param(blueprint, PARAM_EMBEDDING, PARAM_NO_LAYER);
    return record_tensor(loading, file, entry, embedding, &loading->head);
}

static enum status match_all_entries(struct weights_loading *loading) {
    for (int file = 0; file < loading->files.count; file++) {
        const struct safetensors_header *header = &loading->files.tables[file].header;
        for (int i = 0; i < header->count; i++) {
            TRY(match_entry(loading, file, &header->entries[i]));
        }
    }
    return OK;
}

static enum status check_all_params_found(struct weights_loading *loading) {
    const struct blueprint *blueprint = loading->args->blueprint;
    const struct param *first = NULL;
    int missing = 0;
    for (int i = 0; i < blueprint->param_count; i++) {
        if (loading->found[i].entry == NULL) {
            first = first == NULL ? &blueprint->params[i] : first;
            missing++;
        }
    }
    if (first == NULL) {
        return OK;
    }
    const char *remedy = first->kind == PARAM_HEAD
                             ? "if the head is the embedding, set tie_word_embeddings to true in "
                               "config.json"
                             : "download the model again, or check config.json";
    return fault_set(loading->fault, STATUS_INPUT, loading->args->folder, remedy,
                     "tensor '%s' is missing (%d of %d parameters are missing)", first->name,
                     missing, blueprint->param_count);
}

static void sort_pieces(struct weights_loading *loading) {
    const struct blueprint *blueprint = loading->args->blueprint;
    size_t count = (size_t)blueprint->param_count;
    struct tensor_spec *tensors = region_alloc(&loading->region, count, sizeof *tensors);
    for (int i = 0; i < blueprint->param_count; i++) {
        const struct param *param = &blueprint->params[i];
        tensors[i] = (struct tensor_spec){
            .name = param->name, .rank = param->rank, .shape = {param->shape[0], param->shape[1]}};
    }
    const struct tensor_set set = {tensors, blueprint->param_count, loading->args->pieces,
                                   loading->args->piece_count};
    loading->sources = region_alloc(&loading->region, count, sizeof *loading->sources);
    tensor_sources_init(&set, &loading->region, loading->sources);
}

/* Opens the file with index `file` again for its data, and checks that its size has not changed. */
static enum status reopen_file(struct weights_loading *loading, int file, int *fd) {
    const struct safetensors *table = &loading->files.tables[file];
    int64_t bytes = 0;
    TRY(file_open_read(table->path, fd, &bytes, loading->fault));
    if (bytes != table->data_at + table->data_bytes) {
        close(*fd);
        return fault_set(loading->fault, STATUS_INPUT, table->path, "start again",
                         "the file changed while it was being read");
    }
    return OK;
}

static struct piece_span make_piece_span(const struct weights_loading *loading,
                                         const struct weight_location *found, int fd) {
    const struct safetensors *table = &loading->files.tables[found->file];
    struct piece_span span = {
        .fd = fd, .path = table->path, .at = table->data_at + found->entry->begin};
    bool loads = safetensors_dtype_is_loadable(found->entry->dtype, &span.dtype);
    ASSERT(loads);
    return span;
}

static enum status read_params(struct weights_loading *loading, int file, int fd) {
    const struct weights_load_args *args = loading->args;
    for (int param = 0; param < args->blueprint->param_count; param++) {
        const struct weight_location *found = &loading->found[param];
        const struct tensor_source *source = &loading->sources[param];
        if (found->file != file) {
            continue;
        }
        struct piece_span span = make_piece_span(loading, found, fd);
        for (int i = 0; i < source->piece_count; i++) {
            TRY(piece_read(&span, &source->pieces[i], true, &args->staging, loading->fault));
        }
    }
    return OK;
}

static enum status read_file(struct weights_loading *loading, int file) {
    int fd;
    TRY(reopen_file(loading, file, &fd));
    enum status status = read_params(loading, file, fd);
    close(fd);
    return status;
}

/* Compares the range of `piece` in both tensors as floats, because a BF16 head may belong to an F32
 * embedding. *different must be -1, and is set to the index of the first difference. */
static enum status compare_tied_values(struct weights_loading *loading,
                                       const struct piece_span spans[2],
                                       const struct tensor_piece *piece, int64_t *different) {
    enum { BLOCK_ELEMENTS = 1024 }; /* number of elements compared at a time */
    char stored[BLOCK_ELEMENTS * sizeof(float)];
    float values[2][BLOCK_ELEMENTS];
    int64_t end = piece->first + piece_range_elements(piece);
    for (int64_t at = piece->first; at < end && *different < 0; at += BLOCK_ELEMENTS) {
        int64_t count = end - at < BLOCK_ELEMENTS ? end - at : BLOCK_ELEMENTS;
        for (int side = 0; side < 2; side++) {
            int64_t width = dtype_bytes(spans[side].dtype);
            TRY(file_read_at(spans[side].fd, spans[side].path, stored, (size_t)(count * width),
                             spans[side].at + at * width, loading->fault));
            convert_to_f32(spans[side].dtype, stored, count, values[side]);
        }
        for (int64_t i = 0; i < count && *different < 0; i++) {
            *different = values[0][i] == values[1][i] ? -1 : at + i;
        }
    }
    return OK;
}

/* Whether two pieces are the same range of one parameter. The range is then compared only once, for
 * a master and its copy. */
static bool is_same_range(const struct tensor_piece *a, const struct tensor_piece *b) {
    return a->first == b->first && piece_range_elements(a) == piece_range_elements(b);
}

static enum status compare_pieces(struct weights_loading *loading, const struct piece_span spans[2],
                                  const struct tensor_source *source, int64_t *different) {
    for (int i = 0; i < source->piece_count && *different < 0; i++) {
        const struct tensor_piece *piece = &source->pieces[i];
        if (i == 0 || !is_same_range(piece, piece - 1)) {
            TRY(compare_tied_values(loading, spans, piece, different));
        }
    }
    return OK;
}

/* Opens the files of both tensors, that of spans[0] first, and compares the pieces. */
static enum status compare_tied_tensors(struct weights_loading *loading, struct piece_span spans[2],
                                        const struct weight_location *const founds[2],
                                        const struct tensor_source *source, int64_t *different) {
    int fds[2];
    TRY(reopen_file(loading, founds[0]->file, &fds[0]));
    enum status status = reopen_file(loading, founds[1]->file, &fds[1]);
    if (status == OK) {
        spans[0] = make_piece_span(loading, founds[0], fds[0]);
        spans[1] = make_piece_span(loading, founds[1], fds[1]);
        status = compare_pieces(loading, spans, source, different);
        close(fds[1]);
    }
    close(fds[0]);
    return status;
}

static enum status check_tied_head(struct weights_loading *loading) {
    const struct blueprint *blueprint = loading->args->blueprint;
    ptrdiff_t embedding =
        blueprint_param(blueprint, PARAM_EMBEDDING, PARAM_NO_LAYER) - blueprint->params;
    const struct weight_location *const founds[2] = {&loading->found[embedding], &loading->head};
    struct piece_span spans[2];
    int64_t different = -1;
    TRY(compare_tied_tensors(loading, spans, founds, &loading->sources[embedding], &different));
    if (different < 0) {
        return OK;
    }
    return fault_set(loading->fault, STATUS_INPUT, spans[1].path,
                     "set tie_word_embeddings to false in config.json, as transformers does",
                     "tensor '%s' differs from '%s' at element %lld, but config.json ties them",
                     loading->head.entry->name, founds[0]->entry->name, (long long)different);
}

/* Returns the total size of all pieces, as they are stored in the files. */
static uint64_t count_bytes(const struct weights_loading *loading) {
    uint64_t bytes = 0;
    for (int param = 0; param < loading->args->blueprint->param_count; param++) {
        const struct tensor_source *source = &loading->sources[param];
        const struct piece_span span = make_piece_span(loading, &loading->found[param], -1);
        for (int i = 0; i < source->piece_count; i++) {
            bytes += (uint64_t)(piece_range_elements(&source->pieces[i]) * dtype_bytes(span.dtype));
        }
    }
    return bytes;
}

static enum status read_files(struct weights_loading *loading) {
    enum status status = OK;
    activity_begin("loading the weights", count_bytes(loading));
    for (int file = 0; file < loading->files.count && status == OK; file++) {
        status = read_file(loading, file);
    }
    activity_end(false);
    return status;
}

static enum status load_weights(struct weights_loading *loading) {
    const struct weights_load_args *args = loading->args;
    size_t param_count = (size_t)args->blueprint->param_count;
    TRY(weight_files_open(args->folder, &loading->region, &loading->files, loading->fault));
    loading->found = region_alloc(&loading->region, param_count, sizeof *loading->found);
    sort_pieces(loading);
    TRY(match_all_entries(loading));
    TRY(check_all_params_found(loading));
    if (loading->head.entry != NULL) {
        TRY(check_tied_head(loading));
    }
    return read_files(loading);
}

enum status weights_load(const struct weights_load_args *args, struct fault *fault) {
    struct weights_loading loading = {.args = args, .fault = fault};
    enum status status = load_weights(&loading);
    region_finish(&loading.region);
    return status;
}
