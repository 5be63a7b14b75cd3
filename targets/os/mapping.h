/* mapping: blocks of memory from the system, a process's own or shared through a file without a
 * name. */
#ifndef SKEP_TARGETS_OS_MAPPING_H
#define SKEP_TARGETS_OS_MAPPING_H

#include <stdint.h>

enum { MAPPING_HUGE_BYTES = 2 << 20 }; /* of a huge page */

/* mapping_make_file: zeroed memory of exactly `bytes` that processes can share: no name is left
 * behind, and nobody can make it shorter or longer. `name` is what /proc shows.
 * errors  gives errno, *fd untouched; 0: made */
int mapping_make_file(const char *name, uint64_t bytes, int *fd);

/* mapping_map: `bytes` of the file `fd` from its beginning, or with -1 of this process's own. From
 * MAPPING_HUGE_BYTES on the address is a multiple of them: huge pages are mapped as such only where
 * address and offset agree. munmap(*address, bytes) gives it back.
 * protection  as mmap's
 * errors      gives errno, *address untouched; 0: mapped */
int mapping_map(int fd, uint64_t bytes, int protection, void **address);

#endif
