#include "base/region.h"

#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16, ALIGN_BYTES = 64 }; /* minimum size and alignment of a block */

struct region_block {
    struct region_block *older; /* next older block of the region; NULL: none */
    size_t used;                /* number of bytes of the array `bytes` that are in use */
    size_t capacity;            /* size of `bytes` */
    _Alignas(ALIGN_BYTES) unsigned char bytes[]; /* [capacity]: memory that the region hands out */
};

static int sealed;

void process_seal(void) {
    sealed = 1;
}

void process_unseal(void) {
    sealed = 0;
}

int process_is_sealed(void) {
    return sealed;
}

static struct region_block *add_block(struct region *region, size_t bytes) {
    ASSERT(!sealed);
    size_t capacity = max_u64(bytes, BLOCK_BYTES);
    size_t total = align_up(sizeof(struct region_block) + capacity, ALIGN_BYTES);
    struct region_block *block = aligned_alloc(ALIGN_BYTES, total);
    if (block == NULL) {
        fprintf(stderr, "skep: host memory: cannot allocate %zu bytes\n", total);
        exit(1);
    }
    block->older = region->newest;
    block->used = 0;
    block->capacity = capacity;
    region->newest = block;
    region->bytes_total += total;
    return block;
}

void *region_alloc(struct region *region, size_t count, size_t size) {
    ASSERT(size == 0 || count < ((size_t)1 << 40) / size);
    size_t bytes = align_up(count * size, ALIGN_BYTES);
    struct region_block *block = region->newest;
    if (block == NULL || block->capacity - block->used < bytes) {
        block = add_block(region, bytes);
    }
    void *memory = block->bytes + block->used;
    block->used += bytes;
    memset(memory, 0, bytes);
    return memory;
}

const char *region_copy_text(struct region *region, const char *text) {
    size_t bytes = strlen(text) + 1;
    return memcpy(region_alloc(region, bytes, 1), text, bytes);
}

const char *region_format(struct region *region, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    ASSERT(length >= 0);
    char *text = region_alloc(region, (size_t)length + 1, 1);
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void *region_grow(struct region *region, const void *array, int count, int *capacity, size_t size) {
    *capacity = *capacity == 0 ? 512 : 2 * *capacity;
    void *bigger = region_alloc(region, (size_t)*capacity, size);
    ASSERT(count < *capacity);
    if (count > 0) {
        memcpy(bigger, array, (size_t)count * size);
    }
    return bigger;
}

void region_finish(struct region *region) {
    struct region_block *block = region->newest;
    while (block != NULL) {
        struct region_block *older = block->older;
        free(block);
        block = older;
    }
    *region = (struct region){0};
}
