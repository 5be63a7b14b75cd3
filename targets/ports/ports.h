/* ports: the access to the hardware that executes a program.
 *
 * A port gives each space of a plan its one block of memory; nothing else is allocated on the
 * device. On the CPU port, kernels run on the thread pool, a copy is a memcpy, and the lanes are
 * threads. On the CUDA port, the CPU cannot access SPACE_DEVICE, device copies read and write
 * SPACE_PINNED, and the lanes are streams. This module also opens the CUDA driver and NVML at run
 * time, so that a build with CUDA starts on a machine without a GPU.
 *
 * public   cuda_device.h cuda_driver.h driver_remedy.h nvml.h shared_library.h */
#ifndef SKEP_TARGETS_PORTS_PORTS_H
#define SKEP_TARGETS_PORTS_PORTS_H

#include "base/fault.h"
#include "base/space.h"
#include "targets/targets.h"

#include <stdbool.h>
#include <stdint.h>

struct cuda_device; /* targets/ports/cuda_device.h, in a build with CUDA */

/* Bytes [begin, end) of a block that this process never accesses. */
struct unused_range {
    uint64_t begin, end; /* offsets in the block */
};

/* The memory that a port has reserved in one space. */
struct port_block {
    void *address;         /* NULL when nothing is reserved */
    uint64_t bytes;        /* requested size */
    uint64_t mapped_bytes; /* rounded up to whole pages */
    bool shared;           /* reserved by port_reserve_shared: other processes can map it */
    int fd;                /* the memory's descriptor if shared */
    const struct unused_range *unused_ranges; /* [unused_range_count], disjoint */
    int unused_range_count;
    uint64_t handle; /* CUDA: handle of mapped memory; 0: allocated with cuMemAlloc */
};

struct port {
    const struct target *target;
    struct port_block blocks[SPACE_COUNT];
    struct cuda_device *cuda; /* the device of a CUDA target; NULL on the CPU port */
};

/* port_init: prepare to reserve memory for the target. On the CUDA port this acquires the device of
 * this process (cuda_device_acquire) and makes its context the calling thread's. errors
 * STATUS_INPUT when this build lacks CUDA, there is no driver or no device, or the device has a
 * lower compute capability than the target states; STATUS_FIT when the device has no memory for a
 * context. Nothing is then reserved */
MUST_CHECK enum status port_init(struct port *port, const struct target *target,
                                 struct fault *fault);

/* port_reserve: reserve the block of a space, zeroed and with every page present, so that no later
 * access can fail. Blocks of 2 MiB or more are aligned to 2 MiB and use huge pages if the system
 * has them; smaller blocks are aligned to a page. CUDA device memory is aligned to 2 MiB if the
 * driver maps it, else to 256 bytes; beside it, the memory that the target declares for kernels,
 * cuBLASLt and NCCL must be free. May take seconds; before the seal only.
 * limits  once per space until port_release; bytes > 0
 * errors  STATUS_FIT with the bytes needed and free, and the processes that use the most memory;
 *         *address is then unchanged and nothing is reserved */
MUST_CHECK enum status port_reserve(struct port *port, enum space space, uint64_t bytes,
                                    void **address, struct fault *fault);

/* port_reserve_shared: port_reserve for a space that other processes on this machine read and
 * write. They map it through its descriptor. It has no name, so that a killed process leaves no
 * file. Its size is sealed, so that no other process can remove pages.
 * fd      owned by the port, closed by port_release; other processes open /proc/PID/fd/FD. -1 on
 *         the CUDA port, where libraries export device memory through the driver
 * limits  as port_reserve; on the CUDA port SPACE_DEVICE only
 * errors  as port_reserve; STATUS_FAILED when the system cannot create the file */
MUST_CHECK enum status port_reserve_shared(struct port *port, enum space space, uint64_t bytes,
                                           void **address, int *fd, struct fault *fault);

/* port_set_unused_ranges: set the unused ranges of the next block that is reserved in a space.
 * Whole pages inside such a range are not populated. CPU port only.
 * ranges  [count], disjoint, in any order; must stay valid until the space is released */
void port_set_unused_ranges(struct port *port, enum space space, const struct unused_range *ranges,
                            int count);

/* port_release: release a space's block, if there is one. */
void port_release(struct port *port, enum space space);

/* port_finish: release every space. */
void port_finish(struct port *port);

#endif
