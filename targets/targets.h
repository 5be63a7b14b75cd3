/* targets: the facts about a machine that a plan needs: its memory, the part of it that other
 * programs and libraries use, and its speeds.
 *
 * A target is read from a YAML profile (profile.h); targets/profiles/ holds the built-in ones, and
 * targets/probe fills one from the machine it runs on. The planner and the schedule read targets.
 *
 * public   profile.h profiles.h */
#ifndef SKEP_TARGETS_TARGETS_H
#define SKEP_TARGETS_TARGETS_H

#include "base/fault.h"
#include "base/region.h"
#include "base/space.h"

#include <stdbool.h>
#include <stdint.h>

enum target_kind { TARGET_CPU, TARGET_CUDA };

/* A figure of the time estimate, and its source. */
struct target_figure {
    double value;       /* value in the unit of the field of struct target */
    const char *source; /* how the value was found, such as "measured by skep probe" */
};

/* How often the bytes of a declared use count for one process. */
enum target_per {
    PER_PROCESS, /* once for each process */
    PER_SITE,    /* once, for the first group of several ranks that a rank communicates in */
    PER_GROUP,   /* once for each further group of ranks that a rank communicates in */
};

/* A declared use: memory of a space that drivers, libraries or other programs take. */
struct target_declared_use {
    const char *name;    /* user of the memory, such as "CUDA context" */
    uint64_t bytes;      /* memory that it uses */
    const char *source;  /* how the figure was found, such as "measured by skep probe" */
    enum target_per per; /* whether the bytes count once per process, site or group */
};

/*  capacity_bytes
 *  |<------------------------------------------------------------>|
 *  [ declared[0] | declared[1] | ...  |      room for the arena    ] */
struct target_space {
    /* Memory that the driver reports on an idle device; 0: no such space. */
    uint64_t capacity_bytes;
    const char *capacity_source; /* how capacity_bytes was found; "" without such a space */
    const struct target_declared_use *declared; /* [declared_use_count] declared uses */
    int declared_use_count;                     /* number of entries in `declared` */
};

/* A target is immutable after it was opened, and valid as long as the region that holds it. */
struct target {
    const char *name;        /* name of the profile, such as "rtx3060-12g"; or "this machine" */
    const char *description; /* one line of text, for reports */
    const char *origin;      /* the file it was read from, "built in", "detected" or "measured" */
    enum target_kind kind;
    bool unified; /* one memory for CPU and device: pinned and host bytes count as SPACE_DEVICE */
    /* alignment of every buffer; a power of two, at least ARENA_ALIGN_BYTES */
    uint32_t align_bytes;
    int threads; /* threads of the CPU pool; workspaces, and therefore plans, depend on it */
    struct target_space spaces[SPACE_COUNT];

    /* Operations per second of all threads or SMs; an FMA counts as 2. */
    struct target_figure f32_flops;
    /* operations per second of dense bf16 products with f32 sums */
    struct target_figure bf16_flops;
    struct target_figure memory_bandwidth; /* bytes per second of device memory */
    /* bytes per second between device and pinned memory, in one direction */
    struct target_figure host_link_bandwidth;
    /* bytes per second between two ranks of a site, in one direction */
    struct target_figure peer_link_bandwidth;
    /* fraction of the flops that large matrix products reach, (0, 1] */
    struct target_figure matmul_efficiency;
    /* fraction of memory_bandwidth that elementwise kernels reach */
    struct target_figure memory_efficiency;
    /* fraction of a link's rate that collectives and copies reach */
    struct target_figure link_efficiency;

    const char *isa; /* CPU: instruction set that the figures apply to (cpu_level_name); else "" */
    int compute_major;        /* CUDA: 8 for compute capability 8.6; else 0 */
    int compute_minor;        /* CUDA: 6 for compute capability 8.6; else 0 */
    int multiprocessor_count; /* CUDA: number of multiprocessors; else 0 */
};

/* target_with_declared_use: a copy of the target with one more declared use in a space
 * (SPACE_DEVICE if memory is unified).
 * memory  the copy in `region`; *use, the declared use, is copied, but its texts must outlive the
 *         copy */
const struct target *target_with_declared_use(const struct target *target, enum space space,
                                              const struct target_declared_use *use,
                                              struct region *region);

/* target_with_groups: the target for a rank that communicates in `groups` groups of ranks, with one
 * communicator for each; 0: the rank is the only one. Declared uses per site and per group become
 * uses per process, multiplied by the number that applies.
 * memory  the copy in `region` */
const struct target *target_with_groups(const struct target *target, int groups,
                                        struct region *region);

/* target_declared_bytes: sum of the declared uses of a space. */
uint64_t target_declared_bytes(const struct target *target, enum space space);

/* target_available_bytes: bytes of a space that the arena can use; 0 for pinned and host memory on
 * a unified target. */
uint64_t target_available_bytes(const struct target *target, enum space space);

/* target_shortage: the bytes by which arenas of these peaks exceed what is available, and in *space
 * the first space that is too small. 0 if all fit (*space is then unchanged). On a unified target
 * the sum of all peaks must fit the device. */
uint64_t target_shortage(const struct target *target, const uint64_t peak_bytes[static SPACE_COUNT],
                         enum space *space);

/* target_lower_capacity: reduce SPACE_DEVICE to `bytes` for the arena and the declared uses
 * together (the run key limits.device).
 * errors  STATUS_FIT when the declared uses alone take more */
MUST_CHECK enum status target_lower_capacity(const struct target *target, uint64_t bytes,
                                             struct region *region, const struct target **lowered,
                                             struct fault *fault);

#endif
