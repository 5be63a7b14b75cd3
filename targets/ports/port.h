/* port: the contract between a program and the device that runs it.
 *
 * A port gives each space of a plan its one block of memory, and nothing else is ever asked of the
 * device's allocator. On the cpu port kernels are called directly on the thread pool, a copy is a
 * memcpy, and the lanes are threads of the program that runs. On the cuda port SPACE_DEVICE is
 * memory that the host must not touch, SPACE_PINNED is what its copies run from, and the lanes are
 * streams (targets/ports/cuda_device.h). */
#ifndef SKEP_TARGETS_PORTS_PORT_H
#define SKEP_TARGETS_PORTS_PORT_H

#include "base/fault.h"
#include "base/space.h"
#include "targets/target.h"

#include <stdbool.h>
#include <stdint.h>

struct cuda_device; /* targets/ports/cuda_device.h, in a build that has CUDA */

/* Bytes [begin, end) of a block that this process never touches. */
struct port_hole {
    uint64_t begin, end;
};

/* The block of one space. */
struct port_block {
    void *address;                 /* NULL when nothing is reserved */
    uint64_t bytes;                /* asked for */
    uint64_t mapped_bytes;         /* rounded up to whole pages */
    bool shared;                   /* by port_reserve_shared: other processes can map it */
    int fd;                        /* of the memory then */
    const struct port_hole *holes; /* [hole_count], apart; asked for by port_exclude */
    int hole_count;
    uint64_t handle; /* cuda: of device memory that was mapped; 0: allocated plainly */
};

struct port {
    const struct target *target;
    struct port_block blocks[SPACE_COUNT];
    struct cuda_device *cuda; /* the device of a cuda target; NULL on the cpu port */
};

/* port_init: make ready to reserve on the target's device. On the cuda port that is the device of
 * this process (cuda_device_acquire), whose context the calling thread enters.
 * errors  STATUS_INPUT when this build has no port for the target's kind, when there is no driver
 *         or no such device, or when the device is of a lower compute capability than the target
 *         promises; STATUS_FIT when the device has no memory for a context; nothing is reserved */
MUST_CHECK enum status port_init(struct port *port, const struct target *target,
                                 struct fault *fault);

/* port_reserve: the one block of a space, zeroed, every page present, so that no later touch can
 * fail. Blocks of 2 MiB and more are aligned to 2 MiB and on huge pages where the system has them,
 * smaller ones to a page. Device memory of the cuda port is aligned to 2 MiB where it is mapped, to
 * 256 bytes where the device cannot map. May take seconds; before seal only.
 * limits  once per space until port_release; bytes > 0
 * errors  STATUS_FIT with need and have, naming the processes that hold the most memory;
 *         *address is then untouched and nothing is reserved */
MUST_CHECK enum status port_reserve(struct port *port, enum space space, uint64_t bytes,
                                    void **address, struct fault *fault);

/* port_reserve_shared: port_reserve for a space that other processes of this machine read and
 * write: its memory has a descriptor, through which they can map it, and no name, so that a process
 * that is killed leaves nothing behind. Its size is sealed: no peer can take pages from under us.
 * fd      stays the port's own, closed by port_release; a peer opens it by /proc/PID/fd/FD. -1 on
 *         the cuda port: its device memory can be exported by the driver, to libraries that ask
 * limits  as port_reserve; on the cuda port SPACE_DEVICE alone
 * errors  as port_reserve; STATUS_FAILED when the system refuses the descriptor */
MUST_CHECK enum status port_reserve_shared(struct port *port, enum space space, uint64_t bytes,
                                           void **address, int *fd, struct fault *fault);

/* port_exclude: the block of a space that is reserved next has holes: of them only pages that
 * they share with other bytes are made present. Not on the cuda port.
 * holes   [count], apart, in any order; kept until the space is released */
void port_exclude(struct port *port, enum space space, const struct port_hole *holes, int count);

/* port_release: give a space's block back; nothing to do when there is none. */
void port_release(struct port *port, enum space space);

/* port_finish: release every space. */
void port_finish(struct port *port);

#endif
