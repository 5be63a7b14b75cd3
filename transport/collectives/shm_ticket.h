/* shm_ticket: what a process tells the others of this machine so that they can map its memory. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_SHM_TICKET_H
#define SKEP_TRANSPORT_COLLECTIVES_SHM_TICKET_H

#include "base/fault.h"

#include <stdint.h>

/* The file is named by process and descriptor, and known by its device and inode: a process number
 * can mean another process elsewhere (containers), or be given anew. */
struct shm_ticket {
    int32_t process, fd;
    uint64_t bytes; /* that may be used, from the beginning */
    uint64_t device, inode;
};

/* shm_ticket_make: a ticket for the first `bytes` of memory `fd` of this process.
 * errors  STATUS_FAILED when it is no memory without a name, can be made shorter, or has fewer
 *         bytes */
MUST_CHECK enum status shm_ticket_make(int fd, uint64_t bytes, struct shm_ticket *ticket,
                                       struct fault *fault);

/* shm_ticket_map: map what `rank`'s ticket names; blocks of 2 MiB and more so that huge pages of
 * the owner are huge pages here. The descriptor is closed again: the mapping alone holds the
 * memory.
 * writable  0: writing it ends the process
 * errors    STATUS_FAILED when it cannot be opened (another machine, user or container), or is not
 *           what the ticket says, is no memory without a name, or can be made shorter */
MUST_CHECK enum status shm_ticket_map(const struct shm_ticket *ticket, int rank, int writable,
                                      void **address, struct fault *fault);

/* shm_ticket_unmap: NULL is allowed. */
void shm_ticket_unmap(void *address, uint64_t bytes);

#endif
