/* Reads paths from standard input, one a line, and writes one line each: what Skep's reader says
 * about the file. tests/parity/compare_safetensors.py compares these with another reader's.
 *     ok NAME_IN_HEX:DTYPE:SHAPE:BYTES_IN_HEX ...      in order of names
 *     refused REASON */
#include "runtime/checkpoint/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_LINE_BYTES = 4096, TENSOR_BYTES_MAX = 1 << 16 };

static void print_hex(const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        printf("%02x", ((const unsigned char *)bytes)[i]);
    }
}

static int print_tensor(const struct safetensors *file, const struct safetensors_entry *entry) {
    static unsigned char bytes[TENSOR_BYTES_MAX];
    struct fault fault;
    size_t count = (size_t)(entry->end - entry->begin);
    if (count > sizeof bytes || safetensors_read(file, entry, 0, bytes, count, &fault) != OK) {
        return 1;
    }
    printf(" ");
    print_hex(entry->name, strlen(entry->name));
    printf(":%s:", safetensors_dtype_name(entry->dtype));
    for (int axis = 0; axis < entry->rank; axis++) {
        printf("%s%lld", axis == 0 ? "" : ",", (long long)entry->shape[axis]);
    }
    printf(":");
    print_hex(bytes, count);
    return 0;
}

static int judge(const char *path) {
    struct region region = {0};
    struct safetensors file;
    struct fault fault;
    int failures = 0;
    if (safetensors_open(path, &region, &file, &fault) != OK) {
        printf("refused %s\n", fault.reason);
    } else {
        printf("ok");
        for (int i = 0; i < file.header.count; i++) {
            failures += print_tensor(&file, file.by_name[i]);
        }
        printf("\n");
        safetensors_close(&file);
    }
    region_finish(&region);
    return failures;
}

int main(void) {
    char path[PATH_LINE_BYTES];
    int failures = 0;
    while (fgets(path, sizeof path, stdin) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        failures += judge(path);
    }
    return failures == 0 ? 0 : 1;
}
