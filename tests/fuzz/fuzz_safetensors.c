/* Fuzz target: the header of a safetensors file. The first byte scales the size of the data, the
 * rest is the header. Whatever is accepted must satisfy what safetensors.h promises. */
#include "runtime/checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_table(const struct safetensors *file) {
    int64_t end = 0;
    for (int i = 0; i < file->header.count; i++) {
        const struct safetensors_entry *entry = &file->header.entries[i];
        int64_t elements = 1;
        ASSERT(entry->rank >= 0 && entry->rank <= SAFETENSORS_RANK_MAX);
        for (int axis = 0; axis < entry->rank; axis++) {
            elements *= entry->shape[axis];
        }
        ASSERT(elements == entry->elements);
        ASSERT(entry->begin == end && entry->end >= entry->begin);
        ASSERT((entry->end - entry->begin) * 8 == elements * safetensors_dtype_bits(entry->dtype));
        ASSERT(safetensors_find(file, entry->name) == entry);
        end = entry->end;
    }
    ASSERT(end == file->data_bytes);
    for (int i = 0; i < file->header.metadata_count; i++) {
        const struct safetensors_pair *pair = &file->header.metadata[i];
        ASSERT(safetensors_metadata(file, pair->key) == pair->value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    if (count == 0) {
        return 0;
    }
    struct region region = {0};
    struct safetensors file = {.fd = 77};
    struct fault fault;
    size_t header_bytes = count - 1;
    char *text = malloc(count); /* no slack behind it: the sanitizer sees each stray read */
    ASSERT(text != NULL);
    memcpy(text, bytes + 1, header_bytes);
    text[header_bytes] = '\0';
    if (safetensors_parse(text, header_bytes, bytes[0] * 4, "fuzz", &region, &file, &fault) == OK) {
        check_table(&file);
    } else {
        ASSERT(file.fd == 77 && fault.reason[0] != '\0');
    }
    region_finish(&region);
    free(text);
    return 0;
}
