/* probe: what this machine really does, beside what a profile promises. */
#ifndef SKEP_TARGETS_PROBE_PROBE_H
#define SKEP_TARGETS_PROBE_PROBE_H

#include "targets/os/machine.h"
#include "targets/target.h"

struct probe_result {
    struct machine machine;
    int threads;             /* that all but the next figure were measured with */
    double f32_flops_thread; /* one thread, FMA from registers, operations per second */
    double f32_flops;        /* all threads */
    double bf16_flops;       /* products of bf16 with sums in f32, all threads */
    double memory_bandwidth; /* triad a = b + s c, bytes read and written per second */
    double copy_bandwidth;   /* bytes copied per second */
};

/* probe_measure: run the loops on `threads` threads, each the best of several tries.
 * limits  1 <= threads <= THREADS_MAX; takes about two seconds
 * memory  up to 3 x 128 MiB, given back
 * errors  STATUS_FIT when even small arrays do not fit; STATUS_FAILED when threads cannot start */
MUST_CHECK enum status probe_measure(int threads, struct probe_result *result, struct fault *fault);

enum probe_unit { PROBE_BYTES, PROBE_FLOPS, PROBE_BANDWIDTH, PROBE_COUNT };

enum probe_verdict {
    PROBE_OK,      /* at least what was promised; speeds: at least nine tenths of it */
    PROBE_LOWER,   /* less than promised; of what others take: more */
    PROBE_ASSUMED, /* nothing was promised: the target was detected on this machine */
};

struct probe_line {
    const char *name; /* "memory", "f32 peak" */
    enum probe_unit unit;
    double promised, found;
    enum probe_verdict verdict;
};

enum { PROBE_LINES = 7, PROBE_GPU_LINES = 11 };

/* probe_line_of: a line with its verdict. Of a speed nine tenths are enough. */
struct probe_line probe_line_of(const struct target *target, const char *name, enum probe_unit unit,
                                double promised, double found);

/* probe_compare: the profile's promises line by line.
 * errors  none; gives the number of PROBE_LOWER lines */
int probe_compare(const struct target *target, const struct probe_result *result,
                  struct probe_line lines[static PROBE_LINES]);

/* probe_isa_lower: whether the machine lacks the instruction set that the profile's figures hold
 * for. */
bool probe_isa_lower(const struct target *target, const struct probe_result *result);

/* probe_target: a profile of this machine named `name` with the measured figures; efficiencies and
 * declared lines from target_detect.
 * memory  in `region` */
const struct target *probe_target(const struct probe_result *result, const char *name,
                                  struct region *region);

#endif
