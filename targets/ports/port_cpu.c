/* port_cpu: the blocks of a plan in CPU memory. */
#include "targets/ports/port_kinds.h"

#include "targets/os/mapping.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PROCESSES_LISTED = 3,            /* largest processes named when memory is short */
    POPULATE_STEP_BYTES = 256 << 20, /* free memory is checked before each step */
};

/* since Linux 5.14; older headers of the C library lack this constant */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* Memory that must stay free in addition to the block: its page tables and the kernel's reserve. */
static const uint64_t SPARE_BYTES = 32 << 20;

enum status port_host_fault(const struct port *port, enum space space, uint64_t bytes,
                            const struct machine *machine, struct fault *fault) {
    char subject[sizeof fault->subject];
    char holders[256];
    char need[24];
    char have[24];
    struct text list = text_over(holders, sizeof holders);
    machine_list_largest_processes("", PROCESSES_LISTED, &list);
    snprintf(subject, sizeof subject, "target %.200s", port->target->name);
    return fault_set(
        fault, STATUS_FIT, subject, "free memory, lower limits.device or use a smaller batch",
        "%s arena needs %s, but %s are free now%s%s%s", port_space_name(space),
        text_format_bytes(bytes, need), text_format_bytes(machine->memory_available_bytes, have),
        machine->is_memory_limited ? " within the cgroup's limit" : "",
        list.length > 0 ? "; held by " : "", list.bytes);
}

static uint64_t page_bytes(void) {
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static int populate_pages(char *address, uint64_t bytes) {
    if (madvise(address, bytes, MADV_POPULATE_WRITE) == 0) {
        return 0;
    }
    if (errno != EINVAL) {
        return errno;
    }
    uint64_t page = page_bytes(); /* before Linux 5.14: touch each page */
    for (uint64_t offset = 0; offset < bytes; offset += page) {
        ((volatile char *)address)[offset] = 0;
    }
    return 0;
}

/* Shared memory gets huge pages only on request (MADV_COLLAPSE), and only in a range that has at
 * least one page already. If that fails, the small pages remain. */
static void collapse_to_huge_pages(char *address, uint64_t bytes) {
    uint64_t whole = bytes / MAPPING_HUGE_BYTES * MAPPING_HUGE_BYTES;
    for (uint64_t offset = 0; offset < whole; offset += MAPPING_HUGE_BYTES) {
        ((volatile char *)address)[offset] = 0;
    }
    if (whole > 0) {
        (void)madvise(address, whole, MADV_COLLAPSE);
    }
}

bool port_host_has_free(uint64_t bytes, struct machine *machine) {
    machine_read("", machine);
    return machine->memory_available_bytes >= bytes + SPARE_BYTES;
}

/* The range of whole pages inside an unused range. */
static struct unused_range whole_pages_in_range(const struct unused_range *unused) {
    uint64_t page = page_bytes();
    return (struct unused_range){(unused->begin + page - 1) / page * page,
                                 unused->end / page * page};
}

/* Bytes of the block from `from` to its end, without the unused ranges. */
static uint64_t bytes_to_populate(const struct port_block *block, uint64_t from) {
    uint64_t bytes = block->mapped_bytes - from;
    for (int i = 0; i < block->unused_range_count; i++) {
        struct unused_range unused = whole_pages_in_range(&block->unused_ranges[i]);
        uint64_t begin = unused.begin > from ? unused.begin : from;
        bytes -= unused.end > begin ? unused.end - begin : 0;
    }
    return bytes;
}

/* The first range at or after `from` that contains no unused one, at most one step long; empty at
 * the block's end. */
static struct unused_range next_range_to_populate(const struct port_block *block, uint64_t from) {
    struct unused_range range = {from, block->mapped_bytes};
    for (int pass = 0; pass <= block->unused_range_count;
         pass++) { /* unused ranges may be adjacent */
        for (int i = 0; i < block->unused_range_count; i++) {
            struct unused_range unused = whole_pages_in_range(&block->unused_ranges[i]);
            if (unused.begin <= range.begin && range.begin < unused.end) {
                range.begin = unused.end;
            }
        }
    }
    for (int i = 0; i < block->unused_range_count; i++) {
        struct unused_range unused = whole_pages_in_range(&block->unused_ranges[i]);
        bool cuts = unused.begin < unused.end && unused.begin > range.begin;
        range.end = cuts && unused.begin < range.end ? unused.begin : range.end;
    }
    uint64_t longest = range.begin + POPULATE_STEP_BYTES;
    range.end = range.end < longest ? range.end : longest;
    return range;
}

/* Populate in steps. If other processes use memory meanwhile, a step fails before the kernel has to
 * kill a process. */
static enum status populate_block(const struct port *port, enum space space,
                                  const struct port_block *block, struct fault *fault) {
    struct unused_range step = next_range_to_populate(block, 0);
    for (; step.begin < step.end; step = next_range_to_populate(block, step.end)) {
        struct machine machine;
        uint64_t left = bytes_to_populate(block, step.begin);
        if (!port_host_has_free(left, &machine)) {
            return port_host_fault(port, space, left, &machine, fault);
        }
        char *address = (char *)block->address + step.begin;
        if (block->shared) {
            collapse_to_huge_pages(address, step.end - step.begin);
        }
        int failure = populate_pages(address, step.end - step.begin);
        if (failure != 0) {
            return fault_set_errno(fault, STATUS_FIT, port->target->name,
                                   "cannot populate the pages of the arena", failure);
        }
    }
    return OK;
}

static enum status create_shared_file(const struct port *port, uint64_t bytes, int *fd,
                                      struct fault *fault) {
    int failure = mapping_make_file("skep arena", bytes, fd);
    return failure == 0 ? OK
                        : fault_set_errno(fault, STATUS_FAILED, port->target->name,
                                          "cannot create memory shared between ranks", failure);
}

static enum status map_block(const struct port *port, struct port_block *block,
                             struct fault *fault) {
    int failure = mapping_map(block->shared ? block->fd : -1, block->mapped_bytes,
                              PROT_READ | PROT_WRITE, &block->address);
    if (failure != 0) {
        return fault_set_errno(fault, STATUS_FIT, port->target->name,
                               "cannot map the arena (check ulimit -v)", failure);
    }
    if (block->mapped_bytes >= MAPPING_HUGE_BYTES && !block->shared) {
        /* ignores failure: small pages suffice */
        (void)madvise(block->address, block->mapped_bytes, MADV_HUGEPAGE);
    }
    return OK;
}

static enum status map_and_populate(const struct port *port, enum space space,
                                    struct port_block *block, struct fault *fault) {
    TRY(map_block(port, block, fault));
    return populate_block(port, space, block, fault);
}

enum status port_cpu_reserve(struct port *port, enum space space, struct port_block *block,
                             struct fault *fault) {
    struct machine machine;
    uint64_t page = page_bytes();
    block->mapped_bytes = (block->bytes + page - 1) / page * page;
    uint64_t present = bytes_to_populate(block, 0);
    if (!port_host_has_free(present, &machine)) {
        return port_host_fault(port, space, present, &machine, fault);
    }
    TRY(block->shared ? create_shared_file(port, block->mapped_bytes, &block->fd, fault) : OK);
    enum status status = map_and_populate(port, space, block, fault);
    if (status != OK && block->address != NULL) {
        munmap(block->address, block->mapped_bytes);
    }
    if (status != OK && block->shared) {
        close(block->fd);
    }
    return status;
}

void port_cpu_release(const struct port_block *block) {
    int failed = munmap(block->address, block->mapped_bytes);
    ASSERT(failed == 0);
    if (block->shared) {
        close(block->fd);
    }
}
