/* port: the contract between a program and the device that runs it.
 *
 * A port gives each space of a plan its one block of memory, and nothing else is ever asked of the
 * device's allocator. On the cpu port kernels are called directly on the thread pool, a copy is a
 * memcpy, and the lanes are threads of the program that runs. */
#ifndef SKEP_TARGETS_PORT_H
#define SKEP_TARGETS_PORT_H

#include "base/fault.h"
#include "base/space.h"
#include "targets/target.h"

#include <stdbool.h>
#include <stdint.h>

/* The block of one space. */
struct port_block {
    void *address;         /* NULL when nothing is reserved */
    uint64_t bytes;        /* asked for */
    uint64_t mapped_bytes; /* rounded up to whole pages */
    bool shared;           /* by port_reserve_shared: other processes can map it */
    int fd;                /* of the memory then */
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

/* port_reserve_shared: port_reserve for a space that other processes of this machine read and
 * write: its memory has a descriptor, through which they can map it, and no name, so that a process
 * that is killed leaves nothing behind. Its size is sealed: no peer can take pages from under us.
 * fd      stays the port's own, closed by port_release; a peer opens it by /proc/PID/fd/FD
 * limits  as port_reserve
 * errors  as port_reserve; STATUS_FAILED when the system refuses the descriptor */
MUST_CHECK enum status port_reserve_shared(struct port *port, enum space space, uint64_t bytes,
                                           void **address, int *fd, struct fault *fault);

/* port_release: give a space's block back; nothing to do when there is none. */
void port_release(struct port *port, enum space space);

/* port_finish: release every space. */
void port_finish(struct port *port);

#endif
