/* port: the contract between a program and the device that runs it.
 *
 * A port gives each space of a plan its one block of memory, and nothing else is ever asked of the
 * device's allocator. On the cpu port kernels are called directly on the thread pool, in the order
 * of the program, and a copy is a memcpy: there is one lane, so that waits and signals are met by
 * order alone. */
#ifndef SKEP_TARGETS_PORT_H
#define SKEP_TARGETS_PORT_H

#include "base/fault.h"
#include "base/space.h"
#include "targets/target.h"

#include <stdint.h>

/* The block of one space. */
struct port_block {
    void *address;         /* NULL when nothing is reserved */
    uint64_t bytes;        /* asked for */
    uint64_t mapped_bytes; /* rounded up to whole pages */
};

struct port {
    const struct target *target;
    struct port_block blocks[SPACE_COUNT];
};

/* port_init: make ready to reserve on the target's device.
 * errors  STATUS_INPUT when this build has no port for the target's kind; nothing is reserved */
MUST_CHECK enum status port_init(struct port *port, const struct target *target,
                                 struct fault *fault);

/* port_reserve: the one block of a space, zeroed, every page present, so that no later touch can
 * fail. Blocks of 2 MiB and more are aligned to 2 MiB and on huge pages where the system has them,
 * smaller ones to a page. May take seconds; before seal only.
 * limits  once per space until port_release; bytes > 0
 * errors  STATUS_FIT with need and have, naming the processes that hold the most memory;
 *         *address is then untouched and nothing is reserved */
MUST_CHECK enum status port_reserve(struct port *port, enum space space, uint64_t bytes,
                                    void **address, struct fault *fault);

/* port_release: give a space's block back; nothing to do when there is none. */
void port_release(struct port *port, enum space space);

/* port_finish: release every space. */
void port_finish(struct port *port);

#endif
