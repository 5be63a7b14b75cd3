/* port_cpu: the blocks of a plan in this process's own memory. */
#include "targets/port.h"

#include "base/check.h"
#include "base/text.h"
#include "targets/machine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    HUGE_PAGE_BYTES = 2 << 20,
    HOLDERS_NAMED = 3,
    POPULATE_STEP_BYTES = 256 << 20, /* memory is looked at anew before each step */
};

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older C library headers lack it */
#endif

static const char *const SPACE_NAMES[SPACE_COUNT] = {
    [SPACE_DEVICE] = "device", [SPACE_PINNED] = "pinned", [SPACE_HOST] = "host"};

/* What must stay free besides the block: page tables of it, and the kernel's own margin. */
static const uint64_t SPARE_BYTES = 32 << 20;

enum status port_init(struct port *port, const struct target *target, struct fault *fault) {
    if (target->kind != TARGET_CPU) {
        char place[sizeof fault->place];
        snprintf(place, sizeof place, "target %.200s", target->name);
        return fault_set(fault, STATUS_INPUT, place,
                         "plan for it with skep plan, run on a cpu target",
                         "is a CUDA device, which this build cannot run on");
    }
    *port = (struct port){.target = target};
    return OK;
}

static enum status refuse_fit(const struct port *port, enum space space, uint64_t bytes,
                              const struct machine *machine, struct fault *fault) {
    char place[sizeof fault->place];
    char holders[256];
    char need[24];
    char have[24];
    struct text list = text_over(holders, sizeof holders);
    machine_largest_processes("", HOLDERS_NAMED, &list);
    snprintf(place, sizeof place, "target %.200s", port->target->name);
    return fault_set(fault, STATUS_FIT, place,
                     "free memory, lower limits.device or take a smaller batch",
                     "%s arena needs %s, %s are free now%s%s%s", SPACE_NAMES[space],
                     text_bytes(bytes, need), text_bytes(machine->memory_available_bytes, have),
                     machine->memory_limited ? " within the cgroup's limit" : "",
                     list.length > 0 ? "; held by " : "", list.bytes);
}

/* A mapping whose start is a multiple of `align`: map more, give the ends back. */
static void *map_aligned(uint64_t bytes, uint64_t align) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t extra = align > page ? align : 0;
    char *mapped = mmap(NULL, bytes + extra, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        return NULL;
    }
    if (extra == 0) {
        return mapped;
    }
    uint64_t head = (align - (uint64_t)(uintptr_t)mapped % align) % align;
    if (head > 0) {
        munmap(mapped, head);
    }
    if (extra > head) {
        munmap(mapped + head + bytes, extra - head);
    }
    return mapped + head;
}

static int populate(char *address, uint64_t bytes) {
    if (madvise(address, bytes, MADV_POPULATE_WRITE) == 0) {
        return 0;
    }
    if (errno != EINVAL) {
        return errno;
    }
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE); /* a kernel before 5.14: touch each page */
    for (uint64_t offset = 0; offset < bytes; offset += page) {
        ((volatile char *)address)[offset] = 0;
    }
    return 0;
}

static bool memory_left_for(uint64_t bytes, struct machine *machine) {
    machine_read("", machine);
    return machine->memory_available_bytes >= bytes + SPARE_BYTES;
}

/* Step by step, so that when others take memory meanwhile we give up before the kernel kills. */
static enum status populate_all(const struct port *port, enum space space, char *address,
                                uint64_t bytes, struct fault *fault) {
    for (uint64_t offset = 0; offset < bytes; offset += POPULATE_STEP_BYTES) {
        struct machine machine;
        uint64_t left = bytes - offset;
        if (!memory_left_for(left, &machine)) {
            return refuse_fit(port, space, left, &machine, fault);
        }
        int failure =
            populate(address + offset, left < POPULATE_STEP_BYTES ? left : POPULATE_STEP_BYTES);
        if (failure != 0) {
            return fault_set_errno(fault, STATUS_FIT, port->target->name,
                                   "cannot make the arena's pages present", failure);
        }
    }
    return OK;
}

enum status port_reserve(struct port *port, enum space space, uint64_t bytes, void **address,
                         struct fault *fault) {
    ASSERT(bytes > 0 && bytes < (uint64_t)1 << 46);
    ASSERT(port->blocks[space].address == NULL);
    struct machine machine;
    if (!memory_left_for(bytes, &machine)) {
        return refuse_fit(port, space, bytes, &machine, fault);
    }
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    bool huge = bytes >= HUGE_PAGE_BYTES;
    uint64_t align = huge ? HUGE_PAGE_BYTES : page;
    uint64_t mapped_bytes = (bytes + page - 1) / page * page;
    char *mapped = map_aligned(mapped_bytes, align);
    if (mapped == NULL) {
        return fault_set_errno(fault, STATUS_FIT, port->target->name,
                               "cannot map the arena (ulimit -v?)", errno);
    }
    if (huge) {
        (void)madvise(mapped, mapped_bytes, MADV_HUGEPAGE); /* where there are none, pages do */
    }
    enum status status = populate_all(port, space, mapped, mapped_bytes, fault);
    if (status != OK) {
        munmap(mapped, mapped_bytes);
        return status;
    }
    port->blocks[space] = (struct port_block){mapped, bytes, mapped_bytes};
    *address = mapped;
    return OK;
}

void port_release(struct port *port, enum space space) {
    struct port_block *block = &port->blocks[space];
    if (block->address != NULL) {
        int failed = munmap(block->address, block->mapped_bytes);
        ASSERT(failed == 0);
    }
    *block = (struct port_block){0};
}

void port_finish(struct port *port) {
    for (int space = 0; space < SPACE_COUNT; space++) {
        port_release(port, (enum space)space);
    }
}
