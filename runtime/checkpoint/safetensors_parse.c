/* Reads the untrusted header of a safetensors file into a checked table of tensors. */
#include "base/limits.h"
#include "base/text.h"
#include "runtime/checkpoint/json_scan.h"
#include "runtime/checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHOWN_NAME_MAX = 159, /* maximum bytes of a tensor's name that a message shows */
    TABLE_ROWS_MIN = 64   /* initial capacity of a table, in rows */
};

static const char METADATA_KEY[] = "__metadata__";
static const char REMEDY[] = "download the file again: it is damaged, or not a safetensors file";

struct header_reader {
    struct json_scan scan;
    const char *path;
    int64_t data_bytes; /* size in bytes of the file's part after the header */
    struct region *region;
    struct fault *fault;
    struct safetensors_entry *entries;
    struct safetensors_pair *pairs;
    size_t entry_count, pair_count;
    bool has_metadata; /* the header has a member __metadata__ */
};

static enum status syntax_fault(const struct header_reader *reader) {
    return fault_set(reader->fault, STATUS_INPUT, reader->path, REMEDY,
                     "byte %zu of the header: %s", reader->scan.at, reader->scan.reason);
}

static enum status byte_fault(struct header_reader *reader, const char *reason) {
    reader->scan.reason = reason;
    return syntax_fault(reader);
}

/* Sets the fault of a tensor. The name is from the untrusted file, so its control characters, which
 * a terminal would interpret, become '?'. */
static enum status tensor_fault(const struct header_reader *reader, const char *name,
                                const char *reason) {
    enum status status = fault_set(reader->fault, STATUS_INPUT, reader->path, REMEDY,
                                   "tensor '%.*s': %s", SHOWN_NAME_MAX, name, reason);
    text_hide_control_characters(reader->fault->reason);
    return status;
}

/* Reads an object. `member` is called after each key and colon and reads the value. */
static enum status read_members(struct header_reader *reader, const char *owner,
                                enum status (*member)(struct header_reader *, const char *key,
                                                      void *),
                                void *context) {
    struct json_scan *scan = &reader->scan;
    if (!json_scan_expect_byte(scan, '{')) {
        return owner != NULL ? tensor_fault(reader, owner, scan->reason) : syntax_fault(reader);
    }
    if (json_scan_peek(scan) == '}') {
        scan->at++;
        return OK;
    }
    scan->reason = NULL;
    do {
        char *key;
        if (!json_scan_string(scan, &key) || !json_scan_expect_byte(scan, ':')) {
            return syntax_fault(reader);
        }
        TRY(member(reader, key, context));
    } while (json_scan_has_more(scan, '}'));
    return scan->reason == NULL ? OK : syntax_fault(reader);
}

/* Returns a table with space for one more row. A full table is copied to a table of twice the size,
 * so all these copies together take less than four times the final size. */
static void *grow_table(struct region *region, void *table, size_t count, size_t row_bytes) {
    bool full = count == 0 || (count >= TABLE_ROWS_MIN && (count & (count - 1)) == 0);
    if (!full) {
        return table;
    }
    void *wider = region_alloc(region, count == 0 ? TABLE_ROWS_MIN : 2 * count, row_bytes);
    if (count > 0) {
        memcpy(wider, table, count * row_bytes);
    }
    return wider;
}

/* Bits for the fields of a tensor that have been read. */
enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

struct tensor_fields {
    struct safetensors_entry *entry;
    unsigned seen; /* bits of the fields read so far: SEEN_... */
};

static enum status read_dtype(struct header_reader *reader, struct safetensors_entry *entry) {
    char *text;
    if (!json_scan_string(&reader->scan, &text)) {
        return tensor_fault(reader, entry->name, "dtype is not a string");
    }
    for (int i = 0; i < ST_DTYPE_COUNT; i++) {
        if (strcmp(text, safetensors_dtype_name((enum safetensors_dtype)i)) == 0) {
            entry->dtype = (enum safetensors_dtype)i;
            return OK;
        }
    }
    return tensor_fault(reader, entry->name, "has a dtype that is not in the safetensors format");
}

/* Reads a list of at most `count_max` whole numbers; sets *count. */
static enum status read_numbers(struct header_reader *reader, const char *name, int count_max,
                                int64_t *numbers, int *count) {
    struct json_scan *scan = &reader->scan;
    int filled = 0;
    if (!json_scan_expect_byte(scan, '[')) {
        return tensor_fault(reader, name, scan->reason);
    }
    if (json_scan_peek(scan) == ']') {
        scan->at++;
        *count = 0;
        return OK;
    }
    scan->reason = NULL;
    do {
        if (filled == count_max) {
            return tensor_fault(reader, name, "has too many dimensions or offsets");
        }
        if (!json_scan_natural(scan, &numbers[filled])) {
            return tensor_fault(reader, name, scan->reason);
        }
        filled++;
    } while (json_scan_has_more(scan, ']'));
    *count = filled;
    return scan->reason == NULL ? OK : syntax_fault(reader);
}

static enum status read_offsets(struct header_reader *reader, struct safetensors_entry *entry) {
    int64_t offsets[2];
    int count;
    TRY(read_numbers(reader, entry->name, 2, offsets, &count));
    if (count != 2) {
        return tensor_fault(reader, entry->name, "has data_offsets other than [begin, end]");
    }
    entry->begin = offsets[0];
    entry->end = offsets[1];
    return OK;
}

static enum status read_field(struct header_reader *reader, const char *key, void *context) {
    static const char *const FIELDS[] = {"dtype", "shape", "data_offsets"};
    struct tensor_fields *tensor = context;
    struct safetensors_entry *entry = tensor->entry;
    unsigned field = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(FIELDS); i++) {
        field |= strcmp(key, FIELDS[i]) == 0 ? 1u << i : 0;
    }
    if ((tensor->seen & field) != 0) {
        return tensor_fault(reader, entry->name, "has a field twice");
    }
    tensor->seen |= field;
    switch (field) {
    case SEEN_DTYPE:
        return read_dtype(reader, entry);
    case SEEN_SHAPE:
        return read_numbers(reader, entry->name, SAFETENSORS_RANK_MAX, entry->shape, &entry->rank);
    case SEEN_OFFSETS:
        return read_offsets(reader, entry);
    default: /* ignored: the format allows other fields */
        return json_scan_skip(&reader->scan) ? OK : syntax_fault(reader);
    }
}

/* Checks that the range of a tensor in the file has as many bytes as its dtype and shape
 * require. */
static enum status check_tensor_size(const struct header_reader *reader,
                                     struct safetensors_entry *entry) {
    int64_t elements = 1;
    int64_t bits;
    for (int axis = 0; axis < entry->rank; axis++) {
        if (__builtin_mul_overflow(elements, entry->shape[axis], &elements)) {
            return tensor_fault(reader, entry->name, "its shape has more than 2^63 elements");
        }
    }
    if (__builtin_mul_overflow(elements, safetensors_dtype_bits(entry->dtype), &bits)) {
        return tensor_fault(reader, entry->name, "its shape has more than 2^63 bits");
    }
    if (bits % 8 != 0) {
        return tensor_fault(reader, entry->name,
                            "has elements of less than a byte that do not fill whole bytes");
    }
    if (entry->end < entry->begin || entry->end > reader->data_bytes) {
        return tensor_fault(reader, entry->name, "its offsets are outside the file");
    }
    if (entry->end - entry->begin != bits / 8) {
        return tensor_fault(reader, entry->name,
                            "has data_offsets that do not match its dtype and shape");
    }
    entry->elements = elements;
    return OK;
}

static enum status read_pair(struct header_reader *reader, const char *key, void *context) {
    (void)context;
    char *value;
    if (!json_scan_string(&reader->scan, &value)) {
        return syntax_fault(reader);
    }
    if (reader->pair_count == SAFETENSORS_METADATA_MAX) {
        return byte_fault(reader, "too many metadata entries");
    }
    reader->pairs =
        grow_table(reader->region, reader->pairs, reader->pair_count, sizeof *reader->pairs);
    reader->pairs[reader->pair_count++] = (struct safetensors_pair){key, value};
    return OK;
}

static enum status read_metadata(struct header_reader *reader) {
    if (reader->has_metadata) {
        return byte_fault(reader, "the header has __metadata__ twice");
    }
    reader->has_metadata = true;
    if (json_scan_peek(&reader->scan) == 'n') {
        return json_scan_skip(&reader->scan) ? OK : syntax_fault(reader);
    }
    return read_members(reader, NULL, read_pair, NULL);
}

static enum status read_member(struct header_reader *reader, const char *key, void *context) {
    (void)context;
    if (strcmp(key, METADATA_KEY) == 0) {
        return read_metadata(reader);
    }
    if (reader->entry_count == SAFETENSORS_TENSORS_MAX) {
        return byte_fault(reader, "more tensors than are supported");
    }
    reader->entries =
        grow_table(reader->region, reader->entries, reader->entry_count, sizeof *reader->entries);
    struct safetensors_entry *entry = &reader->entries[reader->entry_count++];
    struct tensor_fields tensor = {.entry = entry};
    entry->name = key;
    TRY(read_members(reader, key, read_field, &tensor));
    if (tensor.seen != SEEN_ALL) {
        return tensor_fault(reader, key, "has no dtype, shape or data_offsets");
    }
    return check_tensor_size(reader, entry);
}

static int compare_offsets(const void *a, const void *b) {
    const struct safetensors_entry *left = a;
    const struct safetensors_entry *right = b;
    if (left->begin != right->begin) {
        return left->begin < right->begin ? -1 : 1;
    }
    if (left->end != right->end) {
        return left->end < right->end ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

static int compare_names(const void *a, const void *b) {
    const struct safetensors_entry *const *left = a;
    const struct safetensors_entry *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(((const struct safetensors_pair *)a)->key,
                  ((const struct safetensors_pair *)b)->key);
}

/* Sorts a table, except an empty one: that is NULL, which must not be passed to qsort. */
static void sort_rows(void *rows, size_t count, size_t row_bytes,
                      int (*order)(const void *, const void *)) {
    if (count > 0) {
        qsort(rows, count, row_bytes, order);
    }
}

/* Checks that every byte of the data belongs to exactly one tensor. */
static enum status check_tiling(const struct header_reader *reader) {
    int64_t end = 0;
    for (size_t i = 0; i < reader->entry_count; i++) {
        const struct safetensors_entry *entry = &reader->entries[i];
        if (entry->begin != end) {
            return tensor_fault(reader, entry->name,
                                entry->begin > end ? "the bytes before its data belong to no tensor"
                                                   : "its bytes overlap another tensor's");
        }
        end = entry->end;
    }
    if (end != reader->data_bytes) {
        return fault_set(reader->fault, STATUS_INPUT, reader->path,
                         "the file is damaged or was extended: download it again",
                         "byte %lld of the data: %lld bytes after the last tensor", (long long)end,
                         (long long)(reader->data_bytes - end));
    }
    return OK;
}

static enum status check_names_unique(const struct header_reader *reader,
                                      const struct safetensors_entry **names) {
    for (size_t i = 1; i < reader->entry_count; i++) {
        if (strcmp(names[i - 1]->name, names[i]->name) == 0) {
            return tensor_fault(reader, names[i]->name,
                                "is a tensor that the header contains twice");
        }
    }
    for (size_t i = 1; i < reader->pair_count; i++) {
        if (strcmp(reader->pairs[i - 1].key, reader->pairs[i].key) == 0) {
            return tensor_fault(reader, METADATA_KEY, "contains a key twice");
        }
    }
    return OK;
}

static enum status read_header(struct header_reader *reader) {
    struct json_scan *scan = &reader->scan;
    if (scan->length == 0 || scan->bytes[0] != '{') {
        return byte_fault(reader, "the header does not start with '{'");
    }
    TRY(read_members(reader, NULL, read_member, NULL));
    if (json_scan_peek(scan) != '\0' || scan->at < scan->length) {
        return byte_fault(reader, "the header has text after its closing '}'");
    }
    return OK;
}

enum status safetensors_parse(char *text, size_t header_bytes, int64_t data_bytes, const char *path,
                              struct region *region, struct safetensors *file,
                              struct fault *fault) {
    ASSERT(text[header_bytes] == '\0');
    struct header_reader reader = {.scan = {.bytes = text, .length = header_bytes},
                                   .path = path,
                                   .data_bytes = data_bytes,
                                   .region = region,
                                   .fault = fault};
    TRY(read_header(&reader));
    size_t count = reader.entry_count;
    const struct safetensors_entry **names = region_alloc(region, count, sizeof(void *));
    sort_rows(reader.entries, count, sizeof *reader.entries, compare_offsets);
    for (size_t i = 0; i < count; i++) {
        names[i] = &reader.entries[i];
    }
    sort_rows(names, count, sizeof(void *), compare_names);
    sort_rows(reader.pairs, reader.pair_count, sizeof *reader.pairs, compare_keys);
    TRY(check_names_unique(&reader, names));
    TRY(check_tiling(&reader));
    *file = (struct safetensors){.path = path,
                                 .fd = -1,
                                 .data_at = 8 + (int64_t)header_bytes,
                                 .data_bytes = data_bytes,
                                 .header = {.entries = reader.entries,
                                            .count = (int)count,
                                            .metadata = reader.pairs,
                                            .metadata_count = (int)reader.pair_count},
                                 .by_name = names};
    return OK;
}
