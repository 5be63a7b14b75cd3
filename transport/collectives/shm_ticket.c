/* shm_ticket: see shm_ticket.h. */
#include "transport/collectives/shm_ticket.h"

#include "base/text.h"
#include "targets/os/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char SAME_MACHINE[] = "run all ranks on one machine, as one user, in one container";

static enum status set_memory_fault(const char *subject, const char *reason, struct fault *fault) {
    return fault_set(fault, STATUS_FAILED, subject, SAME_MACHINE, "%s", reason);
}

/* Checks a memory file. It must have no name, so that it is freed with the last process, be
 * sealed against shrinking, so that its owner cannot remove pages that others read, and be as
 * long as its ticket says. */
static enum status check_memory_file(int fd, const char *subject, uint64_t bytes, struct stat *stat,
                                     struct fault *fault) {
    if (fstat(fd, stat) != 0) {
        return fault_set_errno(fault, STATUS_FAILED, subject, "cannot be inspected", errno);
    }
    if (!S_ISREG(stat->st_mode) || stat->st_nlink != 0) {
        return set_memory_fault(subject, "is not an anonymous memory file", fault);
    }
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
        return set_memory_fault(subject,
                                "is not sealed: a rank could shrink it while others use it", fault);
    }
    if (stat->st_size < 0 || (uint64_t)stat->st_size < bytes) {
        return fault_set(fault, STATUS_FAILED, subject, NULL, "has %lld bytes instead of %llu",
                         (long long)stat->st_size, (unsigned long long)bytes);
    }
    return OK;
}

enum status shm_ticket_make(int fd, uint64_t bytes, struct shm_ticket *ticket,
                            struct fault *fault) {
    struct stat stat;
    TRY(check_memory_file(fd, "shared memory of this rank", bytes, &stat, fault));
    *ticket = (struct shm_ticket){
        .pid = getpid(), .fd = fd, .bytes = bytes, .device = stat.st_dev, .inode = stat.st_ino};
    return OK;
}

static enum status map_checked_file(int fd, const struct shm_ticket *ticket, const char *subject,
                                    int protection, void **address, struct fault *fault) {
    struct stat stat;
    TRY(check_memory_file(fd, subject, ticket->bytes, &stat, fault));
    if (stat.st_dev != ticket->device || stat.st_ino != ticket->inode) {
        return set_memory_fault(subject, "is not the memory that this rank announced", fault);
    }
    int failure = mapping_map(fd, ticket->bytes, protection, address);
    return failure == 0
               ? OK
               : fault_set_errno(fault, STATUS_FAILED, subject, "cannot be mapped", failure);
}

enum status shm_ticket_map(const struct shm_ticket *ticket, int rank, int writable, void **address,
                           struct fault *fault) {
    char path[64];
    char subject[128];
    struct text text = text_over(path, sizeof path);
    text_add(&text, "/proc/%d/fd/%d", ticket->pid, ticket->fd);
    text = text_over(subject, sizeof subject);
    text_add(&text, "shared memory of rank %d (%s)", rank, path);
    int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return fault_set(fault, STATUS_FAILED, subject, SAME_MACHINE, "cannot be opened: %s",
                         strerror(errno));
    }
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    enum status status = map_checked_file(fd, ticket, subject, protection, address, fault);
    close(fd);
    return status;
}

void shm_ticket_unmap(void *address, uint64_t bytes) {
    if (address != NULL) {
        int failed = munmap(address, bytes);
        ASSERT(failed == 0);
    }
}
