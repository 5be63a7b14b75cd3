/* machine: what the operating system says of the machine that runs us. */
#ifndef SKEP_TARGETS_OS_MACHINE_H
#define SKEP_TARGETS_OS_MACHINE_H

#include "base/check.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { MACHINE_NAME_BYTES = 64 };

struct machine {
    uint64_t memory_total_bytes;     /* of the machine, or of the tightest cgroup above us */
    uint64_t memory_available_bytes; /* that could be taken now without swapping */
    bool memory_limited;             /* a cgroup's limit is what binds */
    int cpu_count;                   /* we may run on: affinity and cgroup quota, at least 1 */
    double clock_hz;                 /* highest known, 0 when unknown */
    char cpu_name[MACHINE_NAME_BYTES];
    const char *isa; /* strongest level of the kernels: "scalar" ... "avx512_bf16" */
};

/* machine_read: fill *machine from /proc and /sys below `root` ("" for the real ones); what cannot
 * be read counts as no limit. Never allocates. */
void machine_read(const char *root, struct machine *machine);

/* machine_largest_processes: add "firefox (pid 1234) 3.1 GiB, ..." for the `count` processes with
 * the most resident memory of their own (anonymous and shared), ours left out.
 * memory  opens a folder: before seal only */
void machine_largest_processes(const char *root, int count, struct text *text);

/* machine_process_name: what a process is called, "a process" when it cannot be seen from here.
 * memory  opens a file: before seal only */
void machine_process_name(const char *root, int pid, char name[static MACHINE_NAME_BYTES]);

#endif
