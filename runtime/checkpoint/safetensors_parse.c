/* The header of a safetensors file, from untrusted text to a checked table. */
#include "base/limits.h"
#include "runtime/checkpoint/json_scan.h"
#include "runtime/checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_NAME_BYTES = 160, TABLE_START = 64 };

static const char METADATA_KEY[] = "__metadata__";

/* A header being read. */
struct reading {
    struct json_scan scan;
    const char *path;
    int64_t data_bytes;
    struct region *region;
    struct fault *fault;
    struct safetensors_entry *entries;
    struct safetensors_pair *pairs;
    size_t entry_count, pair_count;
    bool metadata_seen;
};

/* Names come from the file: what a terminal would obey is shown as '?'. */
static const char *shown(const char *name, char buffer[static SHOWN_NAME_BYTES]) {
    size_t length = strnlen(name, SHOWN_NAME_BYTES - 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        buffer[i] = c < 0x20 || c == 0x7f ? '?' : name[i];
    }
    buffer[length] = '\0';
    return buffer;
}

static enum status refuse_syntax(const struct reading *reading) {
    return fault_set(reading->fault, STATUS_INPUT, reading->path,
                     "the file is damaged or not safetensors: fetch it again",
                     "byte %zu of the header: %s", reading->scan.at, reading->scan.reason);
}

static enum status refuse_byte(struct reading *reading, const char *reason) {
    reading->scan.reason = reason;
    return refuse_syntax(reading);
}

static enum status refuse_tensor(const struct reading *reading, const char *name,
                                 const char *reason) {
    char text[SHOWN_NAME_BYTES];
    return fault_set(reading->fault, STATUS_INPUT, reading->path,
                     "the file is damaged or not safetensors: fetch it again", "tensor '%s': %s",
                     shown(name, text), reason);
}

/* The members of the object that comes next: calls `member` behind each key and colon. */
static enum status each_member(struct reading *reading, const char *owner,
                               enum status (*member)(struct reading *, const char *key, void *),
                               void *context) {
    struct json_scan *scan = &reading->scan;
    if (!json_scan_byte(scan, '{')) {
        return owner != NULL ? refuse_tensor(reading, owner, scan->reason) : refuse_syntax(reading);
    }
    if (json_scan_peek(scan) == '}') {
        scan->at++;
        return OK;
    }
    scan->reason = NULL;
    do {
        char *key;
        if (!json_scan_string(scan, &key) || !json_scan_byte(scan, ':')) {
            return refuse_syntax(reading);
        }
        enum status status = member(reading, key, context);
        if (status != OK) {
            return status;
        }
    } while (json_scan_more(scan, '}'));
    return scan->reason == NULL ? OK : refuse_syntax(reading);
}

/* Room for one more row: a table is moved to twice its room whenever it is full, so that all of
 * its generations together take less than four times its final size. */
static void *grown(struct region *region, void *table, size_t count, size_t row_bytes) {
    bool full = count == 0 || (count >= TABLE_START && (count & (count - 1)) == 0);
    if (!full) {
        return table;
    }
    void *wider = region_alloc(region, count == 0 ? TABLE_START : 2 * count, row_bytes);
    if (count > 0) {
        memcpy(wider, table, count * row_bytes);
    }
    return wider;
}

/* Which of a tensor's three fields have been seen. */
enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

struct tensor_reading {
    struct safetensors_entry *entry;
    unsigned seen;
};

static enum status read_dtype(struct reading *reading, struct safetensors_entry *entry) {
    char *text;
    if (!json_scan_string(&reading->scan, &text)) {
        return refuse_tensor(reading, entry->name, "dtype is not a string");
    }
    for (int i = 0; i < ST_DTYPE_COUNT; i++) {
        if (strcmp(text, safetensors_dtype_name((enum safetensors_dtype)i)) == 0) {
            entry->dtype = (enum safetensors_dtype)i;
            return OK;
        }
    }
    return refuse_tensor(reading, entry->name, "a dtype that the format does not have");
}

/* A list of whole numbers: *count of them, at most `count_max`. */
static enum status read_numbers(struct reading *reading, const char *name, int count_max,
                                int64_t *numbers, int *count) {
    struct json_scan *scan = &reading->scan;
    int filled = 0;
    if (!json_scan_byte(scan, '[')) {
        return refuse_tensor(reading, name, scan->reason);
    }
    if (json_scan_peek(scan) == ']') {
        scan->at++;
        *count = 0;
        return OK;
    }
    scan->reason = NULL;
    do {
        if (filled == count_max) {
            return refuse_tensor(reading, name, "more dimensions or offsets than are supported");
        }
        if (!json_scan_natural(scan, &numbers[filled])) {
            return refuse_tensor(reading, name, scan->reason);
        }
        filled++;
    } while (json_scan_more(scan, ']'));
    *count = filled;
    return scan->reason == NULL ? OK : refuse_syntax(reading);
}

static enum status read_offsets(struct reading *reading, struct safetensors_entry *entry) {
    int64_t offsets[2];
    int count;
    TRY(read_numbers(reading, entry->name, 2, offsets, &count));
    if (count != 2) {
        return refuse_tensor(reading, entry->name, "data_offsets is not a pair");
    }
    entry->begin = offsets[0];
    entry->end = offsets[1];
    return OK;
}

static enum status read_field(struct reading *reading, const char *key, void *context) {
    static const char *const FIELDS[] = {"dtype", "shape", "data_offsets"};
    struct tensor_reading *tensor = context;
    struct safetensors_entry *entry = tensor->entry;
    unsigned field = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(FIELDS); i++) {
        field |= strcmp(key, FIELDS[i]) == 0 ? 1u << i : 0;
    }
    if ((tensor->seen & field) != 0) {
        return refuse_tensor(reading, entry->name, "a field stands twice");
    }
    tensor->seen |= field;
    switch (field) {
    case SEEN_DTYPE:
        return read_dtype(reading, entry);
    case SEEN_SHAPE:
        return read_numbers(reading, entry->name, SAFETENSORS_RANK_MAX, entry->shape, &entry->rank);
    case SEEN_OFFSETS:
        return read_offsets(reading, entry);
    default: /* the format lets writers add fields */
        return json_scan_skip(&reading->scan) ? OK : refuse_syntax(reading);
    }
}

/* The bytes that dtype and shape say, against the range in the file. */
static enum status check_bytes(const struct reading *reading, struct safetensors_entry *entry) {
    int64_t elements = 1;
    int64_t bits;
    for (int axis = 0; axis < entry->rank; axis++) {
        if (__builtin_mul_overflow(elements, entry->shape[axis], &elements)) {
            return refuse_tensor(reading, entry->name, "its shape has more than 2^63 elements");
        }
    }
    if (__builtin_mul_overflow(elements, safetensors_dtype_bits(entry->dtype), &bits)) {
        return refuse_tensor(reading, entry->name, "its shape has more than 2^63 bits");
    }
    if (bits % 8 != 0) {
        return refuse_tensor(reading, entry->name, "does not fill whole bytes");
    }
    if (entry->end < entry->begin || entry->end > reading->data_bytes) {
        return refuse_tensor(reading, entry->name, "its offsets leave the file");
    }
    if (entry->end - entry->begin != bits / 8) {
        return refuse_tensor(reading, entry->name, "its offsets do not match dtype and shape");
    }
    entry->elements = elements;
    return OK;
}

static enum status read_pair(struct reading *reading, const char *key, void *context) {
    (void)context;
    char *value;
    if (!json_scan_string(&reading->scan, &value)) {
        return refuse_syntax(reading);
    }
    if (reading->pair_count == SAFETENSORS_METADATA_MAX) {
        return refuse_byte(reading, "more metadata than is supported");
    }
    reading->pairs =
        grown(reading->region, reading->pairs, reading->pair_count, sizeof *reading->pairs);
    reading->pairs[reading->pair_count++] = (struct safetensors_pair){key, value};
    return OK;
}

static enum status read_metadata(struct reading *reading) {
    if (reading->metadata_seen) {
        return refuse_byte(reading, "__metadata__ stands twice");
    }
    reading->metadata_seen = true;
    if (json_scan_peek(&reading->scan) == 'n') {
        return json_scan_skip(&reading->scan) ? OK : refuse_syntax(reading);
    }
    return each_member(reading, NULL, read_pair, NULL);
}

static enum status read_member(struct reading *reading, const char *key, void *context) {
    (void)context;
    if (strcmp(key, METADATA_KEY) == 0) {
        return read_metadata(reading);
    }
    if (reading->entry_count == SAFETENSORS_TENSORS_MAX) {
        return refuse_byte(reading, "more tensors than are supported");
    }
    reading->entries =
        grown(reading->region, reading->entries, reading->entry_count, sizeof *reading->entries);
    struct safetensors_entry *entry = &reading->entries[reading->entry_count++];
    struct tensor_reading tensor = {.entry = entry};
    entry->name = key;
    TRY(each_member(reading, key, read_field, &tensor));
    if (tensor.seen != SEEN_ALL) {
        return refuse_tensor(reading, key, "dtype, shape or data_offsets is missing");
    }
    return check_bytes(reading, entry);
}

static int by_offsets(const void *a, const void *b) {
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

static int by_name(const void *a, const void *b) {
    const struct safetensors_entry *const *left = a;
    const struct safetensors_entry *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const struct safetensors_pair *)a)->key,
                  ((const struct safetensors_pair *)b)->key);
}

/* Every byte of the data belongs to exactly one tensor. */
static enum status check_tiling(const struct reading *reading) {
    int64_t end = 0;
    for (size_t i = 0; i < reading->entry_count; i++) {
        const struct safetensors_entry *entry = &reading->entries[i];
        if (entry->begin != end) {
            return refuse_tensor(reading, entry->name,
                                 entry->begin > end ? "bytes before it belong to no tensor"
                                                    : "its bytes overlap another tensor's");
        }
        end = entry->end;
    }
    if (end != reading->data_bytes) {
        return fault_set(reading->fault, STATUS_INPUT, reading->path,
                         "the file is damaged or was extended: fetch it again",
                         "byte %lld of the data: %lld bytes behind the last tensor", (long long)end,
                         (long long)(reading->data_bytes - end));
    }
    return OK;
}

static enum status check_names(const struct reading *reading,
                               const struct safetensors_entry **names) {
    for (size_t i = 1; i < reading->entry_count; i++) {
        if (strcmp(names[i - 1]->name, names[i]->name) == 0) {
            return refuse_tensor(reading, names[i]->name, "stands twice in the header");
        }
    }
    for (size_t i = 1; i < reading->pair_count; i++) {
        if (strcmp(reading->pairs[i - 1].key, reading->pairs[i].key) == 0) {
            return refuse_tensor(reading, METADATA_KEY, "a key stands twice");
        }
    }
    return OK;
}

static enum status read_header(struct reading *reading) {
    struct json_scan *scan = &reading->scan;
    if (scan->length == 0 || scan->bytes[0] != '{') {
        return refuse_byte(reading, "the header does not start with '{'");
    }
    TRY(each_member(reading, NULL, read_member, NULL));
    if (json_scan_peek(scan) != '\0' || scan->at < scan->length) {
        return refuse_byte(reading, "text behind the header's end");
    }
    return OK;
}

enum status safetensors_parse(char *text, size_t header_bytes, int64_t data_bytes, const char *path,
                              struct region *region, struct safetensors *file,
                              struct fault *fault) {
    ASSERT(text[header_bytes] == '\0');
    struct reading reading = {.scan = {.bytes = text, .length = header_bytes},
                              .path = path,
                              .data_bytes = data_bytes,
                              .region = region,
                              .fault = fault};
    TRY(read_header(&reading));
    size_t count = reading.entry_count;
    const struct safetensors_entry **names = region_alloc(region, count, sizeof(void *));
    if (count > 0) {
        qsort(reading.entries, count, sizeof *reading.entries, by_offsets);
    }
    for (size_t i = 0; i < count; i++) {
        names[i] = &reading.entries[i];
    }
    if (count > 0) {
        qsort(names, count, sizeof(void *), by_name);
    }
    if (reading.pair_count > 0) {
        qsort(reading.pairs, reading.pair_count, sizeof *reading.pairs, by_key);
    }
    TRY(check_names(&reading, names));
    TRY(check_tiling(&reading));
    *file = (struct safetensors){.path = path,
                                 .fd = -1,
                                 .data_at = 8 + (int64_t)header_bytes,
                                 .data_bytes = data_bytes,
                                 .header = {.entries = reading.entries,
                                            .count = (int)count,
                                            .metadata = reading.pairs,
                                            .metadata_count = (int)reading.pair_count},
                                 .by_name = names};
    return OK;
}
