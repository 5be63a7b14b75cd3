/* ports: chooses the port of a target and records its blocks. */

#include "targets/ports/ports.h"

#include "build_config.h"
#include "targets/ports/port_kinds.h"

#include <stdio.h>

const char *port_space_name(enum space space) {
    static const char *const NAMES[SPACE_COUNT] = {
        [SPACE_DEVICE] = "device", [SPACE_PINNED] = "pinned", [SPACE_HOST] = "host"};
    return NAMES[space];
}

#if !SKEP_CUDA
enum status port_cuda_init(struct port *port, struct fault *fault) {
    char subject[sizeof fault->subject];
    snprintf(subject, sizeof subject, "target %.200s", port->target->name);
    return fault_set(fault, STATUS_INPUT, subject,
                     "use this build only to plan for it (skep plan), or run with a cpu target",
                     "is a CUDA target, but this build has no CUDA support");
}

/* Unreachable: port_cuda_init always fails in this build. */
enum status port_cuda_reserve(struct port *port, enum space space, struct port_block *block,
                              struct fault *fault) {
    (void)space, (void)block;
    return port_cuda_init(port, fault);
}

void port_cuda_release(struct port *port, enum space space) {
    (void)port, (void)space;
}

void port_cuda_finish(struct port *port) {
    (void)port;
}
#endif

enum status port_init(struct port *port, const struct target *target, struct fault *fault) {
    struct port made = {.target = target};
    if (target->kind == TARGET_CUDA) {
        TRY(port_cuda_init(&made, fault));
    }
    *port = made;
    return OK;
}

static enum status reserve_block(struct port *port, enum space space, struct port_block *block,
                                 struct fault *fault) {
    ASSERT(block->bytes > 0 && block->bytes < (uint64_t)1 << 46);
    ASSERT(port->blocks[space].address == NULL);
    block->unused_ranges = port->blocks[space].unused_ranges;
    block->unused_range_count = port->blocks[space].unused_range_count;
    TRY(port->cuda != NULL ? port_cuda_reserve(port, space, block, fault)
                           : port_cpu_reserve(port, space, block, fault));
    port->blocks[space] = *block;
    return OK;
}

void port_set_unused_ranges(struct port *port, enum space space, const struct unused_range *ranges,
                            int count) {
    struct port_block *block = &port->blocks[space];
    ASSERT(block->address == NULL && port->cuda == NULL);
    block->unused_ranges = ranges;
    block->unused_range_count = count;
}

enum status port_reserve(struct port *port, enum space space, uint64_t bytes, void **address,
                         struct fault *fault) {
    struct port_block block = {.bytes = bytes, .fd = -1};
    TRY(reserve_block(port, space, &block, fault));
    *address = block.address;
    return OK;
}

enum status port_reserve_shared(struct port *port, enum space space, uint64_t bytes, void **address,
                                int *fd, struct fault *fault) {
    struct port_block block = {.bytes = bytes, .shared = true, .fd = -1};
    TRY(reserve_block(port, space, &block, fault));
    *address = block.address;
    *fd = block.fd;
    return OK;
}

void port_release(struct port *port, enum space space) {
    if (port->blocks[space].address == NULL) {
        return;
    }
    if (port->cuda != NULL) {
        port_cuda_release(port, space);
    } else {
        port_cpu_release(&port->blocks[space]);
    }
    port->blocks[space] = (struct port_block){0};
}

void port_finish(struct port *port) {
    for (int space = 0; space < SPACE_COUNT; space++) {
        port_release(port, (enum space)space);
    }
    if (port->cuda != NULL) {
        port_cuda_finish(port);
        port->cuda = NULL;
    }
}
