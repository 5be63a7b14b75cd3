/* shm_ticket: describes memory of a process, so that other processes of the machine can map it. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_SHM_TICKET_H
#define SKEP_TRANSPORT_COLLECTIVES_SHM_TICKET_H

#include "base/fault.h"

#include <stdint.h>

/* `pid` and `fd` locate the memory file, `device` and `inode` identify it. A process id alone is
 * not enough: it may be reused, or belong to a different process in another container. */
struct shm_ticket {
    int32_t pid, fd;        /* process and descriptor of the memory file */
    uint64_t bytes;         /* usable bytes from the start of the file */
    uint64_t device, inode; /* numbers that identify the memory file */
};

/* shm_ticket_make: make a ticket for the first `bytes` bytes of the memory file `fd` of this
 * process.
 * errors  STATUS_FAILED: `fd` is not an anonymous memory file, can shrink, or is too short */
MUST_CHECK enum status shm_ticket_make(int fd, uint64_t bytes, struct shm_ticket *ticket,
                                       struct fault *fault);

/* shm_ticket_map: map the memory of a ticket from `rank`. Blocks of at least 2 MiB are aligned so
 * that huge pages of the owner are huge pages here.
 * writable  0: writing to the mapping ends the process
 * errors    STATUS_FAILED: the file cannot be opened (another machine, user or container), does not
 *           match the ticket, is not an anonymous memory file, or can shrink */
MUST_CHECK enum status shm_ticket_map(const struct shm_ticket *ticket, int rank, int writable,
                                      void **address, struct fault *fault);

/* shm_ticket_unmap: unmap memory that shm_ticket_map returned; `address` may be NULL. */
void shm_ticket_unmap(void *address, uint64_t bytes);

#endif
