#include "runtime/checkpoint/safetensors.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/text.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LENGTH_BYTES = 8,       /* size of the field that holds the length of the header */
    ENTRY_TEXT_BYTES = 2048 /* maximum size of the JSON text of one entry */
};

static const struct {
    const char *name;
    int bits;
} DTYPES[ST_DTYPE_COUNT] = {[ST_BOOL] = {"BOOL", 8},
                            [ST_F4] = {"F4", 4},
                            [ST_F6_E2M3] = {"F6_E2M3", 6},
                            [ST_F6_E3M2] = {"F6_E3M2", 6},
                            [ST_U8] = {"U8", 8},
                            [ST_I8] = {"I8", 8},
                            [ST_F8_E5M2] = {"F8_E5M2", 8},
                            [ST_F8_E4M3] = {"F8_E4M3", 8},
                            [ST_F8_E8M0] = {"F8_E8M0", 8},
                            [ST_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
                            [ST_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
                            [ST_I16] = {"I16", 16},
                            [ST_U16] = {"U16", 16},
                            [ST_F16] = {"F16", 16},
                            [ST_BF16] = {"BF16", 16},
                            [ST_I32] = {"I32", 32},
                            [ST_U32] = {"U32", 32},
                            [ST_F32] = {"F32", 32},
                            [ST_F64] = {"F64", 64},
                            [ST_I64] = {"I64", 64},
                            [ST_U64] = {"U64", 64},
                            [ST_C64] = {"C64", 64}};

const char *safetensors_dtype_name(enum safetensors_dtype dtype) {
    return DTYPES[dtype].name;
}

int safetensors_dtype_bits(enum safetensors_dtype dtype) {
    return DTYPES[dtype].bits;
}

bool safetensors_dtype_is_loadable(enum safetensors_dtype dtype, enum dtype *memory) {
    return dtype_parse(DTYPES[dtype].name, memory);
}

enum safetensors_dtype safetensors_dtype_of(enum dtype memory) {
    static const enum safetensors_dtype OF[DTYPE_COUNT] = {
        [DTYPE_F32] = ST_F32, [DTYPE_BF16] = ST_BF16, [DTYPE_F16] = ST_F16, [DTYPE_I32] = ST_I32};
    return OF[memory];
}

/* Reads the length of the header, and checks it against the format's limit and the file's size. */
static enum status read_length(int fd, const char *path, int64_t file_bytes, size_t *header_bytes,
                               struct fault *fault) {
    static const char REMEDY[] =
        "download the file again: it is truncated, or not a safetensors file";
    uint64_t length;
    if (file_bytes < LENGTH_BYTES) {
        return fault_set(
            fault, STATUS_INPUT, path, REMEDY,
            "byte 0: the file is %lld bytes long, but the field with the header's length takes 8",
            (long long)file_bytes);
    }
    TRY(file_read_at(fd, path, &length, sizeof length, 0, fault));
    length = le64toh(length);
    if (length > SAFETENSORS_HEADER_MAX) {
        return fault_set(fault, STATUS_INPUT, path, REMEDY,
                         "byte 0: the field gives a header of %llu bytes; the limit is %d",
                         (unsigned long long)length, SAFETENSORS_HEADER_MAX);
    }
    if ((int64_t)length > file_bytes - LENGTH_BYTES) {
        return fault_set(fault, STATUS_INPUT, path, REMEDY,
                         "byte 0: the field gives a header of %llu bytes, which does not fit in "
                         "the file of %lld",
                         (unsigned long long)length, (long long)file_bytes);
    }
    *header_bytes = (size_t)length;
    return OK;
}

static enum status read_table(int fd, const char *path, int64_t file_bytes, struct region *region,
                              struct safetensors *file, struct fault *fault) {
    size_t header_bytes = 0;
    TRY(read_length(fd, path, file_bytes, &header_bytes, fault));
    char *text = region_alloc(region, header_bytes + 1, 1);
    TRY(file_read_at(fd, path, text, header_bytes, LENGTH_BYTES, fault));
    text[header_bytes] = '\0';
    int64_t data_bytes = file_bytes - LENGTH_BYTES - (int64_t)header_bytes;
    return safetensors_parse(text, header_bytes, data_bytes, path, region, file, fault);
}

enum status safetensors_open(const char *path, struct region *region, struct safetensors *file,
                             struct fault *fault) {
    int fd;
    int64_t file_bytes;
    TRY(file_open_read(path, &fd, &file_bytes, fault));
    enum status status = read_table(fd, path, file_bytes, region, file, fault);
    if (status != OK) {
        close(fd);
        return status;
    }
    file->fd = fd;
    return OK;
}

void safetensors_close(struct safetensors *file) {
    close(file->fd);
    file->fd = -1;
}

static int compare_name(const void *name, const void *entry) {
    return strcmp(name, (*(const struct safetensors_entry *const *)entry)->name);
}

const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name) {
    const struct safetensors_entry **found = bsearch(
        name, file->by_name, (size_t)file->header.count, sizeof *file->by_name, compare_name);
    return found == NULL ? NULL : *found;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key) {
    for (int i = 0; i < file->header.metadata_count; i++) {
        if (strcmp(file->header.metadata[i].key, key) == 0) {
            return file->header.metadata[i].value;
        }
    }
    return NULL;
}

enum status safetensors_read(const struct safetensors *file, const struct safetensors_entry *entry,
                             int64_t first, void *buffer, size_t count, struct fault *fault) {
    ASSERT(first >= 0 && (int64_t)count <= entry->end - entry->begin - first);
    return file_read_at(file->fd, file->path, buffer, count, file->data_at + entry->begin + first,
                        fault);
}

int64_t safetensors_lay_out(struct safetensors_entry *entries, int count) {
    int64_t end = 0;
    for (int bits = 64; bits >= 8; bits /= 2) {
        for (int i = 0; i < count; i++) {
            struct safetensors_entry *entry = &entries[i];
            if (DTYPES[entry->dtype].bits != bits) {
                continue;
            }
            int64_t bytes = bits / 8;
            bool overflow = false;
            for (int axis = 0; axis < entry->rank; axis++) {
                overflow |= __builtin_mul_overflow(bytes, entry->shape[axis], &bytes);
            }
            entry->begin = end;
            overflow |= __builtin_add_overflow(end, bytes, &end);
            ASSERT(!overflow);
            entry->elements = bytes / (bits / 8);
            entry->end = end;
        }
    }
    return end;
}

static void add_entry(struct text *text, const struct safetensors_entry *entry, bool first) {
    text_add(text, "%s", first ? "" : ",");
    text_add_json(text, entry->name);
    text_add(text, ":{\"dtype\":\"%s\",\"shape\":[", DTYPES[entry->dtype].name);
    for (int axis = 0; axis < entry->rank; axis++) {
        text_add(text, "%s%lld", axis == 0 ? "" : ",", (long long)entry->shape[axis]);
    }
    text_add(text, "],\"data_offsets\":[%lld,%lld]}", (long long)entry->begin,
             (long long)entry->end);
}

static void add_pair(struct text *text, const struct safetensors_pair *pair, bool first) {
    text_add(text, "%s", first ? "\"__metadata__\":{" : ",");
    text_add_json(text, pair->key);
    text_add(text, ":");
    text_add_json(text, pair->value);
}

/* Appends one part of the JSON to `text`: a pair of the metadata, or an entry, with the brackets
 * before it. Both the counting of the header's bytes and the writing use this function, so they
 * agree. */
static void add_header_part(struct text *text, const struct safetensors_header *header, int part) {
    if (part < header->metadata_count) {
        add_pair(text, &header->metadata[part], part == 0);
        return;
    }
    int entry = part - header->metadata_count;
    if (entry == 0 && header->metadata_count > 0) {
        text_add(text, header->count > 0 ? "}," : "}");
    }
    if (entry < header->count) {
        add_entry(text, &header->entries[entry], entry == 0);
    }
}

size_t safetensors_header_bytes(const struct safetensors_header *header) {
    size_t bytes = LENGTH_BYTES + 2; /* the outer braces */
    for (int part = 0; part <= header->metadata_count + header->count; part++) {
        char buffer[ENTRY_TEXT_BYTES];
        struct text text = text_over(buffer, sizeof buffer);
        add_header_part(&text, header, part);
        ASSERT(!text.truncated);
        bytes += text.length;
    }
    return align_up(bytes, SAFETENSORS_ALIGN_BYTES);
}

size_t safetensors_render_header(const struct safetensors_header *header, char *buffer,
                                 size_t capacity) {
    ASSERT(capacity > LENGTH_BYTES);
    struct text text = text_over(buffer + LENGTH_BYTES, capacity - LENGTH_BYTES);
    text_add(&text, "{");
    for (int part = 0; part <= header->metadata_count + header->count; part++) {
        add_header_part(&text, header, part);
    }
    text_add(&text, "}");
    size_t total = align_up(LENGTH_BYTES + text.length, SAFETENSORS_ALIGN_BYTES);
    text_add(&text, "%*s", (int)(total - LENGTH_BYTES - text.length), "");
    ASSERT(!text.truncated);
    uint64_t length = htole64(total - LENGTH_BYTES);
    memcpy(buffer, &length, sizeof length);
    return total;
}
