/* probe: detects this machine as a target, measures its speeds and compares them with a profile.
 *
 * probe.h measures a CPU, probe_cuda.h a GPU, and detect.h fills a target without measuring. The
 * CLI's `probe` command and the automatic choice of a target use this module.
 *
 * public   detect.h probe_cuda.h */
#ifndef SKEP_TARGETS_PROBE_PROBE_H
#define SKEP_TARGETS_PROBE_PROBE_H

#include "targets/os/machine.h"
#include "targets/targets.h"

struct probe_result {
    struct machine machine;
    int threads;             /* threads used for all figures except f32_flops_thread */
    double f32_flops_thread; /* operations per second of one thread, FMA from registers */
    double f32_flops;        /* operations per second of all threads */
    double bf16_flops;       /* operations per second of bf16 products with f32 sums, all threads */
    double memory_bandwidth; /* bytes read and written per second by a = b + s c */
    double copy_bandwidth;   /* bytes copied per second */
};

/* probe_measure: measure with `threads` threads; each figure is the best of several tries.
 * limits  1 <= threads <= THREADS_MAX; takes about two seconds
 * memory  up to 3 x 128 MiB, released before it returns
 * errors  STATUS_FIT when even small arrays do not fit; STATUS_FAILED when threads cannot start */
MUST_CHECK enum status probe_measure(int threads, struct probe_result *result, struct fault *fault);

enum probe_unit { PROBE_BYTES, PROBE_FLOPS, PROBE_BANDWIDTH, PROBE_PLAIN_NUMBER };

enum probe_verdict {
    /* the measured value is at least the profile's, or nine tenths of it for a speed */
    PROBE_OK,
    PROBE_LOWER, /* the measured value is too low; for used memory, too high */
    /* the profile itself was detected on this machine, so there is nothing to compare */
    PROBE_ASSUMED,
};

struct probe_comparison {
    const char *name;                     /* name of the compared figure, such as "f32 peak" */
    enum probe_unit unit;                 /* unit of both values */
    double profile_value, measured_value; /* both in `unit` */
    enum probe_verdict verdict;
};

enum {
    PROBE_COMPARISONS_MAX = 7,     /* maximum number of lines of a comparison of a CPU */
    PROBE_GPU_COMPARISONS_MAX = 11 /* maximum number of lines of a comparison of a GPU */
};

/* probe_compare_figure: one line of the comparison with its verdict. For a speed, nine tenths of
 * the profile's figure suffice. */
struct probe_comparison probe_compare_figure(const struct target *target, const char *name,
                                             enum probe_unit unit, double promised, double found);

/* probe_compare: compare the profile's figures with the measured ones, one line for each. returns
 * the number of PROBE_LOWER lines */
int probe_compare(const struct target *target, const struct probe_result *result,
                  struct probe_comparison lines[static PROBE_COMPARISONS_MAX]);

/* probe_isa_is_lower: whether the machine lacks the instruction set of the profile's figures. */
bool probe_isa_is_lower(const struct target *target, const struct probe_result *result);

/* probe_target: a target for this machine named `name` with the measured figures; efficiencies and
 * declared uses come from target_detect.
 * memory  in `region` */
const struct target *probe_target(const struct probe_result *result, const char *name,
                                  struct region *region);

#endif
