/* machine: the memory, processors and processes of this machine, as the operating system reports
 * them. */
#ifndef SKEP_TARGETS_OS_MACHINE_H
#define SKEP_TARGETS_OS_MACHINE_H

#include "base/check.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { MACHINE_NAME_BYTES = 64 }; /* size of the name of a CPU or process, with its NUL */

struct machine {
    uint64_t memory_total_bytes;     /* memory of the machine, or its lowest cgroup limit */
    uint64_t memory_available_bytes; /* memory that a process could use now without swapping */
    bool is_memory_limited;          /* memory_total_bytes is a cgroup limit */
    /* number of CPUs that this process may use by its affinity and cgroup quota; at least 1 */
    int cpu_count;
    double clock_hz; /* the highest known clock rate; 0: unknown */
    char cpu_name[MACHINE_NAME_BYTES];
    /* the best instruction set that kernels support: "scalar" ... "avx512_bf16" */
    const char *isa;
};

/* machine_read: fill *machine from /proc and /sys under `root` ("" for the real ones). A limit that
 * cannot be read counts as no limit. Never allocates. */
void machine_read(const char *root, struct machine *machine);

/* machine_list_largest_processes: add "firefox (pid 1234) 3.1 GiB, ..." for the `count` processes
 * with the most resident anonymous and shared memory, except this one.
 * memory  opens a folder: call it before the seal */
void machine_list_largest_processes(const char *root, int count, struct text *text);

/* machine_process_name: the name of a process, or "a process" when it is not visible to this one.
 * memory  opens a file: call it before the seal */
void machine_process_name(const char *root, int pid, char name[static MACHINE_NAME_BYTES]);

#endif
