#include "targets/os/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

int mapping_make_file(const char *name, uint64_t bytes, int *fd) {
    int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0 || ftruncate(made, (off_t)bytes) != 0 ||
        fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        int failure = errno;
        if (made >= 0) {
            close(made);
        }
        return failure;
    }
    *fd = made;
    return 0;
}

/* Reserve more addresses than needed, map the block over the aligned part, and unmap the rest. */
int mapping_map(int fd, uint64_t bytes, int protection, void **address) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t whole = (bytes + page - 1) / page * page;
    uint64_t align = bytes >= MAPPING_HUGE_BYTES ? MAPPING_HUGE_BYTES : page;
    uint64_t extra = align - page;
    int private = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *room = mmap(NULL, whole + extra, PROT_NONE, private, -1, 0);
    if (room == MAP_FAILED) {
        return errno;
    }
    uint64_t head = (align - (uintptr_t)room % align) % align;
    int kind = fd < 0 ? private : MAP_SHARED;
    char *mapped = mmap(room + head, whole, protection, kind | MAP_FIXED, fd, 0);
    if (mapped == MAP_FAILED) {
        int failure = errno;
        munmap(room, whole + extra);
        return failure;
    }
    if (head > 0) {
        munmap(room, head);
    }
    if (extra > head) {
        munmap(mapped + whole, extra - head);
    }
    *address = mapped;
    return 0;
}
