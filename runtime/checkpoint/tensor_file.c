#include "runtime/checkpoint/tensor_file.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* size of the staging buffer for reading pieces into device memory */
enum { READ_STAGING_BYTES = 1 << 20 };

static const struct safetensors_pair METADATA[] = {{"format", "pt"}};

/* Returns the index of the tensor `name`. The search begins at index `start`, near the previous
 * piece's tensor, because most pieces are in the tensors' order. */
static int find_tensor(const struct tensor_set *set, const char *name, int start) {
    for (int i = 0; i < set->tensor_count; i++) {
        int tensor = (start + i) % set->tensor_count;
        if (strcmp(set->tensors[tensor].name, name) == 0) {
            return tensor;
        }
    }
    ASSERT(!"the list contains a tensor with the name of this piece");
    return -1;
}

static void check_piece(const struct tensor_piece *piece, const struct tensor_spec *tensor) {
    ASSERT(piece->rank == tensor->rank);
    ASSERT(memcmp(piece->shape, tensor->shape, (size_t)piece->rank * sizeof *piece->shape) == 0);
    ASSERT(piece->first >= 0 && piece->count >= 0);
    ASSERT(piece->first <= piece_tensor_elements(piece) - piece_range_elements(piece));
}

void tensor_sources_init(const struct tensor_set *set, struct region *region,
                         struct tensor_source *sources) {
    size_t piece_count = (size_t)set->piece_count;
    int *tensors = region_alloc(region, piece_count, sizeof *tensors);
    struct tensor_piece *sorted = region_alloc(region, piece_count, sizeof *sorted);
    for (int i = 0; i < set->tensor_count; i++) {
        sources[i] = (struct tensor_source){.tensor = set->tensors[i]};
    }
    for (int i = 0, near = 0; i < set->piece_count; i++) {
        near = tensors[i] = find_tensor(set, set->pieces[i].name, near);
        check_piece(&set->pieces[i], &set->tensors[near]);
        sources[near].piece_count++;
    }
    int *next = region_alloc(region, (size_t)set->tensor_count, sizeof *next);
    for (int i = 0, filled = 0; i < set->tensor_count; i++) {
        next[i] = filled;
        sources[i].pieces = sorted + filled;
        filled += sources[i].piece_count;
    }
    for (int i = 0; i < set->piece_count; i++) {
        sorted[next[tensors[i]]++] = set->pieces[i];
    }
}

bool tensor_sources_cover_tensors(const struct tensor_source *sources, int count) {
    bool whole = true;
    for (int i = 0; i < count && whole; i++) {
        int64_t elements = 0;
        for (int piece = 0; piece < sources[i].piece_count; piece++) {
            elements += piece_range_elements(&sources[i].pieces[piece]);
        }
        whole = elements == spec_elements(&sources[i].tensor);
    }
    return whole;
}

static void fill_entry(const struct tensor_spec *tensor, struct safetensors_entry *entry) {
    entry->name = tensor->name;
    entry->dtype = safetensors_dtype_of(tensor->dtype);
    entry->rank = tensor->rank;
    for (int axis = 0; axis < tensor->rank; axis++) {
        entry->shape[axis] = tensor->shape[axis];
    }
}

/* The sources are sorted into the order in which safetensors_lay_out stores their bytes: wider
 * types first. */
void tensor_file_plan(const char *name, const struct tensor_source *sources, int source_count,
                      struct region *region, struct tensor_file *file) {
    struct tensor_source *ordered = region_alloc(region, (size_t)source_count, sizeof *ordered);
    struct safetensors_entry *entries = region_alloc(region, (size_t)source_count, sizeof *entries);
    int count = 0;
    for (int64_t width = 8; width >= 1; width /= 2) {
        for (int i = 0; i < source_count; i++) {
            if (dtype_bytes(sources[i].tensor.dtype) == width) {
                fill_entry(&sources[i].tensor, &entries[count]);
                ordered[count++] = sources[i];
            }
        }
    }
    ASSERT(count == source_count);
    int64_t data_bytes = safetensors_lay_out(entries, count);
    *file = (struct tensor_file){
        .name = name,
        .sources = ordered,
        .header = {entries, count, METADATA, (int)ARRAY_COUNT(METADATA)},
    };
    file->header_bytes = safetensors_header_bytes(&file->header);
    file->header_text = region_alloc(region, file->header_bytes + 1, 1);
    size_t rendered =
        safetensors_render_header(&file->header, file->header_text, file->header_bytes + 1);
    ASSERT(rendered == file->header_bytes);
    file->bytes = (int64_t)file->header_bytes + data_bytes;
}

/* Reserves the space, so that a full disk is found before anything is written. A file system that
 * cannot reserve space is no error. */
static enum status reserve_space(int fd, const char *path, int64_t bytes, struct fault *fault) {
    if (fallocate(fd, 0, 0, bytes) != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
        return fault_set(fault, STATUS_FIT, path, "free disk space, or choose a different folder",
                         "no space for %lld bytes: %s", (long long)bytes, strerror(errno));
    }
    return OK;
}

enum status tensor_file_create(const struct tensor_file *file, const char *folder,
                               struct fault *fault) {
    char path[PATH_BYTES];
    int fd;
    path_join(folder, file->name, path, sizeof path);
    TRY(file_open_write(path, &fd, fault));
    enum status status = reserve_space(fd, path, file->bytes, fault);
    if (status == OK) {
        status = file_write_at(fd, path, file->header_text, file->header_bytes, 0, fault);
    }
    return file_close_written(fd, path, status, fault);
}

static enum status write_pieces(const struct tensor_file *file, int fd, const char *path,
                                const struct staging *staging, struct fault *fault) {
    for (int i = 0; i < file->header.count; i++) {
        const struct tensor_source *source = &file->sources[i];
        const struct piece_span span = {fd, path,
                                        (int64_t)file->header_bytes + file->header.entries[i].begin,
                                        source->tensor.dtype};
        for (int piece = 0; piece < source->piece_count; piece++) {
            TRY(piece_write(&span, &source->pieces[piece], staging, fault));
        }
    }
    return OK;
}

enum status tensor_file_write_pieces(const struct tensor_file *file, const char *folder,
                                     const struct staging *staging, struct fault *fault) {
    char path[PATH_BYTES];
    path_join(folder, file->name, path, sizeof path);
    int fd = open(path, O_WRONLY | O_CLOEXEC); /* not O_CREAT: rank 0 may have removed the file */
    if (fd < 0) {
        return fault_set(fault, STATUS_FAILED, path, "choose a folder that every rank can write to",
                         "cannot open: %s", strerror(errno));
    }
    enum status status = write_pieces(file, fd, path, staging, fault);
    return file_close_written(fd, path, status, fault);
}

enum status tensor_file_write(const struct tensor_file *file, const char *folder,
                              const struct staging *staging, struct fault *fault) {
    char path[PATH_BYTES];
    char unfinished[PATH_BYTES];
    char name[NAME_BYTES];
    path_join(folder, file->name, path, sizeof path);
    file_unfinished_path(path, unfinished, sizeof unfinished);
    file_unfinished_path(file->name, name, sizeof name);
    struct tensor_file renamed = *file;
    renamed.name = name;
    enum status status = tensor_file_create(&renamed, folder, fault);
    if (status == OK) {
        status = tensor_file_write_pieces(&renamed, folder, staging, fault);
    }
    if (status == OK) {
        status = file_publish(unfinished, path, fault);
    }
    if (status != OK) {
        unlink(unfinished);
    }
    return status;
}

static const char OTHER_RUN[] = "it was saved by a run with another model or precision";

static enum status check_entry(const struct safetensors *found,
                               const struct safetensors_entry *expected, struct fault *fault) {
    const struct safetensors_entry *entry = safetensors_find(found, expected->name);
    if (entry == NULL) {
        return fault_set(fault, STATUS_INPUT, found->path, OTHER_RUN, "tensor '%s' is missing",
                         expected->name);
    }
    if (entry->dtype != expected->dtype) {
        return fault_set(fault, STATUS_INPUT, found->path, OTHER_RUN,
                         "tensor '%s' is %s, expected %s", expected->name,
                         safetensors_dtype_name(entry->dtype),
                         safetensors_dtype_name(expected->dtype));
    }
    if (entry->rank != expected->rank ||
        memcmp(entry->shape, expected->shape, (size_t)expected->rank * sizeof *expected->shape) !=
            0) {
        return fault_set(fault, STATUS_INPUT, found->path, OTHER_RUN,
                         "the shape of tensor '%s' differs from the model's", expected->name);
    }
    return OK;
}

static enum status check_entries(const struct tensor_file *file, const struct safetensors *found,
                                 struct fault *fault) {
    if (found->header.count != file->header.count) {
        return fault_set(fault, STATUS_INPUT, found->path, OTHER_RUN, "%d tensors, expected %d",
                         found->header.count, file->header.count);
    }
    for (int i = 0; i < file->header.count; i++) {
        TRY(check_entry(found, &file->header.entries[i], fault));
    }
    return OK;
}

static enum status read_pieces(const struct tensor_file *file, const struct safetensors *found,
                               const struct staging *staging, struct fault *fault) {
    TRY(check_entries(file, found, fault));
    for (int i = 0; i < file->header.count; i++) {
        const struct tensor_source *source = &file->sources[i];
        const struct piece_span span = {found->fd, found->path,
                                        found->data_at +
                                            safetensors_find(found, source->tensor.name)->begin,
                                        source->tensor.dtype};
        for (int piece = 0; piece < source->piece_count; piece++) {
            TRY(piece_read(&span, &source->pieces[piece], false, staging, fault));
        }
    }
    return OK;
}

static bool has_device_piece(const struct tensor_file *file) {
    bool on_device = false;
    for (int i = 0; i < file->header.count; i++) {
        for (int piece = 0; piece < file->sources[i].piece_count; piece++) {
            on_device = on_device || file->sources[i].pieces[piece].device_memory != NULL;
        }
    }
    return on_device;
}

enum status tensor_file_read(const struct tensor_file *file, const char *folder,
                             struct fault *fault) {
    char path[PATH_BYTES];
    struct region region = {0};
    struct safetensors found;
    struct staging staging = {.bytes = READ_STAGING_BYTES};
    path_join(folder, file->name, path, sizeof path);
    enum status status = safetensors_open(path, &region, &found, fault);
    if (status == OK) {
        staging.memory = has_device_piece(file) ? region_alloc(&region, staging.bytes, 1) : NULL;
        status = read_pieces(file, &found, &staging, fault);
        safetensors_close(&found);
    }
    region_finish(&region);
    return status;
}
