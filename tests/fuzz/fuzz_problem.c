/* Fuzz target: any bytes as a packing problem. What is accepted is within its limits, and reads
 * back as the same problem after it was written. */
#include "arena/formats/formats.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WRITTEN_BYTES_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char written[WRITTEN_BYTES_MAX];

static void check_limits(const struct problem *problem) {
    ASSERT(problem->extent_count > 0 && problem->extent_count <= PROBLEM_EXTENTS_MAX);
    uint64_t total_bytes = 0;
    for (int i = 0; i < problem->extent_count; i++) {
        const struct extent *extent = &problem->extents[i];
        ASSERT(extent->bytes > 0 && extent->first < extent->last);
        ASSERT(extent->align > 0 && (extent->align & (extent->align - 1)) == 0);
        ASSERT(strlen(extent->name) <= PROBLEM_ID_BYTES_MAX);
        total_bytes += extent->bytes;
        ASSERT(total_bytes < (uint64_t)1 << 62);
    }
}

static void check_same(const struct problem *a, const struct problem *b) {
    ASSERT(a->extent_count == b->extent_count);
    for (int i = 0; i < a->extent_count; i++) {
        const struct extent *left = &a->extents[i], *right = &b->extents[i];
        ASSERT(strcmp(left->name, right->name) == 0 && left->bytes == right->bytes &&
               left->align == right->align && left->first == right->first &&
               left->last == right->last);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    struct region region = {0};
    struct problem problem = {0}, again = {0};
    struct fault fault;
    if (fd < 0) {
        fd = memfd_create("problem", 0);
    }
    enum status status =
        problem_parse((const char *)data, size, "input.csv", &region, &problem, &fault);
    if (status != OK) {
        ASSERT(problem.extents == NULL && fault.status == STATUS_INPUT);
    } else {
        check_limits(&problem);
        ASSERT(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
        const uint64_t *offsets =
            region_alloc(&region, (size_t)problem.extent_count, sizeof *offsets);
        ASSERT(problem_write(&problem, offsets, fd, "memory", &fault) == OK);
        ssize_t length = pread(fd, written, sizeof written, 0);
        ASSERT(length >= 0);
        if (length < WRITTEN_BYTES_MAX) {
            status = problem_parse(written, (size_t)length, "written.csv", &region, &again, &fault);
            ASSERT(status == OK);
            check_same(&problem, &again);
        }
    }
    region_finish(&region);
    return 0;
}
