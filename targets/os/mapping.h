/* mapping: blocks of memory from the system, private or shared through an unnamed file. */
#ifndef SKEP_TARGETS_OS_MAPPING_H
#define SKEP_TARGETS_OS_MAPPING_H

#include <stdint.h>

enum { MAPPING_HUGE_BYTES = 2 << 20 }; /* size of a huge page */

/* mapping_make_file: an unnamed file of exactly `bytes` of zeros, which processes can map and no
 * process can resize. `name` is what /proc shows for it.
 * errors  returns 0, or errno with *fd unchanged */
int mapping_make_file(const char *name, uint64_t bytes, int *fd);

/* mapping_map: map `bytes` of the file `fd` from its beginning, or private memory if fd is -1. A
 * block of at least MAPPING_HUGE_BYTES is aligned to that size, because the kernel uses huge pages
 * only where address and file offset have the same alignment. The caller releases it with
 * munmap(*address, bytes).
 * protection  flags as for mmap
 * errors      returns 0, or errno with *address unchanged */
int mapping_map(int fd, uint64_t bytes, int protection, void **address);

#endif
